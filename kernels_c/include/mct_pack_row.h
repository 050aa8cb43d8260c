/* Rows of the kernels of depthwise convolutions, packed for the loops of mct_plane_loop.h. */
#ifndef MCT_PACK_ROW_H
#define MCT_PACK_ROW_H

#include "mct_planes.h"

#if MCT_DSP

static inline uint32_t mct_reversed(uint32_t x)
{
    return __builtin_bswap32(x);
}

/* Bytes 0 and 2, or 1 and 3, each extended to 16 bits, or flipped kernels' times 256. */
MCT_INLINE uint32_t mct_even_weights(uint32_t x, int flip)
{
    return flip ? x << 8 & 0xff00ff00u : mct_even(x);
}

MCT_INLINE uint32_t mct_odd_weights(uint32_t x, int flip)
{
    return flip ? x & 0xff00ff00u : mct_odd(x);
}

/* Three weights, the first in the lowest byte. */
MCT_INLINE void mct_pack_three(uint32_t to[2], uint32_t word, int flip)
{
    uint32_t even = mct_even_weights(word, flip); /* weights 0, 2 */
    uint32_t odd = mct_odd_weights(word, flip);   /* 1 */
    to[0] = mct_halves(even, odd);
    to[1] = mct_low_high(odd, even);
}

/* The nine weights of a kernel of 3, which is the most frequent: for both strides. */
MCT_INLINE void mct_pack_nine(uint32_t to[6], const int8_t *w)
{
    const uint32_t rows[3] = {mct_load4(w), mct_load4(w + 3), mct_load4(w + 5) >> 8};
    mct_pack_three(to, rows[0], 0);
    mct_pack_three(to + 2, rows[1], 0);
    mct_pack_three(to + 4, rows[2], 0);
}

/*
 * Five or seven weights as pairs, in the order in which the loops load them. flip: from the last
 * weight to the first, times 256. Returns what follows.
 */
MCT_INLINE uint32_t *mct_pack_more(uint32_t *to, const int8_t *w, uint32_t kw, uint32_t sw,
                                   int flip)
{
    uint32_t head = mct_load4(flip ? w + kw - 4 : w), tail = mct_load4(flip ? w : w + kw - 4);
    uint32_t even, odd, w12;
    if (flip) {
        head = mct_reversed(head);
        tail = mct_reversed(tail);
    }
    even = mct_even_weights(head, flip); /* weights 0, 2 */
    odd = mct_odd_weights(head, flip);   /* 1, 3 */
    w12 = mct_low_high(odd, even);
    *to++ = mct_halves(even, odd);
    *to++ = mct_tops(even, odd);
    if (kw == 7 && sw == 1)
        *to++ = w12;
    even = mct_even_weights(tail, flip); /* of 7: 3, 5; of 5: 1, 3 */
    odd = mct_odd_weights(tail, flip);   /* 4, 6; 2, 4 */
    if (kw == 7)
        *to++ = mct_low_high(odd, even);
    *to++ = mct_tops(even, odd);
    if (sw == 1)
        *to++ = kw == 7 ? mct_halves(even, odd) : w12;
    return to;
}

#endif
#endif
