/*
 * Update of a convolution's trained weights and of the folded biases that go with them:
 * e_y (h_out, w_out, c_out), x (h, w, c_in), w (rows, kh, kw, cols), frac like w, bias (c_out).
 * Each weight is updated as soon as its gradient is known: no gradient is stored.
 *
 * dW = sum over output pixels of e_y * (x - z_x), as sum(e_y * x) - z_x * sum(e_y). At most 65,536
 * pixels: 127 * 255 * 65536 < 2^31, and each of the two sums is below 2^30.
 */
#include "mct_conv2d_dw_fast.h"
#include "mct_kernels.h"
#include "mct_weight_row.h"
#include "mct_window.h"
#include "mct_simd.h"

#define LANES 4u /* input channels computed together */

/* acc[j] = sum of e * (x[j * lane] - z_x) for the tap at (ky, kx) over the outputs that have it. */
static void gradient(int32_t acc[LANES], const mct_weight_row *row, const int8_t *e_y,
                     const int8_t *x, const mct_taps out[2], uint32_t lane)
{
    const mct_conv2d_dw *p = row->p;
    uint32_t e_step = p->y.c, x_step = (uint32_t)p->win.sw * p->x.c;
    int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0, sum = 0;
    for (int32_t oy = out[0].first; oy < out[0].end; oy++) {
        const int8_t *e = e_y + ((uint32_t)oy * p->y.w + (uint32_t)out[1].first) * e_step;
        const int8_t *v = x + (uint32_t)(oy - out[0].first) * p->win.sh * p->x.w * p->x.c;
        for (int32_t n = out[1].end - out[1].first; n > 0; n--, e += e_step, v += x_step) {
            int32_t q = *e;
            if (q == 0) /* masks make many of them */
                continue;
            sum += q;
            a0 = mct_mac(a0, q, v[0]);
            a1 = mct_mac(a1, q, v[lane]);
            a2 = mct_mac(a2, q, v[2 * lane]);
            a3 = mct_mac(a3, q, v[3 * lane]);
        }
    }
    acc[0] = mct_mac(a0, -p->z_x, sum);
    acc[1] = mct_mac(a1, -p->z_x, sum);
    acc[2] = mct_mac(a2, -p->z_x, sum);
    acc[3] = mct_mac(a3, -p->z_x, sum);
}

/* The cols weights of one tap, LANES at a time; what is left one by one with lane 0. */
static void update_tap(mct_weight_row *row, const int8_t *e_y, const int8_t *x, uint32_t tap,
                       uint32_t first)
{
    const mct_conv2d_dw *p = row->p;
    const mct_window *k = &p->win;
    int32_t pad_y = k->pt - (int32_t)(tap / k->kw), pad_x = k->pl - (int32_t)(tap % k->kw);
    const mct_taps out[2] = {mct_outputs_inside(pad_y, k->sh, p->x.h, p->y.h),
                             mct_outputs_inside(pad_x, k->sw, p->x.w, p->y.w)};
    uint32_t lanes;
    if (out[0].first == out[0].end || out[1].first == out[1].end)
        return;
    x += ((uint32_t)(out[0].first * k->sh - pad_y) * p->x.w +
          (uint32_t)(out[1].first * k->sw - pad_x)) *
             p->x.c +
         row->c0;
    for (uint32_t i = 0; i < p->cols; i += lanes) {
        int32_t acc[LANES];
        lanes = p->cols - i >= LANES ? LANES : 1;
        gradient(acc, row, e_y + row->o, x + i, out, lanes == 1 ? 0 : 1);
        mct_step_weights(row, first + i, acc, lanes);
    }
}

static void plain_row(mct_weight_row *row, const int8_t *e_y, const int8_t *x, uint32_t first)
{
    const mct_window *k = &row->p->win;
    for (uint32_t tap = 0; tap < (uint32_t)k->kh * k->kw; tap++, first += row->p->cols)
        update_tap(row, e_y, x, tap, first);
}

/* Apart, so that the kernels for the DSP extension do not run on top of its frame. */
static MCT_NOINLINE void plain(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x,
                               int8_t *w, uint8_t *frac, int32_t *bias, mct_update_stats *stats)
{
    uint32_t taps = (uint32_t)p->win.kh * p->win.kw;
    for (uint32_t k = 0; k < p->rows; k++) {
        mct_weight_row row = mct_weight_row_of(p, k, w, frac, stats);
        if (row.mult == 0)
            continue;
        plain_row(&row, e_y, x, k * taps * p->cols);
        mct_update_folded(&row, bias);
    }
}

void mct_conv2d_dw_s8(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x, int8_t *w,
                      uint8_t *frac, int32_t *bias, mct_update_stats *stats)
{
#if MCT_DSP
    if (mct_conv2d_dw_dense_dsp(p, e_y, x, w, frac, bias, stats) ||
        mct_conv2d_dw_depthwise_dsp(p, e_y, x, w, frac, bias, stats))
        return;
#endif
#if MCT_SIMD
    if (mct_simd_active != NULL && mct_simd_active->conv2d_dw(p, e_y, x, w, frac, bias, stats))
        return;
#endif
    plain(p, e_y, x, w, frac, bias, stats);
}
