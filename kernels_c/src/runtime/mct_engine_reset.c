#include <string.h>

#include "engine.h"

void mct_engine_reset(mct_engine *engine)
{
    const uint8_t *from = engine->image.initial, *end = from + engine->image.header->initial_bytes;
    uint8_t *to = engine->state;
    while (from < end) {
        const mct_image_run *run = (const void *)from;
        memcpy(to, from + sizeof *run, run->copied);
        memset(to + run->copied, (int)run->value, run->filled);
        to += run->copied + run->filled;
        from += mct_run_bytes(run);
    }
}
