#include "mct_error.h"

int8_t mct_error_round(const mct_error *e, uint32_t i, int64_t v, mct_error_stats *stats)
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
