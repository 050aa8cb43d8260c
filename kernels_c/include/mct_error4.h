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

#endif
#endif
