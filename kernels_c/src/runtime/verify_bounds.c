/* Section 4 of SPEC-arithmetic: no partial sum of a convolution leaves int32. */
#include "verify.h"

static uint64_t sum_abs(const int8_t *w, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        int32_t v = w[i];
        sum += (uint64_t)(v < 0 ? -v : v);
    }
    return sum;
}

/* Sum of |w| of a row of weights: an output channel, or a place of a depthwise convolution. */
static uint64_t row_weight(const mct_conv *conv, uint32_t row)
{
    uint64_t taps = (uint32_t)conv->win.kh * conv->win.kw;
    uint64_t frozen;
    if (mct_depthwise(conv->groups, conv->x.c, conv->y.c)) {
        if (row < conv->trained)
            return 127 * taps;
        return sum_abs(conv->w_frozen + (row - conv->trained) * taps, taps);
    }
    frozen = taps * (uint32_t)(conv->x.c / conv->groups - conv->trained);
    if (frozen == 0)
        return 127 * taps * conv->trained;
    return sum_abs(conv->w_frozen + row * frozen, frozen) + 127 * taps * conv->trained;
}

int64_t mct_bias_bound(const mct_conv *conv, const uint8_t *shift, uint32_t row, uint32_t *channel)
{
    int depthwise = mct_depthwise(conv->groups, conv->x.c, conv->y.c);
    *channel = depthwise && conv->perm != NULL ? conv->perm[row] : row;
    return (INT32_MAX >> shift[*channel]) - (int64_t)(128 * row_weight(conv, row));
}

/* Of an instruction that updates biases. */
typedef struct {
    const mct_image_tensor *bias;
    const uint8_t *shift;
    int32_t reach;
} bias_update;

/* 0 if it updates none. */
static int update_of(const mct_image *image, const mct_image_instruction *in, bias_update *u)
{
    int dw = in->op == MCT_OP_CONV2D_DW;
    if (!dw && in->op != MCT_OP_CONV2D_DB)
        return 0;
    u->bias = mct_slot(image, in, dw ? MCT_CONV2D_DW_BIAS : MCT_CONV2D_DB_BIAS);
    u->shift =
        mct_kept(image, NULL, mct_slot(image, in, dw ? MCT_CONV2D_DW_SHIFT : MCT_CONV2D_DB_SHIFT));
    u->reach = in->params[dw ? MCT_CONV2D_DW_P_REACH : MCT_CONV2D_DB_P_REACH];
    return 1;
}

/* Every update of this bias keeps the channel within the bound. */
static int updates_within(const mct_image *image, const mct_image_tensor *t, uint32_t channel,
                          int64_t bound)
{
    bias_update u;
    for (uint32_t i = image->header->forward; i < image->header->instructions; i++) {
        if (!update_of(image, &image->program[i], &u) || !mct_overlap(u.bias, t))
            continue;
        if ((INT32_MAX >> u.shift[channel]) - u.reach > bound)
            return 0;
    }
    return 1;
}

mct_status mct_verify_bounds(const mct_image *image, const uint8_t *state, uint32_t index,
                             mct_image_error *error)
{
    const mct_image_instruction *in = &image->program[index];
    const mct_image_tensor *t;
    const int32_t *bias;
    const uint8_t *shift;
    mct_conv conv;
    if (in->op != MCT_OP_CONV2D)
        return MCT_OK;
    t = mct_slot(image, in, MCT_CONV2D_BIAS);
    bias = mct_kept(image, state, t);
    shift = mct_kept(image, state, mct_slot(image, in, MCT_CONV2D_SHIFT));
    mct_decode_conv(&conv, image, state, in, &mct_conv2d_slots);
    for (uint32_t row = 0; row < conv.y.c; row++) {
        uint32_t channel;
        int64_t bound = mct_bias_bound(&conv, shift, row, &channel);
        int ok = bound >= 0 && bias[channel] <= bound && -(int64_t)bias[channel] <= bound;
        if (!ok || !updates_within(image, t, channel, bound)) {
            error->index = index;
            error->detail = channel;
            return MCT_ERR_BOUND;
        }
    }
    return MCT_OK;
}
