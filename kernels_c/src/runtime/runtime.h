/* Shared by the verifier and the executor: finding tensors, decoding convolutions. Private. */
#ifndef MCT_RUNTIME_H
#define MCT_RUNTIME_H

#include <stddef.h>

#include "mct_image.h"
#include "mct_types.h"

/* h, w and c are 16 bits each: no overflow. */
static inline uint64_t mct_count(const mct_image_tensor *t)
{
    return (uint64_t)t->h * t->w * t->c;
}

/* Bytes of a row of an int8 map. */
static inline uint32_t mct_row_bytes(const mct_image_tensor *t)
{
    return (uint32_t)t->w * t->c;
}

/* Rows of it that memory holds: fewer than h make a ring. */
static inline uint32_t mct_rows_held(const mct_image_tensor *t)
{
    return t->bytes / mct_row_bytes(t);
}

static inline int mct_is_ring(const mct_image_tensor *t)
{
    return t->dtype == MCT_DTYPE_S8 && t->bytes < mct_count(t);
}

static inline mct_shape mct_shape_of(const mct_image_tensor *t)
{
    mct_shape shape = {t->h, t->w, t->c};
    return shape;
}

static inline const mct_image_tensor *mct_slot(const mct_image *image,
                                               const mct_image_instruction *in, uint32_t slot)
{
    return in->tensors[slot] == MCT_NONE ? NULL : &image->tensors[in->tensors[slot]];
}

/* Address of a constant or a state tensor; NULL for an absent one. */
static inline const void *mct_kept(const mct_image *image, const uint8_t *state,
                                   const mct_image_tensor *t)
{
    if (t == NULL)
        return NULL;
    return (t->space == MCT_SPACE_STATE ? state : image->constants) + t->offset;
}

/* A run of the initial state with its copied bytes: the next one follows. */
static inline uint64_t mct_run_bytes(const mct_image_run *run)
{
    return sizeof *run + (((uint64_t)run->copied + 3) & ~(uint64_t)3);
}

/* The window is always the first six parameters. */
static inline mct_window mct_window_of(const mct_image_instruction *in)
{
    const int32_t *p = in->params;
    mct_window win = {(uint8_t)p[0], (uint8_t)p[1], (uint8_t)p[2],
                      (uint8_t)p[3], (uint8_t)p[4], (uint8_t)p[5]};
    return win;
}

/* Where conv2d and conv2d_dx have what they share. x and y are maps or errors of maps. */
typedef struct {
    uint8_t x, y, w_trained, w_frozen, perm, groups;
} mct_conv_slots;

extern const mct_conv_slots mct_conv2d_slots;
extern const mct_conv_slots mct_conv2d_dx_slots;

static inline int mct_depthwise(uint32_t groups, uint32_t c_in, uint32_t c_out)
{
    return groups > 1 && groups == c_in && groups == c_out;
}

/* From a verified instruction. */
void mct_decode_conv(mct_conv *conv, const mct_image *image, const uint8_t *state,
                     const mct_image_instruction *in, const mct_conv_slots *slots);

#endif
