/*
 * The end of an ungrouped convolution's error (mct_error.h) for cores with the DSP extension: four
 * neighbouring channels of some pixels at a time.
 */
#ifndef MCT_ERROR_PIXELS_H
#define MCT_ERROR_PIXELS_H

#include "mct_error4.h"

#if MCT_DSP

typedef struct {
    const mct_error *error;
    int8_t *e_x;
    mct_error_stats *stats;
    mct_error_range range; /* of what is not in stats yet */
    uint32_t mult;         /* M of all channels */
    uint32_t step;         /* channels: a multiple of 4 */
} mct_error_pixels;

/* As mct_error_write: the sums of n pixels are for elements i to i + 3, i + step to i + step + 3,
 * ...; i is a multiple of 4. */
void mct_error_write_pixels(mct_error_pixels *p, uint32_t i, const mct_acc4 *sums, uint32_t n);

#endif
#endif
