/*
 * The arithmetic of SPEC-arithmetic that more than one kernel needs, or that the executor needs
 * between two kernels. Section numbers are the specification's.
 *
 * No input causes undefined behaviour: where a bound of the specification keeps a value small, the
 * bound makes the result exact, but a damaged state only gives a wrong number. Left shifts of
 * signed values are multiplications or done unsigned.
 */
#ifndef MCT_ARITH_H
#define MCT_ARITH_H

#include <stdint.h>

/* C leaves >> of a negative value to the compiler; everything here needs the arithmetic one. */
typedef char mct_needs_arithmetic_shift[(-1 >> 1) == -1 ? 1 : -1];

#define MCT_LB_127         1788 /* mct_lb(127) */
#define MCT_LB_HEADROOM    85   /* a third of a bit, Q8 */
#define MCT_STEP_MAX       INT32_MAX
#define MCT_ERROR_RAIL     127
#define MCT_WEIGHT_RAIL    127
#define MCT_AMAX_SATURATED 256 /* amax of a tensor in which an element saturated */

static inline int32_t mct_sat(int32_t v, int32_t lo, int32_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

static inline int32_t mct_sat64(int64_t v, int32_t lo, int32_t hi)
{
    return v < lo ? lo : v > hi ? hi : (int32_t)v;
}

/* acc + a * b, modulo 2^32: the bounds of sections 4 and 6 make it exact. */
static inline int32_t mct_mac(int32_t acc, int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)acc + (uint32_t)a * (uint32_t)b);
}

/* Section 2: z + round_half_up(acc * 2^shift * mult / 2^32), before the clamp. */
static inline int32_t mct_requantize(int32_t acc, int32_t mult, uint32_t shift, int32_t z)
{
    int32_t shifted = (int32_t)((uint32_t)acc << shift);
    return z + (int32_t)(((int64_t)shifted * mult + ((int64_t)1 << 31)) >> 32);
}

/* ---- masks (section 1): bit i of a tensor in HWC order ---- */

static inline uint32_t mct_mask_get(const uint8_t *mask, uint32_t i)
{
    return mask == 0 ? 1u : ((uint32_t)mask[i >> 3] >> (i & 7u)) & 1u;
}

static inline void mct_mask_put(uint8_t *mask, uint32_t i, uint32_t on)
{
    uint32_t bit = i & 7u;
    mask[i >> 3] = (uint8_t)((mask[i >> 3] & ~(1u << bit)) | (on << bit));
}

/* ---- random bits (section 5) ---- */

static inline uint32_t mct_mix32(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h *= 0x846ca68bu;
    return h ^ (h >> 16);
}

/* The key of the instruction numbered id in the step'th training step. */
static inline uint32_t mct_random_key(uint32_t seed, uint32_t step, uint32_t id)
{
    return mct_mix32(mct_mix32(mct_mix32(seed) ^ step) ^ id);
}

/* 16 random bits for element i. */
static inline uint32_t mct_random16(uint32_t key, uint32_t i)
{
    uint32_t pair = mct_mix32(key + 0x9e3779b9u * (i >> 1));
    return (i & 1u) != 0 ? pair >> 16 : pair & 0xffffu;
}

/* ---- errors (section 6) ---- */

/*
 * M[g] for constants (mant, exp) of a group: error = acc * M[g] * 2^-32 in units of 2^e_out.
 * n < 0 cannot be with the floor of mct_error_exponent.
 */
static inline uint32_t mct_error_multiplier(int32_t mant, int32_t exp, int32_t f, int32_t e_out,
                                            int32_t e_y)
{
    int32_t n = exp + f - 32 + e_out - e_y;
    if (n > 31 || mant <= 0)
        return 0;
    return n <= 0 ? (uint32_t)mant : ((uint32_t)mant + (1u << (n - 1))) >> n;
}

/* a(q): an error q of exponent e_in, in units of 2^(e_out - 32). |q| <= 128: |a| <= 2^61. */
static inline int64_t mct_align(int32_t q, int32_t e_in, int32_t e_out)
{
    int32_t d = 32 + e_in - e_out;
    if (d >= 0)
        return (int64_t)q * ((int64_t)1 << (d > 54 ? 54 : d));
    return q >> (d < -31 ? 31 : -d);
}

/* ---- exponents (section 7) ---- */

/* Base-2 logarithm in Q8 of 1 <= a <= 256, linear between powers of two. */
static inline int32_t mct_lb(uint32_t a)
{
    uint32_t msb = 0;
    while ((a >> (msb + 1)) != 0)
        msb++;
    return (int32_t)(256u * msb + ((a << (8u - msb)) - 256u));
}

/* The smallest exponent of an error from n constants (mant, exp), INT32_MIN if each mant is 0. */
static inline int32_t mct_exponent_floor(const int32_t *mant, const int8_t *exp, uint32_t n,
                                         int32_t f, int32_t e_y)
{
    int32_t least = INT32_MAX;
    for (uint32_t g = 0; g < n; g++) {
        if (mant[g] > 0 && exp[g] < least)
            least = exp[g];
    }
    return least == INT32_MAX ? INT32_MIN : e_y + 32 - f - least;
}

/*
 * Exponent of an error tensor with predictor p (Q8) under a top error of l_top; floor is
 * mct_exponent_floor, INT32_MIN for error_sum. Kept in 16 bits, as tensors store it.
 */
static inline int32_t mct_error_exponent(int32_t l_top, int32_t p, int32_t floor)
{
    int32_t e = (l_top + p + MCT_LB_HEADROOM - MCT_LB_127 + 255) >> 8;
    return mct_sat(e < floor ? floor : e, INT16_MIN, INT16_MAX);
}

/* The predictor after a tensor of exponent e and amax (mct_error_stats) was written. */
static inline int32_t mct_predictor_update(int32_t p, int32_t e, uint32_t amax, int32_t l_top)
{
    int32_t seen;
    if (amax == 0)
        return p;
    seen = mct_sat(256 * e + mct_lb(amax) - l_top, INT16_MIN, INT16_MAX);
    return seen > p ? seen : p + ((seen - p) >> 4);
}

/* ---- updates (section 8) ---- */

/*
 * lr = mant * 2^-exp from the bits of a finite binary32 >= 0; mant is 0 for a rate below the
 * normal numbers.
 */
static inline uint32_t mct_rate_mant(uint32_t bits)
{
    return bits < 0x800000u ? 0u : ((bits & 0x7fffffu) | 0x800000u) << 7;
}

static inline int32_t mct_rate_exp(uint32_t bits)
{
    return 157 - (int32_t)(bits >> 23);
}

/* m of a channel constant and a rate, below 2^31. */
static inline uint32_t mct_step_mult(int32_t mant, uint32_t rate_mant)
{
    uint64_t product = (uint64_t)(uint32_t)(mant < 0 ? 0 : mant) * (rate_mant & 0x7fffffffu);
    return (uint32_t)((product + (1u << 30)) >> 31);
}

/* s of a channel constant and a rate; bits of fraction, 0 for a bias. */
static inline int32_t mct_step_shift(int32_t exp, int32_t rate_exp, int32_t e_y, int32_t bits)
{
    return exp + rate_exp - 31 - e_y - bits;
}

/* v * 2^k, saturated. */
static inline int32_t mct_shift_left_sat(int64_t v, int32_t k)
{
    int64_t limit = k > 31 ? 0 : MCT_STEP_MAX >> k;
    if (v > limit)
        return MCT_STEP_MAX;
    if (v < -limit)
        return -MCT_STEP_MAX;
    return v == 0 ? 0 : (int32_t)(v * ((int64_t)1 << k));
}

/*
 * round_stochastically(d * m * 2^-s), saturated, from 16 random bits r. |d * m| <= 2^62, and the
 * rounding term is below 2^62: no overflow for any d, any m < 2^31, any s.
 */
static inline int32_t mct_step(int32_t d, uint32_t m, int32_t s, uint32_t r)
{
    int64_t v = (int64_t)d * (int64_t)m;
    if (m == 0 || s >= 63)
        return 0;
    if (s <= 0)
        return mct_shift_left_sat(v, s < -63 ? 63 : -s);
    v += s >= 16 ? (int64_t)r << (s - 16) : (int64_t)(r >> (16 - s));
    return mct_sat64(v >> s, -MCT_STEP_MAX, MCT_STEP_MAX);
}

/* A bias after its update, within B_max of section 4; reach is S. */
static inline int32_t mct_bound_bias(int64_t bias, uint32_t shift, int32_t reach)
{
    int32_t bound = (INT32_MAX >> shift) - reach;
    return mct_sat64(bias, -bound, bound);
}

#endif
