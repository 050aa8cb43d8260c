/*
 * Convolution, one output row: x (h, w, c_in), weights OHWI, y (w_out, c_out); any groups, one or
 * two weight blocks (see mct_conv).
 *
 * acc = bias[o] + sum of w * x, a tap outside the input reading z_x. No overflow: the bound of
 * section 4, |bias[o]| <= ((2^31 - 1) >> shift[o]) - 128 * sum |w|, holds for any part of the sum
 * in any order; so taps outside may be added at once, as z_x times the sum of their weights.
 */
#include "mct_kernels.h"
#include "mct_output.h"
#include "mct_window.h"

#define LANES 4u /* outputs computed together */

/* Where an output pixel goes: y (c_out), and the mask's bit of y[0]. */
typedef struct {
    int8_t *y;
    uint8_t *mask;
    uint32_t bit;
} pixel;

/* The window of one output pixel. */
typedef struct {
    const mct_conv *conv;
    const mct_rows *x;
    mct_taps ty, tx;
    const int8_t *row; /* of the first tap inside */
    uint32_t at;       /* its place in the row, bytes */
    int clipped;
} window;

/* A block of weights, cols channels a tap; perm lists their input channels, NULL: in order. */
typedef struct {
    const int8_t *w;
    uint32_t cols;
    const uint16_t *perm;
} block;

static window window_at(const mct_conv *conv, const mct_rows *x, uint32_t oy, uint32_t ox)
{
    const mct_window *k = &conv->win;
    int32_t iy = (int32_t)(oy * k->sh) - k->pt;
    int32_t ix = (int32_t)(ox * k->sw) - k->pl;
    window win = {conv, x, {0, 0}, {0, 0}, NULL, 0, 0};
    win.ty = mct_taps_inside(iy, k->kh, conv->x.h);
    win.tx = mct_taps_inside(ix, k->kw, conv->x.w);
    win.row = mct_row(x, iy + win.ty.first);
    win.at = (uint32_t)(ix + win.tx.first) * conv->x.c;
    win.clipped = win.ty.end - win.ty.first != k->kh || win.tx.end - win.tx.first != k->kw;
    return win;
}

/* acc[j] += sum over n of x * w[j * step]: one load of x for four outputs. */
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

/* Sum of the weights, w (kh, kw, cols), of the taps outside the input. */
static int32_t sum_outside(const window *win, const int8_t *w, uint32_t cols)
{
    const mct_window *k = &win->conv->win;
    int32_t sum = 0;
    for (int32_t ky = 0; ky < k->kh; ky++) {
        for (int32_t kx = 0; kx < k->kw; kx++, w += cols) {
            if (ky >= win->ty.first && ky < win->ty.end && kx >= win->tx.first && kx < win->tx.end)
                continue;
            for (uint32_t i = 0; i < cols; i++)
                sum += w[i];
        }
    }
    return sum;
}

/* The part of block b in LANES outputs: weights w (kh, kw, cols), inputs from channel c0 on. */
static void dot_window(int32_t acc[LANES], const window *win, const block *b, const int8_t *w,
                       uint32_t step, uint32_t c0)
{
    uint32_t c = win->conv->x.c, cols = b->cols;
    uint32_t taps = (uint32_t)(win->tx.end - win->tx.first);
    uint32_t w_row = win->conv->win.kw * cols;
    const int8_t *row = win->row;
    w += (uint32_t)win->ty.first * w_row + (uint32_t)win->tx.first * cols;
    for (int32_t ky = win->ty.first; ky < win->ty.end; ky++) {
        const int8_t *x = row + win->at + c0;
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
        row = mct_row_below(win->x, row);
    }
}

/* LANES channels o of a depthwise convolution: weights w (kh, kw), step apart. */
static void dot_channels(int32_t acc[LANES], const window *win, const int8_t *w, uint32_t step,
                         const uint32_t o[LANES])
{
    uint32_t c = win->conv->x.c, kw = win->conv->win.kw;
    uint32_t o0 = o[0], o1 = o[1], o2 = o[2], o3 = o[3];
    int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];
    const int8_t *row = win->row;
    w += (uint32_t)win->ty.first * kw;
    for (int32_t ky = win->ty.first; ky < win->ty.end; ky++) {
        const int8_t *x = row + win->at, *v = w + win->tx.first, *end = w + win->tx.end;
        for (; v != end; v++, x += c) {
            a0 = mct_mac(a0, x[o0], v[0]);
            a1 = mct_mac(a1, x[o1], v[step]);
            a2 = mct_mac(a2, x[o2], v[2 * step]);
            a3 = mct_mac(a3, x[o3], v[3 * step]);
        }
        w += kw;
        row = mct_row_below(win->x, row);
    }
    acc[0] = a0;
    acc[1] = a1;
    acc[2] = a2;
    acc[3] = a3;
}

/* acc[j] += z_x * (weights outside), for the outputs whose windows reach over the edge. */
static void add_outside(int32_t acc[LANES], const mct_conv2d *p, const window *win, const int8_t *w,
                        uint32_t step, uint32_t cols)
{
    if (!win->clipped || p->z_x == 0)
        return;
    for (uint32_t j = 0; j < LANES; j++)
        acc[j] = mct_mac(acc[j], p->z_x, sum_outside(win, w + j * step, cols));
}

/* Requantizes acc into channel o of the pixel out->y. */
static void finish(const mct_conv2d *p, const pixel *out, int32_t acc, uint32_t o)
{
    mct_put(mct_requantize(acc, p->mult[o], p->shift[o], p->z_y), p->lo, p->hi, out->y + o,
            out->mask, out->bit + o);
}

/*
 * One output pixel, LANES channels of a group at a time. What is left of a group is done one by one
 * with step 0, in all lanes alike.
 */
static void dense_pixel(const mct_conv2d *p, const window *win, const pixel *out)
{
    const mct_conv *conv = &p->conv;
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw;
    uint32_t cols = (uint32_t)conv->x.c / conv->groups, outs = (uint32_t)conv->y.c / conv->groups;
    const block blocks[2] = {
        {conv->w_trained, conv->trained, conv->perm},
        {conv->w_frozen, cols - conv->trained, conv->perm ? conv->perm + conv->trained : NULL}};
    uint32_t lanes, group = 0;
    for (uint32_t o = 0; o < conv->y.c; o += lanes) {
        int32_t acc[LANES];
        if (o == (group + 1) * outs)
            group++;
        lanes = (group + 1) * outs - o >= LANES ? LANES : 1;
        for (uint32_t j = 0; j < LANES; j++)
            acc[j] = p->bias[o + j % lanes];
        for (const block *b = blocks; b != blocks + 2; b++) {
            uint32_t size = taps * b->cols, step = lanes == 1 ? 0 : size;
            if (size == 0)
                continue;
            add_outside(acc, p, win, b->w + o * size, step, b->cols);
            dot_window(acc, win, b, b->w + o * size, step, group * cols);
        }
        for (uint32_t j = 0; j < lanes; j++)
            finish(p, out, acc[j], o + j);
    }
}

/* Channels [i, end) in one block of weights, w (end - i, kh, kw): as in dense_pixel. */
static void depthwise_block(const mct_conv2d *p, const window *win, const int8_t *w, uint32_t i,
                            uint32_t end, const pixel *out)
{
    const uint16_t *perm = p->conv.perm;
    uint32_t taps = (uint32_t)p->conv.win.kh * p->conv.win.kw, lanes;
    for (; i < end; i += lanes, w += lanes * taps) {
        uint32_t o[LANES], step;
        int32_t acc[LANES];
        lanes = end - i >= LANES ? LANES : 1;
        step = lanes == 1 ? 0 : taps;
        for (uint32_t j = 0; j < LANES; j++) {
            uint32_t place = i + j % lanes;
            o[j] = perm != NULL ? perm[place] : place;
            acc[j] = p->bias[o[j]];
        }
        add_outside(acc, p, win, w, step, 1);
        dot_channels(acc, win, w, step, o);
        for (uint32_t j = 0; j < lanes; j++)
            finish(p, out, acc[j], o[j]);
    }
}

void mct_conv2d_row_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, int8_t *y,
                       uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    int depthwise = mct_is_depthwise(conv);
    pixel out = {y, mask, oy * conv->y.w * conv->y.c};
    for (uint32_t ox = 0; ox < conv->y.w; ox++) {
        window win = window_at(conv, x, oy, ox);
        if (depthwise) {
            depthwise_block(p, &win, conv->w_trained, 0, conv->trained, &out);
            depthwise_block(p, &win, conv->w_frozen, conv->trained, conv->y.c, &out);
        } else {
            dense_pixel(p, &win, &out);
        }
        out.y += conv->y.c;
        out.bit += conv->y.c;
    }
}
