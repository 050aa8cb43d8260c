#include "mct_error4.h"

#if MCT_DSP

void mct_error_write_slow(const mct_error *e, uint32_t i, const int32_t acc[4],
                          const uint32_t mult[4], int8_t *e_x, mct_error_stats *stats)
{
    for (uint32_t j = 0; j < 4; j++)
        mct_error_write(e, i + j, acc[j], mult[j], e_x, stats);
}

#endif
