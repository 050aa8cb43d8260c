#include "engine.h"

uint8_t *mct_engine_state(const mct_engine *engine, uint32_t *bytes)
{
    *bytes = engine->image.header->state_bytes;
    return engine->state;
}
