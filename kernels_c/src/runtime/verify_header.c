#include <string.h>

#include "mct_crc32.h"
#include "verify.h"

#define FIELD(name) ((uint32_t)offsetof(mct_image_header, name))

/* The records are read where they lie: their layout must be that of the format. */
typedef char mct_header_is_packed[sizeof(mct_image_header) == 104 ? 1 : -1];
typedef char mct_tensor_is_packed[sizeof(mct_image_tensor) == 24 ? 1 : -1];
typedef char mct_run_is_packed[sizeof(mct_image_run) == 12 ? 1 : -1];
typedef char mct_instruction_is_packed[sizeof(mct_image_instruction) == 68 ? 1 : -1];

static mct_status fail(mct_image_error *error, mct_status status, uint32_t index)
{
    error->index = index;
    return status;
}

/* In the order in which damage is best explained: the CRC last, it says nothing about the kind. */
static mct_status check_identity(const mct_image_header *h, uint32_t size, mct_image_error *error)
{
    const uint8_t *bytes = (const uint8_t *)h;
    if (size < sizeof *h)
        return fail(error, MCT_ERR_SIZE, size);
    if (memcmp(h->magic, "MCTI", 4) != 0)
        return fail(error, MCT_ERR_MAGIC, 0);
    if (h->version != MCT_IMAGE_VERSION || h->header_bytes != sizeof *h)
        return fail(error, MCT_ERR_VERSION, h->version);
    if (h->image_bytes != size) {
        error->detail = h->image_bytes;
        return fail(error, MCT_ERR_SIZE, size);
    }
    if (h->crc != mct_crc32(0, bytes + MCT_CRC_START, size - MCT_CRC_START))
        return fail(error, MCT_ERR_CRC, h->crc);
    return MCT_OK;
}

static int section_ok(const mct_image_header *h, uint32_t offset, uint64_t bytes)
{
    return offset % 4 == 0 && offset >= sizeof *h && offset + bytes <= h->image_bytes;
}

/* Its runs make up the initial state and fill their section. */
static int runs_ok(const mct_image_header *h)
{
    const uint8_t *section = (const uint8_t *)h + h->initial_offset;
    uint64_t at = 0, made = 0;
    while (at + sizeof(mct_image_run) <= h->initial_bytes) {
        const mct_image_run *run = (const void *)(section + at);
        if (run->value > 0xff)
            return 0;
        made += (uint64_t)run->copied + run->filled;
        at += mct_run_bytes(run);
    }
    return at == h->initial_bytes && made == h->state_bytes;
}

static mct_status check_sections(const mct_image_header *h, mct_image_error *error)
{
    uint64_t tensors = (uint64_t)h->tensors * sizeof(mct_image_tensor);
    uint64_t program = (uint64_t)h->instructions * sizeof(mct_image_instruction);
    if (!section_ok(h, h->tensors_offset, tensors))
        return fail(error, MCT_ERR_HEADER, FIELD(tensors_offset));
    if (!section_ok(h, h->program_offset, program))
        return fail(error, MCT_ERR_HEADER, FIELD(program_offset));
    if (!section_ok(h, h->constants_offset, h->constants_bytes))
        return fail(error, MCT_ERR_HEADER, FIELD(constants_offset));
    if (!section_ok(h, h->initial_offset, h->initial_bytes) || !runs_ok(h))
        return fail(error, MCT_ERR_HEADER, FIELD(initial_offset));
    if (!section_ok(h, h->metadata_offset, h->metadata_bytes))
        return fail(error, MCT_ERR_HEADER, FIELD(metadata_offset));
    return MCT_OK;
}

static mct_status check_numbers(const mct_image_header *h, mct_image_error *error)
{
    if (h->tensors == 0 || h->tensors >= MCT_NONE)
        return fail(error, MCT_ERR_HEADER, FIELD(tensors));
    if (h->instructions > MCT_MAX_INSTRUCTIONS)
        return fail(error, MCT_ERR_HEADER, FIELD(instructions));
    if (h->forward == 0 || h->forward > h->instructions)
        return fail(error, MCT_ERR_HEADER, FIELD(forward));
    if (h->classes == 0)
        return fail(error, MCT_ERR_HEADER, FIELD(classes));
    return MCT_OK;
}

mct_status mct_verify_header(const void *data, uint32_t size, mct_image_error *error)
{
    const mct_image_header *h = data;
    MCT_TRY(check_identity(h, size, error));
    MCT_TRY(check_numbers(h, error));
    return check_sections(h, error);
}
