#include "engine.h"

const uint8_t *mct_engine_tensor(const mct_engine *engine, uint32_t tensor)
{
    return mct_operand(engine, &engine->image.tensors[tensor]);
}
