/* Handlers of the forward pass: records of the image to parameters of the kernels. */
#include "engine.h"
#include "mct_kernels.h"

static mct_rows rows_of(const mct_image_tensor *t, const void *base)
{
    mct_rows rows = {base, (uint32_t)t->w * t->c, t->h};
    return rows;
}

mct_status mct_run_conv2d(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_CONV2D_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_CONV2D_Y);
    mct_rows rows = rows_of(x, mct_in(e, in, MCT_CONV2D_X));
    int8_t *out = mct_out(e, in, MCT_CONV2D_Y);
    uint8_t *mask = mct_out(e, in, MCT_CONV2D_MASK);
    mct_conv2d p = {
        .bias = mct_in(e, in, MCT_CONV2D_BIAS),
        .mult = mct_in(e, in, MCT_CONV2D_MULT),
        .shift = mct_in(e, in, MCT_CONV2D_SHIFT),
        .z_x = x->zero_point,
        .z_y = y->zero_point,
        .lo = (int8_t)in->params[MCT_CONV2D_P_LO],
        .hi = (int8_t)in->params[MCT_CONV2D_P_HI],
    };
    mct_decode_conv(&p.conv, &e->image, e->state, in, &mct_conv2d_slots);
    for (uint32_t oy = 0; oy < y->h; oy++)
        mct_conv2d_row_s8(&p, &rows, oy, out + oy * y->w * y->c, mask);
    return MCT_OK;
}

static mct_pool pool_of(const mct_image_instruction *in, const mct_image_tensor *x,
                        const mct_image_tensor *y)
{
    mct_pool p = {
        .x = mct_shape_of(x), .y = mct_shape_of(y), .win = mct_window_of(in), .z_x = x->zero_point};
    return p;
}

mct_status mct_run_avgpool(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_AVGPOOL_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_AVGPOOL_Y);
    mct_rows rows = rows_of(x, mct_in(e, in, MCT_AVGPOOL_X));
    int8_t *out = mct_out(e, in, MCT_AVGPOOL_Y);
    mct_pool p = pool_of(in, x, y);
    p.mult = in->params[MCT_AVGPOOL_P_MULT];
    p.shift = (uint8_t)in->params[MCT_AVGPOOL_P_SHIFT];
    for (uint32_t oy = 0; oy < y->h; oy++)
        mct_avgpool_row_s8(&p, &rows, oy, out + oy * y->w * y->c);
    return MCT_OK;
}

mct_status mct_run_maxpool(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_MAXPOOL_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_MAXPOOL_Y);
    mct_rows rows = rows_of(x, mct_in(e, in, MCT_MAXPOOL_X));
    int8_t *out = mct_out(e, in, MCT_MAXPOOL_Y);
    uint8_t *index = mct_out(e, in, MCT_MAXPOOL_INDEX);
    mct_pool p = pool_of(in, x, y);
    for (uint32_t oy = 0; oy < y->h; oy++) {
        uint32_t start = oy * y->w * y->c;
        mct_maxpool_row_s8(&p, &rows, oy, out + start, index == NULL ? NULL : index + start);
    }
    return MCT_OK;
}

mct_status mct_run_add(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_ADD_Y);
    mct_add p = {
        .n = (uint32_t)mct_count(y),
        .mult_a = in->params[MCT_ADD_P_MULT_A],
        .mult_b = in->params[MCT_ADD_P_MULT_B],
        .shift = (uint8_t)in->params[MCT_ADD_P_N],
        .z_a = mct_slot(&e->image, in, MCT_ADD_A)->zero_point,
        .z_b = mct_slot(&e->image, in, MCT_ADD_B)->zero_point,
        .z_y = y->zero_point,
        .lo = (int8_t)in->params[MCT_ADD_P_LO],
        .hi = (int8_t)in->params[MCT_ADD_P_HI],
    };
    mct_add_s8(&p, mct_in(e, in, MCT_ADD_A), mct_in(e, in, MCT_ADD_B), mct_out(e, in, MCT_ADD_Y),
               mct_out(e, in, MCT_ADD_MASK), 0);
    return MCT_OK;
}

mct_status mct_run_rescale(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_RESCALE_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_RESCALE_Y);
    mct_rescale p = {
        .pixels = (uint32_t)x->h * x->w,
        .c_x = x->c,
        .c_y = y->c,
        .c0 = (uint16_t)in->params[MCT_RESCALE_P_C0],
        .mult = in->params[MCT_RESCALE_P_MULT],
        .shift = (uint8_t)in->params[MCT_RESCALE_P_SHIFT],
        .z_x = x->zero_point,
        .z_y = y->zero_point,
        .lo = (int8_t)in->params[MCT_RESCALE_P_LO],
        .hi = (int8_t)in->params[MCT_RESCALE_P_HI],
    };
    mct_rescale_s8(&p, mct_in(e, in, MCT_RESCALE_X), mct_out(e, in, MCT_RESCALE_Y),
                   mct_out(e, in, MCT_RESCALE_MASK), 0);
    return MCT_OK;
}

mct_status mct_run_gather(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_GATHER_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_GATHER_Y);
    mct_gather p = {(uint32_t)x->h * x->w, x->c, y->c, mct_in(e, in, MCT_GATHER_CHAN)};
    mct_gather_s8(&p, mct_in(e, in, MCT_GATHER_X), mct_out(e, in, MCT_GATHER_Y));
    return MCT_OK;
}
