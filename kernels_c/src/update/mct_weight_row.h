/* One row of a trained weight block: updates of its weights and its bias (section 8). */
#ifndef MCT_WEIGHT_ROW_H
#define MCT_WEIGHT_ROW_H

#include <stddef.h>

#include "mct_arith.h"
#include "mct_types.h"

/* One row of w, which belongs to channel o of the output and reads x from channel c0 on. */
typedef struct {
    const mct_conv2d_dw *p;
    int8_t *w; /* the whole block */
    uint8_t *frac;
    mct_update_stats *stats;
    uint32_t o, c0;
    uint32_t mult; /* step = d * mult * 2^-shift */
    int32_t shift;
    int64_t change; /* of the sum of the row's weights */
} mct_weight_row;

/* Row k of p->rows; mult 0: nothing of it is updated. */
static inline mct_weight_row mct_weight_row_of(const mct_conv2d_dw *p, uint32_t k, int8_t *w,
                                               uint8_t *frac, mct_update_stats *stats)
{
    const mct_update *u = &p->update;
    uint32_t o = p->chan != NULL ? p->chan[k] : k, outs = (uint32_t)p->y.c / p->groups;
    mct_weight_row row = {p, w, frac, stats, o, k / outs * p->cols, 0, 0, 0};
    row.mult = mct_step_mult(u->mant[o], u->rate.mant);
    row.shift = mct_step_shift(u->exp[o], u->rate.exp, u->e_y, p->bits);
    return row;
}

/* The bias of the row's channel after its weights. */
static inline void mct_update_folded(const mct_weight_row *row, int32_t *bias)
{
    const mct_conv2d_dw *p = row->p;
    int64_t moved = bias[row->o] - p->z_x * row->change;
    bias[row->o] = mct_bound_bias(moved, p->update.shift[row->o], p->update.reach);
}

static inline int32_t mct_get_fraction(const uint8_t *frac, uint32_t bits, uint32_t i)
{
    if (bits == 0)
        return 0;
    return bits == 8 ? frac[i] : (frac[i >> 1] >> (4 * (i & 1u))) & 15;
}

static inline void mct_put_fraction(uint8_t *frac, uint32_t bits, uint32_t i, uint32_t value)
{
    uint32_t at = 4 * (i & 1u);
    if (bits == 8)
        frac[i] = (uint8_t)value;
    else if (bits == 4)
        frac[i >> 1] = (uint8_t)((frac[i >> 1] & ~(15u << at)) | (value << at));
}

/* Weights i to i + n - 1 of the block from their gradients d. */
void mct_step_weights(mct_weight_row *row, uint32_t i, const int32_t *d, uint32_t n);

#endif
