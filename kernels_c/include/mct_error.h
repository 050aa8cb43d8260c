/* The end of every operator that makes an error tensor: align, round, mask, saturate (section 6).
 */
#ifndef MCT_ERROR_H
#define MCT_ERROR_H

#include <stdint.h>

#include "mct_arith.h"
#include "mct_types.h"

/* Element i from v in units of 2^(e_out - 32), |v| < 2^63 - 2^32; stats counts along. */
static inline int8_t mct_error_round(const mct_error *e, uint32_t i, int64_t v,
                                     mct_error_stats *stats)
{
    int32_t q, exact;
    uint32_t size;
    if (v == 0 || mct_mask_get(e->mask, i) == 0)
        return 0; /* 16 random bits alone never reach 1 */
    exact = (int32_t)((v + ((int64_t)mct_random16(e->key, i) << 16)) >> 32);
    q = mct_sat(exact, -MCT_ERROR_RAIL, MCT_ERROR_RAIL);
    size = (uint32_t)(q < 0 ? -q : q);
    if (q != exact) {
        stats->saturated++;
        size = MCT_AMAX_SATURATED;
    }
    if (size > stats->amax)
        stats->amax = size;
    return (int8_t)q;
}

/*
 * Writes element i of e_x from acc, with M[g] = mult, and the skip error, if there is one.
 * |acc * mult| <= 2^62, |skip| <= 2^61 aligned: their sum and the random bits fit 64 bits.
 */
static inline void mct_error_write(const mct_error *e, uint32_t i, int32_t acc, uint32_t mult,
                                   int8_t *e_x, mct_error_stats *stats)
{
    int64_t v = (int64_t)acc * (int64_t)mult;
    if (e->skip != 0)
        v += mct_align(e->skip[i], e->e_skip, e->e_out);
    e_x[i] = mct_error_round(e, i, v, stats);
}

#endif
