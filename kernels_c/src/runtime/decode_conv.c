#include "runtime.h"

const mct_conv_slots mct_conv2d_slots = {MCT_CONV2D_X,        MCT_CONV2D_Y,    MCT_CONV2D_W_TRAINED,
                                         MCT_CONV2D_W_FROZEN, MCT_CONV2D_PERM, MCT_CONV2D_P_GROUPS};
const mct_conv_slots mct_conv2d_dx_slots = {MCT_CONV2D_DX_E_X,       MCT_CONV2D_DX_E_Y,
                                            MCT_CONV2D_DX_W_TRAINED, MCT_CONV2D_DX_W_FROZEN,
                                            MCT_CONV2D_DX_PERM,      MCT_CONV2D_DX_P_GROUPS};

void mct_decode_conv(mct_conv *conv, const mct_image *image, const uint8_t *state,
                     const mct_image_instruction *in, const mct_conv_slots *slots)
{
    const mct_image_tensor *trained = mct_slot(image, in, slots->w_trained);
    conv->x = mct_shape_of(mct_slot(image, in, slots->x));
    conv->y = mct_shape_of(mct_slot(image, in, slots->y));
    conv->win = mct_window_of(in);
    conv->groups = (uint16_t)in->params[slots->groups];
    conv->w_trained = mct_kept(image, state, trained);
    conv->w_frozen = mct_kept(image, state, mct_slot(image, in, slots->w_frozen));
    conv->perm = mct_kept(image, state, mct_slot(image, in, slots->perm));
    conv->trained = 0;
    if (trained != NULL) {
        int depthwise = mct_depthwise(conv->groups, conv->x.c, conv->y.c);
        conv->trained = depthwise ? trained->h : trained->c;
    }
}
