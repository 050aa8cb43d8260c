/* Kernels of output rows for cores with extensions, and without; mct_conv2d_rows_s8 chooses. */
#ifndef MCT_CONV2D_FAST_H
#define MCT_CONV2D_FAST_H

#include "mct_dsp.h"
#include "mct_types.h"

#if defined(__ARM_FEATURE_MVE)
#define MCT_MVE 1
#else
#define MCT_MVE 0
#endif

#if MCT_MVE

/* As mct_conv2d_rows_s8; 0 and nothing done if the shape is not for it. */
int mct_conv2d_pointwise_mve(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                             int8_t *y, uint8_t *mask);

#endif

#if !MCT_DSP

/* The same for other cores. */
int mct_conv2d_pointwise_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                            int8_t *y, uint8_t *mask);
int mct_conv2d_depthwise_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                            int8_t *y, uint8_t *mask);

#endif

#if MCT_DSP

/* As mct_conv2d_rows_s8; 0 and nothing done if the shape or the scratch memory is not for them. */
int mct_conv2d_dense_dsp(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                         int8_t *y, uint8_t *mask);
int mct_conv2d_parts_dsp(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                         int8_t *y, uint8_t *mask);
int mct_conv2d_depthwise_dsp(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                             int8_t *y, uint8_t *mask);

#endif
#endif
