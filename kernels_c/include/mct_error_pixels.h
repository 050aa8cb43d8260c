/*
 * The end of a convolution's error (mct_error.h) for cores with the DSP extension: four
 * neighbouring channels of some pixels at a time.
 */
#ifndef MCT_ERROR_PIXELS_H
#define MCT_ERROR_PIXELS_H

#include "mct_error4.h"

#if MCT_DSP

/* What holds for a tensor. The order of the words down to the end is that of an asm loop. */
typedef struct {
    uint32_t golden, first, second; /* constants of the random bits */
    uint32_t mult[4];               /* M of the four channels */
    uint32_t ahead;                 /* from pixel to pixel, what is added before they are mixed */
    uint32_t step;                  /* elements from pixel to pixel, a multiple of 4 */
    const uint8_t *mask;
    int8_t *e_x;
    mct_error_range range; /* of what is not in stats yet */
    const uint32_t *bytes; /* masks of four bytes from four bits */
    const mct_acc4 *end;
    const mct_error *error;
    mct_error_stats *stats;
} mct_error_pixels;

/* Sets all but mult, and the end, which is not the caller's. */
void mct_error_pixels_start(mct_error_pixels *p, const mct_error *error, uint32_t step, int8_t *e_x,
                            mct_error_stats *stats);

/* As mct_error_write: the sums of n pixels are for elements i to i + 3, i + step to i + step + 3,
 * ...; i is a multiple of 4. */
void mct_error_write_pixels(mct_error_pixels *p, uint32_t i, const mct_acc4 *sums, uint32_t n);

#endif
#endif
