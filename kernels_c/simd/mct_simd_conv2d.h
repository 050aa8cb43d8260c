/* Ungrouped convolution, output rows: windows of pixels times the weights of sixteen channels. */
#ifndef MCT_SIMD_CONV2D_H
#define MCT_SIMD_CONV2D_H

#include "mct_simd_weights.h"
#include "mct_window.h"

#define MCT_A_MAX    32768u /* int16 of windows */
#define MCT_ROWS_MAX 256u   /* pixels at a time */

typedef struct {
    int16_t a[MCT_A_MAX] __attribute__((aligned(64)));
    int16_t b[MCT_B_MAX] __attribute__((aligned(64)));
    int32_t c[MCT_ROWS_MAX * MCT_BLOCK] __attribute__((aligned(64)));
} mct_matrices;

/* Windows of k elements, in rows of `pairs` pairs, `rows` at a time. */
typedef struct {
    uint32_t k, pairs, rows;
    int all; /* b holds all blocks of columns at once */
} mct_tiling;

/* How to multiply matrices whose a has k columns and whose b has `columns`; 0 if not at all. */
static int mct_tiling_of(mct_tiling *t, uint32_t k, uint32_t columns)
{
    uint32_t blocks = (columns + MCT_BLOCK - 1) / MCT_BLOCK;
    t->k = k;
    t->pairs = (k + 1) / 2;
    if (k > MCT_ROOM_MAX || 2 * MCT_BLOCK * t->pairs > MCT_B_MAX)
        return 0;
    t->rows = MCT_A_MAX / (2 * t->pairs);
    if (t->rows > MCT_ROWS_MAX)
        t->rows = MCT_ROWS_MAX;
    t->rows -= t->rows % MCT_V_ROWS;
    t->all = blocks * 2 * MCT_BLOCK * t->pairs <= MCT_B_MAX;
    return t->rows > 0;
}

static inline int16_t *mct_widen_to(int16_t *to, const int8_t *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = x[i];
    return to + n;
}

static inline int16_t *mct_fill_to(int16_t *to, int16_t z, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = z;
    return to + n;
}

/* The window at input row iy, column ix; taps outside read z_x. */
static void mct_window_to(const mct_conv2d *p, const mct_rows *x, int32_t iy, int32_t ix,
                          int16_t *to)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    const mct_taps ty = mct_taps_inside(iy, k->kh, conv->x.h);
    const mct_taps tx = mct_taps_inside(ix, k->kw, conv->x.w);
    uint32_t c = conv->x.c, left = (uint32_t)tx.first * c, n = (uint32_t)(tx.end - tx.first) * c;
    uint32_t row = k->kw * c;
    to = mct_fill_to(to, p->z_x, (uint32_t)ty.first * row);
    for (int32_t y = ty.first; y < ty.end; y++) {
        to = mct_fill_to(to, p->z_x, left);
        to = mct_widen_to(to, mct_row(x, iy + y) + (ix + tx.first) * (int32_t)c, n);
        to = mct_fill_to(to, p->z_x, row - left - n);
    }
    to = mct_fill_to(to, p->z_x, (uint32_t)(k->kh - ty.end) * row);
    if (k->kh * row % 2 != 0) /* the last pair */
        *to = 0;
}

/* Whether windows are pixels, in whole pairs, one behind the other as they lie in memory. */
static int mct_is_plain(const mct_conv *conv)
{
    const mct_window *k = &conv->win;
    return k->kh * k->kw * k->sh * k->sw == 1 && k->pt + k->pl == 0 && conv->x.c % 2 == 0 &&
           conv->x.w == conv->y.w && conv->x.h == conv->y.h;
}

/* Windows of n pixels, the first of them number `pixel` of the output rows from oy on. */
static void mct_windows_to(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t pixel,
                           uint32_t n, const mct_tiling *t, int16_t *a)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    uint32_t row = oy + pixel / conv->y.w, ox = pixel % conv->y.w, run;
    int plain = mct_is_plain(conv);
    for (; n > 0; n -= run, row++, ox = 0) {
        run = conv->y.w - ox < n ? conv->y.w - ox : n;
        if (plain) {
            a = mct_widen_to(a, mct_row(x, (int32_t)row) + ox * t->k, run * t->k);
            continue;
        }
        for (uint32_t i = 0; i < run; i++, a += 2 * t->pairs)
            mct_window_to(p, x, (int32_t)(row * k->sh) - k->pt, (int32_t)((ox + i) * k->sw) - k->pl,
                          a);
    }
}

static int mct_conv2d_dense(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                            int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    uint32_t c = conv->y.c, pixels = rows * conv->y.w, bit = oy * conv->y.w * c, n;
    mct_matrices m;
    mct_tiling t;
    if (conv->groups != 1 ||
        !mct_tiling_of(&t, (uint32_t)conv->win.kh * conv->win.kw * conv->x.c, c))
        return 0;
    for (uint32_t at = 0; at < pixels; at += n) {
        n = pixels - at < t.rows ? pixels - at : t.rows;
        mct_windows_to(p, x, oy, at, n, &t, m.a);
        for (uint32_t o = 0; o < c; o += MCT_BLOCK) {
            int16_t *b = m.b + (t.all ? o * 2 * t.pairs : 0);
            const mct_outputs out = mct_outputs_of(p, o);
            if (at == 0 || !t.all)
                mct_pack_outputs(conv, o, out.n, t.k, b);
            mct_gemm(m.a, 2 * t.pairs, n, b, t.pairs, m.c, 0);
            mct_put_outputs(&out, m.c, n, y + at * c + o, mask, bit + at * c + o);
        }
    }
    return 1;
}

#endif
