#include <string.h>

#include "engine.h"

uint32_t mct_engine_sample_bytes(const mct_engine *engine)
{
    const mct_image_header *h = engine->image.header;
    uint32_t bytes = 0;
    for (uint32_t k = 0; k < MCT_MAX_INPUTS && h->inputs[k] != MCT_NONE; k++)
        bytes += (uint32_t)mct_count(&engine->image.tensors[h->inputs[k]]);
    return bytes;
}

void mct_engine_restart(mct_engine *engine)
{
    engine->received = 0;
}

/* The input that byte `at` of a sample belongs to; at becomes its place in that input. */
static const mct_image_tensor *input_of(const mct_engine *engine, uint32_t *at)
{
    const mct_image_tensor *t = NULL;
    for (uint32_t k = 0;; k++) {
        t = &engine->image.tensors[engine->image.header->inputs[k]];
        if (*at < mct_count(t))
            return t;
        *at -= (uint32_t)mct_count(t);
    }
}

mct_status mct_engine_write(mct_engine *engine, const uint8_t *data, uint32_t n)
{
    int streams = mct_streams_input(&engine->image);
    if (n > mct_engine_sample_bytes(engine) - engine->received)
        return MCT_ERR_SAMPLE;
    if (engine->received == 0 && streams)
        mct_segment_begin(engine, 0);
    while (n > 0) {
        uint32_t at = engine->received;
        const mct_image_tensor *t = input_of(engine, &at);
        uint32_t stride = mct_row_bytes(t), row = at / stride, in_row = at % stride;
        uint32_t part = stride - in_row < n ? stride - in_row : n;
        uint8_t *to = engine->arena + t->offset + row % mct_rows_held(t) * stride + in_row;
        memcpy(to, data, part);
        data += part;
        n -= part;
        engine->received += part;
        if (streams && in_row + part == stride)
            mct_segment_advance(engine, 0, row + 1);
    }
    return MCT_OK;
}
