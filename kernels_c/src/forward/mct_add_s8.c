/*
 * Addition, element by element: n values each.
 *
 * No overflow: n of section 3 is chosen so that 255 * (mult_a + mult_b) + 2^(n-1) < 2^31, and
 * |a - z_a|, |b - z_b| <= 255.
 */
#include "mct_kernels.h"
#include "mct_lanes.h"
#include "mct_output.h"
#include "mct_simd.h"

#if MCT_DSP

/*
 * Four elements, a word of each input: the zero points are in the constant, which may wrap
 * before the products make the sum small again.
 */
static uint32_t add_four(const mct_add *p, uint32_t a, uint32_t b, int32_t constant,
                         uint32_t *unclipped)
{
    int32_t ma = p->mult_a, mb = p->mult_b, z = p->z_y;
    uint32_t n = p->shift;
    mct_acc4 acc = {mct_mac(mct_mac(constant, ma, (int8_t)a), mb, (int8_t)b),
                    mct_mac(mct_mac(constant, ma, (int8_t)(a >> 8)), mb, (int8_t)(b >> 8)),
                    mct_mac(mct_mac(constant, ma, (int8_t)(a >> 16)), mb, (int8_t)(b >> 16)),
                    mct_mac(mct_mac(constant, ma, (int8_t)(a >> 24)), mb, (int8_t)(b >> 24))};
    acc.a0 = z + (acc.a0 >> n);
    acc.a1 = z + (acc.a1 >> n);
    acc.a2 = z + (acc.a2 >> n);
    acc.a3 = z + (acc.a3 >> n);
    return mct_pack4_noted(acc, unclipped);
}

/* Whole groups of eight elements, whose bits are bytes of the mask; returns how many elements. */
static uint32_t add_eights(const mct_add *p, const int8_t *a, const int8_t *b, int8_t *y,
                           uint8_t *mask)
{
    int32_t constant =
        mct_mac(mct_mac((int32_t)1 << (p->shift - 1), p->mult_a, -p->z_a), p->mult_b, -p->z_b);
    uint32_t i = 0, low, high;
    for (; i + 8 <= p->n; i += 8) {
        uint32_t first = add_four(p, mct_load4(a + i), mct_load4(b + i), constant, &low);
        uint32_t second = add_four(p, mct_load4(a + i + 4), mct_load4(b + i + 4), constant, &high);
        mct_store4(y + i, first);
        mct_store4(y + i + 4, second);
        if (mask != NULL)
            mask[i / 8] = (uint8_t)(low | high << 4);
    }
    return i;
}

#endif

void mct_add_s8(const mct_add *p, const int8_t *a, const int8_t *b, int8_t *y, uint8_t *mask,
                uint32_t mask_bit)
{
    const int32_t half = (int32_t)1 << (p->shift - 1);
    uint32_t i = 0;
#if MCT_SIMD
    if (mct_simd_active != NULL) {
        mct_simd_active->add(p, a, b, y, mask, mask_bit);
        return;
    }
#endif
#if MCT_DSP
    if (p->lo == INT8_MIN && p->hi == INT8_MAX && (mask == NULL || mask_bit % 8 == 0))
        i = add_eights(p, a, b, y, mask != NULL ? mask + mask_bit / 8 : NULL);
#endif
    for (; i < p->n; i++) {
        int32_t acc = mct_mac(half, p->mult_a, a[i] - p->z_a);
        acc = mct_mac(acc, p->mult_b, b[i] - p->z_b);
        mct_put(p->z_y + (acc >> p->shift), p->lo, p->hi, y + i, mask, mask_bit + i);
    }
}
