#include "part.h"

#include "../../../kernels_c/src/runtime/engine.h"

mct_status mcutrain_run_first(mct_engine *engine, uint32_t count)
{
    if (engine->received != mct_engine_sample_bytes(engine))
        return MCT_ERR_SAMPLE;
    engine->received = 0;
    return mct_run(engine, 0, count);
}
