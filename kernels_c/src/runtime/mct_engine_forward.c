#include "engine.h"
#include "mct_kernels.h"

mct_status mct_engine_forward(mct_engine *engine, uint32_t *predicted)
{
    const mct_image_header *h = engine->image.header;
    mct_loss loss = {h->classes, 0};
    mct_loss_result result;
    mct_status status;
    if (engine->received != mct_engine_sample_bytes(engine))
        return MCT_ERR_SAMPLE;
    engine->received = 0;
    status = mct_run(engine, 0, h->forward);
    if (status == MCT_OK) /* the loss of no label in particular: it finds the class */
        status = mct_loss_f32(&loss, mct_engine_logits(engine), NULL, &result);
    if (status == MCT_OK)
        *predicted = result.predicted;
    return status;
}
