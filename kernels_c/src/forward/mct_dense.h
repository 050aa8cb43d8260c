/* What the kernel for ungrouped convolutions with the DSP extension works on. */
#ifndef MCT_DENSE_H
#define MCT_DENSE_H

#include "mct_lanes.h"
#include "mct_types.h"

#if MCT_DSP

/* One of the two blocks of weights: its place in the lanes. */
typedef struct {
    const int8_t *w;
    uint32_t cols, n;     /* channels a tap, elements a window */
    uint32_t row;         /* bytes from one output channel's weights to the next's */
    const uint16_t *perm; /* its input channels, NULL: in order */
    int16_t *lanes;
} mct_dense_block;

typedef struct {
    const mct_conv2d *p;
    const mct_rows *x;
    int8_t *y;
    uint8_t *mask;
    uint32_t bit; /* of y[0] in mask */
    mct_dense_block blocks[2];
    int8_t *window;  /* one block's elements of a pixel; NULL: they lie in x as they are */
    int regular;     /* whether whole quads of weights, without shifts and clamps, are all */
    uint32_t oy, ox; /* the next pixel to unpack */
} mct_dense;

/* Unpacks the windows of the next n pixels into lanes; step: halfwords from quad to quad. */
void mct_dense_fill(mct_dense *d, uint32_t n, uint32_t step);

#endif
#endif
