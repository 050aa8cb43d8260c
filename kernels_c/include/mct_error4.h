/*
 * The end of every operator that makes an error tensor (mct_error.h), four elements at a time, for
 * cores with the DSP extension: their index is a multiple of 4.
 */
#ifndef MCT_ERROR4_H
#define MCT_ERROR4_H

#include "mct_lanes.h"
#include "mct_error.h"

#if MCT_DSP

/* What is seen while a tensor is written: of each byte lane the largest and smallest error. */
typedef struct {
    uint32_t max, min;
} mct_error_range;

/* mct_mix32 of two numbers; the constants are loaded, which is shorter than to compute them. */
MCT_INLINE void mct_mix_both(uint32_t *a, uint32_t *b)
{
    uint32_t first = mct_opaque(0x7feb352du), second = mct_opaque(0x846ca68bu);
    uint32_t x = *a ^ *a >> 16, y = *b ^ *b >> 16;
    x *= first;
    y *= first;
    x ^= x >> 15;
    y ^= y >> 15;
    x *= second;
    y *= second;
    *a = x ^ x >> 16;
    *b = y ^ y >> 16;
}

/* The larger (or smaller) of each pair of signed bytes. */
static inline uint32_t mct_max4(uint32_t a, uint32_t b)
{
#if defined(__ARM_FEATURE_DSP)
    uint32_t m;
    __asm("ssub8 %0, %1, %2\n\t"
          "sel %0, %1, %2"
          : "=&r"(m)
          : "r"(a), "r"(b));
    return m;
#else
    uint32_t m = 0;
    for (uint32_t j = 0; j < 32; j += 8)
        m |= ((int8_t)(a >> j) >= (int8_t)(b >> j) ? a : b) & 255u << j;
    return m;
#endif
}

static inline uint32_t mct_min4(uint32_t a, uint32_t b)
{
#if defined(__ARM_FEATURE_DSP)
    uint32_t m;
    __asm("ssub8 %0, %1, %2\n\t"
          "sel %0, %2, %1"
          : "=&r"(m)
          : "r"(a), "r"(b));
    return m;
#else
    uint32_t m = 0;
    for (uint32_t j = 0; j < 32; j += 8)
        m |= ((int8_t)(a >> j) >= (int8_t)(b >> j) ? b : a) & 255u << j;
    return m;
#endif
}

static inline void mct_range_into(const mct_error_range *range, mct_error_stats *stats)
{
    for (uint32_t j = 0; j < 32; j += 8) {
        uint32_t up = (uint32_t)(int8_t)(range->max >> j);
        uint32_t down = (uint32_t) - (int8_t)(range->min >> j);
        uint32_t size = up > down ? up : down;
        if (size > stats->amax)
            stats->amax = size;
    }
}

/* Mask bits of elements i to i + 3. */
static inline uint32_t mct_mask_get4(const uint8_t *mask, uint32_t i)
{
    return mask == NULL ? 15u : (uint32_t)mask[i >> 3] >> (i & 4u) & 15u;
}

/* Elements i to i + 3, one by one. */
void mct_error_write_slow(const mct_error *e, uint32_t i, const int32_t acc[4],
                          const uint32_t mult[4], int8_t *e_x, mct_error_stats *stats);

/*
 * As mct_error_write for elements i to i + 3 from a and the multipliers m. Saturation and skip
 * errors take the slow way.
 */
MCT_INLINE void mct_error_write4(const mct_error *e, uint32_t i, mct_acc4 a, const uint32_t m[4],
                                 int8_t *e_x, mct_error_range *range, mct_error_stats *stats)
{
    uint32_t mask = mct_mask_get4(e->mask, i), word = 0;
    if (mask != 0) {
        uint32_t golden = mct_opaque(0x9e3779b9u);
        uint32_t r0 = e->key + golden * (i >> 1), r1 = r0 + golden;
        mct_mix_both(&r0, &r1);
        int32_t q0 = (int32_t)(((int64_t)a.a0 * (int32_t)m[0] + (r0 << 16)) >> 32);
        int32_t q1 = (int32_t)(((int64_t)a.a1 * (int32_t)m[1] + (r0 & 0xffff0000u)) >> 32);
        int32_t q2 = (int32_t)(((int64_t)a.a2 * (int32_t)m[2] + (r1 << 16)) >> 32);
        int32_t q3 = (int32_t)(((int64_t)a.a3 * (int32_t)m[3] + (r1 & 0xffff0000u)) >> 32);
        if (e->skip != NULL || (uint32_t)(q0 + 127) > 254u || (uint32_t)(q1 + 127) > 254u ||
            (uint32_t)(q2 + 127) > 254u || (uint32_t)(q3 + 127) > 254u) {
            const int32_t acc[4] = {a.a0, a.a1, a.a2, a.a3};
            mct_error_write_slow(e, i, acc, m, e_x, stats);
            return;
        }
        word = mct_bytes4(q0, q1, q2, q3);
        if (mask != 15u)
            word &= (mask * 0x00204081u & 0x01010101u) * 255u; /* bits to bytes */
        range->max = mct_max4(word, range->max);
        range->min = mct_min4(word, range->min);
    }
    memcpy(e_x + i, &word, sizeof word);
}

#endif
#endif
