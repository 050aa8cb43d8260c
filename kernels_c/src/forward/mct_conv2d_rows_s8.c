#include "mct_conv2d_fast.h"
#include "mct_kernels.h"
#include "mct_simd.h"

#if MCT_DSP

static int made_fast(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows, int8_t *y,
                     uint8_t *mask)
{
#if MCT_MVE
    if (mct_conv2d_pointwise_mve(p, x, oy, rows, y, mask))
        return 1;
#endif
    return mct_conv2d_parts_dsp(p, x, oy, rows, y, mask) ||
           mct_conv2d_dense_dsp(p, x, oy, rows, y, mask) ||
           mct_conv2d_depthwise_dsp(p, x, oy, rows, y, mask);
}

#else

static int made_fast(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows, int8_t *y,
                     uint8_t *mask)
{
#if MCT_SIMD
    if (mct_simd_active != NULL && mct_simd_active->conv2d(p, x, oy, rows, y, mask))
        return 1;
#endif
    return mct_conv2d_pointwise_s8(p, x, oy, rows, y, mask) ||
           mct_conv2d_depthwise_s8(p, x, oy, rows, y, mask);
}

#endif

void mct_conv2d_rows_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                        int8_t *y, uint8_t *mask)
{
    if (made_fast(p, x, oy, rows, y, mask))
        return;
    for (uint32_t i = 0; i < rows; i++)
        mct_conv2d_row_s8(p, x, oy + i, y + i * p->conv.y.w * p->conv.y.c, mask);
}
