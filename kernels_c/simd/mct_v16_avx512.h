/* Sixteen int32 lanes in one register of AVX-512. Pairs are two int16 a lane. */
#ifndef MCT_V16_AVX512_H
#define MCT_V16_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define MCT_V_ROWS 8 /* accumulators that hide the latency of products */

/* Elements of windows and weights, of which one product takes so many: bytes, windows from 0. */
#define MCT_V_TAPS   4
#define MCT_V_OFFSET 128
typedef uint8_t mct_x;
typedef int8_t mct_w;

typedef __m512i mct_v16;
typedef __m512i mct_v64; /* a constant for 64-bit numbers made of lanes */
static inline mct_v16 mct_v_load(const int32_t *at)
{
    return _mm512_loadu_si512(at);
}

static inline void mct_v_store(int32_t *at, mct_v16 v)
{
    _mm512_storeu_si512(at, v);
}

static inline mct_v16 mct_v_set(int32_t x)
{
    return _mm512_set1_epi32(x);
}

static inline mct_v16 mct_v_add(mct_v16 v, mct_v16 w)
{
    return _mm512_add_epi32(v, w);
}

static inline mct_v16 mct_v_sub(mct_v16 v, mct_v16 w)
{
    return _mm512_sub_epi32(v, w);
}

/* Of all lanes. */
static inline int32_t mct_v_sum(mct_v16 v)
{
    return _mm512_reduce_add_epi32(v);
}

static inline mct_v16 mct_v_mul(mct_v16 v, mct_v16 w)
{
    return _mm512_mullo_epi32(v, w);
}

static inline mct_v16 mct_v_clamp(mct_v16 v, mct_v16 lo, mct_v16 hi)
{
    return _mm512_min_epi32(_mm512_max_epi32(v, lo), hi);
}

/* The larger of m and |v|. */
static inline mct_v16 mct_v_amax(mct_v16 m, mct_v16 v)
{
    return _mm512_max_epi32(m, _mm512_abs_epi32(v));
}

static inline mct_v16 mct_v_shl(mct_v16 v, mct_v16 n)
{
    return _mm512_sllv_epi32(v, n);
}

/* The low byte of each lane. */
static inline mct_v16 mct_v_low(mct_v16 v)
{
    return _mm512_and_si512(v, _mm512_set1_epi32(255));
}

/* Arithmetic. */
static inline mct_v16 mct_v_shr(mct_v16 v, uint32_t n)
{
    return _mm512_sra_epi32(v, _mm_cvtsi32_si128((int)n));
}

/* Bit l: lane l of both is the same. */
static inline uint32_t mct_v_same(mct_v16 v, mct_v16 w)
{
    return _mm512_cmpeq_epi32_mask(v, w);
}

/* Lane l where bit l is set, else 0. */
static inline mct_v16 mct_v_where(uint32_t bits, mct_v16 v)
{
    return _mm512_maskz_mov_epi32((__mmask16)bits, v);
}

/* The pair at `at`, in all lanes. */
static inline mct_v16 mct_v_pair(const int16_t *at)
{
    int32_t pair;
    memcpy(&pair, at, sizeof pair);
    return _mm512_set1_epi32(pair);
}

static inline mct_v16 mct_v_pairs(const int16_t *at)
{
    return _mm512_loadu_si512(at);
}

/* acc + the two products of each lane's pairs. */
static inline mct_v16 mct_v_dot(mct_v16 acc, mct_v16 v, mct_v16 w)
{
    return _mm512_dpwssd_epi32(acc, v, w);
}

/* Pairs (x0[l], x1[l]) of sixteen bytes each. */
static inline void mct_v_interleave(int16_t *to, const int8_t *x0, const int8_t *x1)
{
    __m128i p = _mm_loadu_si128((const void *)x0), q = _mm_loadu_si128((const void *)x1);
    __m256i pairs =
        _mm256_set_m128i(_mm_unpackhi_epi8(p, q), _mm_unpacklo_epi8(p, q)); /* in order */
    _mm512_storeu_si512(to, _mm512_cvtepi8_epi16(pairs));
}

/* Taps of sixteen channels, and those of one pixel in all lanes. */
static inline mct_v16 mct_v_taps(const void *at)
{
    return _mm512_loadu_si512(at);
}

static inline mct_v16 mct_v_taps_of(const mct_x *at)
{
    int32_t taps;
    memcpy(&taps, at, sizeof taps);
    return _mm512_set1_epi32(taps);
}

/* acc + the products of each lane's taps, of x from 0 on and w. */
static inline mct_v16 mct_v_dot_taps(mct_v16 acc, mct_v16 x, mct_v16 w)
{
    return _mm512_dpbusd_epi32(acc, x, w);
}

/* MCT_V_TAPS weights. */
static inline void mct_v_copy_taps(mct_w *to, const int8_t *w)
{
    memcpy(to, w, MCT_V_TAPS);
}

/* Sixteen channels of MCT_V_TAPS pixels, the first in the lowest quarter. */
typedef __m512i mct_pixels;

static inline mct_pixels mct_v_no_pixels(void)
{
    return _mm512_setzero_si512();
}

/* The next pixels: without the first of these, with that at x. */
static inline mct_pixels mct_v_slide(mct_pixels v, const int8_t *x)
{
    return _mm512_alignr_epi32(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)x)), v, 4);
}

/* Taps from pixels: dwords change quarters, then bytes their places. */
static inline void mct_v_spread(mct_x *to, mct_pixels v)
{
    const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    v = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, v), bytes);
    _mm512_storeu_si512(to, _mm512_xor_si512(v, _mm512_set1_epi8((char)MCT_V_OFFSET)));
}

static inline mct_v16 mct_v_widen(__m128i bytes)
{
    return _mm512_cvtepi8_epi32(bytes);
}

/* Lanes saturated to int8. */
static inline __m128i mct_v_narrow(mct_v16 v)
{
    return _mm512_cvtsepi32_epi8(v);
}

/* The first n of sixteen bytes, and zeros. */
static inline mct_v16 mct_v_load_some(const int8_t *at, uint32_t n)
{
    return mct_v_widen(_mm_maskz_loadu_epi8((__mmask16)((1u << n) - 1u), at));
}

static inline void mct_v_store_some(int8_t *at, mct_v16 v, uint32_t n)
{
    _mm_mask_storeu_epi8(at, (__mmask16)((1u << n) - 1u), mct_v_narrow(v));
}

#include "mct_v_bytes_x86.h"

#endif
