/*
 * Change of scale, zero point and clamp: x (pixels, c_x) to channels c0 .. c0 + c_x - 1 of
 * y (pixels, c_y).
 *
 * acc = x - z_x, |acc| <= 255, and shift <= 15: |acc << shift| < 2^23.
 */
#include "mct_kernels.h"
#include "mct_output.h"

void mct_rescale_s8(const mct_rescale *p, const int8_t *x, int8_t *y, uint8_t *mask,
                    uint32_t mask_bit)
{
    uint32_t at = p->c0;
    for (uint32_t pixel = 0; pixel < p->pixels; pixel++) {
        for (uint32_t i = 0; i < p->c_x; i++) {
            int32_t v = mct_requantize(*x++ - p->z_x, p->mult, p->shift, p->z_y);
            mct_put(v, p->lo, p->hi, y + at + i, mask, mask_bit + at + i);
        }
        at += p->c_y;
    }
}
