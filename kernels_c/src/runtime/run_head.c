/* Handlers of the classifier and the loss. */
#include "engine.h"
#include "mct_kernels.h"

static mct_head head_of(const mct_image_tensor *x, const mct_image_tensor *classes)
{
    mct_head p = {(uint32_t)mct_count(x), (uint16_t)mct_count(classes), x->zero_point, x->scale};
    return p;
}

mct_status mct_run_head(mct_engine *e, const mct_image_instruction *in)
{
    mct_head p =
        head_of(mct_slot(&e->image, in, MCT_HEAD_X), mct_slot(&e->image, in, MCT_HEAD_LOGITS));
    mct_head_f32(&p, mct_in(e, in, MCT_HEAD_X), mct_in(e, in, MCT_HEAD_W),
                 mct_in(e, in, MCT_HEAD_B), mct_out(e, in, MCT_HEAD_LOGITS));
    return MCT_OK;
}

mct_status mct_run_loss(mct_engine *e, const mct_image_instruction *in)
{
    mct_loss p = {e->image.header->classes, (uint16_t)e->label};
    return mct_loss_f32(&p, mct_in(e, in, MCT_LOSS_LOGITS), mct_out(e, in, MCT_LOSS_DF), &e->loss);
}

mct_status mct_run_head_dx(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *e_x = mct_slot(&e->image, in, MCT_HEAD_DX_E_X);
    const mct_image_tensor *df = mct_slot(&e->image, in, MCT_HEAD_DX_DF);
    mct_head_dx p = {(uint32_t)mct_count(e_x), (uint16_t)mct_count(df),
                     mct_in(e, in, MCT_HEAD_DX_MASK), mct_key(e, in->params[MCT_HEAD_DX_P_RNG])};
    mct_top_error top = {0};
    mct_status status =
        mct_head_dx_s8(&p, mct_in(e, in, MCT_HEAD_DX_DF), mct_in(e, in, MCT_HEAD_DX_W),
                       mct_out(e, in, MCT_HEAD_DX_SCRATCH), mct_out(e, in, MCT_HEAD_DX_E_X), &top);
    if (status == MCT_OK) {
        e->l_top = top.l_top;
        e->saturated += top.stats.saturated;
        mct_set_exponent(e, e_x, top.e);
    }
    return status;
}

mct_status mct_run_head_dw(mct_engine *e, const mct_image_instruction *in)
{
    mct_head p =
        head_of(mct_slot(&e->image, in, MCT_HEAD_DW_X), mct_slot(&e->image, in, MCT_HEAD_DW_DF));
    mct_head_dw_f32(&p, e->lr_head, mct_in(e, in, MCT_HEAD_DW_X), mct_in(e, in, MCT_HEAD_DW_DF),
                    mct_out(e, in, MCT_HEAD_DW_W), mct_out(e, in, MCT_HEAD_DW_B));
    return MCT_OK;
}
