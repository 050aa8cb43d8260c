/*
 * The classifier: x (features), w (classes, features), b (classes), logits (classes). Each logit
 * is one sum in the order of the features, starting from its bias.
 */
#include "mct_kernels.h"

void mct_head_f32(const mct_head *p, const int8_t *x, const float *w, const float *b, float *logits)
{
    for (uint32_t j = 0; j < p->classes; j++)
        logits[j] = b[j];
    for (uint32_t c = 0; c < p->features; c++) {
        float xf = (float)(x[c] - p->z_x) * p->s_x;
        for (uint32_t j = 0; j < p->classes; j++)
            logits[j] = logits[j] + w[j * p->features + c] * xf;
    }
}
