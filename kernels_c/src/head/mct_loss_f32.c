/* Softmax and cross entropy: logits (classes), df (classes) = softmax - one-hot of the label. */
#include <stddef.h>

#include "mct_float_bits.h"
#include "mct_kernels.h"

mct_status mct_loss_f32(const mct_loss *p, const float *logits, float *df, mct_loss_result *result)
{
    float of_label = logits[p->label], largest = logits[0], sum = 0.0f;
    uint32_t predicted = 0;
    for (uint32_t j = 0; j < p->classes; j++) {
        if (mct_float_abs_bits(logits[j]) >= MCT_FLOAT_INF)
            return MCT_ERR_NOT_FINITE;
        if (logits[j] > largest) {
            largest = logits[j];
            predicted = j;
        }
    }
    for (uint32_t j = 0; j < p->classes; j++) {
        float e = mct_exp_f32(logits[j] - largest);
        sum = sum + e;
        if (df != NULL)
            df[j] = e;
    }
    for (uint32_t j = 0; df != NULL && j < p->classes; j++)
        df[j] = df[j] / sum - (j == p->label ? 1.0f : 0.0f);
    result->loss = mct_log_f32(sum) + (largest - of_label);
    result->predicted = (uint16_t)predicted;
    return MCT_OK;
}
