#include "mct_kernels.h"
#include "mct_scratch.h"

uint32_t mct_conv2d_dw_scratch_bytes(const mct_conv2d_dw *p)
{
    uint32_t vectors = mct_dw_vectors(p), fit;
    if (mct_dw_planes_for(p))
        return mct_dw_planes_bytes(p, mct_dw_planes_rows(p, MCT_DW_BYTES_MAX));
    if (p->groups != 1 || mct_dw_bytes(p, 1) > MCT_DW_BYTES_MAX)
        return 0;
    fit = mct_dw_vectors_in(p, MCT_DW_BYTES_MAX);
    if (vectors <= fit)
        return mct_dw_bytes(p, vectors);
    return mct_dw_bytes(p, fit) + 16 * MCT_QUADS(p->rows); /* changes of the rows' sums */
}
