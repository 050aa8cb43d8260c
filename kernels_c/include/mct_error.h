/* The end of every operator that makes an error tensor: align, round, mask, saturate (section 6).
 */
#ifndef MCT_ERROR_H
#define MCT_ERROR_H

#include <stdint.h>

#include "mct_arith.h"
#include "mct_types.h"

/* Element i from v in units of 2^(e_out - 32), |v| < 2^63 - 2^32; stats counts along. */
int8_t mct_error_round(const mct_error *e, uint32_t i, int64_t v, mct_error_stats *stats);

/*
 * Writes element i of e_x from acc, with M[g] = mult, and the skip error, if there is one.
 * |acc * mult| <= 2^62, |skip| <= 2^61 aligned: their sum and the random bits fit 64 bits.
 */
void mct_error_write(const mct_error *e, uint32_t i, int32_t acc, uint32_t mult, int8_t *e_x,
                     mct_error_stats *stats);

#endif
