/*
 * Products of matrices of int16, by blocks of sixteen columns.
 *
 * a: pairs, `row` elements from row to row and `step` from pair to pair; b (pairs, 16, 2): two rows
 * of a column side by side. Sums are modulo 2^32: each kernel bounds its own, in any order.
 */
#ifndef MCT_SIMD_GEMM_H
#define MCT_SIMD_GEMM_H

#define MCT_BLOCK 16u /* columns */

/* Before loops over accumulators, which must have fixed numbers to stay in registers. */
#if defined(__clang__)
#define MCT_UNROLL _Pragma("unroll")
#else
#define MCT_UNROLL _Pragma("GCC unroll 8")
#endif

/* acc[r] += row r of a times b, for n rows: each load of b serves them all. n is a constant. */
static inline void mct_gemm(mct_v16 *acc, uint32_t n, const int16_t *a, uint32_t row, uint32_t step,
                            const int16_t *b, uint32_t pairs)
{
    for (uint32_t k = 0; k < pairs; k++, a += step, b += 2 * MCT_BLOCK) {
        mct_v16 w = mct_v_pairs(b);
        MCT_UNROLL
        for (uint32_t r = 0; r < n; r++)
            acc[r] = mct_v_dot(acc[r], mct_v_pair(a + r * row), w);
    }
}

#endif
