/* The verifier's parts (SPEC-image, section 5). Private. */
#ifndef MCT_VERIFY_H
#define MCT_VERIFY_H

#include <stddef.h>

#include "runtime.h"

#define MCT_TRY(call)                                                                              \
    do {                                                                                           \
        mct_status status_ = (call);                                                               \
        if (status_ != MCT_OK)                                                                     \
            return status_;                                                                        \
    } while (0)

/* One instruction under check. Its slots hold tensors of the right dtype and space. */
typedef struct {
    const mct_image *image;
    const mct_image_instruction *in;
    const mct_image_tensor *t[MCT_MAX_SLOTS]; /* NULL: absent */
    uint32_t detail;                          /* what is wrong, once something is */
} mct_check;

static inline mct_status mct_require(mct_check *c, int ok, mct_status status, uint32_t detail)
{
    if (ok)
        return MCT_OK;
    c->detail = detail;
    return status;
}

static inline int mct_same_bytes(const mct_image_tensor *a, const mct_image_tensor *b)
{
    return a->offset == b->offset && a->bytes == b->bytes && a->dtype == b->dtype;
}

static inline int mct_overlap(const mct_image_tensor *a, const mct_image_tensor *b)
{
    return a->space == b->space && a->offset < (uint64_t)b->offset + b->bytes &&
           b->offset < (uint64_t)a->offset + a->bytes;
}

/* ---- sections ---- */
mct_status mct_verify_header(const void *data, uint32_t size, mct_image_error *error);
mct_status mct_verify_tensors(const mct_image *image, mct_image_error *error);
mct_status mct_verify_instruction(const mct_image *image, uint32_t index, mct_image_error *error);
mct_status mct_verify_order(const mct_image *image, mct_image_error *error);

/* An arena operand: the last instruction before `index` that wrote any of its bytes wrote it. */
int mct_written_before(const mct_image *image, uint32_t index, const mct_image_tensor *t);
mct_status mct_verify_flow(mct_check *c, uint32_t index);

/* The segment that an instruction is a member of, MCT_NONE: it stands alone. */
uint32_t mct_segment_of(const mct_image *image, uint32_t index);

/* Rows and memory of all segments, once their members are known to be right by themselves. */
mct_status mct_verify_segments(const mct_image *image, mct_image_error *error);

/* B_max of SPEC-arithmetic, section 4, of the weight rows of a convolution; < 0: too large. */
int64_t mct_bias_bound(const mct_conv *conv, const uint8_t *shift, uint32_t row, uint32_t *channel);
mct_status mct_verify_bounds(const mct_image *image, const uint8_t *state, uint32_t index,
                             mct_image_error *error);

/* ---- operations, by code ---- */
mct_status mct_check_conv2d(mct_check *c);
mct_status mct_check_add(mct_check *c);
mct_status mct_check_avgpool(mct_check *c);
mct_status mct_check_maxpool(mct_check *c);
mct_status mct_check_rescale(mct_check *c);
mct_status mct_check_gather(mct_check *c);
mct_status mct_check_head(mct_check *c);
mct_status mct_check_loss(mct_check *c);
mct_status mct_check_head_dx(mct_check *c);
mct_status mct_check_head_dw(mct_check *c);
mct_status mct_check_conv2d_dx(mct_check *c);
mct_status mct_check_avgpool_dx(mct_check *c);
mct_status mct_check_maxpool_dx(mct_check *c);
mct_status mct_check_error_sum(mct_check *c);
mct_status mct_check_conv2d_dw(mct_check *c);
mct_status mct_check_conv2d_db(mct_check *c);
mct_status mct_check_segment(mct_check *c);
mct_status mct_check_absent(mct_check *c);

/* ---- what they are made of; shape checks pass for an absent tensor ---- */
mct_status mct_check_param(mct_check *c, uint32_t param, int32_t lo, int32_t hi);
mct_status mct_check_mant_exp(mct_check *c, uint32_t mant, uint32_t exp);
mct_status mct_check_clamp(mct_check *c, uint32_t lo, uint32_t hi);
mct_status mct_check_count(mct_check *c, uint32_t slot, uint64_t count);
mct_status mct_check_shape(mct_check *c, uint32_t slot, uint64_t h, uint64_t w, uint64_t channels);
mct_status mct_check_like(mct_check *c, uint32_t slot, uint32_t other);
mct_status mct_check_window(mct_check *c, uint32_t x, uint32_t y);

/* Values of a table of `count` constants; pass for an absent one, which must have that count. */
mct_status mct_check_u8_table(mct_check *c, uint32_t slot, uint64_t count, uint8_t max);
mct_status mct_check_u16_table(mct_check *c, uint32_t slot, uint64_t count, uint32_t limit);
mct_status mct_check_permutation(mct_check *c, uint32_t slot, uint32_t count);
mct_status mct_check_r_table(mct_check *c, uint32_t slot, uint64_t count, int32_t max);
mct_status mct_check_exp_table(mct_check *c, uint32_t slot, uint64_t count);
mct_status mct_check_mant_table(mct_check *c, uint32_t slot, uint64_t count);
mct_status mct_check_positive_table(mct_check *c, uint32_t slot, uint64_t count);

#endif
