/*
 * Error of average pooling's input: e_y (h_out, w_out, c), e_x (h, w, c).
 *
 * acc = 256 * sum of the errors of the windows that cover the element. At most 255 * 255 do:
 * 256 * 127 * 65025 < 2^31.
 */
#include "mct_error.h"
#include "mct_kernels.h"
#include "mct_window.h"
#include "mct_simd.h"

#define F 8 /* acc = 2^F * sum */

void mct_avgpool_dx_s8(const mct_pool_dx *p, const int8_t *e_y, int8_t *e_x, mct_error_stats *stats)
{
    const mct_window *k = &p->win;
    uint32_t c = p->x.c, i = 0;
    uint32_t mult = mct_error_multiplier(p->mant, p->exp, F, p->error.e_out, p->e_y);
#if MCT_SIMD
    if (mct_simd_active != NULL) {
        mct_simd_active->avgpool_dx(p, mult, 1 << F, e_y, e_x, stats);
        return;
    }
#endif
    for (int32_t iy = 0; iy < p->x.h; iy++) {
        mct_taps oy = mct_outputs_over(iy + k->pt, k->kh, k->sh, p->y.h);
        for (int32_t ix = 0; ix < p->x.w; ix++) {
            mct_taps ox = mct_outputs_over(ix + k->pl, k->kw, k->sw, p->y.w);
            for (uint32_t ch = 0; ch < c; ch++, i++) {
                int32_t sum = 0;
                for (int32_t y = oy.first; y < oy.end; y++) {
                    const int8_t *e = e_y + ((uint32_t)y * p->y.w + (uint32_t)ox.first) * c + ch;
                    for (int32_t x = ox.first; x < ox.end; x++, e += c)
                        sum += *e;
                }
                mct_error_write(&p->error, i, sum * (1 << F), mult, e_x, stats);
            }
        }
    }
}
