/* Random bits of sixteen elements, with AVX2: for AVX-512, too, as 256 bits hold them all. */
#ifndef MCT_V_RANDOM_X86_H
#define MCT_V_RANDOM_X86_H

#include <immintrin.h>
#include <stdint.h>

typedef __m256i mct_r16; /* sixteen times 16 random bits */

/* mct_random16 of elements i to i + 15, i even. */
static inline mct_r16 mct_v_random(uint32_t key, uint32_t i)
{
    const __m256i step = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i n = _mm256_add_epi32(_mm256_set1_epi32((int)(i >> 1)), step);
    __m256i h = _mm256_add_epi32(_mm256_set1_epi32((int)key),
                                 _mm256_mullo_epi32(n, _mm256_set1_epi32((int)0x9e3779b9u)));
    h = _mm256_xor_si256(h, _mm256_srli_epi32(h, 16));
    h = _mm256_mullo_epi32(h, _mm256_set1_epi32(0x7feb352d));
    h = _mm256_xor_si256(h, _mm256_srli_epi32(h, 15));
    h = _mm256_mullo_epi32(h, _mm256_set1_epi32((int)0x846ca68bu));
    return _mm256_xor_si256(h, _mm256_srli_epi32(h, 16));
}

#endif
