/*
 * Maximum pooling, one output row: x (h, w, c), y (w_out, c), index (w_out, c). Scale and zero
 * point are the input's; taps outside the input do not count. index is ky * kw + kx of the first
 * largest tap, which the backward kernel reads (kh * kw <= 255 then).
 */
#include <stddef.h>

#include "mct_kernels.h"
#include "mct_window.h"

void mct_maxpool_row_s8(const mct_pool *p, const mct_rows *x, uint32_t oy, int8_t *y,
                        uint8_t *index)
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
            int32_t best = INT8_MIN - 1, tap = 0;
            for (int32_t ky = ty.first; ky < ty.end; ky++) {
                const int8_t *at = row + (uint32_t)(ix + tx.first) * c + i;
                for (int32_t kx = tx.first; kx < tx.end; kx++, at += c) {
                    if (*at > best) {
                        best = *at;
                        tap = ky * k->kw + kx;
                    }
                }
                row = mct_row_below(x, row);
            }
            *y++ = (int8_t)best;
            if (index != NULL)
                *index++ = (uint8_t)tap;
        }
    }
}
