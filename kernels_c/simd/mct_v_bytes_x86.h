/* Lanes as bytes and nibbles in memory, by way of a register of sixteen bytes. */
#ifndef MCT_V_BYTES_X86_H
#define MCT_V_BYTES_X86_H

static inline mct_v16 mct_v_load_s8(const int8_t *at)
{
    return mct_v_widen(_mm_loadu_si128((const void *)at));
}

/* Lanes saturated to int8. */
static inline void mct_v_store_s8(int8_t *at, mct_v16 v)
{
    _mm_storeu_si128((void *)at, mct_v_narrow(v));
}

/* Sixteen nibbles from 0 on, of each byte the low one first. */
static inline mct_v16 mct_v_load_nibbles(const uint8_t *at)
{
    __m128i x = _mm_loadl_epi64((const void *)at);
    x = _mm_unpacklo_epi8(x, _mm_srli_epi16(x, 4));
    return mct_v_widen(_mm_and_si128(x, _mm_set1_epi8(15)));
}

/* The low four bits of lanes that are int8. */
static inline void mct_v_store_nibbles(uint8_t *at, mct_v16 v)
{
    __m128i x = _mm_and_si128(mct_v_narrow(v), _mm_set1_epi8(15));
    x = _mm_maddubs_epi16(x, _mm_set1_epi16(0x1001)); /* the second of two times 16 */
    _mm_storel_epi64((void *)at, _mm_packus_epi16(x, x));
}

#endif
