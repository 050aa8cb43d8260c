/*
 * An image (SPEC-image): read where it lies, little-endian, 4-byte aligned, never copied. Records
 * and codes are in mct_format.h, which the host's packer generates.
 */
#ifndef MCT_IMAGE_H
#define MCT_IMAGE_H

#include <stdint.h>

#include "mct_format.h"
#include "mct_status.h"

typedef struct {
    const uint8_t *base;
    const mct_image_header *header;
    const mct_image_tensor *tensors;
    const mct_image_instruction *program;
    const uint8_t *constants;
    const uint8_t *initial; /* runs of the state */
} mct_image;

/* Where a check failed: byte offset of a header field, tensor or instruction, by the status. */
typedef struct {
    uint32_t index;
    uint32_t detail; /* slot or parameter of the instruction; other tensor of an overlap */
} mct_image_error;

/*
 * Every check of SPEC-image, section 5, but of the values in the initial state. MCT_OK: whatever
 * the image says can be done with a state that passes mct_image_check_state, without touching a
 * byte outside of image, state and arena, and view is filled in. Else a status below
 * MCT_ERR_NOT_FINITE, with the place in *error. Uses no memory but some 500 bytes of stack.
 */
mct_status mct_image_verify(const void *data, uint32_t size, mct_image *view,
                            mct_image_error *error);

/*
 * Whether `state` (header->state_bytes, 4-byte aligned) is one that training could have left: no
 * weight of -128, no bias beyond its bound. What comes from outside must pass before it is used.
 */
mct_status mct_image_check_state(const mct_image *image, const uint8_t *state,
                                 mct_image_error *error);

/* Bytes of the caller's block: state, then the arena at the next multiple of 4. */
static inline uint64_t mct_image_block_bytes(const mct_image *image)
{
    return (((uint64_t)image->header->state_bytes + 3) & ~(uint64_t)3) + image->header->arena_bytes;
}

#endif
