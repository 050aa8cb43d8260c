/*
 * Sum of one to four errors: e[i] (pixels, c_in[i]), channels c0[i] on, to e_x (pixels, c).
 *
 * Each aligned error is at most 128 * 2^54 = 2^61: the sum of four reaches -2^63 and 2^63 - 2^56,
 * and the random bits, added last, are below 2^32.
 */
#include "mct_error.h"
#include "mct_kernels.h"
#include "mct_simd.h"

/* One input keeps its exponent: copied, masked, nothing rounded. */
static int8_t copy(const mct_error *error, int8_t q, uint32_t i, mct_error_stats *stats)
{
    uint32_t size = (uint32_t)(q < 0 ? -q : q);
    if (mct_mask_get(error->mask, i) == 0)
        return 0;
    if (size > stats->amax)
        stats->amax = size;
    return q;
}

void mct_error_sum_s8(const mct_error_sum *p, const int8_t *const e[], int8_t *e_x,
                      mct_error_stats *stats)
{
    uint32_t i = 0;
#if MCT_SIMD
    if (mct_simd_active != NULL && p->n == 1 && p->c_in[0] == p->c) {
        mct_simd_active->error_copy(&p->error, e[0], p->pixels * p->c, e_x, stats);
        return;
    }
#endif
    for (uint32_t pixel = 0; pixel < p->pixels; pixel++) {
        for (uint32_t ch = 0; ch < p->c; ch++, i++) {
            int64_t v = 0;
            if (p->n == 1) {
                e_x[i] = copy(&p->error, e[0][pixel * p->c_in[0] + p->c0[0] + ch], i, stats);
                continue;
            }
            for (uint32_t j = 0; j < p->n; j++) {
                int32_t q = e[j][pixel * p->c_in[j] + p->c0[j] + ch];
                v += mct_align(q, p->e_in[j], p->error.e_out);
            }
            e_x[i] = mct_error_round(&p->error, i, v, stats);
        }
    }
}
