/*
 * Update of folded biases: e_y (h, w, c_out), bias (c_out).
 *
 * dB = sum over output pixels of e_y: 127 * 65536 < 2^23.
 */
#include "mct_arith.h"
#include "mct_dsp.h"
#include "mct_kernels.h"
#include "mct_simd.h"

static void update(const mct_conv2d_db *p, uint32_t o, int32_t sum, int32_t *bias)
{
    const mct_update *u = &p->update;
    uint32_t mult = mct_step_mult(u->mant[o], u->rate.mant);
    int32_t shift = mct_step_shift(u->exp[o], u->rate.exp, u->e_y, 0);
    int32_t step = mct_step(sum, mult, shift, mct_random16(u->key, o));
    bias[o] = mct_bound_bias((int64_t)bias[o] - step, u->shift[o], u->reach);
}

#if MCT_DSP

/* Four channels from o on: sums of up to 256 pixels fit the halves of two words. */
static void update_four(const mct_conv2d_db *p, const int8_t *e, uint32_t o, int32_t *bias)
{
    uint32_t left = (uint32_t)p->y.h * p->y.w, c = p->y.c;
    int32_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (e += o; left > 0;) {
        uint32_t even = 0, odd = 0, n = left < 256 ? left : 256;
        left -= n;
        for (; n > 0; n--, e += c) {
            even = mct_add_even(even, mct_load4(e));
            odd = mct_add_odd(odd, mct_load4(e));
        }
        s0 += (int16_t)even;
        s1 += (int16_t)odd;
        s2 += (int32_t)even >> 16;
        s3 += (int32_t)odd >> 16;
    }
    update(p, o, s0, bias);
    update(p, o + 1, s1, bias);
    update(p, o + 2, s2, bias);
    update(p, o + 3, s3, bias);
}

#endif

void mct_conv2d_db_s8(const mct_conv2d_db *p, const int8_t *e_y, int32_t *bias)
{
    uint32_t pixels = (uint32_t)p->y.h * p->y.w, o = 0;
#if MCT_DSP
    for (; o + 4u <= p->y.c; o += 4)
        update_four(p, e_y, o, bias);
#endif
#if MCT_SIMD
    for (; mct_simd_active != NULL && o + MCT_SIMD_BIASES <= p->y.c; o += MCT_SIMD_BIASES) {
        const mct_update *u = &p->update;
        int32_t steps[MCT_SIMD_BIASES];
        mct_simd_active->bias_steps(u, o, e_y + o, pixels, p->y.c, steps);
        for (uint32_t j = 0; j < MCT_SIMD_BIASES; j++)
            bias[o + j] =
                mct_bound_bias((int64_t)bias[o + j] - steps[j], u->shift[o + j], u->reach);
    }
#endif
    for (; o < p->y.c; o++) {
        const int8_t *e = e_y + o;
        int32_t sum = 0;
        for (uint32_t i = 0; i < pixels; i++, e += p->y.c)
            sum += *e;
        update(p, o, sum, bias);
    }
}
