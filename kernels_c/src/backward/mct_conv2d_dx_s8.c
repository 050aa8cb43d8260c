/*
 * Error of a convolution's input: e_y (h_out, w_out, c_out), weights OHWI, e_x (h, w, c_in).
 *
 * acc = sum over the outputs that saw the element of (e_y[o] * r[o]) * w. |e_y * r| <= 127 * 2^f
 * and at most K = c_out / groups * kh * kw outputs did; f is chosen with 127^2 * 2^f * K < 2^31.
 */
#include <stddef.h>

#include "mct_conv2d_dx_fast.h"
#include "mct_error.h"
#include "mct_kernels.h"
#include "mct_window.h"
#include "mct_simd.h"

#define LANES 4u /* input channels computed together */

/* One input pixel: the outputs whose windows cover it. */
typedef struct {
    const mct_conv2d_dx *p;
    const int8_t *e_y;
    int8_t *e_x;
    mct_error_stats *stats;
    mct_taps oy, ox;
    int32_t ty, tx;  /* position in the padded input: tap of output (oy, ox) is ty - oy * sh */
    uint32_t index0; /* of the pixel's first channel */
} pixel;

/* One block of weights: cols channels a tap, listed by perm (NULL: in order). */
typedef struct {
    const int8_t *w;
    uint32_t cols;
    const uint16_t *perm;
} block;

/* acc[j] += sum over outs output channels of e * r * w[j * lane]; w is step apart a channel. */
static void dot(int32_t acc[LANES], const int8_t *e, const int16_t *r, uint32_t outs,
                const int8_t *w, uint32_t step, uint32_t lane)
{
    int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];
    for (uint32_t o = 0; o < outs; o++, w += step) {
        int32_t er = e[o] * r[o];
        if (er == 0) /* masks make many of them */
            continue;
        a0 = mct_mac(a0, er, w[0]);
        a1 = mct_mac(a1, er, w[lane]);
        a2 = mct_mac(a2, er, w[2 * lane]);
        a3 = mct_mac(a3, er, w[3 * lane]);
    }
    acc[0] = a0;
    acc[1] = a1;
    acc[2] = a2;
    acc[3] = a3;
}

/* acc[j] of LANES places from i on of a block, for the outputs o0 .. o0 + outs - 1 of a group. */
static void accumulate(int32_t acc[LANES], const pixel *px, const block *b, uint32_t i,
                       uint32_t lane, uint32_t o0, uint32_t outs)
{
    const mct_conv *conv = &px->p->conv;
    const mct_window *k = &conv->win;
    uint32_t step = (uint32_t)k->kh * k->kw * b->cols;
    for (int32_t oy = px->oy.first; oy < px->oy.end; oy++) {
        uint32_t tap_y = (uint32_t)(px->ty - oy * k->sh) * k->kw;
        for (int32_t ox = px->ox.first; ox < px->ox.end; ox++) {
            uint32_t tap = tap_y + (uint32_t)(px->tx - ox * k->sw);
            uint32_t at = ((uint32_t)oy * conv->y.w + (uint32_t)ox) * conv->y.c + o0;
            dot(acc, px->e_y + at, px->p->r + o0, outs, b->w + o0 * step + tap * b->cols + i, step,
                lane);
        }
    }
}

/*
 * The pixel's channels of group g in one block, LANES at a time; what is left is done one by one
 * with lane 0, in all lanes alike.
 */
static void dense_block(const pixel *px, const block *b, uint32_t g, uint32_t mult)
{
    const mct_conv *conv = &px->p->conv;
    uint32_t outs = (uint32_t)conv->y.c / conv->groups, lanes;
    uint32_t c0 = px->index0 + g * b->cols;
    for (uint32_t i = 0; i < b->cols; i += lanes) {
        int32_t acc[LANES] = {0, 0, 0, 0};
        lanes = b->cols - i >= LANES ? LANES : 1;
        accumulate(acc, px, b, i, lanes == 1 ? 0 : 1, g * outs, outs);
        for (uint32_t j = 0; j < lanes; j++) {
            uint32_t c = b->perm != NULL ? b->perm[i + j] : i + j;
            mct_error_write(&px->p->error, c0 + c, acc[j], mult, px->e_x, px->stats);
        }
    }
}

static uint32_t group_mult(const mct_conv2d_dx *p, uint32_t g)
{
    return mct_error_multiplier(p->mant[g], p->exp[g], p->f, p->error.e_out, p->e_y);
}

static void dense_pixel(const pixel *px)
{
    const mct_conv *conv = &px->p->conv;
    uint32_t cols = (uint32_t)conv->x.c / conv->groups;
    const block trained = {conv->w_trained, conv->trained, conv->perm};
    const block frozen = {conv->w_frozen, cols - conv->trained,
                          conv->perm != NULL ? conv->perm + conv->trained : NULL};
    for (uint32_t g = 0; g < conv->groups; g++) {
        uint32_t mult = group_mult(px->p, g);
        dense_block(px, &trained, g, mult);
        dense_block(px, &frozen, g, mult);
    }
}

/* Sum of e_y * w of one channel, w (kh, kw); r is common to all its taps. */
static int32_t channel_sum(const pixel *px, const int8_t *w, uint32_t o)
{
    const mct_conv *conv = &px->p->conv;
    const mct_window *k = &conv->win;
    uint32_t c = conv->y.c;
    int32_t acc = 0;
    for (int32_t oy = px->oy.first; oy < px->oy.end; oy++) {
        const int8_t *e = px->e_y + ((uint32_t)oy * conv->y.w + (uint32_t)px->ox.first) * c + o;
        int32_t tap = (px->ty - oy * k->sh) * k->kw + px->tx - px->ox.first * k->sw;
        for (int32_t n = px->ox.end - px->ox.first; n > 0; n--, e += c, tap -= k->sw)
            acc = mct_mac(acc, *e, w[tap]);
    }
    return acc;
}

static void depthwise_pixel(const pixel *px)
{
    const mct_conv *conv = &px->p->conv;
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw;
    for (uint32_t i = 0; i < conv->x.c; i++) {
        uint32_t c = conv->perm != NULL ? conv->perm[i] : i;
        const int8_t *w = i < conv->trained ? conv->w_trained + i * taps
                                            : conv->w_frozen + (i - conv->trained) * taps;
        int32_t acc = mct_mac(0, channel_sum(px, w, c), px->p->r[c]);
        mct_error_write(&px->p->error, px->index0 + c, acc, group_mult(px->p, c), px->e_x,
                        px->stats);
    }
}

/* Apart, so that the kernels for the DSP extension do not run on top of its frame. */
static MCT_NOINLINE void plain(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                               mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    int depthwise = mct_is_depthwise(conv);
    pixel px = {p, e_y, e_x, stats, {0, 0}, {0, 0}, 0, 0, 0};
    for (int32_t iy = 0; iy < conv->x.h; iy++) {
        px.ty = iy + k->pt;
        px.oy = mct_outputs_over(px.ty, k->kh, k->sh, conv->y.h);
        for (int32_t ix = 0; ix < conv->x.w; ix++) {
            px.tx = ix + k->pl;
            px.ox = mct_outputs_over(px.tx, k->kw, k->sw, conv->y.w);
            if (depthwise)
                depthwise_pixel(&px);
            else
                dense_pixel(&px);
            px.index0 += conv->x.c;
        }
    }
}

void mct_conv2d_dx_s8(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                      mct_error_stats *stats)
{
#if MCT_DSP
    if (mct_conv2d_dx_dense_dsp(p, e_y, e_x, stats) ||
        mct_conv2d_dx_depthwise_dsp(p, e_y, e_x, stats))
        return;
#endif
#if MCT_SIMD
    if (mct_simd_active != NULL && mct_simd_active->conv2d_dx(p, e_y, e_x, stats))
        return;
#endif
#if !MCT_DSP
    if (mct_conv2d_dx_pointwise_s8(p, e_y, e_x, stats))
        return;
#endif
    plain(p, e_y, e_x, stats);
}
