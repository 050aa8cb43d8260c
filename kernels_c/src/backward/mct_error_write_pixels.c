/*
 * No overflow: see mct_error.h; a skip error q with an exponent above the output's, in units of
 * 2^(e_out - 32), is (q << up) * scale with |q << up| < 2^31 and scale <= 2^30.
 */
#include "mct_error_pixels.h"

#if MCT_DSP

/* How skip errors are aligned (section 6); scale 0: not in this way. */
typedef struct {
    uint32_t up;
    int32_t scale;
} alignment;

static alignment alignment_of(const mct_error *e)
{
    int32_t d = 32 + e->e_skip - e->e_out;
    uint32_t by = d > 54 ? 54u : (uint32_t)d;
    alignment a = {0, 0};
    if (d < 0)
        return a;
    a.up = by > 30 ? by - 30 : 0;
    a.scale = (int32_t)(1u << (by - a.up));
    return a;
}

static MCT_NOINLINE void write_slow(const mct_error_pixels *p, uint32_t i, const mct_acc4 *sum)
{
    const uint32_t mult[4] = {p->mult, p->mult, p->mult, p->mult};
    const int32_t acc[4] = {sum->a0, sum->a1, sum->a2, sum->a3};
    mct_error_write_slow(p->error, i, acc, mult, p->e_x, p->stats);
}

/* Nothing but 0s below the sign, or nothing but 1s: small is below the power of two above |q|. */
MCT_INLINE uint32_t magnitude(int32_t q)
{
    return (uint32_t)(q ^ (q >> 31));
}

/* Element j of a skip error's word, times a.scale. */
MCT_INLINE int64_t aligned(uint32_t word, uint32_t j, alignment a)
{
    int32_t q = (int8_t)(word >> 8 * j);
    return (int64_t)(int32_t)((uint32_t)q << a.up) * a.scale;
}

/* skipped is a constant where it is called. */
MCT_INLINE void write_all(mct_error_pixels *p, uint32_t i, const mct_acc4 *sum, uint32_t n,
                          int skipped, alignment a)
{
    const mct_error *e = p->error;
    const uint32_t golden = mct_opaque(0x9e3779b9u);
    const mct_acc4 *end = sum + n;
    mct_error_range range = p->range;
    int32_t mult = (int32_t)p->mult;
    for (; sum != end; sum++, i += p->step) {
        uint32_t mask = mct_mask_get4(e->mask, i), word = 0;
        if (mask != 0) {
            uint32_t r0 = e->key + golden * (i >> 1), r1 = r0 + golden;
            uint32_t skip = skipped ? mct_load4(e->skip + i) : 0;
            int64_t v0, v1, v2, v3;
            int32_t q0, q1, q2, q3;
            mct_mix_both(&r0, &r1);
            v0 = skipped ? aligned(skip, 0, a) + (r0 << 16) : (int64_t)(r0 << 16);
            q0 = (int32_t)((v0 + (int64_t)sum->a0 * mult) >> 32);
            v1 = skipped ? aligned(skip, 1, a) + (r0 & 0xffff0000u) : (int64_t)(r0 & 0xffff0000u);
            q1 = (int32_t)((v1 + (int64_t)sum->a1 * mult) >> 32);
            v2 = skipped ? aligned(skip, 2, a) + (r1 << 16) : (int64_t)(r1 << 16);
            q2 = (int32_t)((v2 + (int64_t)sum->a2 * mult) >> 32);
            v3 = skipped ? aligned(skip, 3, a) + (r1 & 0xffff0000u) : (int64_t)(r1 & 0xffff0000u);
            q3 = (int32_t)((v3 + (int64_t)sum->a3 * mult) >> 32);
            if ((magnitude(q0) | magnitude(q1) | magnitude(q2) | magnitude(q3)) > 126u) {
                write_slow(p, i, sum);
                continue;
            }
            word = mct_bytes4(q0, q1, q2, q3);
            word &= (mask * 0x00204081u & 0x01010101u) * 255u; /* bits to bytes */
            range.max = mct_max4(word, range.max);
            range.min = mct_min4(word, range.min);
        }
        mct_store4(p->e_x + i, word);
    }
    p->range = range;
}

void mct_error_write_pixels(mct_error_pixels *p, uint32_t i, const mct_acc4 *sums, uint32_t n)
{
    const mct_error *e = p->error;
    alignment a = {0, 0};
    if (e->skip == NULL) {
        write_all(p, i, sums, n, 0, a);
        return;
    }
    a = alignment_of(e);
    if (a.scale != 0) {
        write_all(p, i, sums, n, 1, a);
        return;
    }
    for (; n > 0; n--, sums++, i += p->step)
        write_slow(p, i, sums);
}

#endif
