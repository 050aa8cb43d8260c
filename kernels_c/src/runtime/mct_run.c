#include "engine.h"

/* The one table from an operation to what runs it. */
const mct_handler mct_handlers[MCT_OPS] = {
    [MCT_OP_CONV2D] = mct_run_conv2d,
    [MCT_OP_ADD] = mct_run_rows,
    [MCT_OP_AVGPOOL] = mct_run_rows,
    [MCT_OP_MAXPOOL] = mct_run_rows,
    [MCT_OP_RESCALE] = mct_run_rows,
    [MCT_OP_GATHER] = mct_run_rows,
    [MCT_OP_HEAD] = mct_run_head,
    [MCT_OP_LOSS] = mct_run_loss,
    [MCT_OP_HEAD_DX] = mct_run_head_dx,
    [MCT_OP_HEAD_DW] = mct_run_head_dw,
    [MCT_OP_CONV2D_DX] = mct_run_conv2d_dx,
    [MCT_OP_AVGPOOL_DX] = mct_run_avgpool_dx,
    [MCT_OP_MAXPOOL_DX] = mct_run_maxpool_dx,
    [MCT_OP_ERROR_SUM] = mct_run_error_sum,
    [MCT_OP_CONV2D_DW] = mct_run_conv2d_dw,
    [MCT_OP_CONV2D_DB] = mct_run_conv2d_db,
};

mct_status mct_run(mct_engine *e, uint32_t first, uint32_t end)
{
    mct_status status = MCT_OK;
    for (uint32_t i = first; i < end && status == MCT_OK; i++) {
        const mct_image_instruction *in = &e->image.program[i];
        if (in->op == MCT_OP_SEGMENT) {
            i += mct_run_segment(e, i);
            continue;
        }
        mct_begin(e, i);
        status = mct_handlers[in->op](e, in);
        mct_call_hook(e, i, MCT_HOOK_AFTER);
        mct_call_hook(e, i, MCT_HOOK_DONE);
    }
    return status;
}
