/* binary32 values as their bits: the classifier needs no libm. */
#ifndef MCT_FLOAT_BITS_H
#define MCT_FLOAT_BITS_H

#include <stdint.h>
#include <string.h>

#define MCT_FLOAT_INF  0x7f800000u /* bits of |x| from here on: infinite or not a number */
#define MCT_FLOAT_NORM 0x00800000u /* the smallest normal number */

/* Bits of |x|; they order like the numbers. */
static inline uint32_t mct_float_abs_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

static inline float mct_float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* 2^n, -126 <= n <= 127. */
static inline float mct_float_pow2(int32_t n)
{
    return mct_float_from_bits((uint32_t)(n + 127) << 23);
}

#endif
