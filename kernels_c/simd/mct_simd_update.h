/* Steps of sixteen weights or biases (section 8). */
#ifndef MCT_SIMD_UPDATE_H
#define MCT_SIMD_UPDATE_H

#include "../src/update/mct_weight_row.h"
#include "mct_simd_put.h"

#define MCT_SHIFT_MIN 1
#define MCT_SHIFT_MAX 62

/* Biases o to o + 15, o even: steps[j] along the sums of e (pixels, c), of which e[0] is o's. */
static void mct_simd_bias_steps(const mct_update *u, uint32_t o, const int8_t *e, uint32_t pixels,
                                uint32_t c, int32_t steps[MCT_BLOCK])
{
    const mct_v16 least = mct_v_set(MCT_SHIFT_MIN), most = mct_v_set(MCT_SHIFT_MAX);
    int32_t mult[MCT_BLOCK], shift[MCT_BLOCK], sums[MCT_BLOCK];
    mct_v16 sum = mct_v_set(0), s;
    uint32_t usual;
    for (; pixels > 0; pixels--, e += c)
        sum = mct_v_add(sum, mct_v_load_s8(e));
    for (uint32_t j = 0; j < MCT_BLOCK; j++) {
        mult[j] = (int32_t)mct_step_mult(u->mant[o + j], u->rate.mant);
        shift[j] = mct_step_shift(u->exp[o + j], u->rate.exp, u->e_y, 0);
    }
    s = mct_v_load(shift);
    mct_v_store(steps, mct_v_step(sum, mct_v_load(mult), s, mct_v_random(u->key, o)));
    mct_v_store(sums, sum);
    usual = mct_v_same(s, mct_v_clamp(s, least, most));
    for (uint32_t j = 0; usual != 0xffff && j < MCT_BLOCK; j++)
        steps[j] = mct_step(sums[j], (uint32_t)mult[j], shift[j], mct_random16(u->key, o + j));
}

/* Fractions of n weights from i on; i is even. */
static inline mct_v16 mct_get_fractions(const mct_weight_row *row, uint32_t i, uint32_t n)
{
    uint8_t some[MCT_BLOCK / 2] = {0};
    const uint8_t *nibbles = row->frac + i / 2;
    if (row->p->bits == 8)
        return mct_v_low(mct_get_bytes((const int8_t *)row->frac + i, n));
    if (n < MCT_BLOCK)
        nibbles = memcpy(some, nibbles, (n + 1) / 2);
    return mct_v_load_nibbles(nibbles);
}

/* The low bits of n masters; a nibble behind the last of them is in v, too. */
static inline void mct_put_fractions(const mct_weight_row *row, uint32_t i, uint32_t n, mct_v16 v)
{
    uint32_t up = 32u - row->p->bits;
    uint8_t some[MCT_BLOCK / 2], *nibbles = row->frac + i / 2;
    v = mct_v_shr(mct_v_shl(v, mct_v_set((int32_t)up)), up); /* as signed numbers */
    if (row->p->bits == 8) {
        mct_put_bytes((int8_t *)row->frac + i, v, n);
    } else if (n == MCT_BLOCK) {
        mct_v_store_nibbles(nibbles, v);
    } else {
        mct_v_store_nibbles(some, v);
        memcpy(nibbles, some, (n + 1) / 2);
    }
}

/* Weights i to i + n - 1 of the block, i even. Those without a gradient stay as they are. */
static void mct_move_weights(mct_weight_row *row, uint32_t i, uint32_t n, mct_v16 gradient)
{
    const mct_v16 far = mct_v_set(1 << 20), back = mct_v_set(-(1 << 20)); /* to any rail */
    const mct_v16 bits = mct_v_set(row->p->bits);
    int32_t one = (int32_t)1 << row->p->bits;
    mct_v16 old = mct_get_bytes(row->w + i, n), exact, master, moved;
    exact = mct_v_shl(old, bits);
    if (one > 1)
        exact = mct_v_add(exact, mct_get_fractions(row, i, n));
    moved = mct_v_step(gradient, mct_v_set((int32_t)row->mult), mct_v_set(row->shift),
                       mct_v_random(row->p->update.key, i));
    exact = mct_v_sub(exact, mct_v_clamp(moved, back, far));
    master = mct_v_clamp(exact, mct_v_set(-MCT_WEIGHT_RAIL * one),
                         mct_v_set(MCT_WEIGHT_RAIL * one + one - 1));
    row->stats->clamped += MCT_BLOCK - (uint32_t)__builtin_popcount(mct_v_same(exact, master));
    exact = mct_v_shr(master, row->p->bits);
    mct_put_bytes(row->w + i, exact, n);
    if (one > 1)
        mct_put_fractions(row, i, n, master);
    row->change += mct_v_sum(mct_v_sub(exact, old));
}

/*
 * Weights i to i + n - 1 of the block from their gradients d, n at most 16. d[-1] and sixteen
 * elements from d on may be read.
 */
static void mct_update_weights(mct_weight_row *row, uint32_t i, const int32_t *d, uint32_t n)
{
    uint32_t odd = i % 2; /* two weights, the first at an even place, share their random bits */
    if (row->shift < MCT_SHIFT_MIN || row->shift > MCT_SHIFT_MAX) {
        mct_step_weights(row, i, d, n);
        return;
    }
    if (n + odd > MCT_BLOCK) {
        n--;
        mct_step_weights(row, i + n, d + n, 1);
    }
    mct_move_weights(row, i - odd, n + odd,
                     mct_v_where(((1u << n) - 1u) << odd, mct_v_load(d - odd)));
}

#endif
