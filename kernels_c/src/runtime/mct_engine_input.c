#include "engine.h"

uint8_t *mct_engine_input(const mct_engine *engine, uint32_t k, uint32_t *bytes)
{
    const mct_image_header *h = engine->image.header;
    const mct_image_tensor *t;
    *bytes = 0;
    if (k >= MCT_MAX_INPUTS || h->inputs[k] == MCT_NONE)
        return NULL;
    t = &engine->image.tensors[h->inputs[k]];
    *bytes = t->bytes;
    return engine->arena + t->offset;
}
