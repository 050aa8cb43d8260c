/* What is neither a convolution nor its error nor its update. */
#ifndef MCT_SIMD_OTHER_H
#define MCT_SIMD_OTHER_H

#include "mct_kernels.h"
#include "mct_simd_put.h"
#include "mct_window.h"

static void mct_simd_add(const mct_add *p, const int8_t *a, const int8_t *b, int8_t *y,
                         uint8_t *mask, uint32_t mask_bit)
{
    const mct_v16 ma = mct_v_set(p->mult_a), mb = mct_v_set(p->mult_b), z = mct_v_set(p->z_y);
    const mct_v16 lo = mct_v_set(p->lo), hi = mct_v_set(p->hi);
    int32_t zeros = mct_mac(mct_mac(0, p->mult_a, p->z_a), p->mult_b, p->z_b);
    const mct_v16 start = mct_v_set(mct_mac((int32_t)1 << (p->shift - 1), -1, zeros));
    for (uint32_t i = 0, n; i < p->n; i += n) {
        n = p->n - i < MCT_BLOCK ? p->n - i : MCT_BLOCK;
        mct_v16 va = mct_get_bytes(a + i, n), vb = mct_get_bytes(b + i, n);
        mct_v16 v = mct_v_add(mct_v_add(start, mct_v_mul(va, ma)), mct_v_mul(vb, mb)), clamped;
        v = mct_v_add(mct_v_shr(v, p->shift), z);
        clamped = mct_v_clamp(v, lo, hi);
        mct_put_bytes(y + i, clamped, n);
        if (mask != NULL)
            mct_put_bits(mask, mask_bit + i, mct_v_same(v, clamped), n);
    }
}

/* Copies one error, masked: n elements, which are elements i and on of both. */
static void mct_simd_error_copy(const mct_error *error, const int8_t *e, uint32_t n, int8_t *e_x,
                                mct_error_stats *stats)
{
    mct_seen seen = mct_seen_nothing();
    for (uint32_t i = 0, some; i < n; i += some) {
        some = n - i < MCT_BLOCK ? n - i : MCT_BLOCK;
        mct_v16 v = mct_get_bytes(e + i, some);
        v = mct_v_where(mct_get_bits(error->mask, i, some), v);
        seen.amax = mct_v_amax(seen.amax, v);
        mct_put_bytes(e_x + i, v, some);
    }
    mct_seen_into(&seen, stats);
}

/* The sum of sixteen or fewer channels, from `at` on, over outputs [oy) and [ox). */
static mct_v16 mct_pool_sum(const mct_pool_dx *p, const int8_t *e_y, mct_taps oy, mct_taps ox,
                            uint32_t at, uint32_t n)
{
    mct_v16 sum = mct_v_set(0);
    for (int32_t y = oy.first; y < oy.end; y++) {
        for (int32_t x = ox.first; x < ox.end; x++) {
            const int8_t *e = e_y + (uint32_t)(y * p->y.w + x) * p->y.c + at;
            sum = mct_v_add(sum, mct_get_bytes(e, n));
        }
    }
    return sum;
}

/* factor: 2^F of the sums. */
static void mct_simd_avgpool_dx(const mct_pool_dx *p, uint32_t mult, int32_t factor,
                                const int8_t *e_y, int8_t *e_x, mct_error_stats *stats)
{
    const mct_window *k = &p->win;
    const mct_v16 scale = mct_v_set(factor);
    uint32_t c = p->x.c, at = 0;
    mct_errors out = {&p->error, mct_v_set((int32_t)mult), 0, c};
    mct_seen seen = mct_seen_nothing();
    for (int32_t iy = 0; iy < p->x.h; iy++) {
        mct_taps oy = mct_outputs_over(iy + k->pt, k->kh, k->sh, p->y.h);
        for (int32_t ix = 0; ix < p->x.w; ix++, at += c) {
            mct_taps ox = mct_outputs_over(ix + k->pl, k->kw, k->sw, p->y.w);
            for (uint32_t i = 0; i < c; i += MCT_BLOCK) {
                out.n = c - i < MCT_BLOCK ? c - i : MCT_BLOCK;
                mct_v16 acc = mct_v_mul(mct_pool_sum(p, e_y, oy, ox, i, out.n), scale);
                mct_put_any_error(&out, at + i, acc, e_x, &seen);
            }
        }
    }
    mct_seen_into(&seen, stats);
}

#endif
