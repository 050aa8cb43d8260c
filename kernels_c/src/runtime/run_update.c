/* Handlers of the updates of convolutions. */
#include "engine.h"
#include "mct_kernels.h"

mct_status mct_run_conv2d_dw(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_CONV2D_DW_X);
    const mct_image_tensor *e_y = mct_slot(&e->image, in, MCT_CONV2D_DW_E_Y);
    const mct_image_tensor *w = mct_slot(&e->image, in, MCT_CONV2D_DW_W);
    mct_update_stats stats = {0};
    mct_conv2d_dw p = {
        .x = mct_shape_of(x),
        .y = mct_shape_of(e_y),
        .win = mct_window_of(in),
        .groups = (uint16_t)in->params[MCT_CONV2D_DW_P_GROUPS],
        .rows = w->h,
        .cols = w->c,
        .chan = mct_in(e, in, MCT_CONV2D_DW_CHAN),
        .z_x = x->zero_point,
        .bits = (uint8_t)in->params[MCT_CONV2D_DW_P_BITS],
        .scratch = mct_scratch_of(e, in, MCT_CONV2D_DW_SCRATCH),
        .update =
            {
                .mant = mct_in(e, in, MCT_CONV2D_DW_MANT),
                .exp = mct_in(e, in, MCT_CONV2D_DW_EXP),
                .shift = mct_in(e, in, MCT_CONV2D_DW_SHIFT),
                .reach = in->params[MCT_CONV2D_DW_P_REACH],
                .rate = e->rate,
                .e_y = mct_exponent_of(e, e_y),
                .key = mct_key(e, in->params[MCT_CONV2D_DW_P_RNG]),
            },
    };
    if (mct_no_error(e, e_y, NULL))
        return MCT_OK;
    mct_conv2d_dw_s8(&p, mct_in(e, in, MCT_CONV2D_DW_E_Y), mct_in(e, in, MCT_CONV2D_DW_X),
                     mct_out(e, in, MCT_CONV2D_DW_W), mct_out(e, in, MCT_CONV2D_DW_FRAC),
                     mct_out(e, in, MCT_CONV2D_DW_BIAS), &stats);
    e->clamped += stats.clamped;
    return MCT_OK;
}

mct_status mct_run_conv2d_db(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *e_y = mct_slot(&e->image, in, MCT_CONV2D_DB_E_Y);
    mct_conv2d_db p = {
        .y = mct_shape_of(e_y),
        .update =
            {
                .mant = mct_in(e, in, MCT_CONV2D_DB_MANT),
                .exp = mct_in(e, in, MCT_CONV2D_DB_EXP),
                .shift = mct_in(e, in, MCT_CONV2D_DB_SHIFT),
                .reach = in->params[MCT_CONV2D_DB_P_REACH],
                .rate = e->rate,
                .e_y = mct_exponent_of(e, e_y),
                .key = mct_key(e, in->params[MCT_CONV2D_DB_P_RNG]),
            },
    };
    if (mct_no_error(e, e_y, NULL))
        return MCT_OK;
    mct_conv2d_db_s8(&p, mct_in(e, in, MCT_CONV2D_DB_E_Y), mct_out(e, in, MCT_CONV2D_DB_BIAS));
    return MCT_OK;
}
