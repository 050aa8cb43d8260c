/* Natural logarithm of a finite x >= 1 (SPEC-arithmetic, section 9), by the series of atanh. */
#include "mct_float_bits.h"
#include "mct_kernels.h"

float mct_log_f32(float x)
{
    uint32_t bits = mct_float_abs_bits(x);
    int32_t k = (int32_t)(bits >> 23) - 127;
    float f = mct_float_from_bits((bits & 0x7fffffu) | 0x3f800000u);
    float z, w, p;
    if (f > 0x1.6a09e6p+0f) {
        f = f * 0.5f;
        k++;
    }
    z = (f - 1.0f) / (f + 1.0f);
    w = z * z;
    p = 1.0f / 9.0f * w + 1.0f / 7.0f;
    p = p * w + 1.0f / 5.0f;
    p = p * w + 1.0f / 3.0f;
    p = p * w + 1.0f;
    return (float)k * 0x1.62e430p-1f + (2.0f * z) * p;
}
