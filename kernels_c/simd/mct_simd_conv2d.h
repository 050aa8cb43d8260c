/* Ungrouped convolution, output rows: windows of pixels times the weights of sixteen channels. */
#ifndef MCT_SIMD_CONV2D_H
#define MCT_SIMD_CONV2D_H

#include "mct_simd_weights.h"
#include "mct_window.h"

#define MCT_A_MAX    32768u /* elements of windows */
#define MCT_ROWS_MAX 256u   /* pixels at a time */
#define MCT_LINES    16384u /* elements of input rows with their padding */
#define MCT_CHUNK    16u    /* elements copied at once, perhaps behind the end of what is wanted */

/* Rows of `steps` times `taps` elements, `rows` rows at a time. */
typedef struct {
    uint32_t steps, lda, rows;
    int all; /* there is room for all blocks of columns at once */
} mct_tiling;

/* How to multiply matrices whose a has k columns and whose b has `columns`; 0 if not at all. */
static int mct_tiling_of(mct_tiling *t, uint32_t k, uint32_t taps, uint32_t columns)
{
    uint32_t blocks = (columns + MCT_BLOCK - 1) / MCT_BLOCK;
    t->steps = (k + taps - 1) / taps;
    t->lda = t->steps * taps;
    if (k > MCT_ROOM_MAX || MCT_BLOCK * t->lda > MCT_B_MAX)
        return 0;
    t->rows = MCT_A_MAX / t->lda;
    if (t->rows > MCT_ROWS_MAX)
        t->rows = MCT_ROWS_MAX;
    t->rows -= t->rows % MCT_V_ROWS;
    t->all = blocks * MCT_BLOCK * t->lda <= MCT_B_MAX;
    return t->rows > 0;
}

static inline mct_x *mct_offset_to(mct_x *to, const int8_t *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (mct_x)(x[i] + MCT_V_OFFSET);
    return to + n;
}

/* The window at input row iy, column ix; taps outside read z_x. */
static void mct_window_to(const mct_conv2d *p, const mct_rows *x, int32_t iy, int32_t ix, mct_x *to)
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
        to = mct_offset_to(to, mct_row(x, iy + y) + (ix + tx.first) * (int32_t)c, n);
        to = mct_fill_to(to, p->z_x, row - left - n);
    }
    to = mct_fill_to(to, p->z_x, (uint32_t)(k->kh - ty.end) * row);
    if (k->kh * row % MCT_V_TAPS != 0)
        mct_fill_to(to, 0, MCT_V_TAPS - k->kh * row % MCT_V_TAPS);
}

/* Whether windows are pixels, in whole steps, one behind the other as they lie in memory. */
static int mct_is_plain(const mct_conv *conv)
{
    const mct_window *k = &conv->win;
    return k->kh * k->kw * k->sh * k->sw == 1 && k->pt + k->pl == 0 &&
           conv->x.c % MCT_V_TAPS == 0 && conv->x.w == conv->y.w && conv->x.h == conv->y.h;
}

/* Elements of an input row with all padding that windows read. */
static uint32_t mct_line_size(const mct_conv *conv)
{
    return ((conv->y.w - 1u) * conv->win.sw + conv->win.kw) * conv->x.c;
}

/* The input rows under output row `row`, padded, one behind the other. */
static void mct_lines_of(const mct_conv2d *p, const mct_rows *x, uint32_t row, mct_x *lines)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    uint32_t size = mct_line_size(conv), left = k->pl * (uint32_t)conv->x.c, n;
    n = (uint32_t)conv->x.w * conv->x.c;
    n = n < size - left ? n : size - left;
    for (uint32_t ky = 0; ky < k->kh; ky++) {
        int32_t iy = (int32_t)(row * k->sh + ky) - k->pt;
        if (iy < 0 || iy >= conv->x.h) {
            lines = mct_fill_to(lines, p->z_x, size);
            continue;
        }
        lines = mct_fill_to(lines, p->z_x, left);
        lines = mct_offset_to(lines, mct_row(x, iy), n);
        lines = mct_fill_to(lines, p->z_x, size - left - n);
    }
}

/* n windows of one output row, from ox on: from its lines, which MCT_CHUNK elements follow. */
static mct_x *mct_windows_of(const mct_conv *conv, const mct_x *lines, uint32_t ox, uint32_t n,
                             uint32_t lda, mct_x *a)
{
    const mct_window *k = &conv->win;
    uint32_t size = mct_line_size(conv), row = k->kw * (uint32_t)conv->x.c;
    lines += ox * k->sw * conv->x.c;
    for (; n > 0; n--, a += lda, lines += k->sw * (uint32_t)conv->x.c) {
        mct_x *to = a;
        for (uint32_t ky = 0; ky < k->kh; ky++, to += row) {
            for (uint32_t i = 0; i < row; i += MCT_CHUNK)
                memcpy(to + i, lines + ky * size + i, MCT_CHUNK * sizeof *to);
        }
    }
    return a;
}

/*
 * Windows of n pixels, the first of them number `pixel` of the output rows from oy on. MCT_CHUNK
 * elements follow them.
 */
static void mct_windows_to(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t pixel,
                           uint32_t n, uint32_t lda, mct_x *a)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    mct_x lines[MCT_LINES + MCT_CHUNK];
    uint32_t row = oy + pixel / conv->y.w, ox = pixel % conv->y.w, run;
    int plain = mct_is_plain(conv), fit = k->kh * mct_line_size(conv) <= MCT_LINES;
    for (; n > 0; n -= run, row++, ox = 0) {
        run = conv->y.w - ox < n ? conv->y.w - ox : n;
        if (plain) {
            a = mct_offset_to(a, mct_row(x, (int32_t)row) + ox * lda, run * lda);
        } else if (fit) {
            mct_lines_of(p, x, row, lines);
            a = mct_windows_of(conv, lines, ox, run, lda, a);
        } else {
            for (uint32_t i = ox; i < ox + run; i++, a += lda)
                mct_window_to(p, x, (int32_t)(row * k->sh) - k->pt, (int32_t)(i * k->sw) - k->pl,
                              a);
        }
    }
}

/* acc[r] += the products of window r and the weights b, for n windows; n is a constant. */
static inline void mct_conv_sums(mct_v16 *acc, uint32_t n, const mct_x *a, uint32_t lda,
                                 const mct_w *b)
{
    for (uint32_t k = 0; k < lda; k += MCT_V_TAPS, b += MCT_V_TAPS * MCT_BLOCK) {
        mct_v16 w = mct_v_taps(b);
        MCT_UNROLL
        for (uint32_t r = 0; r < n; r++)
            acc[r] = mct_v_dot_taps(acc[r], mct_v_taps_of(a + r * lda + k), w);
    }
}

/* A block of channels of n pixels. */
static void mct_make_outputs(const mct_outputs *out, const mct_x *a, uint32_t n, uint32_t lda,
                             const mct_w *b, int8_t *y, uint8_t *mask, uint32_t bit)
{
    const mct_outputs o = *out;
    mct_v16 acc[MCT_V_ROWS];
    for (; n >= MCT_V_ROWS; n -= MCT_V_ROWS, a += MCT_V_ROWS * lda) {
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++)
            acc[r] = o.start;
        mct_conv_sums(acc, MCT_V_ROWS, a, lda, b);
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++, y += o.c, bit += o.c)
            mct_put_output(&o, acc[r], y, mask, bit);
    }
    for (; n > 0; n--, a += lda, y += o.c, bit += o.c) {
        acc[0] = o.start;
        mct_conv_sums(acc, 1, a, lda, b);
        mct_put_output(&o, acc[0], y, mask, bit);
    }
}

/* All weights in the order of the products if t->all then, in room or where they stay. */
static mct_w *mct_weights_of(const mct_conv *conv, uint32_t k, mct_tiling *t, mct_w *room)
{
    uint32_t c = conv->y.c, blocks = (c + MCT_BLOCK - 1) / MCT_BLOCK;
    mct_packed *kept = mct_packed_for(conv, (size_t)blocks * MCT_BLOCK * t->lda * sizeof *room);
    mct_w *b = kept != NULL ? kept->base : room;
    int missing = kept != NULL ? !kept->ready : t->all;
    for (uint32_t o = 0; missing && o < c; o += MCT_BLOCK)
        mct_pack_outputs(conv, o, c - o < MCT_BLOCK ? c - o : MCT_BLOCK, k, b + o * t->lda);
    if (kept != NULL && kept->ready)
        mct_repack_outputs(conv, t->lda, b);
    if (kept != NULL)
        t->all = kept->ready = 1;
    return b;
}

static int mct_conv2d_dense(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                            int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    uint32_t c = conv->y.c, pixels = rows * conv->y.w, bit = oy * conv->y.w * c, n;
    uint32_t k = (uint32_t)conv->win.kh * conv->win.kw * conv->x.c;
    mct_x a[MCT_A_MAX + MCT_CHUNK] __attribute__((aligned(64)));
    mct_w room[MCT_B_MAX] __attribute__((aligned(64))), *b;
    mct_tiling t;
    if (conv->groups != 1 || !mct_tiling_of(&t, k, MCT_V_TAPS, c))
        return 0;
    b = mct_weights_of(conv, k, &t, room);
    for (uint32_t at = 0; at < pixels; at += n) {
        n = pixels - at < t.rows ? pixels - at : t.rows;
        mct_windows_to(p, x, oy, at, n, t.lda, a);
        for (uint32_t o = 0; o < c; o += MCT_BLOCK) {
            mct_w *w = b + (t.all ? o * t.lda : 0);
            if (!t.all)
                mct_pack_outputs(conv, o, c - o < MCT_BLOCK ? c - o : MCT_BLOCK, k, w);
            const mct_outputs out = mct_outputs_of(p, o, w, t.steps);
            mct_make_outputs(&out, a, n, t.lda, w, y + at * c + o, mask, bit + at * c + o);
        }
    }
    return 1;
}

#endif
