#include "engine.h"
#include "mct_crc32.h"

/* Bits of the last byte that belong to the tensor: those behind a mask's end are left as they are
 * by the kernels, so that they differ from run to run. */
static uint8_t last_byte_bits(const mct_image_tensor *t)
{
    uint32_t used = 0;
    if (t->dtype == MCT_DTYPE_BITS)
        used = (uint32_t)(mct_count(t) % 8);
    else if (t->dtype == MCT_DTYPE_NIBBLES)
        used = 4u * (uint32_t)(mct_count(t) % 2);
    return (uint8_t)(used == 0 ? 0xff : (1u << used) - 1);
}

static uint32_t tensor_crc(uint32_t crc, const mct_image_tensor *t, const uint8_t *data)
{
    uint8_t last = data[t->bytes - 1] & last_byte_bits(t);
    crc = mct_crc32(crc, data, t->bytes - 1);
    return mct_crc32(crc, &last, 1);
}

uint32_t mct_engine_trace_crc(const mct_engine *engine, uint32_t instruction, uint32_t crc)
{
    const mct_image_instruction *in = &engine->image.program[instruction];
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
        const mct_image_tensor *t = mct_slot(&engine->image, in, slot);
        uint32_t flags = mct_slot_rules[in->op][slot].flags;
        if (t != NULL && (flags & MCT_SLOT_WRITTEN) && !(flags & MCT_SLOT_SCRATCH) &&
            !mct_is_ring(t))
            crc = tensor_crc(crc, t, mct_operand(engine, t));
    }
    return crc;
}
