/* conv2d and conv2d_dx: their shapes agree, their tables and frozen weights are in range. */
#include "verify.h"

/* The two blocks of weights, see the notes to section 4 of SPEC-image. */
static mct_status check_depthwise_blocks(mct_check *c, const mct_conv_slots *s, uint64_t taps)
{
    const mct_image_tensor *a = c->t[s->w_trained], *b = c->t[s->w_frozen];
    uint64_t channels = (a != NULL ? a->h : 0u) + (uint64_t)(b != NULL ? b->h : 0u);
    uint32_t any = a != NULL ? s->w_trained : s->w_frozen;
    if (a != NULL)
        MCT_TRY(mct_check_shape(c, s->w_trained, a->h, taps, 1));
    if (b != NULL)
        MCT_TRY(mct_check_shape(c, s->w_frozen, b->h, taps, 1));
    return mct_require(c, channels == c->t[s->x]->c, MCT_ERR_SHAPE, any);
}

static mct_status check_blocks(mct_check *c, const mct_conv_slots *s, uint64_t taps,
                               uint32_t groups)
{
    const mct_image_tensor *a = c->t[s->w_trained], *b = c->t[s->w_frozen];
    uint64_t channels = (a != NULL ? a->c : 0u) + (uint64_t)(b != NULL ? b->c : 0u);
    uint32_t any = a != NULL ? s->w_trained : s->w_frozen, c_out = c->t[s->y]->c;
    if (a != NULL)
        MCT_TRY(mct_check_shape(c, s->w_trained, c_out, taps, a->c));
    if (b != NULL)
        MCT_TRY(mct_check_shape(c, s->w_frozen, c_out, taps, b->c));
    MCT_TRY(mct_require(c, groups == 1 || a == NULL || b == NULL, MCT_ERR_SLOT, s->w_frozen));
    return mct_require(c, channels == c->t[s->x]->c / groups, MCT_ERR_SHAPE, any);
}

static mct_status check_frozen(mct_check *c, uint32_t slot)
{
    const int8_t *w = mct_kept(c->image, NULL, c->t[slot]);
    uint64_t n = w == NULL ? 0 : mct_count(c->t[slot]);
    for (uint64_t i = 0; i < n; i++)
        MCT_TRY(mct_require(c, w[i] != -128, MCT_ERR_WEIGHT, slot));
    return MCT_OK;
}

static mct_status check_conv(mct_check *c, const mct_conv_slots *s)
{
    const mct_image_tensor *a = c->t[s->w_trained], *b = c->t[s->w_frozen];
    uint32_t c_in = c->t[s->x]->c, c_out = c->t[s->y]->c, groups, taps;
    MCT_TRY(mct_check_window(c, s->x, s->y));
    MCT_TRY(mct_check_param(c, s->groups, 1, 0xffff));
    groups = (uint32_t)c->in->params[s->groups];
    taps = (uint32_t)(c->in->params[0] * c->in->params[1]);
    MCT_TRY(
        mct_require(c, c_in % groups == 0 && c_out % groups == 0, MCT_ERR_PARAMETER, s->groups));
    MCT_TRY(mct_require(c, a != NULL || b != NULL, MCT_ERR_SLOT, s->w_frozen));
    if (mct_depthwise(groups, c_in, c_out))
        MCT_TRY(check_depthwise_blocks(c, s, taps));
    else
        MCT_TRY(check_blocks(c, s, taps, groups));
    MCT_TRY(
        mct_require(c, (c->t[s->perm] != NULL) == (a != NULL && b != NULL), MCT_ERR_SLOT, s->perm));
    MCT_TRY(mct_check_permutation(c, s->perm, c_in));
    return check_frozen(c, s->w_frozen);
}

mct_status mct_check_conv2d(mct_check *c)
{
    uint32_t c_out = c->t[MCT_CONV2D_Y]->c;
    MCT_TRY(check_conv(c, &mct_conv2d_slots));
    MCT_TRY(mct_check_count(c, MCT_CONV2D_BIAS, c_out));
    MCT_TRY(mct_check_positive_table(c, MCT_CONV2D_MULT, c_out));
    MCT_TRY(mct_check_u8_table(c, MCT_CONV2D_SHIFT, c_out, 15));
    MCT_TRY(mct_check_count(c, MCT_CONV2D_MASK, mct_count(c->t[MCT_CONV2D_Y])));
    return mct_check_clamp(c, MCT_CONV2D_P_LO, MCT_CONV2D_P_HI);
}

/* |acc| <= 127 * 2^F * 127 * K, section 6 of SPEC-arithmetic. */
static int fits(uint64_t k, uint32_t f)
{
    return ((127u * 127u * k) << f) <= INT32_MAX;
}

/* e_x over e_y: mct_depthwise_dx_inplace_s8. */
static mct_status check_inplace(mct_check *c)
{
    const mct_image_tensor *e_y = c->t[MCT_CONV2D_DX_E_Y], *e_x = c->t[MCT_CONV2D_DX_E_X];
    const mct_image_tensor *scratch = c->t[MCT_CONV2D_DX_SCRATCH];
    const int32_t *p = c->in->params;
    uint32_t groups = (uint32_t)p[MCT_CONV2D_DX_P_GROUPS];
    if (!mct_overlap(e_y, e_x))
        return MCT_OK;
    MCT_TRY(
        mct_require(c, mct_depthwise(groups, e_x->c, e_y->c), MCT_ERR_OVERLAP, MCT_CONV2D_DX_E_X));
    MCT_TRY(mct_check_like(c, MCT_CONV2D_DX_E_Y, MCT_CONV2D_DX_E_X));
    MCT_TRY(mct_require(c, p[2] == 1 && p[3] == 1, MCT_ERR_OVERLAP, MCT_CONV2D_DX_E_X));
    return mct_require(c, scratch != NULL && scratch->bytes >= (uint32_t)e_x->h * e_x->w,
                       MCT_ERR_OVERLAP, MCT_CONV2D_DX_SCRATCH);
}

mct_status mct_check_conv2d_dx(mct_check *c)
{
    const int32_t *p = c->in->params;
    uint32_t c_out = c->t[MCT_CONV2D_DX_E_Y]->c, groups, f;
    uint64_t k;
    MCT_TRY(check_conv(c, &mct_conv2d_dx_slots));
    MCT_TRY(mct_check_param(c, MCT_CONV2D_DX_P_F, 0, 8));
    groups = (uint32_t)p[MCT_CONV2D_DX_P_GROUPS];
    f = (uint32_t)p[MCT_CONV2D_DX_P_F];
    k = (uint64_t)(c_out / groups) * (uint32_t)(p[0] * p[1]);
    MCT_TRY(mct_require(c, fits(k, f), MCT_ERR_PARAMETER, MCT_CONV2D_DX_P_F));
    MCT_TRY(mct_check_r_table(c, MCT_CONV2D_DX_R, c_out, 1 << f));
    MCT_TRY(mct_check_mant_table(c, MCT_CONV2D_DX_MANT, groups));
    MCT_TRY(mct_check_exp_table(c, MCT_CONV2D_DX_EXP, groups));
    MCT_TRY(mct_check_like(c, MCT_CONV2D_DX_SKIP, MCT_CONV2D_DX_E_X));
    MCT_TRY(check_inplace(c));
    return mct_check_count(c, MCT_CONV2D_DX_MASK, mct_count(c->t[MCT_CONV2D_DX_E_X]));
}
