/*
 * The forward pass. Maps are made row by row: a map held whole is a loop over its rows, a segment
 * takes them in an order of its own. Each function makes row oy of its output.
 */
#include "engine.h"
#include "mct_kernels.h"

const mct_row_op mct_row_ops[MCT_OPS] = {
    [MCT_OP_CONV2D] = {mct_row_conv2d, 1, 1, {MCT_CONV2D_X}, MCT_CONV2D_Y},
    [MCT_OP_ADD] = {mct_row_add, 2, 0, {MCT_ADD_A, MCT_ADD_B}, MCT_ADD_Y},
    [MCT_OP_AVGPOOL] = {mct_row_avgpool, 1, 1, {MCT_AVGPOOL_X}, MCT_AVGPOOL_Y},
    [MCT_OP_MAXPOOL] = {mct_row_maxpool, 1, 1, {MCT_MAXPOOL_X}, MCT_MAXPOOL_Y},
    [MCT_OP_RESCALE] = {mct_row_rescale, 1, 0, {MCT_RESCALE_X}, MCT_RESCALE_Y},
    [MCT_OP_GATHER] = {mct_row_gather, 1, 0, {MCT_GATHER_X}, MCT_GATHER_Y},
};

mct_status mct_run_rows(mct_engine *e, const mct_image_instruction *in)
{
    const mct_row_op *op = &mct_row_ops[in->op];
    uint32_t h = mct_slot(&e->image, in, op->y)->h;
    for (uint32_t oy = 0; oy < h; oy++)
        op->run(e, in, oy);
    return MCT_OK;
}

static mct_rows rows_in(const mct_engine *e, const mct_image_instruction *in, uint32_t slot)
{
    const mct_image_tensor *t = mct_slot(&e->image, in, slot);
    mct_rows rows = {mct_operand(e, t), mct_row_bytes(t), mct_rows_held(t)};
    return rows;
}

/* Row y of a map or ring that is read or written elementwise. */
static int8_t *row_at(const mct_engine *e, const mct_image_instruction *in, uint32_t slot,
                      uint32_t y)
{
    const mct_image_tensor *t = mct_slot(&e->image, in, slot);
    return (int8_t *)e->arena + t->offset + y % mct_rows_held(t) * mct_row_bytes(t);
}

void mct_make_conv2d(mct_engine *e, const mct_image_instruction *in, uint32_t oy, uint32_t rows)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_CONV2D_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_CONV2D_Y);
    mct_rows read = rows_in(e, in, MCT_CONV2D_X);
    mct_conv2d p = {
        .bias = mct_in(e, in, MCT_CONV2D_BIAS),
        .mult = mct_in(e, in, MCT_CONV2D_MULT),
        .shift = mct_in(e, in, MCT_CONV2D_SHIFT),
        .z_x = x->zero_point,
        .z_y = y->zero_point,
        .lo = (int8_t)in->params[MCT_CONV2D_P_LO],
        .hi = (int8_t)in->params[MCT_CONV2D_P_HI],
        .scratch = mct_scratch_of(e, in, MCT_CONV2D_SCRATCH),
    };
    mct_decode_conv(&p.conv, &e->image, e->state, in, &mct_conv2d_slots);
    mct_conv2d_rows_s8(&p, &read, oy, rows, row_at(e, in, MCT_CONV2D_Y, oy),
                       mct_out(e, in, MCT_CONV2D_MASK));
}

void mct_row_conv2d(mct_engine *e, const mct_image_instruction *in, uint32_t oy)
{
    mct_make_conv2d(e, in, oy, 1);
}

mct_status mct_run_conv2d(mct_engine *e, const mct_image_instruction *in)
{
    mct_make_conv2d(e, in, 0, mct_slot(&e->image, in, MCT_CONV2D_Y)->h);
    return MCT_OK;
}

static mct_pool pool_of(const mct_image_instruction *in, const mct_image_tensor *x,
                        const mct_image_tensor *y)
{
    mct_pool p = {
        .x = mct_shape_of(x), .y = mct_shape_of(y), .win = mct_window_of(in), .z_x = x->zero_point};
    return p;
}

void mct_row_avgpool(mct_engine *e, const mct_image_instruction *in, uint32_t oy)
{
    mct_rows rows = rows_in(e, in, MCT_AVGPOOL_X);
    mct_pool p =
        pool_of(in, mct_slot(&e->image, in, MCT_AVGPOOL_X), mct_slot(&e->image, in, MCT_AVGPOOL_Y));
    p.mult = in->params[MCT_AVGPOOL_P_MULT];
    p.shift = (uint8_t)in->params[MCT_AVGPOOL_P_SHIFT];
    mct_avgpool_row_s8(&p, &rows, oy, row_at(e, in, MCT_AVGPOOL_Y, oy));
}

void mct_row_maxpool(mct_engine *e, const mct_image_instruction *in, uint32_t oy)
{
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_MAXPOOL_Y);
    mct_rows rows = rows_in(e, in, MCT_MAXPOOL_X);
    uint8_t *index = mct_out(e, in, MCT_MAXPOOL_INDEX);
    mct_pool p = pool_of(in, mct_slot(&e->image, in, MCT_MAXPOOL_X), y);
    mct_maxpool_row_s8(&p, &rows, oy, row_at(e, in, MCT_MAXPOOL_Y, oy),
                       index == NULL ? NULL : index + oy * mct_row_bytes(y));
}

void mct_row_add(mct_engine *e, const mct_image_instruction *in, uint32_t oy)
{
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_ADD_Y);
    mct_add p = {
        .n = mct_row_bytes(y),
        .mult_a = in->params[MCT_ADD_P_MULT_A],
        .mult_b = in->params[MCT_ADD_P_MULT_B],
        .shift = (uint8_t)in->params[MCT_ADD_P_N],
        .z_a = mct_slot(&e->image, in, MCT_ADD_A)->zero_point,
        .z_b = mct_slot(&e->image, in, MCT_ADD_B)->zero_point,
        .z_y = y->zero_point,
        .lo = (int8_t)in->params[MCT_ADD_P_LO],
        .hi = (int8_t)in->params[MCT_ADD_P_HI],
    };
    mct_add_s8(&p, row_at(e, in, MCT_ADD_A, oy), row_at(e, in, MCT_ADD_B, oy),
               row_at(e, in, MCT_ADD_Y, oy), mct_out(e, in, MCT_ADD_MASK), oy * p.n);
}

void mct_row_rescale(mct_engine *e, const mct_image_instruction *in, uint32_t oy)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_RESCALE_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_RESCALE_Y);
    mct_rescale p = {
        .pixels = x->w,
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
    mct_rescale_s8(&p, row_at(e, in, MCT_RESCALE_X, oy), row_at(e, in, MCT_RESCALE_Y, oy),
                   mct_out(e, in, MCT_RESCALE_MASK), oy * mct_row_bytes(y));
}

void mct_row_gather(mct_engine *e, const mct_image_instruction *in, uint32_t oy)
{
    const mct_image_tensor *x = mct_slot(&e->image, in, MCT_GATHER_X);
    const mct_image_tensor *y = mct_slot(&e->image, in, MCT_GATHER_Y);
    mct_gather p = {x->w, x->c, y->c, mct_in(e, in, MCT_GATHER_CHAN)};
    mct_gather_s8(&p, row_at(e, in, MCT_GATHER_X, oy), row_at(e, in, MCT_GATHER_Y, oy));
}
