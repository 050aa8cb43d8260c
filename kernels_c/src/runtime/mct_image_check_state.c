#include "verify.h"

/* Weights that train, wherever an instruction names them. */
static mct_status check_weights(const mct_image *image, const uint8_t *state, uint32_t index,
                                mct_image_error *error)
{
    const mct_image_instruction *in = &image->program[index];
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
        const mct_image_tensor *t = mct_slot(image, in, slot);
        const int8_t *w;
        if (t == NULL || t->space != MCT_SPACE_STATE || t->dtype != MCT_DTYPE_S8)
            continue;
        w = mct_kept(image, state, t);
        for (uint32_t i = 0; i < t->bytes; i++) {
            if (w[i] == -128) {
                error->index = index;
                error->detail = slot;
                return MCT_ERR_WEIGHT;
            }
        }
    }
    return MCT_OK;
}

mct_status mct_image_check_state(const mct_image *image, const uint8_t *state,
                                 mct_image_error *error)
{
    for (uint32_t i = 0; i < image->header->instructions; i++) {
        MCT_TRY(check_weights(image, state, i, error));
        MCT_TRY(mct_verify_bounds(image, state, i, error));
    }
    return MCT_OK;
}
