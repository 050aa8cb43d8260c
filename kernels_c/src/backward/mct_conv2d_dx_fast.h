/* Kernels for cores with the DSP extension and without; mct_conv2d_dx_s8 chooses. */
#ifndef MCT_CONV2D_DX_FAST_H
#define MCT_CONV2D_DX_FAST_H

#include "mct_dsp.h"
#include "mct_types.h"

#if !MCT_DSP

/* The same as the next ones, for other cores. */
int mct_conv2d_dx_pointwise_s8(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                               mct_error_stats *stats);

#endif

#if MCT_DSP

/* As mct_conv2d_dx_s8; 0 and nothing done if the shape or the scratch memory is not for them. */
int mct_conv2d_dx_dense_dsp(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                            mct_error_stats *stats);
int mct_conv2d_dx_depthwise_dsp(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                                mct_error_stats *stats);

#endif
#endif
