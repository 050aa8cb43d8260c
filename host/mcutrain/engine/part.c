#include "part.h"

#include "../../../kernels_c/src/runtime/engine.h"
#include "hal.h"

mct_status mcutrain_run_first(mct_engine *engine, uint32_t count)
{
    if (engine->received != mct_engine_sample_bytes(engine))
        return MCT_ERR_SAMPLE;
    engine->received = 0;
    return mct_run(engine, 0, count);
}

void mcutrain_note_backward(void *context, const mct_engine *engine, uint32_t instruction,
                            mct_hook_event event)
{
    if (event == MCT_HOOK_BEFORE && instruction == engine->image.header->forward)
        *(uint32_t *)context = mct_hal_counter();
}

uint32_t mcutrain_clock(void)
{
    return mct_hal_counter();
}
