/*
 * Error of maximum pooling's input: e_y and index (h_out, w_out, c), e_x (h, w, c).
 *
 * acc = 256 * sum of the errors of the windows that chose the element. At most kh * kw <= 255
 * windows cover it: 256 * 127 * 255 < 2^23.
 */
#include "mct_error.h"
#include "mct_kernels.h"
#include "mct_window.h"

#define F 8 /* acc = 2^F * sum */

/* Sum of channel ch of the errors of outputs (oy, ox) that chose tap (ty - y * sh, tx - x * sw). */
static int32_t sum_chosen(const mct_pool_dx *p, const int8_t *e_y, const uint8_t *index,
                          const mct_taps out[2], const int32_t at[2], uint32_t ch)
{
    const mct_window *k = &p->win;
    int32_t sum = 0;
    for (int32_t y = out[0].first; y < out[0].end; y++) {
        for (int32_t x = out[1].first; x < out[1].end; x++) {
            uint32_t o = ((uint32_t)y * p->y.w + (uint32_t)x) * p->y.c + ch;
            if (index[o] == (at[0] - y * k->sh) * k->kw + at[1] - x * k->sw)
                sum += e_y[o];
        }
    }
    return sum;
}

void mct_maxpool_dx_s8(const mct_pool_dx *p, const int8_t *e_y, const uint8_t *index, int8_t *e_x,
                       mct_error_stats *stats)
{
    const mct_window *k = &p->win;
    uint32_t i = 0;
    uint32_t mult = mct_error_multiplier(p->mant, p->exp, F, p->error.e_out, p->e_y);
    for (int32_t iy = 0; iy < p->x.h; iy++) {
        for (int32_t ix = 0; ix < p->x.w; ix++) {
            const int32_t at[2] = {iy + k->pt, ix + k->pl};
            const mct_taps out[2] = {mct_outputs_over(at[0], k->kh, k->sh, p->y.h),
                                     mct_outputs_over(at[1], k->kw, k->sw, p->y.w)};
            for (uint32_t ch = 0; ch < p->x.c; ch++, i++) {
                int32_t sum = sum_chosen(p, e_y, index, out, at, ch);
                mct_error_write(&p->error, i, sum * (1 << F), mult, e_x, stats);
            }
        }
    }
}
