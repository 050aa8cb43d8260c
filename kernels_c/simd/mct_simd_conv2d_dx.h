/* Error of an ungrouped convolution's input: errors times r, times the weights of sixteen inputs.
 */
#ifndef MCT_SIMD_CONV2D_DX_H
#define MCT_SIMD_CONV2D_DX_H

#include "mct_simd_conv2d.h"

/* Errors of one output pixel times r; |e * r| <= 127 * 256. NULL: none. */
static int16_t *mct_scaled_to(const mct_conv2d_dx *p, const int8_t *e, int16_t *to)
{
    uint32_t c = p->conv.y.c;
    if (e == NULL) {
        memset(to, 0, (c + c % 2) * sizeof *to);
        return to + c + c % 2;
    }
    for (uint32_t o = 0; o < c; o++)
        to[o] = (int16_t)(e[o] * p->r[o]);
    to += c;
    if (c % 2 != 0)
        *to++ = 0;
    return to;
}

/* The output whose tap k reads the input at `at` (padded), -1 if there is none. */
static int32_t mct_output_at(int32_t at, int32_t k, int32_t s, int32_t n)
{
    int32_t first = at - k;
    return first < 0 || first % s != 0 || first / s >= n ? -1 : first / s;
}

/* What the input at (iy, ix) gets errors from, a tap after the other. */
static void mct_outputs_to(const mct_conv2d_dx *p, const int8_t *e_y, int32_t iy, int32_t ix,
                           int16_t *to)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    for (int32_t ky = 0; ky < k->kh; ky++) {
        int32_t oy = mct_output_at(iy + k->pt, ky, k->sh, conv->y.h);
        for (int32_t kx = 0; kx < k->kw; kx++) {
            int32_t ox = mct_output_at(ix + k->pl, kx, k->sw, conv->y.w);
            int32_t at = (oy * conv->y.w + ox) * conv->y.c;
            to = mct_scaled_to(p, oy < 0 || ox < 0 ? NULL : e_y + at, to);
        }
    }
}

/* The same for n pixels from number `pixel` on. */
static void mct_errors_to(const mct_conv2d_dx *p, const int8_t *e_y, uint32_t pixel, uint32_t n,
                          uint32_t lda, int16_t *a)
{
    uint32_t w = p->conv.x.w;
    for (; n > 0; n--, pixel++, a += lda)
        mct_outputs_to(p, e_y, (int32_t)(pixel / w), (int32_t)(pixel % w), a);
}

/* 0 if the shape is not for it. */
static int mct_dx_tiling_of(mct_tiling *t, const mct_conv *conv)
{
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, outs = conv->y.c + conv->y.c % 2u;
    return conv->groups == 1 && taps * conv->x.c <= MCT_ROOM_MAX &&
           mct_tiling_of(t, taps * outs, 2, conv->x.c);
}

/* A block of channels of n pixels, the first of them element i of e_x. */
static void mct_make_errors(const mct_errors *out, const int16_t *a, uint32_t n, uint32_t lda,
                            const int16_t *b, uint32_t i, int8_t *e_x, mct_error_stats *stats)
{
    const mct_errors o = *out;
    mct_v16 acc[MCT_V_ROWS];
    mct_seen seen = mct_seen_nothing();
    for (; n >= MCT_V_ROWS; n -= MCT_V_ROWS, a += MCT_V_ROWS * lda) {
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++)
            acc[r] = mct_v_set(0);
        mct_gemm(acc, MCT_V_ROWS, a, lda, 2, b, lda / 2);
        MCT_UNROLL
        for (uint32_t r = 0; r < MCT_V_ROWS; r++, i += o.c)
            mct_put_any_error(&o, i, acc[r], e_x, &seen);
    }
    for (; n > 0; n--, a += lda, i += o.c) {
        acc[0] = mct_v_set(0);
        mct_gemm(acc, 1, a, lda, 2, b, lda / 2);
        mct_put_any_error(&o, i, acc[0], e_x, &seen);
    }
    mct_seen_into(&seen, stats);
}

/* As mct_weights_of. */
static int16_t *mct_turned_weights_of(const mct_conv *conv, mct_tiling *t, int16_t *room)
{
    uint32_t c = conv->x.c, blocks = (c + MCT_BLOCK - 1) / MCT_BLOCK;
    mct_packed *kept = mct_packed_for(conv, (size_t)blocks * MCT_BLOCK * t->lda * sizeof *room);
    int16_t *b = kept != NULL ? kept->base : room;
    int missing = kept != NULL ? !kept->ready : t->all;
    if (missing)
        mct_pack_inputs(conv, 0, c, b);
    if (kept != NULL && kept->ready)
        mct_repack_inputs(conv, b);
    if (kept != NULL)
        t->all = kept->ready = 1;
    return b;
}

static int mct_conv2d_dx_dense(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                               mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    uint32_t c = conv->x.c, pixels = (uint32_t)conv->x.w * conv->x.h, n, span;
    uint32_t mult = mct_error_multiplier(p->mant[0], p->exp[0], p->f, p->error.e_out, p->e_y);
    int16_t a[MCT_A_MAX] __attribute__((aligned(64)));
    int16_t room[MCT_B_MAX] __attribute__((aligned(64))), *b;
    mct_errors out = {&p->error, mct_v_set((int32_t)mult), 0, c};
    mct_tiling t;
    if (!mct_dx_tiling_of(&t, conv))
        return 0;
    b = mct_turned_weights_of(conv, &t, room);
    /* Many channels at a time: for each, all weights of a partly trained layer are put in order. */
    span = t.all ? c : MCT_B_MAX / t.lda / MCT_BLOCK * MCT_BLOCK;
    for (uint32_t at = 0; at < pixels; at += n) {
        n = pixels - at < t.rows ? pixels - at : t.rows;
        mct_errors_to(p, e_y, at, n, t.lda, a);
        for (uint32_t i = 0; i < c; i += MCT_BLOCK) {
            out.n = c - i < MCT_BLOCK ? c - i : MCT_BLOCK;
            if (!t.all && i % span == 0)
                mct_pack_inputs(conv, i, c - i < span ? c : i + span, b);
            mct_make_errors(&out, a, n, t.lda, b + i % span * t.lda, at * c + i, e_x, stats);
        }
    }
    return 1;
}

#endif
