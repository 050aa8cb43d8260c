/* add, rescale, gather, error_sum: what treats each element or channel by itself. */
#include "verify.h"

mct_status mct_check_add(mct_check *c)
{
    const int32_t *p = c->in->params;
    uint64_t sum;
    MCT_TRY(mct_check_like(c, MCT_ADD_B, MCT_ADD_A));
    MCT_TRY(mct_check_like(c, MCT_ADD_Y, MCT_ADD_A));
    MCT_TRY(mct_check_count(c, MCT_ADD_MASK, mct_count(c->t[MCT_ADD_Y])));
    MCT_TRY(mct_check_param(c, MCT_ADD_P_MULT_A, 0, INT32_MAX));
    MCT_TRY(mct_check_param(c, MCT_ADD_P_MULT_B, 0, INT32_MAX));
    MCT_TRY(mct_check_param(c, MCT_ADD_P_N, 1, 24));
    sum = 255u * ((uint64_t)p[MCT_ADD_P_MULT_A] + (uint64_t)p[MCT_ADD_P_MULT_B]);
    sum += 1u << (p[MCT_ADD_P_N] - 1);
    MCT_TRY(mct_require(c, sum <= INT32_MAX, MCT_ERR_PARAMETER, MCT_ADD_P_MULT_A));
    return mct_check_clamp(c, MCT_ADD_P_LO, MCT_ADD_P_HI);
}

/* Channels c0 to c0 + n - 1 exist in a tensor with the pixels of the other one. */
static mct_status check_channels(mct_check *c, uint32_t slot, uint32_t other, uint32_t c0)
{
    const mct_image_tensor *t = c->t[slot], *part = c->t[other];
    MCT_TRY(mct_require(c, t->h == part->h && t->w == part->w, MCT_ERR_SHAPE, slot));
    MCT_TRY(mct_require(c, t->c >= part->c, MCT_ERR_SHAPE, slot));
    return mct_check_param(c, c0, 0, t->c - part->c);
}

mct_status mct_check_rescale(mct_check *c)
{
    MCT_TRY(check_channels(c, MCT_RESCALE_Y, MCT_RESCALE_X, MCT_RESCALE_P_C0));
    MCT_TRY(mct_check_count(c, MCT_RESCALE_MASK, mct_count(c->t[MCT_RESCALE_Y])));
    MCT_TRY(mct_check_param(c, MCT_RESCALE_P_MULT, 0, INT32_MAX));
    MCT_TRY(mct_check_param(c, MCT_RESCALE_P_SHIFT, 0, 15));
    return mct_check_clamp(c, MCT_RESCALE_P_LO, MCT_RESCALE_P_HI);
}

mct_status mct_check_gather(mct_check *c)
{
    const mct_image_tensor *x = c->t[MCT_GATHER_X], *y = c->t[MCT_GATHER_Y];
    MCT_TRY(mct_require(c, x->h == y->h && x->w == y->w, MCT_ERR_SHAPE, MCT_GATHER_Y));
    return mct_check_u16_table(c, MCT_GATHER_CHAN, y->c, x->c);
}

/* Inputs come without gaps. The copy of a single one has the exponent of what it copies. */
mct_status mct_check_error_sum(mct_check *c)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < MCT_ERROR_SUM_MAX; i++) {
        uint32_t slot = MCT_ERROR_SUM_E0 + i, c0 = MCT_ERROR_SUM_P_C0 + i;
        if (c->t[slot] == NULL) {
            MCT_TRY(mct_check_param(c, c0, 0, 0));
            continue;
        }
        MCT_TRY(mct_require(c, used == i, MCT_ERR_SLOT, slot));
        MCT_TRY(check_channels(c, slot, MCT_ERROR_SUM_E_X, c0));
        used++;
    }
    MCT_TRY(
        mct_require(c, used != 1 || c->t[MCT_ERROR_SUM_E0]->error == c->t[MCT_ERROR_SUM_E_X]->error,
                    MCT_ERR_SLOT, MCT_ERROR_SUM_E_X));
    return mct_check_count(c, MCT_ERROR_SUM_MASK, mct_count(c->t[MCT_ERROR_SUM_E_X]));
}
