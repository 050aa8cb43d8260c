#include "engine.h"
#include "verify.h"

typedef mct_status (*check_function)(mct_check *c);

static const check_function checks[MCT_OPS] = {
    [MCT_OP_CONV2D] = mct_check_conv2d,
    [MCT_OP_ADD] = mct_check_add,
    [MCT_OP_AVGPOOL] = mct_check_avgpool,
    [MCT_OP_MAXPOOL] = mct_check_maxpool,
    [MCT_OP_RESCALE] = mct_check_rescale,
    [MCT_OP_GATHER] = mct_check_gather,
    [MCT_OP_HEAD] = mct_check_head,
    [MCT_OP_LOSS] = mct_check_loss,
    [MCT_OP_HEAD_DX] = mct_check_head_dx,
    [MCT_OP_HEAD_DW] = mct_check_head_dw,
    [MCT_OP_CONV2D_DX] = mct_check_conv2d_dx,
    [MCT_OP_AVGPOOL_DX] = mct_check_avgpool_dx,
    [MCT_OP_MAXPOOL_DX] = mct_check_maxpool_dx,
    [MCT_OP_ERROR_SUM] = mct_check_error_sum,
    [MCT_OP_CONV2D_DW] = mct_check_conv2d_dw,
    [MCT_OP_CONV2D_DB] = mct_check_conv2d_db,
    [MCT_OP_SEGMENT] = mct_check_segment,
};

static mct_status check_unused(mct_check *c)
{
    for (uint32_t p = mct_param_counts[c->in->op]; p < MCT_MAX_PARAMS; p++)
        MCT_TRY(mct_require(c, c->in->params[p] == 0, MCT_ERR_UNUSED, p));
    return mct_require(c, c->in->reserved == 0, MCT_ERR_UNUSED, 0);
}

/* Right dtype and space; an error has an exponent, nothing else has one. */
static int suits(const mct_image_tensor *t, const mct_slot_rule *rule)
{
    int error = (rule->flags & MCT_SLOT_ERROR) != 0;
    return ((rule->dtypes >> t->dtype) & 1) && ((rule->spaces >> t->space) & 1) &&
           error == (t->error != MCT_NONE);
}

/* A ring is read and written by members of a segment only. */
static int may_be_ring(const mct_check *c, uint32_t slot)
{
    const mct_row_op *op = &mct_row_ops[c->in->op];
    int by_rows = op->run != NULL && (slot == op->y || slot == op->x[0] || slot == op->x[1]);
    return by_rows && mct_segment_of(c->image, (uint32_t)(c->in - c->image->program)) != MCT_NONE;
}

static mct_status fill_slot(mct_check *c, uint32_t slot)
{
    const mct_slot_rule *rule = &mct_slot_rules[c->in->op][slot];
    uint32_t tensor = c->in->tensors[slot];
    c->t[slot] = NULL;
    if (rule->dtypes == 0)
        return mct_require(c, tensor == MCT_NONE, MCT_ERR_UNUSED, slot);
    if (tensor == MCT_NONE)
        return mct_require(c, rule->flags & MCT_SLOT_OPTIONAL, MCT_ERR_SLOT, slot);
    MCT_TRY(mct_require(c, tensor < c->image->header->tensors, MCT_ERR_SLOT, slot));
    c->t[slot] = &c->image->tensors[tensor];
    if (mct_is_ring(c->t[slot]) && c->t[slot]->space == MCT_SPACE_ARENA)
        MCT_TRY(mct_require(c, may_be_ring(c, slot), MCT_ERR_SLOT, slot));
    return mct_require(c, suits(c->t[slot], rule), MCT_ERR_SLOT, slot);
}

/* What is written shares bytes with no other operand, but for the pairs that may work in place. */
static mct_status check_overlap(mct_check *c, uint32_t slot)
{
    const mct_slot_rule *rule = &mct_slot_rules[c->in->op][slot];
    const mct_image_tensor *written = c->t[slot];
    if (written == NULL || !(rule->flags & MCT_SLOT_WRITTEN))
        return MCT_OK;
    for (uint32_t other = 0; other < MCT_MAX_SLOTS; other++) {
        const mct_image_tensor *t = c->t[other];
        int inplace = (rule->inplace >> other) & 1;
        if (other == slot || t == NULL || !mct_overlap(written, t))
            continue;
        MCT_TRY(mct_require(c, inplace && mct_same_bytes(written, t), MCT_ERR_OVERLAP, slot));
    }
    return MCT_OK;
}

static mct_status check_instruction(mct_check *c, uint32_t index)
{
    int known = c->in->op < MCT_OPS && checks[c->in->op] != NULL;
    MCT_TRY(mct_require(c, known, MCT_ERR_OP, c->in->op));
    MCT_TRY(check_unused(c));
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++)
        MCT_TRY(fill_slot(c, slot));
    MCT_TRY(checks[c->in->op](c));
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++)
        MCT_TRY(check_overlap(c, slot));
    return mct_verify_flow(c, index);
}

mct_status mct_verify_instruction(const mct_image *image, uint32_t index, mct_image_error *error)
{
    mct_check c = {.image = image, .in = &image->program[index]};
    mct_status status = check_instruction(&c, index);
    if (status != MCT_OK) {
        error->index = index;
        error->detail = c.detail;
    }
    return status;
}
