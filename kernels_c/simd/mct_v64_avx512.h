/* What needs 64 bits a lane, with AVX-512: requantization, rounding of errors, steps. */
#ifndef MCT_V64_AVX512_H
#define MCT_V64_AVX512_H

#include "mct_v16_avx512.h"
#include "mct_v_random_x86.h"

/* The high words of eight 64-bit numbers: even lanes, odd lanes. */
static inline mct_v16 mct_v_high(__m512i even, __m512i odd)
{
    return _mm512_mask_shuffle_epi32(odd, 0x5555, even, _MM_PERM_DDBB);
}

static inline mct_v16 mct_v_odd(mct_v16 v)
{
    return _mm512_srli_epi64(v, 32);
}

/* z and a half, for mct_v_scale. */
static inline mct_v64 mct_v_half(int32_t z)
{
    return _mm512_set1_epi64(z * ((long long)1 << 32) + ((long long)1 << 31));
}

/* z + ((v * m + 2^31) >> 32) */
static inline mct_v16 mct_v_scale(mct_v16 v, mct_v16 m, mct_v64 half)
{
    return mct_v_high(_mm512_add_epi64(_mm512_mul_epi32(v, m), half),
                      _mm512_add_epi64(_mm512_mul_epi32(mct_v_odd(v), mct_v_odd(m)), half));
}

/* a(q) of the even lanes for d >= 0, as mct_align */
static inline __m512i mct_v_align(__m512i q, int32_t d)
{
    __m512i wide = _mm512_mul_epi32(q, _mm512_set1_epi32(1));
    return d > 0 ? _mm512_sll_epi64(wide, _mm_cvtsi32_si128(d > 54 ? 54 : d)) : wide;
}

/* (v * m + mct_align(skip, ...) + (random << 16)) >> 32; d = 32 + e_skip - e_out; skip may be NULL
 */
static inline mct_v16 mct_v_round(mct_v16 v, mct_v16 m, mct_r16 random, const mct_v16 *skip,
                                  int32_t d)
{
    __m512i pairs = _mm512_cvtepu32_epi64(random);
    __m512i even = _mm512_mul_epi32(v, m), odd = _mm512_mul_epi32(mct_v_odd(v), mct_v_odd(m));
    if (skip != NULL) {
        __m512i q = d < 0 ? _mm512_sra_epi32(*skip, _mm_cvtsi32_si128(d < -31 ? 31 : -d)) : *skip;
        even = _mm512_add_epi64(even, mct_v_align(q, d));
        odd = _mm512_add_epi64(odd, mct_v_align(mct_v_odd(q), d));
    }
    even = _mm512_add_epi64(even, _mm512_slli_epi32(pairs, 16));
    odd = _mm512_add_epi64(odd, _mm512_and_si512(pairs, _mm512_set1_epi32((int)0xffff0000u)));
    return mct_v_high(even, odd);
}

static inline __m512i mct_v_step_half(__m512i v, __m512i m, __m512i s, __m512i random)
{
    const __m512i rail = _mm512_set1_epi64(INT32_MAX);
    __m512i down = _mm512_sub_epi64(_mm512_set1_epi64(63), s);
    v = _mm512_mul_epi32(v, m);
    v = _mm512_add_epi64(v, _mm512_srlv_epi64(_mm512_slli_epi64(random, 47), down));
    v = _mm512_srav_epi64(v, s);
    return _mm512_max_epi64(_mm512_min_epi64(v, rail), _mm512_set1_epi64(-INT32_MAX));
}

/* mct_step of each lane, 1 <= s <= 62. */
static inline mct_v16 mct_v_step(mct_v16 v, mct_v16 m, mct_v16 s, mct_r16 random)
{
    __m512i pairs = _mm512_cvtepu32_epi64(random);
    __m512i even = mct_v_step_half(v, m, _mm512_srli_epi64(_mm512_slli_epi64(s, 32), 32),
                                   _mm512_and_si512(pairs, _mm512_set1_epi64(0xffff)));
    __m512i odd =
        mct_v_step_half(mct_v_odd(v), mct_v_odd(m), mct_v_odd(s), _mm512_srli_epi64(pairs, 16));
    return _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
}

#endif
