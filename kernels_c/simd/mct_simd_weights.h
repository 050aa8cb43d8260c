/* Weights in the order in which products take them. */
#ifndef MCT_SIMD_WEIGHTS_H
#define MCT_SIMD_WEIGHTS_H

#include "mct_simd.h"
#include "mct_simd_put.h"

#define MCT_B_MAX    32768u /* elements of such matrices */
#define MCT_ROOM_MAX 4096u  /* bytes of a channel's weights */

/*
 * Room that stays, for `size` bytes of the reordered weights of a convolution; NULL: none. Those
 * of trained channels are put there again in every call.
 */
static inline mct_packed *mct_packed_for(const mct_conv *conv, size_t size)
{
    mct_packed *kept = mct_simd_packed;
    return kept == NULL || conv->w_frozen == NULL || kept->bytes < size ? NULL : kept;
}

/* The weights (kh, kw, c_in) of output channel o, in the order of the input; perhaps in room. */
static const int8_t *mct_kernel_of(const mct_conv *conv, uint32_t o, int8_t *room)
{
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, c = conv->x.c;
    uint32_t trained = conv->trained, frozen = c - trained;
    const int8_t *t, *f;
    if (trained == 0)
        return conv->w_frozen + o * taps * c;
    if (frozen == 0)
        return conv->w_trained + o * taps * c;
    t = conv->w_trained + o * taps * trained;
    f = conv->w_frozen + o * taps * frozen;
    for (int8_t *to = room; to != room + taps * c; to += c) {
        for (uint32_t i = 0; i < trained; i++)
            to[conv->perm[i]] = *t++;
        for (uint32_t i = trained; i < c; i++)
            to[conv->perm[i]] = *f++;
    }
    return room;
}

/* Weights of n output channels from o on, k of each, as `steps` times MCT_V_TAPS a channel. */
static void mct_pack_outputs(const mct_conv *conv, uint32_t o, uint32_t n, uint32_t k, mct_w *b)
{
    int8_t room[MCT_ROOM_MAX];
    uint32_t steps = (k + MCT_V_TAPS - 1) / MCT_V_TAPS, last = k % MCT_V_TAPS;
    if (n < MCT_BLOCK || last != 0)
        memset(b, 0, steps * MCT_V_TAPS * MCT_BLOCK * sizeof *b);
    for (uint32_t i = 0; i < n; i++) {
        const int8_t *w = mct_kernel_of(conv, o + i, room);
        mct_w *to = b + MCT_V_TAPS * i;
        for (uint32_t j = k / MCT_V_TAPS; j > 0; j--, w += MCT_V_TAPS, to += MCT_V_TAPS * MCT_BLOCK)
            mct_v_copy_taps(to, w);
        for (uint32_t j = 0; j < last; j++)
            to[j] = w[j];
    }
}

/* The trained ones of all output channels, to where they are in b, lda elements a channel. */
static void mct_repack_outputs(const mct_conv *conv, uint32_t lda, mct_w *b)
{
    uint32_t n = (uint32_t)conv->win.kh * conv->win.kw * conv->trained, at[MCT_ROOM_MAX];
    const int8_t *w = conv->w_trained;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i / conv->trained * conv->x.c + conv->perm[i % conv->trained];
        at[i] = k / MCT_V_TAPS * MCT_V_TAPS * MCT_BLOCK + k % MCT_V_TAPS;
    }
    for (uint32_t o = 0; o < conv->y.c; o++, w += n) {
        mct_w *to = b + o / MCT_BLOCK * MCT_BLOCK * lda + o % MCT_BLOCK * MCT_V_TAPS;
        for (uint32_t i = 0; i < n; i++)
            to[at[i]] = w[i];
    }
}

/*
 * Pairs of int16: a column for each input channel from `first` to `end` - 1, in blocks of sixteen,
 * one behind the other; a row for each tap and output channel, of which there is an even number in
 * each tap.
 */
static void mct_pack_inputs(const mct_conv *conv, uint32_t first, uint32_t end, int16_t *b)
{
    const int8_t zeros[MCT_BLOCK] = {0};
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, c = conv->x.c, outs = conv->y.c;
    uint32_t tap_size = (outs + 1) / 2 * 2 * MCT_BLOCK;
    int8_t room0[MCT_ROOM_MAX], room1[MCT_ROOM_MAX], some0[MCT_BLOCK] = {0}, some1[MCT_BLOCK] = {0};
    for (uint32_t o = 0; o < outs; o += 2, b += 2 * MCT_BLOCK) {
        const int8_t *w0 = mct_kernel_of(conv, o, room0);
        const int8_t *w1 = o + 1 < outs ? mct_kernel_of(conv, o + 1, room1) : NULL;
        int16_t *to = b;
        for (uint32_t i = first; i < end; i += MCT_BLOCK) {
            uint32_t n = end - i < MCT_BLOCK ? end - i : MCT_BLOCK;
            for (uint32_t tap = 0; tap < taps; tap++, to += tap_size) {
                uint32_t at = tap * c + i;
                mct_v_interleave(to, mct_some_bytes(some0, w0 + at, n),
                                 w1 != NULL ? mct_some_bytes(some1, w1 + at, n) : zeros);
            }
        }
    }
}

/* The trained ones of all input channels, to where they are in b. */
static void mct_repack_inputs(const mct_conv *conv, int16_t *b)
{
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, at[MCT_ROOM_MAX];
    uint32_t tap_size = (conv->y.c + 1u) / 2 * 2 * MCT_BLOCK, n = taps * conv->trained;
    const int8_t *w = conv->w_trained;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = conv->perm[i % conv->trained], tap = i / conv->trained;
        at[i] = (c / MCT_BLOCK * taps + tap) * tap_size + c % MCT_BLOCK * 2;
    }
    for (uint32_t o = 0; o < conv->y.c; o++, w += n) {
        int16_t *to = b + o / 2 * 2 * MCT_BLOCK + o % 2;
        for (uint32_t i = 0; i < n; i++)
            to[at[i]] = w[i];
    }
}

#endif
