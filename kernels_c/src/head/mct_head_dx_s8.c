/*
 * The top error: df (classes), w (classes, features) to e_x (features), int8 with an exponent that
 * puts the largest |df_x| into [64, 128) * 2^E.
 *
 * |df_x * 2^(16 - E)| < 128 * 2^16: the conversion to int32 cannot overflow.
 */
#include "mct_error.h"
#include "mct_float_bits.h"
#include "mct_kernels.h"

/* The features' errors to df_x; the bits of the largest |df_x|. */
static uint32_t feature_errors(const mct_head_dx *p, const float *df, const float *w, float *df_x)
{
    uint32_t largest = 0;
    for (uint32_t c = 0; c < p->features; c++) {
        float sum = 0.0f;
        uint32_t bits;
        for (uint32_t j = 0; j < p->classes; j++)
            sum = sum + w[j * p->features + c] * df[j];
        df_x[c] = sum;
        bits = mct_float_abs_bits(sum);
        if (bits > largest)
            largest = bits;
    }
    return largest;
}

mct_status mct_head_dx_s8(const mct_head_dx *p, const float *df, const float *w, float *scratch,
                          int8_t *e_x, mct_top_error *top)
{
    const mct_error error = {p->mask, NULL, 0, 0, p->key};
    uint32_t bits = feature_errors(p, df, w, scratch);
    float low, high; /* low * high = 2^(16 - E), which alone may be too large for a float */
    int32_t h;
    if (bits >= MCT_FLOAT_INF)
        return MCT_ERR_NOT_FINITE;
    top->stats.saturated = 0;
    top->stats.amax = 0;
    if (bits < MCT_FLOAT_NORM) {
        memset(e_x, 0, p->features);
        top->e = -126;
        top->l_top = -32256;
        return MCT_OK;
    }
    top->e = (int32_t)(bits >> 23) - 133;
    top->l_top = (int32_t)(bits >> 15) - 32512;
    h = (16 - top->e) >> 1;
    low = mct_float_pow2(h);
    high = mct_float_pow2(16 - top->e - h);
    for (uint32_t c = 0; c < p->features; c++) {
        int32_t t = (int32_t)(scratch[c] * low * high);
        e_x[c] = mct_error_round(&error, c, (int64_t)t * 65536, &top->stats);
    }
    return MCT_OK;
}
