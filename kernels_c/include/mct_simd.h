/*
 * Kernels for the vector units of PCs (kernels_c/simd), which the host engine alone has: firmware
 * is built without MCT_SIMD. Each function gives the bytes of the plain kernel in whose place it is
 * called, or does nothing and returns 0 where the shape is not for it. Scratch memory of their own
 * lies on the stack, below 170 KB.
 */
#ifndef MCT_SIMD_H
#define MCT_SIMD_H

#if MCT_SIMD

#include <stddef.h>
#include <stdint.h>

#include "mct_types.h"

#define MCT_SIMD_BIASES 16

typedef struct {
    const char *name;
    /* as mct_conv2d_rows_s8 */
    int (*conv2d)(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows, int8_t *y,
                  uint8_t *mask);
    /* as mct_conv2d_dx_s8; e_x may be e_y where mct_depthwise_dx_inplace_s8 allows it */
    int (*conv2d_dx)(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                     mct_error_stats *stats);
    /* as mct_conv2d_dw_s8 */
    int (*conv2d_dw)(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x, int8_t *w,
                     uint8_t *frac, int32_t *bias, mct_update_stats *stats);
    /* as mct_add_s8, always */
    void (*add)(const mct_add *p, const int8_t *a, const int8_t *b, int8_t *y, uint8_t *mask,
                uint32_t mask_bit);
    /* steps of biases o to o + 15, o even, from errors e (pixels, c), of which e[0] is o's */
    void (*bias_steps)(const mct_update *u, uint32_t o, const int8_t *e, uint32_t pixels,
                       uint32_t c, int32_t steps[MCT_SIMD_BIASES]);
    /* a sum of one error: n elements, masked */
    void (*error_copy)(const mct_error *error, const int8_t *e, uint32_t n, int8_t *e_x,
                       mct_error_stats *stats);
    /* as mct_avgpool_dx_s8: mult for sums times factor */
    void (*avgpool_dx)(const mct_pool_dx *p, uint32_t mult, int32_t factor, const int8_t *e_y,
                       int8_t *e_x, mct_error_stats *stats);
} mct_simd;

/*
 * Room for the weights of one instruction in the order of these kernels, so that frozen ones are
 * put into it once and only trained ones in every step. ready: the frozen ones are there.
 */
typedef struct mct_packed {
    void *base; /* 64-byte aligned */
    uint32_t bytes;
    int ready;
} mct_packed;

/* That of the instruction which this thread runs; NULL: there is none. */
extern __thread mct_packed *mct_simd_packed;

/* What the kernels use; NULL: plain C. */
extern const mct_simd *mct_simd_active;

/*
 * Chooses by name: "none", "avx2", "avx512", "neon", or "auto" for the best that this core has.
 * Returns 0, with nothing changed, if the core has it not, or the name is unknown.
 */
int mct_simd_select(const char *name);

/* The name of the choice. */
const char *mct_simd_name(void);

extern const mct_simd mct_simd_avx2;
extern const mct_simd mct_simd_avx512;
extern const mct_simd mct_simd_neon;

#endif
#endif
