/* STEP and EVAL: runs of the executor with interrupts masked, and what is measured meanwhile. */
#include <string.h>

#include "app_internal.h"
#include "hal.h"

/* 1: images packed with canaries are watched, and nothing else works: for debugging. */
#ifndef MCT_CANARIES
#define MCT_CANARIES 0
#endif

#define ALL_FLAGS                                                                                  \
    ((uint32_t)MCT_WIRE_RUN_PROFILE | MCT_WIRE_RUN_TRACE | MCT_WIRE_RUN_NO_LOGITS |                \
     MCT_WIRE_RUN_RECEIVE)

/* Ticks since the mark belong to the instruction. */
static void attribute(mct_app *app, const mct_engine *engine, uint32_t instruction)
{
    if (instruction < engine->image.header->forward) {
        app->ticks_forward += app->spent;
    } else {
        app->ticks_backward += app->spent;
    }
    if (app->ticks_at != NULL) {
        uint8_t *at = app->ticks_at + 4 * instruction;
        mct_put_u32(at, mct_get_u32(at) + app->spent);
    }
    app->spent = 0;
}

/* In a build for debugging. */
static void watch(mct_app *app, const mct_engine *engine, uint32_t instruction,
                  mct_hook_event event)
{
    uint32_t tensor = MCT_CANARIES ? mct_canaries(engine, instruction, event) : MCT_NONE;

    if (tensor != MCT_NONE && !app->overrun) {
        app->overrun = 1;
        app->engine.refused.index = instruction;
        app->engine.refused.detail = tensor;
    }
}

/* The counter stands still, so to speak, while this runs: only compute is counted. */
static void record(void *context, const mct_engine *engine, uint32_t instruction,
                   mct_hook_event event)
{
    uint32_t now = mct_hal_counter();
    mct_app *app = context;

    app->spent += now - app->mark;
    if (event == MCT_HOOK_BEFORE) {
        app->instruction = instruction;
    } else if (event == MCT_HOOK_AFTER) {
        attribute(app, engine, instruction);
    } else {
        if (app->traces_at != NULL) {
            mct_put_u32(app->traces_at + 4 * instruction,
                        mct_engine_trace_crc(engine, instruction, 0));
        }
        app->recorded = instruction + 1;
    }
    watch(app, engine, instruction, event);
    app->mark = mct_hal_counter();
}

static void forget_ticks(mct_app *app)
{
    app->engine.hook = record;
    app->engine.hook_context = app;
    app->overrun = 0;
    app->instruction = 0;
    app->spent = 0;
    app->ticks_forward = 0;
    app->ticks_backward = 0;
}

/* An image that streams its input computes here, as rows come: their ticks count as forward. */
void mct_app_put_sample(mct_app *app, uint32_t offset, const uint8_t *data, uint32_t n)
{
    app->logits_valid = 0;
    if (offset == 0) {
        app->sample_at = NULL;
        app->ticks_at = NULL;
        app->traces_at = NULL;
        mct_engine_restart(&app->engine);
        forget_ticks(app);
    }
    app->mark = mct_hal_counter();
    mct_engine_write(&app->engine, data, n);
}

/* Makes room for the records that the flags ask for. 0, or the error. */
static uint32_t prepare(mct_app *app, uint8_t flags)
{
    mct_app_target *sample = &app->targets[MCT_WIRE_TARGET_SAMPLE];
    uint32_t failed = mct_app_check_ready(app);

    if (failed != 0) {
        return failed;
    }
    if (flags > ALL_FLAGS) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, flags, ALL_FLAGS);
    }
    if (sample->present != sample->size) {
        return mct_app_fail(app, MCT_WIRE_ERR_INCOMPLETE, sample->present, sample->size);
    }
    uint32_t each = app->engine.image.header->instructions * 4u;
    uint32_t needed = each * ((flags & 1u) + ((flags >> 1) & 1u));
    uint32_t room = app->top - (uint32_t)mct_image_block_bytes(&app->engine.image);
    if (needed > room) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_ROOM, needed, room);
    }
    uint8_t *at = app->pool + app->top - needed;
    app->ticks_at = flags & MCT_WIRE_RUN_PROFILE ? at : NULL;
    app->traces_at = flags & MCT_WIRE_RUN_TRACE ? app->pool + app->top - each : NULL;
    app->records = app->top - needed < app->records ? app->top - needed : app->records;
    memset(at, 0, needed);
    app->recorded = 0;
    app->logits_valid = 0;
    sample->present = 0;
    app->transfer_open = 0;
    return 0;
}

/* A sample that lies in memory is written now, so that all of its compute is in the run. */
static uint32_t start(mct_app *app, uint8_t flags)
{
    uint32_t mask = mct_hal_irq_save();

    if ((flags & MCT_WIRE_RUN_RECEIVE) != 0) {
        mct_hal_irq_restore(mask);
    }

    if (app->sample_at != NULL) {
        mct_engine_restart(&app->engine);
        forget_ticks(app);
        app->mark = mct_hal_counter();
        mct_engine_write(&app->engine, app->sample_at, app->targets[MCT_WIRE_TARGET_SAMPLE].size);
        app->sample_at = NULL;
    } else {
        app->mark = mct_hal_counter();
    }
    return mask;
}

/* What ran after the last instruction belongs to the step as well. */
static void stop(mct_app *app, uint32_t mask)
{
    app->ticks_backward += app->spent + (mct_hal_counter() - app->mark);
    mct_hal_irq_restore(mask);
}

/* The error of a run that has ended with this status; 0 if there is none. */
static uint32_t failure(mct_app *app, mct_status status)
{
    if (status != MCT_OK) {
        return mct_app_fail(app, MCT_WIRE_ERR_RUN_FAILED, (uint32_t)status, app->instruction);
    }
    return app->overrun ? mct_app_fail_refused(app, MCT_WIRE_ERR_RUN_FAILED, MCT_ERR_CANARY) : 0;
}

static float to_float(const uint8_t *bits)
{
    float value;

    memcpy(&value, bits, sizeof value);
    return value;
}

uint32_t mct_app_step(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint32_t failed = prepare(app, request[MCT_WIRE_STEP_REQ_FLAGS]);
    mct_step_result result;

    (void)n;
    if (failed != 0) {
        return failed;
    }
    uint32_t mask = start(app, request[MCT_WIRE_STEP_REQ_FLAGS]);
    app->engine.learnt = to_float(request + MCT_WIRE_STEP_REQ_LEARNT);
    mct_status status =
        mct_engine_train(&app->engine, mct_get_u16(request + MCT_WIRE_STEP_REQ_LABEL),
                         to_float(request + MCT_WIRE_STEP_REQ_LR),
                         to_float(request + MCT_WIRE_STEP_REQ_LR_HEAD), &result);
    stop(app, mask);
    failed = failure(app, status);
    if (failed != 0) {
        return failed;
    }
    /* What a learnt sample left out took no time. */
    app->recorded = app->engine.image.header->instructions;
    app->counts.steps++;
    app->counts.saturated += result.saturated;
    app->counts.clamped += result.clamped;
    app->counts.skipped += result.skipped;
    app->counts.learnt += to_float((const uint8_t *)&result.loss_bits) < app->engine.learnt;
    mct_put_u32(response + MCT_WIRE_STEP_RSP_STEP, result.step);
    mct_put_u32(response + MCT_WIRE_STEP_RSP_LOSS, result.loss_bits);
    mct_put_u16(response + MCT_WIRE_STEP_RSP_PREDICTED, result.predicted);
    mct_put_u32(response + MCT_WIRE_STEP_RSP_SATURATED, result.saturated);
    mct_put_u32(response + MCT_WIRE_STEP_RSP_CLAMPED, result.clamped);
    mct_put_u32(response + MCT_WIRE_STEP_RSP_SKIPPED, result.skipped);
    mct_put_u32(response + MCT_WIRE_STEP_RSP_TICKS_FORWARD, app->ticks_forward);
    mct_put_u32(response + MCT_WIRE_STEP_RSP_TICKS_BACKWARD, app->ticks_backward);
    mct_put_u16(MCT_APP_RESULT_AT(app), app->session);
    mct_put_u16(MCT_APP_RESULT_AT(app) + 2, app->last);
    memcpy(MCT_APP_RESULT_AT(app) + 4, response, MCT_WIRE_STEP_RSP_BYTES);
    return MCT_WIRE_STEP_RSP_BYTES;
}

uint32_t mct_app_eval(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint32_t failed = prepare(app, request[MCT_WIRE_EVAL_REQ_FLAGS]);
    uint32_t predicted;

    (void)n;
    if (failed != 0) {
        return failed;
    }
    uint32_t mask = start(app, request[MCT_WIRE_EVAL_REQ_FLAGS]);
    mct_status status = mct_engine_forward(&app->engine, &predicted);
    stop(app, mask);
    failed = failure(app, status);
    if (failed != 0) {
        return failed;
    }
    uint32_t bytes = app->engine.image.header->classes * 4u;
    app->counts.evals++;
    app->logits_valid = 1;
    mct_put_u16(response + MCT_WIRE_EVAL_RSP_PREDICTED, predicted);
    mct_put_u32(response + MCT_WIRE_EVAL_RSP_TICKS, app->ticks_forward + app->ticks_backward);
    if ((request[MCT_WIRE_EVAL_REQ_FLAGS] & MCT_WIRE_RUN_NO_LOGITS) != 0 ||
        bytes > MCT_WIRE_MAX_PAYLOAD - MCT_WIRE_EVAL_RSP_BYTES) {
        bytes = 0;
    }
    memcpy(response + MCT_WIRE_EVAL_RSP_LOGITS, mct_engine_logits(&app->engine), bytes);
    return MCT_WIRE_EVAL_RSP_BYTES + bytes;
}
