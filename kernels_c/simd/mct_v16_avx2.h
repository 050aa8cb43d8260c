/* Sixteen int32 lanes in two registers of AVX2. Pairs are two int16 a lane. */
#ifndef MCT_V16_AVX2_H
#define MCT_V16_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define MCT_V_ROWS 4 /* accumulators that fit the registers, with what they are made of */

typedef struct {
    __m256i a, b; /* lanes 0 to 7, 8 to 15 */
} mct_v16;

typedef __m256i mct_r16; /* sixteen times 16 random bits */

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

/* Pairs (x0[l], x1[l]) of sixteen bytes each. */
static inline void mct_v_interleave(int16_t *to, const int8_t *x0, const int8_t *x1)
{
    __m256i p = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)x0));
    __m256i q = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)x1));
    __m256i low = _mm256_unpacklo_epi16(p, q), high = _mm256_unpackhi_epi16(p, q);
    _mm256_storeu_si256((void *)to, _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((void *)(to + 16), _mm256_permute2x128_si256(low, high, 0x31));
}

static inline mct_v16 mct_v_load_s8(const int8_t *at)
{
    __m128i x = _mm_loadu_si128((const void *)at);
    mct_v16 v = {_mm256_cvtepi8_epi32(x), _mm256_cvtepi8_epi32(_mm_srli_si128(x, 8))};
    return v;
}

/* Lanes that are int8. */
static inline void mct_v_store_s8(int8_t *at, mct_v16 v)
{
    __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.a, v.b), 0xd8);
    __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
    _mm_storeu_si128((void *)at, bytes);
}

/* The high words of eight 64-bit numbers: even lanes, odd lanes. */
static inline __m256i mct_v_high(__m256i even, __m256i odd)
{
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}

static inline __m256i mct_v_odd(__m256i v)
{
    return _mm256_srli_epi64(v, 32);
}

static inline __m256i mct_v_scale_half(__m256i v, __m256i m)
{
    const __m256i half = _mm256_set1_epi64x((long long)1 << 31);
    return mct_v_high(_mm256_add_epi64(_mm256_mul_epi32(v, m), half),
                      _mm256_add_epi64(_mm256_mul_epi32(mct_v_odd(v), mct_v_odd(m)), half));
}

/* (v * m + 2^31) >> 32 */
static inline mct_v16 mct_v_scale(mct_v16 v, mct_v16 m)
{
    v.a = mct_v_scale_half(v.a, m.a);
    v.b = mct_v_scale_half(v.b, m.b);
    return v;
}

/* mct_random16 of elements i to i + 15, i even. */
static inline mct_r16 mct_v_random(uint32_t key, uint32_t i)
{
    const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i n = _mm256_add_epi32(_mm256_set1_epi32((int)(i >> 1)), step);
    __m256i h = _mm256_add_epi32(_mm256_set1_epi32((int)key),
                                 _mm256_mullo_epi32(n, _mm256_set1_epi32((int)0x9e3779b9u)));
    h = _mm256_xor_si256(h, _mm256_srli_epi32(h, 16));
    h = _mm256_mullo_epi32(h, _mm256_set1_epi32(0x7feb352d));
    h = _mm256_xor_si256(h, _mm256_srli_epi32(h, 15));
    h = _mm256_mullo_epi32(h, _mm256_set1_epi32((int)0x846ca68bu));
    return _mm256_xor_si256(h, _mm256_srli_epi32(h, 16));
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

#endif
