#include <string.h>

#include "engine.h"
#include "mct_arith.h"

static uint32_t bits_of(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* Finite and >= 0; by the bits, so -0 is refused as well. */
static int rate_ok(float rate)
{
    return bits_of(rate) < 0x7f800000u;
}

/*
 * The step's instructions: up to the loss, which is the first of the backward pass, and the rest
 * unless the sample is learnt. A loss is >= 0, so its bits are in the order of the numbers.
 */
static mct_status run_step(mct_engine *engine)
{
    const mct_image_header *h = engine->image.header;
    uint32_t rest = h->forward + 1u;
    mct_status status = mct_run(engine, 0, rest);
    if (status != MCT_OK)
        return status;
    if (bits_of(engine->loss.loss) < bits_of(engine->learnt)) {
        engine->skipped = h->instructions - rest;
        return MCT_OK;
    }
    return mct_run(engine, rest, h->instructions);
}

mct_status mct_engine_train(mct_engine *engine, uint32_t label, float lr, float lr_head,
                            mct_step_result *result)
{
    const mct_image_header *h = engine->image.header;
    uint32_t *rng = mct_rng(engine);
    mct_status status;
    if (label >= h->classes)
        return MCT_ERR_LABEL;
    if (!rate_ok(lr) || !rate_ok(lr_head) || !rate_ok(engine->learnt))
        return MCT_ERR_RATE;
    if (h->forward == h->instructions)
        return MCT_ERR_NO_TRAINING;
    if (engine->received != mct_engine_sample_bytes(engine))
        return MCT_ERR_SAMPLE;
    engine->received = 0;
    engine->label = label;
    engine->lr_head = lr_head;
    engine->rate.mant = mct_rate_mant(bits_of(lr));
    engine->rate.exp = mct_rate_exp(bits_of(lr));
    engine->l_top = 0;
    engine->saturated = 0;
    engine->clamped = 0;
    engine->skipped = 0;
    status = run_step(engine);
    if (status != MCT_OK)
        return status;
    rng[1]++;
    result->loss_bits = bits_of(engine->loss.loss);
    result->predicted = engine->loss.predicted;
    result->saturated = engine->saturated;
    result->clamped = engine->clamped;
    result->skipped = engine->skipped;
    result->step = rng[1];
    return MCT_OK;
}
