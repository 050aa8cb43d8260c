/*
 * Products of matrices of int16, by blocks of sixteen columns.
 *
 * a (rows, 2 * pairs), row after row lda apart; b (pairs, 16, 2): two rows of a column side by
 * side; c (rows, 16). Sums are modulo 2^32: each kernel bounds its own, in any order.
 */
#ifndef MCT_SIMD_GEMM_H
#define MCT_SIMD_GEMM_H

#define MCT_BLOCK 16u /* columns */

/* MCT_V_ROWS rows: each load of b serves them all. more: c is added to. */
static inline void mct_gemm_rows(const int16_t *a, uint32_t lda, const int16_t *b, uint32_t pairs,
                                 int32_t *c, int more)
{
    mct_v16 acc[MCT_V_ROWS];
    for (uint32_t r = 0; r < MCT_V_ROWS; r++)
        acc[r] = more ? mct_v_load(c + r * MCT_BLOCK) : mct_v_set(0);
    for (uint32_t k = 0; k < pairs; k++, a += 2, b += 2 * MCT_BLOCK) {
        mct_v16 w = mct_v_pairs(b);
        for (uint32_t r = 0; r < MCT_V_ROWS; r++)
            acc[r] = mct_v_dot(acc[r], mct_v_pair(a + r * lda), w);
    }
    for (uint32_t r = 0; r < MCT_V_ROWS; r++)
        mct_v_store(c + r * MCT_BLOCK, acc[r]);
}

static void mct_gemm(const int16_t *a, uint32_t lda, uint32_t rows, const int16_t *b,
                     uint32_t pairs, int32_t *c, int more)
{
    uint32_t r = 0;
    for (; r + MCT_V_ROWS <= rows; r += MCT_V_ROWS, c += MCT_V_ROWS * MCT_BLOCK)
        mct_gemm_rows(a + r * lda, lda, b, pairs, c, more);
    for (; r < rows; r++, c += MCT_BLOCK) {
        mct_v16 acc = more ? mct_v_load(c) : mct_v_set(0);
        for (uint32_t k = 0; k < pairs; k++)
            acc = mct_v_dot(acc, mct_v_pair(a + r * lda + 2 * k), mct_v_pairs(b + 32 * k));
        mct_v_store(c, acc);
    }
}

#endif
