/*
 * What holds for a row is read once, two weights share their random bits, and for the usual shifts
 * the step is in the upper word of d * mult + r * scale.
 *
 * No overflow: |d * mult| <= 2^62 and r * scale < 2^47.
 */
#include "mct_weight_row.h"

#define USUAL_MIN 32
#define USUAL_MAX 47

/* Weight i of the block. */
static void move(mct_weight_row *row, uint32_t i, int32_t step)
{
    uint32_t bits = row->p->bits;
    int32_t one = (int32_t)1 << bits, old = row->w[i], master;
    int64_t exact = (int64_t)old * one + mct_get_fraction(row->frac, bits, i) - step;
    master = mct_sat64(exact, -MCT_WEIGHT_RAIL * one, MCT_WEIGHT_RAIL * one + one - 1);
    if (master != exact)
        row->stats->clamped++;
    row->w[i] = (int8_t)(master >> bits);
    mct_put_fraction(row->frac, bits, i, (uint32_t)master & (uint32_t)(one - 1));
    row->change += row->w[i] - old;
}

void mct_step_weights(mct_weight_row *row, uint32_t i, const int32_t *d, uint32_t n)
{
    uint32_t key = row->p->update.key, pair = mct_mix32(key + 0x9e3779b9u * (i >> 1)), r;
    int32_t mult = (int32_t)row->mult, s = row->shift, step;
    int usual = s >= USUAL_MIN && s <= USUAL_MAX;
    uint32_t scale = usual ? 1u << (s - 16) : 0;
    for (const int32_t *end = d + n; d != end; d++, i++) {
        if (i % 2 != 0)
            r = pair >> 16;
        else {
            pair = mct_mix32(key + 0x9e3779b9u * (i >> 1));
            r = pair & 0xffffu;
        }
        if (usual)
            step =
                (int32_t)(((int64_t)*d * mult + (int64_t)((uint64_t)r * scale)) >> 32) >> (s - 32);
        else
            step = mct_step(*d, row->mult, s, r);
        if (step != 0)
            move(row, i, step);
    }
}
