#include "mct_planes.h"

#if MCT_DSP

void mct_planes_fill(int16_t *plane, uint32_t step, uint32_t at, const int8_t *x, uint32_t c,
                     uint32_t n)
{
    plane += at;
    if (at % 2 != 0 && n > 0) {
        mct_put_column(plane, step, x);
        plane++;
        x += c;
        n--;
    }
#pragma GCC unroll 2
    for (uint32_t pairs = n / 2; pairs > 0; pairs--, plane += 2, x += 2 * c) {
        uint32_t a = mct_load4(x), b = mct_load4(x + c);
        uint32_t low = mct_halves(a, b), high = mct_tops(a, b);
        mct_store_pair(plane, mct_even(low));
        mct_store_pair(plane + step, mct_odd(low));
        mct_store_pair(plane + 2 * step, mct_even(high));
        mct_store_pair(plane + 3 * step, mct_odd(high));
    }
    if (n % 2 != 0)
        mct_put_column(plane, step, x);
}

#endif
