/* avgpool, maxpool and their errors. */
#include "verify.h"

static mct_status check_pool(mct_check *c, uint32_t x, uint32_t y)
{
    MCT_TRY(mct_check_window(c, x, y));
    return mct_require(c, c->t[x]->c == c->t[y]->c, MCT_ERR_SHAPE, y);
}

mct_status mct_check_avgpool(mct_check *c)
{
    const int32_t *p = c->in->params;
    uint64_t acc;
    MCT_TRY(check_pool(c, MCT_AVGPOOL_X, MCT_AVGPOOL_Y));
    MCT_TRY(mct_check_param(c, MCT_AVGPOOL_P_MULT, 0, INT32_MAX));
    MCT_TRY(mct_check_param(c, MCT_AVGPOOL_P_SHIFT, 0, 15));
    acc = (255u * (uint64_t)(p[0] * p[1])) << p[MCT_AVGPOOL_P_SHIFT];
    return mct_require(c, acc <= INT32_MAX, MCT_ERR_PARAMETER, MCT_AVGPOOL_P_SHIFT);
}

/* A tap's index is a byte. */
static mct_status check_maxpool(mct_check *c, uint32_t x, uint32_t y, uint32_t index)
{
    MCT_TRY(check_pool(c, x, y));
    MCT_TRY(mct_require(c, c->in->params[0] * c->in->params[1] <= 255, MCT_ERR_PARAMETER, 0));
    return mct_check_like(c, index, y);
}

mct_status mct_check_maxpool(mct_check *c)
{
    return check_maxpool(c, MCT_MAXPOOL_X, MCT_MAXPOOL_Y, MCT_MAXPOOL_INDEX);
}

mct_status mct_check_avgpool_dx(mct_check *c)
{
    MCT_TRY(check_pool(c, MCT_AVGPOOL_DX_E_X, MCT_AVGPOOL_DX_E_Y));
    MCT_TRY(mct_check_mant_exp(c, MCT_AVGPOOL_DX_P_MANT, MCT_AVGPOOL_DX_P_EXP));
    MCT_TRY(mct_check_like(c, MCT_AVGPOOL_DX_SKIP, MCT_AVGPOOL_DX_E_X));
    return mct_check_count(c, MCT_AVGPOOL_DX_MASK, mct_count(c->t[MCT_AVGPOOL_DX_E_X]));
}

mct_status mct_check_maxpool_dx(mct_check *c)
{
    MCT_TRY(check_maxpool(c, MCT_MAXPOOL_DX_E_X, MCT_MAXPOOL_DX_E_Y, MCT_MAXPOOL_DX_INDEX));
    MCT_TRY(mct_check_like(c, MCT_MAXPOOL_DX_SKIP, MCT_MAXPOOL_DX_E_X));
    return mct_check_count(c, MCT_MAXPOOL_DX_MASK, mct_count(c->t[MCT_MAXPOOL_DX_E_X]));
}
