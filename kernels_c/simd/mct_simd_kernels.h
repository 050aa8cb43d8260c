/* All kernels for the vectors that were included before; MCT_SIMD_TABLE(name) is a table of them.
 */
#ifndef MCT_SIMD_KERNELS_H
#define MCT_SIMD_KERNELS_H

#include "mct_simd.h"
#include "mct_simd_conv2d.h"
#include "mct_simd_conv2d_dx.h"
#include "mct_simd_conv2d_dw.h"
#include "mct_simd_depthwise.h"
#include "mct_simd_depthwise_dw.h"
#include "mct_simd_other.h"

static int mct_simd_conv2d(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                           int8_t *y, uint8_t *mask)
{
    return mct_conv2d_dense(p, x, oy, rows, y, mask) ||
           mct_conv2d_depthwise(p, x, oy, rows, y, mask);
}

static int mct_simd_conv2d_dx(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                              mct_error_stats *stats)
{
    return mct_conv2d_dx_dense(p, e_y, e_x, stats) || mct_conv2d_dx_depthwise(p, e_y, e_x, stats);
}

static int mct_simd_conv2d_dw(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x, int8_t *w,
                              uint8_t *frac, int32_t *bias, mct_update_stats *stats)
{
    return mct_conv2d_dw_dense(p, e_y, x, w, frac, bias, stats) ||
           mct_conv2d_dw_depthwise(p, e_y, x, w, frac, bias, stats);
}

#define MCT_SIMD_TABLE(name)                                                                       \
    {                                                                                              \
        name, mct_simd_conv2d, mct_simd_conv2d_dx, mct_simd_conv2d_dw, mct_simd_add,               \
            mct_simd_bias_steps, mct_simd_error_copy, mct_simd_avgpool_dx                          \
    }

#endif
