/*
 * Addition, element by element: n values each.
 *
 * No overflow: n of section 3 is chosen so that 255 * (mult_a + mult_b) + 2^(n-1) < 2^31, and
 * |a - z_a|, |b - z_b| <= 255.
 */
#include "mct_kernels.h"
#include "mct_output.h"

void mct_add_s8(const mct_add *p, const int8_t *a, const int8_t *b, int8_t *y, uint8_t *mask,
                uint32_t mask_bit)
{
    const int32_t half = (int32_t)1 << (p->shift - 1);
    for (uint32_t i = 0; i < p->n; i++) {
        int32_t acc = mct_mac(half, p->mult_a, a[i] - p->z_a);
        acc = mct_mac(acc, p->mult_b, b[i] - p->z_b);
        mct_put(p->z_y + (acc >> p->shift), p->lo, p->hi, y + i, mask, mask_bit + i);
    }
}
