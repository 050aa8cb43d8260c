#include "engine.h"

mct_status mct_engine_check_state(mct_engine *engine)
{
    mct_status status = mct_image_check_state(&engine->image, engine->state, &engine->refused);
    if (status != MCT_OK)
        mct_engine_reset(engine);
    return status;
}
