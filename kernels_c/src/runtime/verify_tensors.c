#include "verify.h"

#define FIELD(name) ((uint32_t)offsetof(mct_image_header, name))

static uint64_t bytes_of(const mct_image_tensor *t)
{
    static const uint8_t bits[MCT_DTYPES] = {
        [MCT_DTYPE_S8] = 8,   [MCT_DTYPE_U8] = 8,   [MCT_DTYPE_S16] = 16,
        [MCT_DTYPE_U16] = 16, [MCT_DTYPE_S32] = 32, [MCT_DTYPE_U32] = 32,
        [MCT_DTYPE_F32] = 32, [MCT_DTYPE_BITS] = 1, [MCT_DTYPE_NIBBLES] = 4,
    };
    return (mct_count(t) * bits[t->dtype] + 7) / 8;
}

static uint32_t alignment_of(const mct_image_tensor *t)
{
    if (t->space == MCT_SPACE_ARENA)
        return 4;
    switch (t->dtype) {
    case MCT_DTYPE_S16:
    case MCT_DTYPE_U16:
        return 2;
    case MCT_DTYPE_S32:
    case MCT_DTYPE_U32:
    case MCT_DTYPE_F32:
        return 4;
    default:
        return 1;
    }
}

/* Finite and >= 0, by its bits: -0 is refused as well. */
static int scale_ok(const mct_image_tensor *t)
{
    union {
        float f;
        uint32_t bits;
    } scale = {t->scale};
    return scale.bits < 0x7f800000u;
}

/* An int8 map in the arena may be a ring of some of its rows. */
static int ring_ok(const mct_image_tensor *t)
{
    return t->space == MCT_SPACE_ARENA && mct_is_ring(t) && t->error == MCT_NONE && t->bytes > 0 &&
           t->bytes % mct_row_bytes(t) == 0;
}

static int shape_ok(const mct_image_tensor *t)
{
    uint64_t n = mct_count(t);
    return n > 0 && n < (uint64_t)1 << 31 && (t->bytes == bytes_of(t) || ring_ok(t));
}

static int tensor_ok(const mct_image_header *h, const mct_image_tensor *t)
{
    const uint32_t limit[] = {[MCT_SPACE_ARENA] = h->arena_bytes,
                              [MCT_SPACE_STATE] = h->state_bytes,
                              [MCT_SPACE_CONST] = h->constants_bytes};
    if (t->space > MCT_SPACE_CONST || t->dtype >= MCT_DTYPES || t->reserved != 0)
        return 0;
    if (!shape_ok(t) || !scale_ok(t) || (t->error != MCT_NONE && t->error >= h->errors))
        return 0;
    return t->offset % alignment_of(t) == 0 && (uint64_t)t->offset + t->bytes <= limit[t->space];
}

/*
 * Tensors of the state share all of their bytes, as the same type, or none: else an update of one
 * would change another beyond what it may hold.
 */
static mct_status check_state(const mct_image *image, mct_image_error *error)
{
    for (uint32_t i = 0; i < image->header->tensors; i++) {
        const mct_image_tensor *a = &image->tensors[i];
        for (uint32_t j = 0; a->space == MCT_SPACE_STATE && j < i; j++) {
            const mct_image_tensor *b = &image->tensors[j];
            if (mct_overlap(a, b) && !mct_same_bytes(a, b)) {
                error->index = i;
                error->detail = j;
                return MCT_ERR_STATE;
            }
        }
    }
    return MCT_OK;
}

static int refers_to(const mct_image *image, uint32_t tensor, uint32_t space, uint32_t dtype,
                     uint32_t count)
{
    const mct_image_tensor *t;
    if (tensor >= image->header->tensors)
        return 0;
    t = &image->tensors[tensor];
    return t->space == space && t->dtype == dtype && (count == 0 || mct_count(t) == count);
}

static int inputs_ok(const mct_image *image)
{
    const uint16_t *inputs = image->header->inputs;
    int ended = inputs[0] == MCT_NONE;
    for (uint32_t k = 0; k < MCT_MAX_INPUTS; k++) {
        int used = inputs[k] != MCT_NONE;
        if (used && (ended || !refers_to(image, inputs[k], MCT_SPACE_ARENA, MCT_DTYPE_S8, 0) ||
                     image->tensors[inputs[k]].error != MCT_NONE))
            return 0;
        ended |= !used;
    }
    return inputs[0] != MCT_NONE;
}

static int exponents_ok(const mct_image *image)
{
    const mct_image_header *h = image->header;
    if (h->errors == 0)
        return h->predictor == MCT_NONE && h->exponent == MCT_NONE;
    return refers_to(image, h->predictor, MCT_SPACE_STATE, MCT_DTYPE_S16, h->errors) &&
           refers_to(image, h->exponent, MCT_SPACE_STATE, MCT_DTYPE_S16, h->errors) &&
           !mct_overlap(&image->tensors[h->predictor], &image->tensors[h->exponent]);
}

static mct_status check_references(const mct_image *image, mct_image_error *error)
{
    const mct_image_header *h = image->header;
    if (!inputs_ok(image))
        error->index = FIELD(inputs);
    else if (!refers_to(image, h->logits, MCT_SPACE_ARENA, MCT_DTYPE_F32, h->classes))
        error->index = FIELD(logits);
    else if (!refers_to(image, h->rng, MCT_SPACE_STATE, MCT_DTYPE_U32, 2))
        error->index = FIELD(rng);
    else if (!exponents_ok(image))
        error->index = FIELD(predictor);
    else
        return MCT_OK;
    return MCT_ERR_HEADER;
}

mct_status mct_verify_tensors(const mct_image *image, mct_image_error *error)
{
    for (uint32_t i = 0; i < image->header->tensors; i++) {
        if (!tensor_ok(image->header, &image->tensors[i])) {
            error->index = i;
            return MCT_ERR_TENSOR;
        }
    }
    MCT_TRY(check_references(image, error));
    return check_state(image, error);
}
