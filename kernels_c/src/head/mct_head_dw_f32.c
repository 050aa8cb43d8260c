/* Update of the classifier: x (features), df (classes), w (classes, features), b (classes). */
#include "mct_kernels.h"

void mct_head_dw_f32(const mct_head *p, float rate, const int8_t *x, const float *df, float *w,
                     float *b)
{
    for (uint32_t c = 0; c < p->features; c++) {
        float xf = (float)(x[c] - p->z_x) * p->s_x;
        for (uint32_t j = 0; j < p->classes; j++) {
            float g = df[j] * rate;
            w[j * p->features + c] = w[j * p->features + c] - g * xf;
        }
    }
    for (uint32_t j = 0; j < p->classes; j++)
        b[j] = b[j] - df[j] * rate;
}
