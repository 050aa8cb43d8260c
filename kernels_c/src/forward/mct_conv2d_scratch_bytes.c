#include "mct_kernels.h"
#include "mct_scratch.h"

uint32_t mct_conv2d_scratch_bytes(const mct_conv2d *p, uint32_t rows, int masked)
{
    const mct_conv *conv = &p->conv;
    if (conv->groups == 1) {
        mct_dense_scratch need = mct_dense_scratch_of(conv);
        if (rows * conv->y.w == 1)
            return need.window + need.lane;
        return need.window + MCT_LANES * need.lane + need.weights;
    }
    if (mct_planes_for(conv)) {
        int sums = !mct_planes_plain(p, masked);
        rows = mct_planes_rows(conv, rows, sums, MCT_PLANES_BYTES_MAX);
        return mct_planes_bytes(conv, rows, conv->y.w, sums);
    }
    return 0;
}
