#include <string.h>

#include "engine.h"

mct_status mct_engine_open(mct_engine *engine, const void *image, uint32_t size, void *memory,
                           uint32_t bytes)
{
    mct_status status;
    memset(engine, 0, sizeof *engine);
    status = mct_image_verify(image, size, &engine->image, &engine->refused);
    if (status != MCT_OK)
        return status;
    if ((uintptr_t)memory % 4 != 0)
        return MCT_ERR_ALIGNMENT;
    if (memory == NULL || mct_image_block_bytes(&engine->image) > bytes)
        return MCT_ERR_MEMORY;
    engine->state = memory;
    engine->arena = engine->state + ((engine->image.header->state_bytes + 3u) & ~3u);
    mct_engine_reset(engine);
    return mct_image_check_state(&engine->image, engine->state, &engine->refused);
}
