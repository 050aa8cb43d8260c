/*
 * Update of folded biases: e_y (h, w, c_out), bias (c_out).
 *
 * dB = sum over output pixels of e_y: 127 * 65536 < 2^23.
 */
#include "mct_arith.h"
#include "mct_kernels.h"

void mct_conv2d_db_s8(const mct_conv2d_db *p, const int8_t *e_y, int32_t *bias)
{
    const mct_update *u = &p->update;
    uint32_t pixels = (uint32_t)p->y.h * p->y.w;
    for (uint32_t o = 0; o < p->y.c; o++) {
        uint32_t mult = mct_step_mult(u->mant[o], u->rate.mant);
        int32_t shift = mct_step_shift(u->exp[o], u->rate.exp, u->e_y, 0);
        const int8_t *e = e_y + o;
        int32_t sum = 0, step;
        if (mult == 0)
            continue;
        for (uint32_t i = 0; i < pixels; i++, e += p->y.c)
            sum = mct_mac(sum, *e, 1);
        step = mct_step(sum, mult, shift, mct_random16(u->key, o));
        bias[o] = mct_sat64((int64_t)bias[o] - step, -u->bmax[o], u->bmax[o]);
    }
}
