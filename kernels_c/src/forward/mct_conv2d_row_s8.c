/*
 * Convolution, one output row: x (h, w, c_in), weights OHWI, y (w_out, c_out); any groups, one or
 * two weight blocks (see mct_conv). LANES output channels are made together, for which one load of
 * an input serves LANES products; the loop over the row's pixels is inside.
 *
 * acc = bias[o] + sum of w * x, a tap outside the input reading z_x. No overflow: the bound of
 * section 4, |bias[o]| <= ((2^31 - 1) >> shift[o]) - 128 * sum |w|, holds for any part of the sum
 * in any order; so taps outside may be added at once, as z_x times the sum of their weights.
 */
#include "mct_kernels.h"
#include "mct_output.h"
#include "mct_window.h"

#define LANES 4u

/* The output row: y (w_out, c_out), and the bit of y[0] in mask. */
typedef struct {
    const mct_conv2d *p;
    const mct_rows *x;
    int8_t *y;
    uint8_t *mask;
    uint32_t bit;
    mct_taps ty;
    const int8_t *first; /* the input row under tap ty.first */
} out_row;

/* The window of one of its pixels. */
typedef struct {
    mct_taps tx;
    uint32_t at; /* tap tx.first in its input row, bytes */
    int clipped;
} window;

/* A block of weights, cols channels a tap; perm lists their input channels, NULL: in order. */
typedef struct {
    const int8_t *w;
    uint32_t cols;
    const uint16_t *perm;
} block;

static inline window window_at(const out_row *row, uint32_t ox)
{
    const mct_conv *conv = &row->p->conv;
    const mct_window *k = &conv->win;
    int32_t ix = (int32_t)(ox * k->sw) - k->pl;
    window win;
    win.tx = mct_taps_inside(ix, k->kw, conv->x.w);
    win.at = (uint32_t)(ix + win.tx.first) * conv->x.c;
    win.clipped = win.tx.end - win.tx.first != k->kw || row->ty.end - row->ty.first != k->kh;
    return win;
}

static int32_t sum(const int8_t *w, uint32_t n)
{
    int32_t total = 0;
    for (const int8_t *end = w + n; w != end; w++)
        total += *w;
    return total;
}

/* acc[j] += z_x * (weights of the taps outside), weights w + j * step (kh, kw, cols). */
static void add_outside(int32_t acc[LANES], const out_row *row, const window *win, const int8_t *w,
                        uint32_t step, uint32_t cols)
{
    const mct_window *k = &row->p->conv.win;
    uint32_t left = (uint32_t)win->tx.first * cols, right = (uint32_t)win->tx.end * cols;
    uint32_t w_row = k->kw * cols;
    for (uint32_t j = 0; j < LANES; j++) {
        const int8_t *v = w + j * step;
        int32_t total = 0;
        for (int32_t ky = 0; ky < k->kh; ky++, v += w_row) {
            if (ky < row->ty.first || ky >= row->ty.end)
                total += sum(v, w_row);
            else
                total += sum(v, left) + sum(v + right, w_row - right);
        }
        acc[j] = mct_mac(acc[j], row->p->z_x, total);
    }
}

/* acc[j] += sum over n of x * w[j * step]. */
static void dot(int32_t acc[LANES], const int8_t *w, uint32_t step, const int8_t *x, uint32_t n)
{
    int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];
    const int8_t *end = x + n;
    for (; x != end; w++) {
        int32_t v = *x++;
        a0 = mct_mac(a0, v, w[0]);
        a1 = mct_mac(a1, v, w[step]);
        a2 = mct_mac(a2, v, w[2 * step]);
        a3 = mct_mac(a3, v, w[3 * step]);
    }
    acc[0] = a0;
    acc[1] = a1;
    acc[2] = a2;
    acc[3] = a3;
}

/* The same for channels in an order of their own. */
static void dot_perm(int32_t acc[LANES], const int8_t *w, uint32_t step, const int8_t *x,
                     const uint16_t *perm, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, w++) {
        int32_t v = x[perm[i]];
        for (uint32_t j = 0; j < LANES; j++)
            acc[j] = mct_mac(acc[j], v, w[j * step]);
    }
}

/* The part of block b in LANES outputs: weights w (kh, kw, cols), inputs from channel c0 on. */
static void dot_window(int32_t acc[LANES], const out_row *row, const window *win, const block *b,
                       const int8_t *w, uint32_t step, uint32_t c0)
{
    uint32_t c = row->p->conv.x.c, cols = b->cols, w_row = row->p->conv.win.kw * cols;
    uint32_t taps = (uint32_t)(win->tx.end - win->tx.first);
    const int8_t *below = row->first;
    w += (uint32_t)row->ty.first * w_row + (uint32_t)win->tx.first * cols;
    for (int32_t ky = row->ty.first; ky < row->ty.end; ky++) {
        const int8_t *x = below + win->at + c0;
        if (cols == c) { /* all channels: the taps of a row are one run in both */
            dot(acc, w, step, x, taps * c);
        } else {
            for (uint32_t kx = 0; kx < taps; kx++, x += c) {
                if (b->perm != NULL)
                    dot_perm(acc, w + kx * cols, step, x, b->perm, cols);
                else
                    dot(acc, w + kx * cols, step, x, cols);
            }
        }
        w += w_row;
        below = mct_row_below(row->x, below);
    }
}

/* Requantizes acc[0 .. lanes - 1] into channels o, o + 1, ... of pixel ox. */
static void finish(const out_row *row, const int32_t acc[LANES], uint32_t lanes, uint32_t ox,
                   uint32_t o)
{
    const mct_conv2d *p = row->p;
    uint32_t at = ox * p->conv.y.c + o, bit = row->bit + at;
    const int32_t *mult = p->mult + o;
    const uint8_t *shift = p->shift + o;
    /* Copies: a byte stored through y could be a part of *p, for all that the compiler knows. */
    int32_t lo = p->lo, hi = p->hi, z = p->z_y;
    int8_t *y = row->y + at;
    uint8_t *mask = row->mask;
    for (uint32_t j = 0; j < lanes; j++)
        mct_put(mct_requantize(acc[j], mult[j], shift[j], z), lo, hi, y + j, mask, bit + j);
}

/* The row's outputs o .. o + lanes - 1, of one group; a lone one is made in all lanes alike. */
static void dense_lanes(const out_row *row, const block blocks[2], uint32_t o, uint32_t lanes,
                        uint32_t c0)
{
    const mct_conv *conv = &row->p->conv;
    const int32_t *bias = row->p->bias + o;
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, next = lanes == 1 ? 0 : 1;
    for (uint32_t ox = 0; ox < conv->y.w; ox++) {
        const window win = window_at(row, ox);
        int32_t acc[LANES] = {bias[0], bias[next], bias[2 * next], bias[3 * next]};
        for (const block *b = blocks; b != blocks + 2; b++) {
            uint32_t size = taps * b->cols;
            const int8_t *w = b->w + o * size;
            if (size == 0)
                continue;
            if (win.clipped)
                add_outside(acc, row, &win, w, next * size, b->cols);
            dot_window(acc, row, &win, b, w, next * size, c0);
        }
        finish(row, acc, lanes, ox, o);
    }
}

static void dense_row(const out_row *row)
{
    const mct_conv *conv = &row->p->conv;
    uint32_t cols = (uint32_t)conv->x.c / conv->groups, outs = (uint32_t)conv->y.c / conv->groups;
    const block blocks[2] = {
        {conv->w_trained, conv->trained, conv->perm},
        {conv->w_frozen, cols - conv->trained, conv->perm ? conv->perm + conv->trained : NULL}};
    for (uint32_t g = 0; g < conv->groups; g++) {
        uint32_t o = g * outs, end = o + outs;
        for (; end - o >= LANES; o += LANES)
            dense_lanes(row, blocks, o, LANES, g * cols);
        for (; o < end; o++)
            dense_lanes(row, blocks, o, 1, g * cols);
    }
}

/* LANES neighbouring channels from o on of a depthwise convolution: weights w (kh, kw), step apart.
 */
static void dot_channels(int32_t acc[LANES], const out_row *row, const window *win, const int8_t *w,
                         uint32_t step, uint32_t o)
{
    uint32_t c = row->p->conv.x.c, kw = row->p->conv.win.kw;
    uint32_t taps = (uint32_t)(win->tx.end - win->tx.first);
    int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];
    const int8_t *below = row->first;
    w += (uint32_t)row->ty.first * kw + (uint32_t)win->tx.first;
    for (int32_t ky = row->ty.first; ky < row->ty.end; ky++) {
        const int8_t *x = below + win->at + o;
        const int8_t *w0 = w, *w1 = w0 + step, *w2 = w1 + step, *w3 = w2 + step;
        for (uint32_t n = taps; n > 0; n--, x += c) {
            a0 = mct_mac(a0, x[0], *w0++);
            a1 = mct_mac(a1, x[1], *w1++);
            a2 = mct_mac(a2, x[2], *w2++);
            a3 = mct_mac(a3, x[3], *w3++);
        }
        w += kw;
        below = mct_row_below(row->x, below);
    }
    acc[0] = a0;
    acc[1] = a1;
    acc[2] = a2;
    acc[3] = a3;
}

/* The same for one channel. */
static int32_t dot_channel(int32_t acc, const out_row *row, const window *win, const int8_t *w,
                           uint32_t o)
{
    uint32_t c = row->p->conv.x.c, kw = row->p->conv.win.kw;
    int32_t taps = win->tx.end - win->tx.first;
    const int8_t *below = row->first;
    w += (uint32_t)row->ty.first * kw + (uint32_t)win->tx.first;
    for (int32_t ky = row->ty.first; ky < row->ty.end; ky++) {
        const int8_t *x = below + win->at + o;
        for (int32_t kx = 0; kx < taps; kx++, x += c)
            acc = mct_mac(acc, *x, w[kx]);
        w += kw;
        below = mct_row_below(row->x, below);
    }
    return acc;
}

/* The row's channels o .. o + lanes - 1 of a depthwise convolution, weights w (lanes, kh, kw). */
static void depthwise_lanes(const out_row *row, const int8_t *w, uint32_t o, uint32_t lanes)
{
    const mct_conv *conv = &row->p->conv;
    const int32_t *bias = row->p->bias + o;
    uint32_t next = lanes == 1 ? 0 : 1, step = next * conv->win.kh * conv->win.kw;
    for (uint32_t ox = 0; ox < conv->y.w; ox++) {
        const window win = window_at(row, ox);
        int32_t acc[LANES] = {bias[0], bias[next], bias[2 * next], bias[3 * next]};
        if (win.clipped)
            add_outside(acc, row, &win, w, step, 1);
        if (lanes == 1)
            acc[0] = dot_channel(acc[0], row, &win, w, o);
        else
            dot_channels(acc, row, &win, w, step, o);
        finish(row, acc, lanes, ox, o);
    }
}

/* Whether the channels of places i .. i + LANES - 1 are neighbours in the tensor. */
static int neighbours(const uint16_t *perm, uint32_t i)
{
    for (uint32_t j = 1; perm != NULL && j < LANES; j++) {
        if (perm[i + j] != perm[i] + j)
            return 0;
    }
    return 1;
}

/* Places [i, end) of a depthwise convolution, one block of weights w (end - i, kh, kw). */
static void depthwise_block(const out_row *row, const int8_t *w, uint32_t i, uint32_t end)
{
    const mct_conv *conv = &row->p->conv;
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, lanes;
    for (; i < end; i += lanes, w += lanes * taps) {
        lanes = end - i >= LANES && neighbours(conv->perm, i) ? LANES : 1;
        depthwise_lanes(row, w, conv->perm != NULL ? conv->perm[i] : i, lanes);
    }
}

void mct_conv2d_row_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, int8_t *y,
                       uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    int32_t iy = (int32_t)(oy * conv->win.sh) - conv->win.pt;
    out_row row = {p, x, y, mask, oy * conv->y.w * conv->y.c, {0, 0}, NULL};
    row.ty = mct_taps_inside(iy, conv->win.kh, conv->x.h);
    row.first = mct_row(x, iy + row.ty.first);
    if (mct_is_depthwise(conv)) {
        depthwise_block(&row, conv->w_trained, 0, conv->trained);
        depthwise_block(&row, conv->w_frozen, conv->trained, conv->y.c);
    } else {
        dense_row(&row);
    }
}
