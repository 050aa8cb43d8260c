/*
 * The ends of all kernels: a block of sixteen sums a pixel becomes outputs with their mask, or
 * errors. Channels at the edge leave some of the sixteen lanes without use.
 */
#ifndef MCT_SIMD_PUT_H
#define MCT_SIMD_PUT_H

#include "mct_error.h"
#include "mct_simd_gemm.h"

/* Sixteen or fewer bytes. */
static inline void mct_put_bytes(int8_t *to, mct_v16 v, uint32_t n)
{
    if (n == MCT_BLOCK)
        mct_v_store_s8(to, v);
    else
        mct_v_store_some(to, v, n);
}

/* Zeros behind them. */
static inline mct_v16 mct_get_bytes(const int8_t *from, uint32_t n)
{
    return n == MCT_BLOCK ? mct_v_load_s8(from) : mct_v_load_some(from, n);
}

static inline const int8_t *mct_some_bytes(int8_t room[MCT_BLOCK], const int8_t *from, uint32_t n)
{
    if (n == MCT_BLOCK)
        return from;
    memcpy(room, from, n);
    return room;
}

/* The low n bits from bit `at` of a mask on; the bits beside them stay. */
static inline void mct_put_bits(uint8_t *mask, uint32_t at, uint32_t bits, uint32_t n)
{
    mask += at >> 3;
    if (at % 8 == 0 && n % 8 == 0) {
        mask[0] = (uint8_t)bits;
        if (n > 8)
            mask[1] = (uint8_t)(bits >> 8);
        return;
    }
    for (uint32_t room = ((1u << n) - 1u) << at % 8, put = bits << at % 8; room != 0;
         room >>= 8, put >>= 8, mask++)
        *mask = (uint8_t)((*mask & ~room) | (put & room));
}

static inline uint32_t mct_get_bits(const uint8_t *mask, uint32_t at, uint32_t n)
{
    uint32_t bits = 0, last = (at + n - 1) >> 3, first = at >> 3;
    if (mask == NULL)
        return (1u << n) - 1u;
    for (uint32_t i = last + 1; i > first; i--)
        bits = bits << 8 | mask[i - 1];
    return bits >> at % 8 & ((1u << n) - 1u);
}

static inline mct_x *mct_fill_to(mct_x *to, int8_t z, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (mct_x)(z + MCT_V_OFFSET);
    return to + n;
}

/*
 * What sums of MCT_V_TAPS products start from, to end at `bias` and the products of signed bytes
 * less z.
 */
static inline mct_v16 mct_start_of(mct_v16 bias, int8_t z, const mct_w *w, uint32_t steps)
{
    mct_x offset[MCT_V_TAPS];
    mct_v16 sum = mct_v_set(0);
    if (z + MCT_V_OFFSET == 0)
        return bias;
    mct_fill_to(offset, z, MCT_V_TAPS);
    for (; steps > 0; steps--, w += MCT_V_TAPS * MCT_BLOCK)
        sum = mct_v_dot_taps(sum, mct_v_taps_of(offset), mct_v_taps(w));
    return mct_v_sub(bias, sum);
}

/* A block of channels of a convolution's output, from channel o on. */
typedef struct {
    mct_v16 start; /* of the sums: the bias, less what the windows' offset adds */
    mct_v16 mult, shift, lo, hi;
    mct_v64 half; /* with the zero point */
    uint32_t n;   /* channels, at most 16 */
    uint32_t c;   /* from pixel to pixel */
    int shifted, clamped;
} mct_outputs;

/* w: their weights, `steps` times MCT_V_TAPS of each channel. */
static mct_outputs mct_outputs_of(const mct_conv2d *p, uint32_t o, const mct_w *w, uint32_t steps)
{
    uint32_t c = p->conv.y.c, n = c - o < MCT_BLOCK ? c - o : MCT_BLOCK;
    int32_t bias[MCT_BLOCK] = {0}, mult[MCT_BLOCK] = {0}, shift[MCT_BLOCK] = {0}, any = 0;
    memcpy(bias, p->bias + o, n * sizeof *bias);
    memcpy(mult, p->mult + o, n * sizeof *mult);
    for (uint32_t i = 0; i < n; i++) {
        shift[i] = p->shift[o + i];
        any |= shift[i];
    }
    mct_outputs out = {.start = mct_start_of(mct_v_load(bias), 0, w, steps),
                       .mult = mct_v_load(mult),
                       .shift = mct_v_load(shift),
                       .lo = mct_v_set(p->lo),
                       .hi = mct_v_set(p->hi),
                       .half = mct_v_half(p->z_y),
                       .n = n,
                       .c = c,
                       .shifted = any != 0,
                       .clamped = p->lo != INT8_MIN || p->hi != INT8_MAX};
    return out;
}

/* Requantizes a pixel's sums to y, whose first element has bit `bit` in mask (or NULL). */
static inline void mct_put_output(const mct_outputs *out, mct_v16 v, int8_t *y, uint8_t *mask,
                                  uint32_t bit)
{
    if (out->shifted)
        v = mct_v_shl(v, out->shift);
    v = mct_v_scale(v, out->mult, out->half);
    if (out->clamped || mask != NULL) { /* else bytes saturate as they are stored */
        mct_v16 clamped = mct_v_clamp(v, out->lo, out->hi);
        if (mask != NULL)
            mct_put_bits(mask, bit, mct_v_same(v, clamped), out->n);
        v = clamped;
    }
    mct_put_bytes(y, v, out->n);
}

/* What is counted while errors are written, largest sizes a lane each. */
typedef struct {
    mct_v16 amax;
    uint32_t saturated;
    mct_error_stats odd; /* of what was written one by one */
} mct_seen;

static inline mct_seen mct_seen_nothing(void)
{
    mct_seen seen = {mct_v_set(0), 0, {0, 0}};
    return seen;
}

static void mct_seen_into(const mct_seen *seen, mct_error_stats *stats)
{
    int32_t amax[MCT_BLOCK];
    mct_v_store(amax, seen->amax);
    for (uint32_t i = 0; i < MCT_BLOCK; i++)
        stats->amax = (uint32_t)amax[i] > stats->amax ? (uint32_t)amax[i] : stats->amax;
    stats->amax = seen->odd.amax > stats->amax ? seen->odd.amax : stats->amax;
    stats->saturated += seen->saturated + seen->odd.saturated;
    if (seen->saturated != 0)
        stats->amax = MCT_AMAX_SATURATED;
}

/* A block of channels of an error tensor. */
typedef struct {
    const mct_error *error;
    mct_v16 mult;
    uint32_t n, c;
} mct_errors;

/* One by one. */
static void mct_put_odd_error(const mct_errors *out, uint32_t i, mct_v16 v, int8_t *e_x,
                              mct_seen *seen)
{
    int32_t acc[MCT_BLOCK], mult[MCT_BLOCK];
    mct_v_store(acc, v);
    mct_v_store(mult, out->mult);
    for (uint32_t j = 0; j < out->n; j++)
        mct_error_write(out->error, i + j, acc[j], (uint32_t)mult[j], e_x, &seen->odd);
}

/* The errors e_x[i .. i + n - 1] from acc; i is even. */
static inline void mct_put_error(const mct_errors *out, uint32_t i, mct_v16 acc, int8_t *e_x,
                                 mct_seen *seen)
{
    const mct_error *e = out->error;
    const mct_v16 rail = mct_v_set(MCT_ERROR_RAIL), low = mct_v_set(-MCT_ERROR_RAIL);
    uint32_t on = mct_get_bits(e->mask, i, out->n);
    mct_r16 random = mct_v_random(e->key, i);
    mct_v16 v, q, skip;
    if (e->skip != NULL) {
        skip = mct_get_bytes(e->skip + i, out->n);
        v = mct_v_round(acc, out->mult, random, &skip, 32 + e->e_skip - e->e_out);
    } else {
        v = mct_v_round(acc, out->mult, random, NULL, 0);
    }
    q = mct_v_clamp(v, low, rail);
    seen->saturated += (uint32_t)__builtin_popcount(on & ~mct_v_same(v, q));
    q = mct_v_where(on, q);
    seen->amax = mct_v_amax(seen->amax, q);
    mct_put_bytes(e_x + i, q, out->n);
}

/* The same for any i. */
static inline void mct_put_any_error(const mct_errors *out, uint32_t i, mct_v16 v, int8_t *e_x,
                                     mct_seen *seen)
{
    if (i % 2 == 0)
        mct_put_error(out, i, v, e_x, seen);
    else /* a pair of random numbers starts before i */
        mct_put_odd_error(out, i, v, e_x, seen);
}

#endif
