/* The end of every forward operator that can clip: clamp, store, note in the mask (section 2). */
#ifndef MCT_OUTPUT_H
#define MCT_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "mct_arith.h"

/* Stores v clamped to [lo, hi]; bit is 1 in mask (unless NULL) where the clamp changed nothing. */
static inline void mct_put(int32_t v, int32_t lo, int32_t hi, int8_t *y, uint8_t *mask,
                           uint32_t bit)
{
    int32_t clamped = mct_sat(v, lo, hi);
    *y = (int8_t)clamped;
    if (mask != NULL)
        mct_mask_put(mask, bit, clamped == v);
}

#endif
