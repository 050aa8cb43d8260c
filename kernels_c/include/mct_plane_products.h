/*
 * Gradients of depthwise kernels with the DSP extension: errors and inputs lie in planes
 * (mct_planes.h), the errors of a row filled up to whole groups of four with zeros.
 */
#ifndef MCT_PLANE_PRODUCTS_H
#define MCT_PLANE_PRODUCTS_H

#include "mct_planes.h"

#if MCT_DSP

/* The rows that are summed over; the order of the words is that of the asm loops. */
typedef struct {
    const int16_t *end; /* of the errors, which lie row behind row */
    uint32_t skip;      /* bytes from the inputs behind a row's groups to the next row */
    uint32_t groups;    /* of four errors in a row */
} mct_product_rows;

/*
 * t[j] = sum of e[i] * x[i * sw + j], rows as above, for three values of j from 0 on, or, if wide
 * and sw is 1, for four.
 */
void mct_plane_products(int32_t t[4], const int16_t *e, const int16_t *x,
                        const mct_product_rows *rows, uint32_t sw, int wide);

#endif
#endif
