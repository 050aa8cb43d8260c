#include "engine.h"

const float *mct_engine_logits(const mct_engine *engine)
{
    return mct_operand(engine, &engine->image.tensors[engine->image.header->logits]);
}
