/* Copies named channels: x (pixels, c_x), y (pixels, c_y), y channel i is x channel chan[i]. */
#include "mct_kernels.h"

void mct_gather_s8(const mct_gather *p, const int8_t *x, int8_t *y)
{
    for (uint32_t pixel = 0; pixel < p->pixels; pixel++) {
        for (uint32_t i = 0; i < p->c_y; i++)
            *y++ = x[p->chan[i]];
        x += p->c_x;
    }
}
