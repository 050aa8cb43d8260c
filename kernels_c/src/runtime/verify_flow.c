/*
 * Bytes of the arena hold what the last instruction that wrote any of them left there. An operand
 * must be exactly that: same bytes, type and error exponent. So nothing is read before it is
 * written, and errors stay within [-127, 127] because only errors are read as such. It also finds a
 * memory plan that lets two live buffers overlap.
 */
#include "verify.h"

static int same_value(const mct_image_tensor *a, const mct_image_tensor *b)
{
    return mct_same_bytes(a, b) && a->error == b->error;
}

/* -1: leaves t alone, 0: destroys it, 1: writes it. Written operands share no bytes. */
static int effect_on(const mct_image *image, uint32_t index, const mct_image_tensor *t)
{
    const mct_image_instruction *in = &image->program[index];
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
        const mct_image_tensor *written = mct_slot(image, in, slot);
        if (written != NULL && (mct_slot_rules[in->op][slot].flags & MCT_SLOT_WRITTEN) &&
            mct_overlap(written, t))
            return same_value(written, t);
    }
    return -1;
}

static int is_input(const mct_image *image, const mct_image_tensor *t)
{
    const uint16_t *inputs = image->header->inputs;
    for (uint32_t k = 0; k < MCT_MAX_INPUTS && inputs[k] != MCT_NONE; k++) {
        const mct_image_tensor *input = &image->tensors[inputs[k]];
        if (mct_overlap(input, t))
            return same_value(input, t);
    }
    return 0;
}

int mct_written_before(const mct_image *image, uint32_t index, const mct_image_tensor *t)
{
    while (index-- > 0) {
        int effect = effect_on(image, index, t);
        if (effect >= 0)
            return effect;
    }
    return is_input(image, t);
}

mct_status mct_verify_flow(mct_check *c, uint32_t index)
{
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
        const mct_image_tensor *t = c->t[slot];
        int read = mct_slot_rules[c->in->op][slot].flags & MCT_SLOT_READ;
        if (t == NULL || !read || t->space != MCT_SPACE_ARENA)
            continue;
        MCT_TRY(mct_require(c, mct_written_before(c->image, index, t), MCT_ERR_UNWRITTEN, slot));
    }
    return MCT_OK;
}
