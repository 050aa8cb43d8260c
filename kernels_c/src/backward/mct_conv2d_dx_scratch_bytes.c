#include "mct_kernels.h"
#include "mct_scratch.h"

uint32_t mct_conv2d_dx_scratch_bytes(const mct_conv *conv)
{
    if (conv->groups == 1)
        return mct_dx_lanes_bytes(conv) + mct_dx_wide_bytes(conv);
    if (mct_dx_planes_for(conv)) {
        uint32_t rows = mct_dx_planes_rows(conv, MCT_PLANES_BYTES_MAX);
        return mct_dx_planes_bytes(conv, rows, mct_dx_planes_down(conv, rows));
    }
    return 0;
}
