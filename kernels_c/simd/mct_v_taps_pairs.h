/* Taps where one product takes a pair of int16: those of mct_v16_avx2.h and mct_v16_neon.h. */
#ifndef MCT_V_TAPS_PAIRS_H
#define MCT_V_TAPS_PAIRS_H

/* Taps of sixteen channels, and those of one pixel in all lanes. */
static inline mct_v16 mct_v_taps(const int16_t *at)
{
    return mct_v_pairs(at);
}

static inline mct_v16 mct_v_taps_of(const mct_x *at)
{
    return mct_v_pair(at);
}

/* acc + the products of each lane's taps. */
static inline mct_v16 mct_v_dot_taps(mct_v16 acc, mct_v16 x, mct_v16 w)
{
    return mct_v_dot(acc, x, w);
}

/* MCT_V_TAPS weights. */
static inline void mct_v_copy_taps(mct_w *to, const int8_t *w)
{
    to[0] = w[0];
    to[1] = w[1];
}

/* The first n of sixteen bytes, and zeros. */
static inline mct_v16 mct_v_load_some(const int8_t *at, uint32_t n)
{
    int8_t bytes[16] = {0};
    memcpy(bytes, at, n);
    return mct_v_load_s8(bytes);
}

static inline void mct_v_store_some(int8_t *at, mct_v16 v, uint32_t n)
{
    int8_t bytes[16];
    mct_v_store_s8(bytes, v);
    memcpy(at, bytes, n);
}

#endif
