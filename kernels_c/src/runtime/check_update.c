/* conv2d_dw and conv2d_db. Largest sums: |dW| <= 65536 * 127 * 255, |dB| <= 2^24 * 127. */
#include "verify.h"

enum { PIXELS_DW = 65536, PIXELS_DB = 1 << 24 };

typedef struct {
    uint8_t e_y, bias, mant, exp, shift, reach;
} update_slots;

/* No bound of a bias is negative. */
static mct_status check_bounds(mct_check *c, const update_slots *s, uint32_t channels)
{
    const uint8_t *shift = mct_kept(c->image, NULL, c->t[s->shift]);
    MCT_TRY(mct_check_u8_table(c, s->shift, channels, 15));
    MCT_TRY(mct_check_param(c, s->reach, 0, INT32_MAX));
    for (uint32_t o = 0; o < channels; o++) {
        int ok = c->in->params[s->reach] <= INT32_MAX >> shift[o];
        MCT_TRY(mct_require(c, ok, MCT_ERR_TABLE, s->shift));
    }
    return MCT_OK;
}

static mct_status check_update(mct_check *c, const update_slots *s, uint32_t max_pixels)
{
    const mct_image_tensor *e_y = c->t[s->e_y];
    MCT_TRY(mct_require(c, (uint32_t)e_y->h * e_y->w <= max_pixels, MCT_ERR_SHAPE, s->e_y));
    MCT_TRY(mct_check_count(c, s->bias, e_y->c));
    MCT_TRY(mct_check_mant_table(c, s->mant, e_y->c));
    MCT_TRY(mct_check_exp_table(c, s->exp, e_y->c));
    return check_bounds(c, s, e_y->c);
}

static mct_status check_fraction(mct_check *c)
{
    const mct_image_tensor *frac = c->t[MCT_CONV2D_DW_FRAC];
    int32_t bits = c->in->params[MCT_CONV2D_DW_P_BITS], want = 0;
    if (frac != NULL)
        want = frac->dtype == MCT_DTYPE_NIBBLES ? 4 : 8;
    MCT_TRY(mct_require(c, bits == want, MCT_ERR_PARAMETER, MCT_CONV2D_DW_P_BITS));
    return mct_check_like(c, MCT_CONV2D_DW_FRAC, MCT_CONV2D_DW_W);
}

/* x holds whole trained channels of a depthwise convolution, whose channel each one is. */
static mct_status check_depthwise(mct_check *c, uint32_t taps)
{
    const mct_image_tensor *x = c->t[MCT_CONV2D_DW_X], *e_y = c->t[MCT_CONV2D_DW_E_Y];
    int all = x->c == e_y->c;
    MCT_TRY(mct_check_shape(c, MCT_CONV2D_DW_W, x->c, taps, 1));
    MCT_TRY(
        mct_require(c, all || c->t[MCT_CONV2D_DW_CHAN] != NULL, MCT_ERR_SLOT, MCT_CONV2D_DW_CHAN));
    return mct_check_u16_table(c, MCT_CONV2D_DW_CHAN, x->c, e_y->c);
}

static mct_status check_grouped(mct_check *c, uint32_t taps, uint32_t groups)
{
    const mct_image_tensor *x = c->t[MCT_CONV2D_DW_X], *e_y = c->t[MCT_CONV2D_DW_E_Y];
    int divides = x->c % groups == 0 && e_y->c % groups == 0;
    MCT_TRY(mct_require(c, divides, MCT_ERR_PARAMETER, MCT_CONV2D_DW_P_GROUPS));
    MCT_TRY(mct_require(c, c->t[MCT_CONV2D_DW_CHAN] == NULL, MCT_ERR_SLOT, MCT_CONV2D_DW_CHAN));
    return mct_check_shape(c, MCT_CONV2D_DW_W, e_y->c, taps, x->c / groups);
}

mct_status mct_check_conv2d_dw(mct_check *c)
{
    static const update_slots slots = {MCT_CONV2D_DW_E_Y,   MCT_CONV2D_DW_BIAS,
                                       MCT_CONV2D_DW_MANT,  MCT_CONV2D_DW_EXP,
                                       MCT_CONV2D_DW_SHIFT, MCT_CONV2D_DW_P_REACH};
    const mct_image_tensor *x = c->t[MCT_CONV2D_DW_X], *e_y = c->t[MCT_CONV2D_DW_E_Y];
    uint32_t groups, taps;
    MCT_TRY(mct_check_window(c, MCT_CONV2D_DW_X, MCT_CONV2D_DW_E_Y));
    MCT_TRY(mct_check_param(c, MCT_CONV2D_DW_P_GROUPS, 1, 0xffff));
    groups = (uint32_t)c->in->params[MCT_CONV2D_DW_P_GROUPS];
    taps = (uint32_t)(c->in->params[0] * c->in->params[1]);
    if (groups > 1 && groups == e_y->c && x->c <= groups)
        MCT_TRY(check_depthwise(c, taps));
    else
        MCT_TRY(check_grouped(c, taps, groups));
    MCT_TRY(check_fraction(c));
    return check_update(c, &slots, PIXELS_DW);
}

mct_status mct_check_conv2d_db(mct_check *c)
{
    static const update_slots slots = {MCT_CONV2D_DB_E_Y,   MCT_CONV2D_DB_BIAS,
                                       MCT_CONV2D_DB_MANT,  MCT_CONV2D_DB_EXP,
                                       MCT_CONV2D_DB_SHIFT, MCT_CONV2D_DB_P_REACH};
    return check_update(c, &slots, PIXELS_DB);
}
