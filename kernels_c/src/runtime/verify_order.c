/*
 * Forward instructions first; they change no state. The loss opens the backward pass: it stops a
 * step with logits that are not finite. head_dx can stop it as well, so it precedes every update.
 * The backward pass may repeat forward instructions, but for the head.
 */
#include "verify.h"

static int writes_state(const mct_image_instruction *in)
{
    return in->op == MCT_OP_HEAD_DW || in->op == MCT_OP_CONV2D_DW || in->op == MCT_OP_CONV2D_DB;
}

static int may_stand(const mct_image *image, uint32_t index, int updated)
{
    uint32_t op = image->program[index].op;
    if (index < image->header->forward)
        return op <= MCT_OP_HEAD || op == MCT_OP_SEGMENT;
    if ((op == MCT_OP_LOSS) != (index == image->header->forward))
        return 0;
    return op != MCT_OP_HEAD && (op != MCT_OP_HEAD_DX || !updated);
}

mct_status mct_verify_order(const mct_image *image, mct_image_error *error)
{
    const mct_image_header *h = image->header;
    int updated = 0;
    for (uint32_t i = 0; i < h->instructions; i++) {
        if (!may_stand(image, i, updated)) {
            error->index = i;
            return MCT_ERR_ORDER;
        }
        updated |= writes_state(&image->program[i]);
    }
    if (!mct_written_before(image, h->forward, &image->tensors[h->logits])) {
        error->index = (uint32_t)offsetof(mct_image_header, logits);
        return MCT_ERR_HEADER;
    }
    return MCT_OK;
}
