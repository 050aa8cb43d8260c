/*
 * Average pooling, one output row: x (h, w, c), y (w_out, c). Scale and zero point are the input's.
 *
 * acc = sum over the window of (x - z_x); a tap outside reads z_x and adds nothing. At most 255
 * each over 255 * 255 taps: |acc| < 2^24. shift > 0 only where 1 / (kh * kw) >= 0.5, a window of
 * one or two taps: no overflow.
 */
#include "mct_arith.h"
#include "mct_kernels.h"
#include "mct_window.h"

void mct_avgpool_row_s8(const mct_pool *p, const mct_rows *x, uint32_t oy, int8_t *y)
{
    const mct_window *k = &p->win;
    uint32_t c = p->x.c;
    int32_t iy = (int32_t)(oy * k->sh) - k->pt;
    mct_taps ty = mct_taps_inside(iy, k->kh, p->x.h);
    for (uint32_t ox = 0; ox < p->y.w; ox++) {
        int32_t ix = (int32_t)(ox * k->sw) - k->pl;
        mct_taps tx = mct_taps_inside(ix, k->kw, p->x.w);
        for (uint32_t i = 0; i < c; i++) {
            const int8_t *row = mct_row(x, iy + ty.first);
            int32_t acc = 0;
            for (int32_t ky = ty.first; ky < ty.end; ky++) {
                const int8_t *at = row + (uint32_t)(ix + tx.first) * c + i;
                for (int32_t kx = tx.first; kx < tx.end; kx++, at += c)
                    acc += *at - p->z_x;
                row = mct_row_below(x, row);
            }
            acc = mct_requantize(acc, p->mult, p->shift, p->z_x);
            *y++ = (int8_t)mct_sat(acc, INT8_MIN, INT8_MAX);
        }
    }
}
