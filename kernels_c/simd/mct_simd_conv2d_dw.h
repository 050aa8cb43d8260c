/*
 * Update of an ungrouped convolution's weights: the errors of an output channel over the pixels
 * times what sixteen input channels were there under a tap, less their zero point.
 */
#ifndef MCT_SIMD_CONV2D_DW_H
#define MCT_SIMD_CONV2D_DW_H

#include "mct_simd_update.h"
#include "mct_window.h"

#define MCT_DW_ROWS   64u  /* output channels at a time */
#define MCT_DW_PIXELS 256u /* pixels at a time, an even number */

typedef struct {
    int16_t a[MCT_DW_PIXELS * MCT_DW_ROWS] __attribute__((aligned(64))); /* (pairs, rows, 2) */
    int16_t b[MCT_DW_PIXELS * MCT_BLOCK] __attribute__((aligned(64)));   /* (pairs, 16, 2) */
    /* (rows, 16), behind a block of which mct_update_weights reads and does not use the last */
    int32_t c[(1 + MCT_DW_ROWS) * MCT_BLOCK] __attribute__((aligned(64)));
    mct_weight_row rows[MCT_DW_ROWS];
} mct_dw;

/* Some pixels of the output, and some of the weights of a tap. */
typedef struct {
    uint32_t pixel, pixels, pairs;
    uint32_t k, rows;
    uint32_t tap, i, n; /* n input channels from i on */
} mct_dw_part;

/* d->a: errors of pairs of pixels; that beside a last one alone is 0. */
static void mct_dw_errors(const mct_conv2d_dw *p, const mct_dw_part *t, const int8_t *e_y,
                          mct_dw *d)
{
    const int8_t zeros[MCT_DW_ROWS] = {0};
    int8_t room0[MCT_BLOCK] = {0}, room1[MCT_BLOCK] = {0};
    uint32_t c = p->y.c;
    const int8_t *e = e_y + t->pixel * c + t->k;
    for (uint32_t i = 0; i < t->pixels; i += 2, e += 2 * c) {
        const int8_t *next = i + 1 < t->pixels ? e + c : zeros;
        int16_t *to = d->a + i * MCT_DW_ROWS;
        for (uint32_t j = 0; j < t->rows; j += MCT_BLOCK, to += 2 * MCT_BLOCK) {
            uint32_t n = t->rows - j < MCT_BLOCK ? t->rows - j : MCT_BLOCK;
            mct_v_interleave(to, mct_some_bytes(room0, e + j, n),
                             mct_some_bytes(room1, next + j, n));
        }
    }
}

/* What the tap saw of n channels when it made output (oy, ox); NULL outside. */
static inline const int8_t *mct_dw_input(const mct_conv2d_dw *p, const mct_dw_part *t,
                                         const int8_t *x, uint32_t oy, uint32_t ox)
{
    int32_t iy = (int32_t)(oy * p->win.sh + t->tap / p->win.kw) - p->win.pt;
    int32_t ix = (int32_t)(ox * p->win.sw + t->tap % p->win.kw) - p->win.pl;
    if (iy < 0 || iy >= p->x.h || ix < 0 || ix >= p->x.w)
        return NULL;
    return x + ((uint32_t)iy * p->x.w + (uint32_t)ix) * p->x.c + t->i;
}

/* d->b: pairs of pixels of sixteen channels, less z_x; zeros outside. */
static void mct_dw_inputs(const mct_conv2d_dw *p, const mct_dw_part *t, const int8_t *x, mct_dw *d)
{
    int8_t outside[MCT_BLOCK], room[2][MCT_BLOCK];
    uint32_t oy = t->pixel / p->y.w, ox = t->pixel % p->y.w;
    int16_t *to = d->b;
    memset(outside, p->z_x, sizeof outside);
    memset(room, p->z_x, sizeof room);
    for (uint32_t i = 0; i < t->pairs; i++, to += 2 * MCT_BLOCK) {
        const int8_t *pair[2];
        for (uint32_t j = 0; j < 2; j++) {
            const int8_t *from = 2 * i + j < t->pixels ? mct_dw_input(p, t, x, oy, ox) : NULL;
            pair[j] = mct_some_bytes(room[j], from != NULL ? from : outside, t->n);
            ox++;
            if (ox == p->y.w) {
                ox = 0;
                oy++;
            }
        }
        mct_v_interleave(to, pair[0], pair[1]);
        for (uint32_t j = 0; j < 2 * MCT_BLOCK; j++)
            to[j] = (int16_t)(to[j] - p->z_x);
    }
}

/* d->c from these pixels, and from those before. */
static void mct_dw_sums(const mct_dw_part *t, mct_dw *d)
{
    const mct_v16 zero = mct_v_set(0);
    mct_v16 acc[MCT_V_ROWS];
    int32_t *c = d->c + MCT_BLOCK;
    uint32_t j = 0;
    for (; j + MCT_V_ROWS <= t->rows; j += MCT_V_ROWS, c += MCT_V_ROWS * MCT_BLOCK) {
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++)
            acc[r] = t->pixel != 0 ? mct_v_load(c + r * MCT_BLOCK) : zero;
        mct_gemm(acc, MCT_V_ROWS, d->a + 2 * j, 2, 2 * MCT_DW_ROWS, d->b, t->pairs);
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++)
            mct_v_store(c + r * MCT_BLOCK, acc[r]);
    }
    for (; j < t->rows; j++, c += MCT_BLOCK) {
        acc[0] = t->pixel != 0 ? mct_v_load(c) : zero;
        mct_gemm(acc, 1, d->a + 2 * j, 2, 2 * MCT_DW_ROWS, d->b, t->pairs);
        mct_v_store(c, acc[0]);
    }
}

/* Gradients of a part of the weights, then the steps along them. */
static void mct_dw_update(const mct_conv2d_dw *p, mct_dw_part *t, const int8_t *e_y,
                          const int8_t *x, mct_dw *d)
{
    uint32_t pixels = (uint32_t)p->y.h * p->y.w, taps = (uint32_t)p->win.kh * p->win.kw;
    for (t->pixel = 0; t->pixel < pixels; t->pixel += MCT_DW_PIXELS) {
        t->pixels = pixels - t->pixel < MCT_DW_PIXELS ? pixels - t->pixel : MCT_DW_PIXELS;
        t->pairs = (t->pixels + 1) / 2;
        if (pixels > MCT_DW_PIXELS || (t->tap == 0 && t->i == 0)) /* else they are there */
            mct_dw_errors(p, t, e_y, d);
        mct_dw_inputs(p, t, x, d);
        mct_dw_sums(t, d);
    }
    for (uint32_t j = 0; j < t->rows; j++) {
        uint32_t at = ((t->k + j) * taps + t->tap) * p->cols + t->i;
        if (d->rows[j].mult != 0)
            mct_update_weights(&d->rows[j], at, d->c + (1 + j) * MCT_BLOCK, t->n);
    }
}

static int mct_conv2d_dw_dense(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x,
                               int8_t *w, uint8_t *frac, int32_t *bias, mct_update_stats *stats)
{
    uint32_t taps = (uint32_t)p->win.kh * p->win.kw;
    mct_dw_part t = {0};
    mct_dw d;
    if (p->groups != 1)
        return 0;
    for (t.k = 0; t.k < p->rows; t.k += MCT_DW_ROWS) {
        t.rows = p->rows - t.k < MCT_DW_ROWS ? p->rows - t.k : MCT_DW_ROWS;
        for (uint32_t j = 0; j < t.rows; j++)
            d.rows[j] = mct_weight_row_of(p, t.k + j, w, frac, stats);
        for (t.tap = 0; t.tap < taps; t.tap++) {
            for (t.i = 0; t.i < p->cols; t.i += MCT_BLOCK) {
                t.n = p->cols - t.i < MCT_BLOCK ? p->cols - t.i : MCT_BLOCK;
                mct_dw_update(p, &t, e_y, x, &d);
            }
        }
        for (uint32_t j = 0; j < t.rows; j++) {
            if (d.rows[j].mult != 0)
                mct_update_folded(&d.rows[j], bias);
        }
    }
    return 1;
}

#endif
