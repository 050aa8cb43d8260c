#include "mct_error.h"

void mct_error_write(const mct_error *e, uint32_t i, int32_t acc, uint32_t mult, int8_t *e_x,
                     mct_error_stats *stats)
{
    int64_t v = (int64_t)acc * (int64_t)mult;
    if (e->skip != 0)
        v += mct_align(e->skip[i], e->e_skip, e->e_out);
    e_x[i] = mct_error_round(e, i, v, stats);
}
