/* Kernels for cores with the DSP extension; mct_conv2d_dw_s8 chooses. */
#ifndef MCT_CONV2D_DW_FAST_H
#define MCT_CONV2D_DW_FAST_H

#include "mct_dsp.h"
#include "mct_types.h"

#if MCT_DSP

/* As mct_conv2d_dw_s8; 0 and nothing done if the shape or the scratch memory is not for them. */
int mct_conv2d_dw_dense_dsp(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x, int8_t *w,
                            uint8_t *frac, int32_t *bias, mct_update_stats *stats);
int mct_conv2d_dw_depthwise_dsp(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x,
                                int8_t *w, uint8_t *frac, int32_t *bias, mct_update_stats *stats);

#endif
#endif
