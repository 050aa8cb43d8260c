/* Sixteen int32 lanes in four registers of NEON (AArch64). Pairs are two int16 a lane. */
#ifndef MCT_V16_NEON_H
#define MCT_V16_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define MCT_V_ROWS 4 /* accumulators that fit the registers, with what they are made of */

/* Elements of windows and weights, of which one product takes so many: a pair of int16. */
#define MCT_V_TAPS   2
#define MCT_V_OFFSET 0
typedef int16_t mct_x;
typedef int16_t mct_w;

typedef struct {
    int32x4_t a, b, c, d; /* lanes 0 to 3, 4 to 7, ... */
} mct_v16;

/* Applies f(v.part, w.part) to all parts. */
#define MCT_V_EACH(f, v, w)                                                                        \
    mct_v16 each = {f((v).a, (w).a), f((v).b, (w).b), f((v).c, (w).c), f((v).d, (w).d)};           \
    return each

static inline mct_v16 mct_v_load(const int32_t *at)
{
    mct_v16 v = {vld1q_s32(at), vld1q_s32(at + 4), vld1q_s32(at + 8), vld1q_s32(at + 12)};
    return v;
}

static inline void mct_v_store(int32_t *at, mct_v16 v)
{
    vst1q_s32(at, v.a);
    vst1q_s32(at + 4, v.b);
    vst1q_s32(at + 8, v.c);
    vst1q_s32(at + 12, v.d);
}

static inline mct_v16 mct_v_set(int32_t x)
{
    int32x4_t part = vdupq_n_s32(x);
    mct_v16 v = {part, part, part, part};
    return v;
}

static inline mct_v16 mct_v_add(mct_v16 v, mct_v16 w)
{
    MCT_V_EACH(vaddq_s32, v, w);
}

static inline mct_v16 mct_v_sub(mct_v16 v, mct_v16 w)
{
    MCT_V_EACH(vsubq_s32, v, w);
}

/* Of all lanes. */
static inline int32_t mct_v_sum(mct_v16 v)
{
    return vaddvq_s32(vaddq_s32(vaddq_s32(v.a, v.b), vaddq_s32(v.c, v.d)));
}

static inline mct_v16 mct_v_mul(mct_v16 v, mct_v16 w)
{
    MCT_V_EACH(vmulq_s32, v, w);
}

static inline mct_v16 mct_v_least(mct_v16 v, mct_v16 w)
{
    MCT_V_EACH(vminq_s32, v, w);
}

static inline mct_v16 mct_v_most(mct_v16 v, mct_v16 w)
{
    MCT_V_EACH(vmaxq_s32, v, w);
}

static inline mct_v16 mct_v_clamp(mct_v16 v, mct_v16 lo, mct_v16 hi)
{
    return mct_v_least(mct_v_most(v, lo), hi);
}

/* The larger of m and |v|. */
static inline mct_v16 mct_v_amax(mct_v16 m, mct_v16 v)
{
    mct_v16 size = {vabsq_s32(v.a), vabsq_s32(v.b), vabsq_s32(v.c), vabsq_s32(v.d)};
    return mct_v_most(m, size);
}

static inline mct_v16 mct_v_shl(mct_v16 v, mct_v16 n)
{
    MCT_V_EACH(vshlq_s32, v, n);
}

/* The low byte of each lane. */
static inline mct_v16 mct_v_low(mct_v16 v)
{
    MCT_V_EACH(vandq_s32, v, mct_v_set(255));
}

/* Arithmetic. */
static inline mct_v16 mct_v_shr(mct_v16 v, uint32_t n)
{
    return mct_v_shl(v, mct_v_set(-(int32_t)n));
}

static inline uint32x4_t mct_v_bit_of(void)
{
    const uint32_t bits[4] = {1, 2, 4, 8};
    return vld1q_u32(bits);
}

static inline uint32_t mct_v_same_part(int32x4_t v, int32x4_t w)
{
    return vaddvq_u32(vandq_u32(vceqq_s32(v, w), mct_v_bit_of()));
}

/* Bit l: lane l of both is the same. */
static inline uint32_t mct_v_same(mct_v16 v, mct_v16 w)
{
    return mct_v_same_part(v.a, w.a) | mct_v_same_part(v.b, w.b) << 4 |
           mct_v_same_part(v.c, w.c) << 8 | mct_v_same_part(v.d, w.d) << 12;
}

static inline int32x4_t mct_v_where_part(uint32_t bits, int32x4_t v)
{
    uint32x4_t on = vtstq_u32(vdupq_n_u32(bits), mct_v_bit_of());
    return vandq_s32(vreinterpretq_s32_u32(on), v);
}

/* Lane l where bit l is set, else 0. */
static inline mct_v16 mct_v_where(uint32_t bits, mct_v16 v)
{
    v.a = mct_v_where_part(bits, v.a);
    v.b = mct_v_where_part(bits >> 4, v.b);
    v.c = mct_v_where_part(bits >> 8, v.c);
    v.d = mct_v_where_part(bits >> 12, v.d);
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
    mct_v16 v = {vreinterpretq_s32_s16(vld1q_s16(at)), vreinterpretq_s32_s16(vld1q_s16(at + 8)),
                 vreinterpretq_s32_s16(vld1q_s16(at + 16)),
                 vreinterpretq_s32_s16(vld1q_s16(at + 24))};
    return v;
}

static inline int32x4_t mct_v_products(int32x4_t v, int32x4_t w)
{
    int16x8_t x = vreinterpretq_s16_s32(v), y = vreinterpretq_s16_s32(w);
    return vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}

/* acc + the two products of each lane's pairs. */
static inline mct_v16 mct_v_dot(mct_v16 acc, mct_v16 v, mct_v16 w)
{
    acc.a = vaddq_s32(acc.a, mct_v_products(v.a, w.a));
    acc.b = vaddq_s32(acc.b, mct_v_products(v.b, w.b));
    acc.c = vaddq_s32(acc.c, mct_v_products(v.c, w.c));
    acc.d = vaddq_s32(acc.d, mct_v_products(v.d, w.d));
    return acc;
}

/* Pairs of the lanes of two times sixteen bytes. */
static inline void mct_v_store_pairs(int16_t *to, int8x16_t x0, int8x16_t x1)
{
    int8x16_t low = vzip1q_s8(x0, x1), high = vzip2q_s8(x0, x1);
    vst1q_s16(to, vmovl_s8(vget_low_s8(low)));
    vst1q_s16(to + 8, vmovl_high_s8(low));
    vst1q_s16(to + 16, vmovl_s8(vget_low_s8(high)));
    vst1q_s16(to + 24, vmovl_high_s8(high));
}

/* Pairs (x0[l], x1[l]) of sixteen bytes each. */
static inline void mct_v_interleave(int16_t *to, const int8_t *x0, const int8_t *x1)
{
    mct_v_store_pairs(to, vld1q_s8(x0), vld1q_s8(x1));
}

/* Sixteen channels of MCT_V_TAPS pixels. */
typedef struct {
    int8x16_t first, second;
} mct_pixels;

static inline mct_pixels mct_v_no_pixels(void)
{
    mct_pixels none = {vdupq_n_s8(0), vdupq_n_s8(0)};
    return none;
}

/* The next pixels: without the first of these, with that at x. */
static inline mct_pixels mct_v_slide(mct_pixels v, const int8_t *x)
{
    v.first = v.second;
    v.second = vld1q_s8(x);
    return v;
}

/* Taps from pixels. */
static inline void mct_v_spread(mct_x *to, mct_pixels v)
{
    mct_v_store_pairs(to, v.first, v.second);
}

static inline mct_v16 mct_v_widen(int8x16_t x)
{
    int16x8_t low = vmovl_s8(vget_low_s8(x)), high = vmovl_high_s8(x);
    mct_v16 v = {vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
                 vmovl_high_s16(high)};
    return v;
}

/* Lanes saturated to int8. */
static inline int8x16_t mct_v_narrow(mct_v16 v)
{
    int16x8_t low = vqmovn_high_s32(vqmovn_s32(v.a), v.b);
    int16x8_t high = vqmovn_high_s32(vqmovn_s32(v.c), v.d);
    return vqmovn_high_s16(vqmovn_s16(low), high);
}

static inline mct_v16 mct_v_load_s8(const int8_t *at)
{
    return mct_v_widen(vld1q_s8(at));
}

static inline void mct_v_store_s8(int8_t *at, mct_v16 v)
{
    vst1q_s8(at, mct_v_narrow(v));
}

/* Sixteen nibbles from 0 on, of each byte the low one first. */
static inline mct_v16 mct_v_load_nibbles(const uint8_t *at)
{
    uint8x8_t x = vld1_u8(at), low = vand_u8(x, vdup_n_u8(15)), high = vshr_n_u8(x, 4);
    return mct_v_widen(vreinterpretq_s8_u8(vcombine_u8(vzip1_u8(low, high), vzip2_u8(low, high))));
}

/* The low four bits of lanes that are int8. */
static inline void mct_v_store_nibbles(uint8_t *at, mct_v16 v)
{
    uint8x16_t x = vandq_u8(vreinterpretq_u8_s8(mct_v_narrow(v)), vdupq_n_u8(15));
    uint8x8_t low = vget_low_u8(x), high = vget_high_u8(x);
    vst1_u8(at, vorr_u8(vuzp1_u8(low, high), vshl_n_u8(vuzp2_u8(low, high), 4)));
}

#include "mct_v_taps_pairs.h"

#endif
