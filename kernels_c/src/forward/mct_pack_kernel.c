/* Kernels of depthwise convolutions, packed for the loops of mct_plane_loop.h. */
#include "mct_planes.h"

#if MCT_DSP

static uint32_t reversed(uint32_t x)
{
    return __builtin_bswap32(x);
}

/*
 * Packs a kernel row of three weights as pairs, in the order in which the loops load them. flip:
 * from the last weight to the first. A fourth byte is read: behind them, or before them where they
 * are the last of a tensor.
 */
MCT_INLINE uint32_t *pack_three(uint32_t *to, const int8_t *w, int flip, int last)
{
    uint32_t head = last ? mct_load4(w - 1) >> 8 : mct_load4(w), even, odd;
    head = flip ? reversed(head << 8) : head;
    even = mct_even(head); /* weights 0, 2 */
    odd = mct_odd(head);   /* 1 */
    *to++ = mct_halves(even, odd);
    *to++ = mct_low_high(odd, even);
    return to;
}

/* The same for five or seven. */
MCT_INLINE uint32_t *pack_more(uint32_t *to, const int8_t *w, uint32_t kw, uint32_t sw, int flip)
{
    uint32_t head = mct_load4(flip ? w + kw - 4 : w), tail = mct_load4(flip ? w : w + kw - 4);
    uint32_t even, odd, w12;
    if (flip) {
        head = reversed(head);
        tail = reversed(tail);
    }
    even = mct_even(head); /* weights 0, 2 */
    odd = mct_odd(head);   /* 1, 3 */
    w12 = mct_low_high(odd, even);
    *to++ = mct_halves(even, odd);
    *to++ = mct_tops(even, odd);
    if (kw == 7 && sw == 1)
        *to++ = w12;
    even = mct_even(tail); /* of 7: 3, 5; of 5: 1, 3 */
    odd = mct_odd(tail);   /* 4, 6; 2, 4 */
    if (kw == 7)
        *to++ = mct_low_high(odd, even);
    *to++ = mct_tops(even, odd);
    if (sw == 1)
        *to++ = kw == 7 ? mct_halves(even, odd) : w12;
    return to;
}

MCT_INLINE void pack(uint32_t *to, const int8_t *w, uint32_t kw, uint32_t sw, int flip)
{
    for (uint32_t i = 0; i < kw; i++) {
        uint32_t row = flip ? kw - 1 - i : i;
        const int8_t *from = w + row * kw;
        to = kw == 3 ? pack_three(to, from, flip, row == 2) : pack_more(to, from, kw, sw, flip);
    }
}

/* The nine weights of a kernel of 3, which is the most frequent: for both strides. */
MCT_INLINE void pack_3(uint32_t *to, const int8_t *w)
{
    const uint32_t rows[3] = {mct_load4(w), mct_load4(w + 3), mct_load4(w + 5) >> 8};
    uint32_t even = mct_even(rows[0]), odd = mct_odd(rows[0]);
    to[0] = mct_halves(even, odd);
    to[1] = mct_low_high(odd, even);
    even = mct_even(rows[1]);
    odd = mct_odd(rows[1]);
    to[2] = mct_halves(even, odd);
    to[3] = mct_low_high(odd, even);
    even = mct_even(rows[2]);
    odd = mct_odd(rows[2]);
    to[4] = mct_halves(even, odd);
    to[5] = mct_low_high(odd, even);
}

static void pack_any(uint32_t *to, const int8_t *w, uint32_t kw, uint32_t sw)
{
    if (kw == 5)
        sw == 1 ? pack(to, w, 5, 1, 0) : pack(to, w, 5, 2, 0);
    else
        sw == 1 ? pack(to, w, 7, 1, 0) : pack(to, w, 7, 2, 0);
}

void mct_pack_kernel(uint32_t *table, int32_t bias, const int8_t *w, uint32_t kw, uint32_t sw,
                     uint32_t shift, int flip)
{
    uint32_t *end = table + mct_table_words(kw, sw) - MCT_TABLE_TAIL;
    *table++ = (uint32_t)bias << shift;
    if (flip)
        pack(table, w, kw, 1, 1);
    else if (kw == 3)
        pack_3(table, w);
    else
        pack_any(table, w, kw, sw);
    for (; shift != 0 && table != end; table++)
        *table = (*table & 0xffff0000u) << shift | (*table << shift & 0xffffu);
}

#endif
