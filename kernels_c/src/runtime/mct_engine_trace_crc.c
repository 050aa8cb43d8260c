#include "engine.h"
#include "mct_crc32.h"

uint32_t mct_engine_trace_crc(const mct_engine *engine, uint32_t instruction, uint32_t crc)
{
    const mct_image_instruction *in = &engine->image.program[instruction];
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
        const mct_image_tensor *t = mct_slot(&engine->image, in, slot);
        if (t != NULL && (mct_slot_rules[in->op][slot].flags & MCT_SLOT_WRITTEN))
            crc = mct_crc32(crc, mct_operand(engine, t), t->bytes);
    }
    return crc;
}
