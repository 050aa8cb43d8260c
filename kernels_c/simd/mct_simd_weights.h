/* Weights as the matrices b of mct_simd_gemm.h. */
#ifndef MCT_SIMD_WEIGHTS_H
#define MCT_SIMD_WEIGHTS_H

#include "mct_simd_put.h"

#define MCT_B_MAX    32768u /* int16 of such matrices, and bytes of a row of weights */
#define MCT_ROOM_MAX 4096u

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

/* A column for each of n output channels from o on, a row for each weight. */
static void mct_pack_outputs(const mct_conv *conv, uint32_t o, uint32_t n, uint32_t k, int16_t *b)
{
    int8_t room[MCT_ROOM_MAX];
    if (n < MCT_BLOCK)
        memset(b, 0, (k + 1) / 2 * 2 * MCT_BLOCK * sizeof *b);
    for (uint32_t i = 0; i < n; i++) {
        const int8_t *w = mct_kernel_of(conv, o + i, room);
        int16_t *to = b + 2 * i;
        for (uint32_t j = 0; j + 1 < k; j += 2, to += 2 * MCT_BLOCK) {
            to[0] = w[j];
            to[1] = w[j + 1];
        }
        if (k % 2 != 0) {
            to[0] = w[k - 1];
            to[1] = 0;
        }
    }
}

/*
 * A column for each of n input channels from i on; a row for each tap and output channel, of which
 * there is an even number in each tap.
 */
static void mct_pack_inputs(const mct_conv *conv, uint32_t i, uint32_t n, int16_t *b)
{
    const int8_t zeros[MCT_BLOCK] = {0};
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, c = conv->x.c, outs = conv->y.c;
    uint32_t pairs = (outs + 1) / 2;
    int8_t room0[MCT_ROOM_MAX], room1[MCT_ROOM_MAX], some0[MCT_BLOCK] = {0}, some1[MCT_BLOCK] = {0};
    for (uint32_t o = 0; o < outs; o += 2, b += 2 * MCT_BLOCK) {
        const int8_t *w0 = mct_kernel_of(conv, o, room0);
        const int8_t *w1 = o + 1 < outs ? mct_kernel_of(conv, o + 1, room1) : NULL;
        for (uint32_t tap = 0; tap < taps; tap++) {
            uint32_t at = tap * c + i;
            mct_v_interleave(b + tap * pairs * 2 * MCT_BLOCK, mct_some_bytes(some0, w0 + at, n),
                             w1 != NULL ? mct_some_bytes(some1, w1 + at, n) : zeros);
        }
    }
}

#endif
