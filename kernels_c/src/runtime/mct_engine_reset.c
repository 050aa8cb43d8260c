#include <string.h>

#include "engine.h"

void mct_engine_reset(mct_engine *engine)
{
    memcpy(engine->state, engine->image.initial, engine->image.header->state_bytes);
}
