/* What needs 64 bits a lane, with AVX2: requantization, rounding of errors, steps. */
#ifndef MCT_V64_AVX2_H
#define MCT_V64_AVX2_H

#include "mct_v16_avx2.h"
#include "mct_v_random_x86.h"

/* The high words of eight 64-bit numbers: even lanes, odd lanes. */
static inline __m256i mct_v_high(__m256i even, __m256i odd)
{
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

static inline __m256i mct_v_odd(__m256i v)
{
    return _mm256_srli_epi64(v, 32);
}

static inline __m256i mct_v_scale_half(__m256i v, __m256i m, __m256i half)
{
    return mct_v_high(_mm256_add_epi64(_mm256_mul_epi32(v, m), half),
                      _mm256_add_epi64(_mm256_mul_epi32(mct_v_odd(v), mct_v_odd(m)), half));
}

/* z and a half, for mct_v_scale. */
static inline mct_v64 mct_v_half(int32_t z)
{
    __m256i half = _mm256_set1_epi64x(z * ((long long)1 << 32) + ((long long)1 << 31));
    mct_v64 v = {half, half};
    return v;
}

/* z + ((v * m + 2^31) >> 32) */
static inline mct_v16 mct_v_scale(mct_v16 v, mct_v16 m, mct_v64 half)
{
    v.a = mct_v_scale_half(v.a, m.a, half.a);
    v.b = mct_v_scale_half(v.b, m.b, half.b);
    return v;
}

/* a(q) of the even lanes for d >= 0, as mct_align */
static inline __m256i mct_v_align(__m256i q, int32_t d)
{
    __m256i wide = _mm256_mul_epi32(q, _mm256_set1_epi32(1));
    return d > 0 ? _mm256_sll_epi64(wide, _mm_cvtsi32_si128(d > 54 ? 54 : d)) : wide;
}

static inline __m256i mct_v_round_half(__m256i v, __m256i m, __m128i random, const __m256i *skip,
                                       int32_t d)
{
    __m256i pairs = _mm256_cvtepu32_epi64(random);
    __m256i even = _mm256_mul_epi32(v, m), odd = _mm256_mul_epi32(mct_v_odd(v), mct_v_odd(m));
    if (skip != NULL) {
        __m256i q = d < 0 ? _mm256_sra_epi32(*skip, _mm_cvtsi32_si128(d < -31 ? 31 : -d)) : *skip;
        even = _mm256_add_epi64(even, mct_v_align(q, d));
        odd = _mm256_add_epi64(odd, mct_v_align(mct_v_odd(q), d));
    }
    even = _mm256_add_epi64(even, _mm256_slli_epi32(pairs, 16));
    odd = _mm256_add_epi64(odd, _mm256_and_si256(pairs, _mm256_set1_epi32((int)0xffff0000u)));
    return mct_v_high(even, odd);
}

/* (v * m + mct_align(skip, ...) + (random << 16)) >> 32; d = 32 + e_skip - e_out; skip may be NULL
 */
static inline mct_v16 mct_v_round(mct_v16 v, mct_v16 m, mct_r16 random, const mct_v16 *skip,
                                  int32_t d)
{
    v.a = mct_v_round_half(v.a, m.a, _mm256_castsi256_si128(random), skip ? &skip->a : NULL, d);
    v.b =
        mct_v_round_half(v.b, m.b, _mm256_extracti128_si256(random, 1), skip ? &skip->b : NULL, d);
    return v;
}

/* v >> s, arithmetic, of 64-bit numbers, which this unit has not. */
static inline __m256i mct_v_shift_down(__m256i v, __m256i s)
{
    const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
    return _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_xor_si256(v, sign), s),
                            _mm256_srlv_epi64(sign, s));
}

static inline __m256i mct_v_step_half(__m256i v, __m256i m, __m256i s, __m256i random)
{
    const __m256i high = _mm256_set1_epi64x(INT32_MAX), low = _mm256_set1_epi64x(-INT32_MAX);
    __m256i down = _mm256_sub_epi64(_mm256_set1_epi64x(63), s);
    v = _mm256_mul_epi32(v, m);
    v = _mm256_add_epi64(v, _mm256_srlv_epi64(_mm256_slli_epi64(random, 47), down));
    v = mct_v_shift_down(v, s);
    v = _mm256_blendv_epi8(v, high, _mm256_cmpgt_epi64(v, high));
    return _mm256_blendv_epi8(v, low, _mm256_cmpgt_epi64(low, v));
}

static inline __m256i mct_v_steps_of(__m256i v, __m256i m, __m256i s, __m128i random)
{
    __m256i pairs = _mm256_cvtepu32_epi64(random);
    __m256i even = mct_v_step_half(v, m, _mm256_srli_epi64(_mm256_slli_epi64(s, 32), 32),
                                   _mm256_and_si256(pairs, _mm256_set1_epi64x(0xffff)));
    __m256i odd =
        mct_v_step_half(mct_v_odd(v), mct_v_odd(m), mct_v_odd(s), _mm256_srli_epi64(pairs, 16));
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

/* mct_step of each lane, 1 <= s <= 62. */
static inline mct_v16 mct_v_step(mct_v16 v, mct_v16 m, mct_v16 s, mct_r16 random)
{
    v.a = mct_v_steps_of(v.a, m.a, s.a, _mm256_castsi256_si128(random));
    v.b = mct_v_steps_of(v.b, m.b, s.b, _mm256_extracti128_si256(random, 1));
    return v;
}

#endif
