/* The classifier and its loss: x is flat, w is (classes, features). */
#include "verify.h"

static mct_status check_matrix(mct_check *c, uint32_t w, uint32_t features, uint32_t classes)
{
    uint64_t rows = mct_count(c->t[classes]);
    /* Both are below 2^31, the product fits; a count of 16 bits goes to the kernels. */
    MCT_TRY(mct_require(c, rows <= 0xffff, MCT_ERR_SHAPE, classes));
    return mct_check_count(c, w, rows * mct_count(c->t[features]));
}

mct_status mct_check_head(mct_check *c)
{
    MCT_TRY(check_matrix(c, MCT_HEAD_W, MCT_HEAD_X, MCT_HEAD_LOGITS));
    return mct_check_count(c, MCT_HEAD_B, mct_count(c->t[MCT_HEAD_LOGITS]));
}

mct_status mct_check_loss(mct_check *c)
{
    MCT_TRY(mct_check_count(c, MCT_LOSS_LOGITS, c->image->header->classes));
    return mct_check_count(c, MCT_LOSS_DF, c->image->header->classes);
}

mct_status mct_check_head_dx(mct_check *c)
{
    uint64_t features = mct_count(c->t[MCT_HEAD_DX_E_X]);
    MCT_TRY(check_matrix(c, MCT_HEAD_DX_W, MCT_HEAD_DX_E_X, MCT_HEAD_DX_DF));
    MCT_TRY(mct_check_count(c, MCT_HEAD_DX_SCRATCH, features));
    return mct_check_count(c, MCT_HEAD_DX_MASK, features);
}

mct_status mct_check_head_dw(mct_check *c)
{
    MCT_TRY(check_matrix(c, MCT_HEAD_DW_W, MCT_HEAD_DW_X, MCT_HEAD_DW_DF));
    return mct_check_count(c, MCT_HEAD_DW_B, mct_count(c->t[MCT_HEAD_DW_DF]));
}
