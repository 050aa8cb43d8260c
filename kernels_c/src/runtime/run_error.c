/* Handlers of what makes an error tensor out of others. */
#include <string.h>

#include "engine.h"
#include "mct_arith.h"
#include "mct_kernels.h"

enum { POOL_F = 8 }; /* fractional bits of a pool's sums, SPEC-arithmetic, section 6 */

uint32_t mct_key(const mct_engine *e, int32_t id)
{
    const uint32_t *rng = mct_rng(e);
    return mct_random_key(rng[0], rng[1], (uint32_t)id);
}

static int16_t *errors_of(const mct_engine *e, uint32_t tensor)
{
    return (void *)(e->state + e->image.tensors[tensor].offset);
}

int32_t mct_exponent_of(const mct_engine *e, const mct_image_tensor *error)
{
    return errors_of(e, e->image.header->exponent)[error->error];
}

void mct_set_exponent(mct_engine *e, const mct_image_tensor *error, int32_t exponent)
{
    errors_of(e, e->image.header->exponent)[error->error] = (int16_t)exponent;
}

mct_error mct_begin_error(const mct_engine *e, const mct_image_tensor *e_x,
                          const mct_image_tensor *mask, int32_t id, int32_t floor)
{
    int32_t predictor = errors_of(e, e->image.header->predictor)[e_x->error];
    mct_error error = {
        .mask = mct_operand(e, mask),
        .e_out = mct_error_exponent(e->l_top, predictor, floor),
        .key = mct_key(e, id),
    };
    return error;
}

/* As a rule the first bytes tell. */
static int is_zero(const mct_engine *e, const mct_image_tensor *error)
{
    const int8_t *q = mct_operand(e, error);
    for (uint32_t n = error == NULL ? 0 : error->bytes; n > 0; n--) {
        if (*q++ != 0)
            return 0;
    }
    return 1;
}

int mct_no_error(mct_engine *e, const mct_image_tensor *e_y, const mct_image_tensor *skip)
{
    if (!is_zero(e, e_y) || !is_zero(e, skip))
        return 0;
    e->skipped++;
    return 1;
}

/* With the error of a skip branch, which may be absent. */
static void add_skip(const mct_engine *e, mct_error *error, const mct_image_tensor *skip)
{
    error->skip = mct_operand(e, skip);
    error->e_skip = skip == NULL ? 0 : mct_exponent_of(e, skip);
}

void mct_end_error(mct_engine *e, const mct_image_tensor *e_x, int32_t exponent,
                   const mct_error_stats *stats)
{
    int16_t *predictor = &errors_of(e, e->image.header->predictor)[e_x->error];
    *predictor = (int16_t)mct_predictor_update(*predictor, exponent, stats->amax, e->l_top);
    mct_set_exponent(e, e_x, exponent);
    e->saturated += stats->saturated;
}

mct_status mct_run_conv2d_dx(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *e_x = mct_slot(&e->image, in, MCT_CONV2D_DX_E_X);
    const mct_image_tensor *e_y = mct_slot(&e->image, in, MCT_CONV2D_DX_E_Y);
    const mct_image_tensor *skip = mct_slot(&e->image, in, MCT_CONV2D_DX_SKIP);
    const int8_t *read = mct_in(e, in, MCT_CONV2D_DX_E_Y);
    int8_t *written = mct_out(e, in, MCT_CONV2D_DX_E_X);
    mct_error_stats stats = {0, 0};
    int32_t floor;
    mct_conv2d_dx p = {
        .r = mct_in(e, in, MCT_CONV2D_DX_R),
        .mant = mct_in(e, in, MCT_CONV2D_DX_MANT),
        .exp = mct_in(e, in, MCT_CONV2D_DX_EXP),
        .f = (uint8_t)in->params[MCT_CONV2D_DX_P_F],
        .e_y = mct_exponent_of(e, e_y),
        .scratch = mct_scratch_of(e, in, MCT_CONV2D_DX_SCRATCH),
    };
    mct_decode_conv(&p.conv, &e->image, e->state, in, &mct_conv2d_dx_slots);
    floor = mct_exponent_floor(p.mant, p.exp, p.conv.groups, p.f, p.e_y);
    p.error = mct_begin_error(e, e_x, mct_slot(&e->image, in, MCT_CONV2D_DX_MASK),
                              in->params[MCT_CONV2D_DX_P_RNG], floor);
    add_skip(e, &p.error, skip);
    if (mct_no_error(e, e_y, skip))
        memset(written, 0, e_x->bytes);
    else if (read == written)
        mct_depthwise_dx_inplace_s8(&p, written, mct_out(e, in, MCT_CONV2D_DX_SCRATCH), &stats);
    else
        mct_conv2d_dx_s8(&p, read, written, &stats);
    mct_end_error(e, e_x, p.error.e_out, &stats);
    return MCT_OK;
}

/* All but the mask, the key and the exponent written. */
static mct_pool_dx pool_of(const mct_engine *e, const mct_image_instruction *in,
                           const mct_image_tensor *e_x, const mct_image_tensor *e_y)
{
    mct_pool_dx p = {
        .x = mct_shape_of(e_x),
        .y = mct_shape_of(e_y),
        .win = mct_window_of(in),
        .e_y = mct_exponent_of(e, e_y),
    };
    return p;
}

static int32_t pool_floor(const mct_pool_dx *p)
{
    return mct_exponent_floor(&p->mant, &p->exp, 1, POOL_F, p->e_y);
}

mct_status mct_run_avgpool_dx(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *e_x = mct_slot(&e->image, in, MCT_AVGPOOL_DX_E_X);
    const mct_image_tensor *e_y = mct_slot(&e->image, in, MCT_AVGPOOL_DX_E_Y);
    const mct_image_tensor *skip = mct_slot(&e->image, in, MCT_AVGPOOL_DX_SKIP);
    int8_t *written = mct_out(e, in, MCT_AVGPOOL_DX_E_X);
    mct_error_stats stats = {0, 0};
    mct_pool_dx p = pool_of(e, in, e_x, e_y);
    p.mant = in->params[MCT_AVGPOOL_DX_P_MANT];
    p.exp = (int8_t)in->params[MCT_AVGPOOL_DX_P_EXP];
    p.error = mct_begin_error(e, e_x, mct_slot(&e->image, in, MCT_AVGPOOL_DX_MASK),
                              in->params[MCT_AVGPOOL_DX_P_RNG], pool_floor(&p));
    add_skip(e, &p.error, skip);
    if (mct_no_error(e, e_y, skip))
        memset(written, 0, e_x->bytes);
    else
        mct_avgpool_dx_s8(&p, mct_in(e, in, MCT_AVGPOOL_DX_E_Y), written, &stats);
    mct_end_error(e, e_x, p.error.e_out, &stats);
    return MCT_OK;
}

mct_status mct_run_maxpool_dx(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *e_x = mct_slot(&e->image, in, MCT_MAXPOOL_DX_E_X);
    const mct_image_tensor *e_y = mct_slot(&e->image, in, MCT_MAXPOOL_DX_E_Y);
    const mct_image_tensor *skip = mct_slot(&e->image, in, MCT_MAXPOOL_DX_SKIP);
    int8_t *written = mct_out(e, in, MCT_MAXPOOL_DX_E_X);
    mct_error_stats stats = {0, 0};
    mct_pool_dx p = pool_of(e, in, e_x, e_y);
    p.mant = 1 << 30; /* 1 = 2^30 * 2^-30 */
    p.exp = 30;
    p.error = mct_begin_error(e, e_x, mct_slot(&e->image, in, MCT_MAXPOOL_DX_MASK),
                              in->params[MCT_MAXPOOL_DX_P_RNG], pool_floor(&p));
    add_skip(e, &p.error, skip);
    if (mct_no_error(e, e_y, skip))
        memset(written, 0, e_x->bytes);
    else
        mct_maxpool_dx_s8(&p, mct_in(e, in, MCT_MAXPOOL_DX_E_Y),
                          mct_in(e, in, MCT_MAXPOOL_DX_INDEX), written, &stats);
    mct_end_error(e, e_x, p.error.e_out, &stats);
    return MCT_OK;
}

mct_status mct_run_error_sum(mct_engine *e, const mct_image_instruction *in)
{
    const mct_image_tensor *e_x = mct_slot(&e->image, in, MCT_ERROR_SUM_E_X);
    const int8_t *inputs[MCT_ERROR_SUM_MAX] = {NULL};
    mct_error_stats stats = {0, 0};
    mct_error_sum p = {.pixels = (uint32_t)e_x->h * e_x->w, .c = e_x->c};
    for (uint32_t i = 0; i < MCT_ERROR_SUM_MAX; i++) {
        const mct_image_tensor *t = mct_slot(&e->image, in, MCT_ERROR_SUM_E0 + i);
        if (t == NULL)
            break;
        inputs[i] = mct_operand(e, t);
        p.c_in[i] = t->c;
        p.c0[i] = (uint16_t)in->params[MCT_ERROR_SUM_P_C0 + i];
        p.e_in[i] = mct_exponent_of(e, t);
        p.n++;
    }
    p.error = mct_begin_error(e, e_x, mct_slot(&e->image, in, MCT_ERROR_SUM_MASK),
                              in->params[MCT_ERROR_SUM_P_RNG], INT32_MIN);
    mct_error_sum_s8(&p, inputs, mct_out(e, in, MCT_ERROR_SUM_E_X), &stats);
    if (p.n > 1) /* the copy of one input keeps that one's exponent and predictor */
        mct_end_error(e, e_x, p.error.e_out, &stats);
    return MCT_OK;
}
