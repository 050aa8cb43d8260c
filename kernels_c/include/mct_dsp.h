/*
 * Instructions of the DSP extension, for the fast kernels. With MCT_DSP_IN_C any core computes the
 * same in C: for tests on the host.
 */
#ifndef MCT_DSP_H
#define MCT_DSP_H

#include <stdint.h>
#include <string.h>

#if defined(__ARM_FEATURE_DSP) || defined(MCT_DSP_IN_C)
#define MCT_DSP 1
#else
#define MCT_DSP 0
#endif

/* For functions whose arguments are constants, or accumulators that must stay in registers. */
#define MCT_INLINE   static inline __attribute__((always_inline))
#define MCT_NOINLINE __attribute__((noinline))

#if MCT_DSP

/* Four bytes at any address. */
static inline uint32_t mct_load4(const int8_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static inline void mct_store4(int8_t *at, uint32_t word)
{
    memcpy(at, &word, sizeof word);
}

static inline void mct_store_pair(int16_t *at, uint32_t word)
{
    memcpy(at, &word, sizeof word);
}

/* n < 4 bytes, the others 0. */
static inline uint32_t mct_load_some(const int8_t *at, uint32_t n)
{
    uint32_t word = 0;
    while (n-- > 0)
        word = word << 8 | (uint8_t)at[n];
    return word;
}

#if defined(__ARM_FEATURE_DSP)

/* Bytes 0 and 2 (even) or 1 and 3 (odd), each extended to 16 bits. */
static inline uint32_t mct_even(uint32_t x)
{
    uint32_t pair;
    __asm("sxtb16 %0, %1" : "=r"(pair) : "r"(x));
    return pair;
}

static inline uint32_t mct_odd(uint32_t x)
{
    uint32_t pair;
    __asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(x));
    return pair;
}

/* Pairs (low, high) made of the halves of two others: both low, low and high, both high. */
static inline uint32_t mct_halves(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}

static inline uint32_t mct_low_high(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm("pkhbt %0, %1, %2" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}

static inline uint32_t mct_tops(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm("pkhtb %0, %1, %2, asr #16" : "=r"(pair) : "r"(b), "r"(a));
    return pair;
}

/* sum + mct_even(x), sum + mct_odd(x), half by half. */
static inline uint32_t mct_add_even(uint32_t sum, uint32_t x)
{
    __asm("sxtab16 %0, %0, %1" : "+r"(sum) : "r"(x));
    return sum;
}

static inline uint32_t mct_add_odd(uint32_t sum, uint32_t x)
{
    __asm("sxtab16 %0, %0, %1, ror #8" : "+r"(sum) : "r"(x));
    return sum;
}

/* a - b, half by half. */
static inline uint32_t mct_less(uint32_t a, uint32_t b)
{
    uint32_t pair;
    __asm("ssub16 %0, %1, %2" : "=r"(pair) : "r"(a), "r"(b));
    return pair;
}

/* The lower or the upper half of a times the lower one of b. */
static inline uint32_t mct_low_product(uint32_t a, int32_t b)
{
    uint32_t product;
    __asm("smulbb %0, %1, %2" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

static inline uint32_t mct_high_product(uint32_t a, int32_t b)
{
    uint32_t product;
    __asm("smultb %0, %1, %2" : "=r"(product) : "r"(a), "r"(b));
    return product;
}

/* acc + the products of the halves, modulo 2^32. */
static inline int32_t mct_smlad(uint32_t a, uint32_t b, int32_t acc)
{
    __asm("smlad %0, %1, %2, %0" : "+r"(acc) : "r"(a), "r"(b));
    return acc;
}

/* z + round_half_up(acc * mult / 2^32). */
static inline int32_t mct_scale(int32_t acc, int32_t mult, int32_t z)
{
    int32_t v;
    __asm("smmlar %0, %1, %2, %3" : "=r"(v) : "r"(acc), "r"(mult), "r"(z));
    return v;
}

static inline int32_t mct_sat8(int32_t v)
{
    int32_t s;
    __asm("ssat %0, #8, %1" : "=r"(s) : "r"(v));
    return s;
}

/* The same; bit (a constant) is set in bits if v is an int8. */
#define MCT_SAT8_NOTE(s, v, bits, bit)                                                             \
    __asm("ssat %0, #8, %2\n\t"                                                                    \
          "cmp %0, %2\n\t"                                                                         \
          "it eq\n\t"                                                                              \
          "orreq %1, %1, %3"                                                                       \
          : "=&r"(s), "+r"(bits)                                                                   \
          : "r"(v), "I"(bit)                                                                       \
          : "cc")

#else

static inline uint32_t mct_pair(int32_t low, int32_t high)
{
    return ((uint32_t)low & 0xffffu) | (uint32_t)high << 16;
}

static inline uint32_t mct_even(uint32_t x)
{
    return mct_pair((int8_t)x, (int8_t)(x >> 16));
}

static inline uint32_t mct_odd(uint32_t x)
{
    return mct_pair((int8_t)(x >> 8), (int8_t)(x >> 24));
}

static inline uint32_t mct_halves(uint32_t a, uint32_t b)
{
    return (a & 0xffffu) | b << 16;
}

static inline uint32_t mct_low_high(uint32_t a, uint32_t b)
{
    return (a & 0xffffu) | (b & 0xffff0000u);
}

static inline uint32_t mct_tops(uint32_t a, uint32_t b)
{
    return a >> 16 | (b & 0xffff0000u);
}

static inline uint32_t mct_add_even(uint32_t sum, uint32_t x)
{
    return mct_pair((int16_t)sum + (int8_t)x, ((int32_t)sum >> 16) + (int8_t)(x >> 16));
}

static inline uint32_t mct_add_odd(uint32_t sum, uint32_t x)
{
    return mct_add_even(sum, x >> 8);
}

static inline uint32_t mct_less(uint32_t a, uint32_t b)
{
    return ((a - b) & 0xffffu) | ((a & 0xffff0000u) - (b & 0xffff0000u));
}

static inline uint32_t mct_low_product(uint32_t a, int32_t b)
{
    return (uint32_t)((int16_t)a * (int16_t)b);
}

static inline uint32_t mct_high_product(uint32_t a, int32_t b)
{
    return (uint32_t)((int16_t)(a >> 16) * (int16_t)b);
}

static inline int32_t mct_smlad(uint32_t a, uint32_t b, int32_t acc)
{
    int32_t low = (int16_t)a * (int16_t)b, high = (int16_t)(a >> 16) * (int16_t)(b >> 16);
    return (int32_t)((uint32_t)acc + (uint32_t)low + (uint32_t)high);
}

static inline int32_t mct_scale(int32_t acc, int32_t mult, int32_t z)
{
    return z + (int32_t)(((int64_t)acc * mult + ((int64_t)1 << 31)) >> 32);
}

static inline int32_t mct_sat8(int32_t v)
{
    return v < -128 ? -128 : v > 127 ? 127 : v;
}

#define MCT_SAT8_NOTE(s, v, bits, bit)                                                             \
    do {                                                                                           \
        (s) = mct_sat8(v);                                                                         \
        if ((s) == (v))                                                                            \
            (bits) |= (bit);                                                                       \
    } while (0)

#endif

static inline uint32_t mct_load_pair(const int16_t *at)
{
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

#endif
#endif
