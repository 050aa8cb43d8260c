/* What needs 64 bits a lane, with NEON: requantization, rounding of errors, steps. */
#ifndef MCT_V64_NEON_H
#define MCT_V64_NEON_H

#include "mct_v16_neon.h"

typedef int64x2_t mct_v64; /* a constant for 64-bit numbers made of lanes */

typedef struct {
    uint16x4_t a, b, c, d; /* of lanes 0 to 3, ... */
} mct_r16;

/* z and a half, for mct_v_scale. */
static inline mct_v64 mct_v_half(int32_t z)
{
    return vdupq_n_s64(z * ((int64_t)1 << 32) + ((int64_t)1 << 31));
}

static inline int32x4_t mct_v_scale_part(int32x4_t v, int32x4_t m, mct_v64 half)
{
    int64x2_t low = vmull_s32(vget_low_s32(v), vget_low_s32(m)), high = vmull_high_s32(v, m);
    return vshrn_high_n_s64(vshrn_n_s64(vaddq_s64(low, half), 32), vaddq_s64(high, half), 32);
}

/* z + ((v * m + 2^31) >> 32) */
static inline mct_v16 mct_v_scale(mct_v16 v, mct_v16 m, mct_v64 half)
{
    v.a = mct_v_scale_part(v.a, m.a, half);
    v.b = mct_v_scale_part(v.b, m.b, half);
    v.c = mct_v_scale_part(v.c, m.c, half);
    v.d = mct_v_scale_part(v.d, m.d, half);
    return v;
}

/* mct_mix32 of key + 0x9e3779b9 * n */
static inline uint32x4_t mct_v_mix(uint32_t key, uint32x4_t n)
{
    uint32x4_t h = vmlaq_n_u32(vdupq_n_u32(key), n, 0x9e3779b9u);
    h = vmulq_n_u32(veorq_u32(h, vshrq_n_u32(h, 16)), 0x7feb352du);
    h = vmulq_n_u32(veorq_u32(h, vshrq_n_u32(h, 15)), 0x846ca68bu);
    return veorq_u32(h, vshrq_n_u32(h, 16));
}

/* mct_random16 of elements i to i + 15, i even. */
static inline mct_r16 mct_v_random(uint32_t key, uint32_t i)
{
    const uint32_t step[4] = {0, 1, 2, 3};
    uint32x4_t n = vaddq_u32(vdupq_n_u32(i >> 1), vld1q_u32(step));
    uint16x8_t low = vreinterpretq_u16_u32(mct_v_mix(key, n));
    uint16x8_t high = vreinterpretq_u16_u32(mct_v_mix(key, vaddq_u32(n, vdupq_n_u32(4))));
    mct_r16 r = {vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)};
    return r;
}

/* Two lanes: v * m + mct_align(q) + (random << 16). */
static inline int64x2_t mct_v_round_two(int32x2_t v, int32x2_t m, uint32x2_t random,
                                        const int32x2_t *q, int32_t d)
{
    int64x2_t sum = vmull_s32(v, m);
    if (q != NULL) {
        int32x2_t down = d < 0 ? vshl_s32(*q, vdup_n_s32(d < -31 ? -31 : d)) : *q;
        int64x2_t wide = vmovl_s32(down);
        if (d > 0)
            wide = vshlq_s64(wide, vdupq_n_s64(d > 54 ? 54 : d));
        sum = vaddq_s64(sum, wide);
    }
    return vaddq_s64(sum, vreinterpretq_s64_u64(vshll_n_u32(random, 16)));
}

static inline int32x4_t mct_v_round_part(int32x4_t v, int32x4_t m, uint16x4_t random,
                                         const int32x4_t *skip, int32_t d)
{
    uint32x4_t r = vmovl_u16(random);
    int32x2_t q0 = vdup_n_s32(0), q1 = q0;
    if (skip != NULL) {
        q0 = vget_low_s32(*skip);
        q1 = vget_high_s32(*skip);
    }
    int64x2_t low = mct_v_round_two(vget_low_s32(v), vget_low_s32(m), vget_low_u32(r),
                                    skip != NULL ? &q0 : NULL, d);
    int64x2_t high = mct_v_round_two(vget_high_s32(v), vget_high_s32(m), vget_high_u32(r),
                                     skip != NULL ? &q1 : NULL, d);
    return vshrn_high_n_s64(vshrn_n_s64(low, 32), high, 32);
}

/* (v * m + mct_align(skip, ...) + (random << 16)) >> 32; d = 32 + e_skip - e_out; skip may be NULL
 */
static inline mct_v16 mct_v_round(mct_v16 v, mct_v16 m, mct_r16 random, const mct_v16 *skip,
                                  int32_t d)
{
    v.a = mct_v_round_part(v.a, m.a, random.a, skip ? &skip->a : NULL, d);
    v.b = mct_v_round_part(v.b, m.b, random.b, skip ? &skip->b : NULL, d);
    v.c = mct_v_round_part(v.c, m.c, random.c, skip ? &skip->c : NULL, d);
    v.d = mct_v_round_part(v.d, m.d, random.d, skip ? &skip->d : NULL, d);
    return v;
}

/* Two lanes: mct_step but for the lower rail. */
static inline int32x2_t mct_v_step_two(int32x2_t v, int32x2_t m, int32x2_t s, uint32x2_t random)
{
    int64x2_t shift = vmovl_s32(s), down = vsubq_s64(shift, vdupq_n_s64(63));
    uint64x2_t term = vshlq_u64(vshlq_n_u64(vmovl_u32(random), 47), down);
    int64x2_t sum = vaddq_s64(vmull_s32(v, m), vreinterpretq_s64_u64(term));
    return vqmovn_s64(vshlq_s64(sum, vnegq_s64(shift)));
}

static inline int32x4_t mct_v_step_part(int32x4_t v, int32x4_t m, int32x4_t s, uint16x4_t random)
{
    uint32x4_t r = vmovl_u16(random);
    int32x2_t low =
        mct_v_step_two(vget_low_s32(v), vget_low_s32(m), vget_low_s32(s), vget_low_u32(r));
    int32x2_t high =
        mct_v_step_two(vget_high_s32(v), vget_high_s32(m), vget_high_s32(s), vget_high_u32(r));
    return vmaxq_s32(vcombine_s32(low, high), vdupq_n_s32(-INT32_MAX));
}

/* mct_step of each lane, 1 <= s <= 62. */
static inline mct_v16 mct_v_step(mct_v16 v, mct_v16 m, mct_v16 s, mct_r16 random)
{
    v.a = mct_v_step_part(v.a, m.a, s.a, random.a);
    v.b = mct_v_step_part(v.b, m.b, s.b, random.b);
    v.c = mct_v_step_part(v.c, m.c, s.c, random.c);
    v.d = mct_v_step_part(v.d, m.d, s.d, random.d);
    return v;
}

#endif
