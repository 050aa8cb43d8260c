/*
 * Pointwise convolution, output rows, with the vector extension (MVE) of a Cortex-M55: sixteen
 * products an instruction; four output channels of a pixel are made together.
 *
 * No overflow: see mct_conv2d_row_s8.c; sums are taken modulo 2^32, in any order.
 */
#include "mct_conv2d_fast.h"

#if MCT_MVE

#include <arm_mve.h>
#include <stddef.h>

#include "mct_arith.h"
#include "mct_window.h"

#define LANES 4u /* output channels made together */

/* The sums of n products with the weights of LANES channels, step bytes apart. */
static int32x4_t dots(const int8_t *x, const int8_t *w, uint32_t step, uint32_t n)
{
    int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    int32x4_t sums;
    for (int32_t left = (int32_t)n; left > 0; left -= 16, x += 16, w += 16) {
        mve_pred16_t some = vctp8q((uint32_t)left);
        int8x16_t v = vldrbq_z_s8(x, some); /* zeros behind the end */
        a0 = vmladavaq_s8(a0, v, vldrbq_z_s8(w, some));
        a1 = vmladavaq_s8(a1, v, vldrbq_z_s8(w + step, some));
        a2 = vmladavaq_s8(a2, v, vldrbq_z_s8(w + 2 * step, some));
        a3 = vmladavaq_s8(a3, v, vldrbq_z_s8(w + 3 * step, some));
    }
    sums = vdupq_n_s32(a0);
    sums = vsetq_lane_s32(a1, sums, 1);
    sums = vsetq_lane_s32(a2, sums, 2);
    return vsetq_lane_s32(a3, sums, 3);
}

/* Channels o .. o + n - 1 of a pixel, y[0] the first: requantized (section 2), clamped, noted. */
static void finish(const mct_conv2d *p, int32x4_t sums, uint32_t o, uint32_t n, int8_t *y,
                   uint8_t *mask, uint32_t bit)
{
    mve_pred16_t some = vctp32q(n);
    int32x4_t shift = vreinterpretq_s32_u32(vldrbq_z_u32(p->shift + o, some));
    int32x4_t acc = vshlq_s32(vaddq_s32(sums, vldrwq_z_s32(p->bias + o, some)), shift);
    int32x4_t v = vaddq_n_s32(vrmulhq_s32(acc, vldrwq_z_s32(p->mult + o, some)), p->z_y);
    int32x4_t inside = vminq_s32(vmaxq_s32(v, vdupq_n_s32(p->lo)), vdupq_n_s32(p->hi));
    vstrbq_p_s32(y, inside, some);
    if (mask != NULL) {
        uint32_t same = vcmpeqq_s32(v, inside); /* four bits a lane */
        for (uint32_t j = 0; j < n; j++)
            mct_mask_put(mask, bit + j, same >> 4 * j & 1u);
    }
}

/* All channels of a pixel; bit: of y[0] in mask. */
static void make_pixel(const mct_conv2d *p, const int8_t *x, int8_t *y, uint8_t *mask, uint32_t bit)
{
    const mct_conv *conv = &p->conv;
    const int8_t *w = conv->trained != 0 ? conv->w_trained : conv->w_frozen;
    uint32_t c_in = conv->x.c, n;
    for (uint32_t o = 0; o < conv->y.c; o += n, w += n * c_in) {
        n = conv->y.c - o < LANES ? 1 : LANES;
        finish(p, dots(x, w, n == 1 ? 0 : c_in, c_in), o, n, y + o, mask, bit + o);
    }
}

int mct_conv2d_pointwise_mve(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                             int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    uint32_t c = conv->y.c, step = (uint32_t)conv->win.sw * conv->x.c, bit = oy * conv->y.w * c;
    if (!mct_is_pointwise(conv) || conv->x.c < 16)
        return 0; /* with fewer products the DSP extension is faster */
    for (uint32_t end = oy + rows; oy < end; oy++) {
        const int8_t *from = mct_row(x, (int32_t)(oy * conv->win.sh));
        for (uint32_t ox = conv->y.w; ox > 0; ox--, from += step, y += c, bit += c)
            make_pixel(p, from, y, mask, bit);
    }
    return 1;
}

#endif
