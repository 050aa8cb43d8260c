/*
 * exp(x) for x <= 0 (SPEC-arithmetic, section 9): x = n * ln 2 + r, a polynomial in r, then 2^n.
 * Below -80 the result is 0, so that no denormal number appears.
 */
#include "mct_float_bits.h"
#include "mct_kernels.h"

float mct_exp_f32(float x)
{
    int32_t n;
    float r, p;
    if (x < -80.0f)
        return 0.0f;
    n = (int32_t)(x * 0x1.715476p+0f - 0.5f);
    r = x - (float)n * 0x1.62e400p-1f;
    r = r - (float)n * 0x1.7f7d1cp-20f;
    p = 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * mct_float_pow2(n);
}
