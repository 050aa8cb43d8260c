/*
 * Depthwise convolutions and the errors of their inputs, sixteen channels at a time.
 *
 * The error of an input is a convolution, too: of the output's error, spread by the stride, with
 * the kernel turned around.
 */
#ifndef MCT_SIMD_DEPTHWISE_H
#define MCT_SIMD_DEPTHWISE_H

#include "mct_simd_plane.h"

/* sum[r] += `count` windows, the first of which starts at element `at` of the plane's row `row`. */
static inline void mct_depthwise_sums(const mct_plane *s, const mct_depthwise *d, uint32_t row,
                                      uint32_t at, uint32_t count, mct_v16 *sum)
{
    const mct_w *w = d->taps;
    for (uint32_t ky = 0; ky < s->kh; ky++) {
        uint32_t place = (row + ky) % s->kh;
        const mct_x *x = d->ring + (place * s->width + at) * MCT_GROUP;
        if (d->blank[place]) {
            w += d->groups * MCT_GROUP;
            continue;
        }
        for (uint32_t k = 0; k < d->groups; k++, x += MCT_V_TAPS * MCT_GROUP, w += MCT_GROUP) {
            mct_v16 tap = mct_v_taps(w);
            MCT_UNROLL
            for (uint32_t r = 0; r < count; r++)
                sum[r] = mct_v_dot_taps(sum[r], mct_v_taps(x + r * s->sw * MCT_GROUP), tap);
        }
    }
}

/* Another block of channels, from o on: its kernels, no row yet. */
static void mct_depthwise_begin(const mct_conv *conv, const mct_plane *s, mct_depthwise *d,
                                uint32_t o, uint32_t n, int turned)
{
    uint32_t blocks = (conv->x.c + MCT_BLOCK - 1) / MCT_BLOCK, size;
    mct_packed *kept;
    d->next = 0;
    d->groups = mct_tap_groups(s->kw);
    size = s->kh * d->groups * MCT_GROUP;
    kept = mct_packed_for(conv, (size_t)blocks * size * sizeof *d->taps);
    d->taps = kept != NULL ? (mct_w *)kept->base + o / MCT_BLOCK * size : d->room;
    mct_pack_taps(conv, o, n, turned, kept != NULL && kept->ready, d->taps);
    if (kept != NULL && o / MCT_BLOCK + 1 == blocks)
        kept->ready = 1;
}

/* Rows of the plane that the windows of output row oy need; returns the first. */
static uint32_t mct_depthwise_rows(const mct_plane *s, mct_depthwise *d, uint32_t oy, uint32_t o,
                                   uint32_t n)
{
    uint32_t row = oy * s->sh;
    d->next = d->next < row ? row : d->next;
    for (; d->next < row + s->kh; d->next++)
        mct_ring_row(s, d, d->next, o, n);
    return row;
}

/* A block of channels of output row oy, whose first bit in the mask is `bit`. */
static void mct_depthwise_outputs(const mct_plane *s, const mct_depthwise *d, uint32_t row,
                                  const mct_outputs *out, int8_t *y, uint8_t *mask, uint32_t bit)
{
    const mct_outputs o = *out;
    mct_v16 sum[MCT_V_ROWS];
    uint32_t ox = 0;
    for (; ox + MCT_V_ROWS <= s->out_w; ox += MCT_V_ROWS) {
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++)
            sum[r] = o.start;
        mct_depthwise_sums(s, d, row, ox * s->sw, MCT_V_ROWS, sum);
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++, y += o.c, bit += o.c)
            mct_put_output(&o, sum[r], y, mask, bit);
    }
    for (; ox < s->out_w; ox++, y += o.c, bit += o.c) {
        sum[0] = o.start;
        mct_depthwise_sums(s, d, row, ox * s->sw, 1, sum);
        mct_put_output(&o, sum[0], y, mask, bit);
    }
}

static int mct_conv2d_depthwise(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                                int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    uint32_t c = conv->x.c, row = conv->y.w * c;
    mct_plane s = {x,      conv->x.h, conv->x.w, c,     k->pt, k->pl, 1,        1,
                   p->z_x, k->kh,     k->kw,     k->sh, k->sw, 0,     conv->y.w};
    mct_depthwise d;
    if (!mct_is_depthwise(conv) || !mct_plane_fits(&s))
        return 0;
    for (uint32_t o = 0; o < c; o += MCT_BLOCK) {
        uint32_t n = c - o < MCT_BLOCK ? c - o : MCT_BLOCK;
        mct_depthwise_begin(conv, &s, &d, o, n, 0);
        const mct_outputs out = mct_outputs_of(p, o, d.taps, k->kh * d.groups);
        for (uint32_t i = oy; i < oy + rows; i++) {
            uint32_t first = mct_depthwise_rows(&s, &d, i, o, n);
            mct_depthwise_outputs(&s, &d, first, &out, y + (i - oy) * row + o, mask, i * row + o);
        }
    }
    return 1;
}

/* Multipliers and factors r of n channels from o on. */
static mct_errors mct_errors_of(const mct_conv2d_dx *p, uint32_t o, uint32_t n, mct_v16 *r)
{
    int32_t mult[MCT_BLOCK] = {0}, factor[MCT_BLOCK] = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t g = o + i;
        factor[i] = p->r[g];
        mult[i] =
            (int32_t)mct_error_multiplier(p->mant[g], p->exp[g], p->f, p->error.e_out, p->e_y);
    }
    mct_errors out = {&p->error, mct_v_load(mult), n, p->conv.x.c};
    *r = mct_v_load(factor);
    return out;
}

/* A block of channels of a row of errors, the first of which is element i of e_x. */
static void mct_depthwise_errors(const mct_plane *s, const mct_depthwise *d, uint32_t row,
                                 const mct_errors *out, const mct_v16 factors[2], uint32_t i,
                                 int8_t *e_x, mct_seen *seen)
{
    const mct_errors o = *out;
    const mct_v16 start = factors[0], r = factors[1];
    mct_v16 sum[MCT_V_ROWS];
    uint32_t ix = 0;
    for (; ix + MCT_V_ROWS <= s->out_w; ix += MCT_V_ROWS) {
        MCT_UNROLL
        for (uint32_t j = 0; j < MCT_V_ROWS; j++)
            sum[j] = start;
        mct_depthwise_sums(s, d, row, ix, MCT_V_ROWS, sum);
        MCT_UNROLL
        for (uint32_t j = 0; j < MCT_V_ROWS; j++, i += o.c)
            mct_put_any_error(&o, i, mct_v_mul(sum[j], r), e_x, seen);
    }
    for (; ix < s->out_w; ix++, i += o.c) {
        sum[0] = start;
        mct_depthwise_sums(s, d, row, ix, 1, sum);
        mct_put_any_error(&o, i, mct_v_mul(sum[0], r), e_x, seen);
    }
}

static int mct_conv2d_dx_depthwise(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                                   mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    uint32_t c = conv->x.c, w = conv->x.w;
    const mct_rows y = {e_y, conv->y.w * c, conv->y.h};
    mct_plane s = {&y,
                   conv->y.h,
                   conv->y.w,
                   c,
                   k->kh - 1 - k->pt,
                   k->kw - 1 - k->pl,
                   k->sh,
                   k->sw,
                   0,
                   k->kh,
                   k->kw,
                   1,
                   1,
                   0,
                   w};
    mct_depthwise d;
    if (!mct_is_depthwise(conv) || s.top < 0 || s.left < 0 || !mct_plane_fits(&s))
        return 0;
    for (uint32_t o = 0; o < c; o += MCT_BLOCK) {
        mct_v16 factors[2];
        mct_seen seen = mct_seen_nothing();
        const mct_errors out =
            mct_errors_of(p, o, c - o < MCT_BLOCK ? c - o : MCT_BLOCK, &factors[1]);
        mct_depthwise_begin(conv, &s, &d, o, out.n, 1);
        factors[0] = mct_start_of(mct_v_set(0), 0, d.taps, k->kh * d.groups);
        for (uint32_t iy = 0; iy < conv->x.h; iy++) {
            uint32_t first = mct_depthwise_rows(&s, &d, iy, o, out.n);
            mct_depthwise_errors(&s, &d, first, &out, factors, iy * w * c + o, e_x, &seen);
        }
        mct_seen_into(&seen, stats);
    }
    return 1;
}

#endif
