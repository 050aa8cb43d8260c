/* Sixteen int32 lanes in two registers of AVX2. Pairs are two int16 a lane. */
#ifndef MCT_V16_AVX2_H
#define MCT_V16_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define MCT_V_ROWS 4 /* accumulators that fit the registers, with what they are made of */

/* Elements of windows and weights, of which one product takes so many: a pair of int16. */
#define MCT_V_TAPS   2
#define MCT_V_OFFSET 0
typedef int16_t mct_x;
typedef int16_t mct_w;

typedef struct {
    __m256i a, b; /* lanes 0 to 7, 8 to 15 */
} mct_v16;

typedef struct {
    __m256i a, b;
} mct_v64; /* constants for 64-bit numbers made of lanes */

static inline mct_v16 mct_v_load(const int32_t *at)
{
    mct_v16 v = {_mm256_loadu_si256((const void *)at), _mm256_loadu_si256((const void *)(at + 8))};
    return v;
}

static inline void mct_v_store(int32_t *at, mct_v16 v)
{
    _mm256_storeu_si256((void *)at, v.a);
    _mm256_storeu_si256((void *)(at + 8), v.b);
}

static inline mct_v16 mct_v_set(int32_t x)
{
    mct_v16 v = {_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
    return v;
}

static inline mct_v16 mct_v_add(mct_v16 v, mct_v16 w)
{
    v.a = _mm256_add_epi32(v.a, w.a);
    v.b = _mm256_add_epi32(v.b, w.b);
    return v;
}

static inline mct_v16 mct_v_sub(mct_v16 v, mct_v16 w)
{
    v.a = _mm256_sub_epi32(v.a, w.a);
    v.b = _mm256_sub_epi32(v.b, w.b);
    return v;
}

/* Of all lanes. */
static inline int32_t mct_v_sum(mct_v16 v)
{
    __m256i eight = _mm256_add_epi32(v.a, v.b);
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    four = _mm_hadd_epi32(four, four);
    return _mm_cvtsi128_si32(_mm_hadd_epi32(four, four));
}

static inline mct_v16 mct_v_mul(mct_v16 v, mct_v16 w)
{
    v.a = _mm256_mullo_epi32(v.a, w.a);
    v.b = _mm256_mullo_epi32(v.b, w.b);
    return v;
}

static inline mct_v16 mct_v_clamp(mct_v16 v, mct_v16 lo, mct_v16 hi)
{
    v.a = _mm256_min_epi32(_mm256_max_epi32(v.a, lo.a), hi.a);
    v.b = _mm256_min_epi32(_mm256_max_epi32(v.b, lo.b), hi.b);
    return v;
}

/* The larger of m and |v|. */
static inline mct_v16 mct_v_amax(mct_v16 m, mct_v16 v)
{
    m.a = _mm256_max_epi32(m.a, _mm256_abs_epi32(v.a));
    m.b = _mm256_max_epi32(m.b, _mm256_abs_epi32(v.b));
    return m;
}

static inline mct_v16 mct_v_shl(mct_v16 v, mct_v16 n)
{
    v.a = _mm256_sllv_epi32(v.a, n.a);
    v.b = _mm256_sllv_epi32(v.b, n.b);
    return v;
}

/* The low byte of each lane. */
static inline mct_v16 mct_v_low(mct_v16 v)
{
    v.a = _mm256_and_si256(v.a, _mm256_set1_epi32(255));
    v.b = _mm256_and_si256(v.b, _mm256_set1_epi32(255));
    return v;
}

/* Arithmetic. */
static inline mct_v16 mct_v_shr(mct_v16 v, uint32_t n)
{
    v.a = _mm256_sra_epi32(v.a, _mm_cvtsi32_si128((int)n));
    v.b = _mm256_sra_epi32(v.b, _mm_cvtsi32_si128((int)n));
    return v;
}

/* Bit l: lane l of both is the same. */
static inline uint32_t mct_v_same(mct_v16 v, mct_v16 w)
{
    uint32_t a = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v.a, w.a)));
    uint32_t b = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v.b, w.b)));
    return a | b << 8;
}

/* Lane l where bit l is set, else 0. */
static inline mct_v16 mct_v_where(uint32_t bits, mct_v16 v)
{
    const __m256i one = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i a = _mm256_and_si256(_mm256_set1_epi32((int)bits), one);
    __m256i b = _mm256_and_si256(_mm256_set1_epi32((int)(bits >> 8)), one);
    v.a = _mm256_and_si256(v.a, _mm256_cmpeq_epi32(a, one));
    v.b = _mm256_and_si256(v.b, _mm256_cmpeq_epi32(b, one));
    return v;
}

/* The pair at `at`, in all lanes. */
static inline mct_v16 mct_v_pair(const int16_t *at)
{
    int32_t pair;
    memcpy(&pair, at, sizeof pair);
    return mct_v_set(pair);
}

static inline mct_v16 mct_v_pairs(const int16_t *at)
{
    mct_v16 v = {_mm256_loadu_si256((const void *)at), _mm256_loadu_si256((const void *)(at + 16))};
    return v;
}

/* acc + the two products of each lane's pairs. */
static inline mct_v16 mct_v_dot(mct_v16 acc, mct_v16 v, mct_v16 w)
{
    acc.a = _mm256_add_epi32(acc.a, _mm256_madd_epi16(v.a, w.a));
    acc.b = _mm256_add_epi32(acc.b, _mm256_madd_epi16(v.b, w.b));
    return acc;
}

/* Pairs of the lanes of two times sixteen bytes. */
static inline void mct_v_store_pairs(int16_t *to, __m128i x0, __m128i x1)
{
    __m256i p = _mm256_cvtepi8_epi16(x0), q = _mm256_cvtepi8_epi16(x1);
    __m256i low = _mm256_unpacklo_epi16(p, q), high = _mm256_unpackhi_epi16(p, q);
    _mm256_storeu_si256((void *)to, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((void *)(to + 16), _mm256_permute2x128_si256(low, high, 0x31));
}

/* Pairs (x0[l], x1[l]) of sixteen bytes each. */
static inline void mct_v_interleave(int16_t *to, const int8_t *x0, const int8_t *x1)
{
    mct_v_store_pairs(to, _mm_loadu_si128((const void *)x0), _mm_loadu_si128((const void *)x1));
}

/* Sixteen channels of MCT_V_TAPS pixels. */
typedef struct {
    __m128i first, second;
} mct_pixels;

static inline mct_pixels mct_v_no_pixels(void)
{
    mct_pixels none = {_mm_setzero_si128(), _mm_setzero_si128()};
    return none;
}

/* The next pixels: without the first of these, with that at x. */
static inline mct_pixels mct_v_slide(mct_pixels v, const int8_t *x)
{
    v.first = v.second;
    v.second = _mm_loadu_si128((const void *)x);
    return v;
}

/* Taps from pixels. */
static inline void mct_v_spread(mct_x *to, mct_pixels v)
{
    mct_v_store_pairs(to, v.first, v.second);
}

static inline mct_v16 mct_v_widen(__m128i bytes)
{
    mct_v16 v = {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
    return v;
}

/* Lanes saturated to int8. */
static inline __m128i mct_v_narrow(mct_v16 v)
{
    __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
    return _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
}

#include "mct_v_bytes_x86.h"
#include "mct_v_taps_pairs.h"

#endif
