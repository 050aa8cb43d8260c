/* DATA, READ and samples from memory: bytes in and out of the pool. */
#include <string.h>

#include "app_internal.h"
#include "hal.h"

uint32_t mct_app_check_ready(mct_app *app)
{
    const mct_app_target *state = &app->targets[MCT_WIRE_TARGET_STATE];

    if (app->image == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_IMAGE, 0, 0);
    }
    if (state->present != state->size) {
        return mct_app_fail(app, MCT_WIRE_ERR_INCOMPLETE, state->present, state->size);
    }
    return 0;
}

/* 0, or the error. */
static uint32_t put(mct_app *app, uint8_t target, uint32_t offset, const uint8_t *data, uint32_t n)
{
    const bool last = offset + n == app->targets[target].size;
    uint32_t bytes;

    if (target == MCT_WIRE_TARGET_SAMPLE) {
        mct_app_put_sample(app, offset, data, n);
    } else if (target == MCT_WIRE_TARGET_STATE) {
        memcpy(mct_engine_state(&app->engine, &bytes) + offset, data, n);
    } else if (app->place == MCT_WIRE_PLACE_SRAM) {
        memcpy(app->pool + app->top + offset, data, n);
    } else if (mct_hal_flash_write(offset, data, n, last) != 0) {
        return mct_app_fail(app, MCT_WIRE_ERR_FLASH, offset, 0);
    }
    return 0;
}

/* Takes bytes that come next. 0, or the error. */
static uint32_t take(mct_app *app, uint8_t target, const uint8_t *data, uint32_t n)
{
    mct_app_target *at = &app->targets[target];
    uint32_t failed = put(app, target, at->present, data, n);

    if (failed != 0) {
        return failed;
    }
    at->present += n;
    if (target == MCT_WIRE_TARGET_STATE && at->present == at->size) {
        mct_status status = mct_engine_check_state(&app->engine);
        if (status != MCT_OK) {
            return mct_app_fail_refused(app, MCT_WIRE_ERR_STATE_REFUSED, status);
        }
    }
    return 0;
}

/* Whether these bytes can belong to the target at all. 0, or the error. */
static uint32_t check_data(mct_app *app, uint8_t target, uint32_t offset, uint32_t n)
{
    if (target > MCT_WIRE_TARGET_STATE) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, target, MCT_WIRE_TARGET_STATE);
    }
    if (target == MCT_WIRE_TARGET_IMAGE ? !app->loading : app->image == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_IMAGE, 0, 0);
    }
    uint32_t size = app->targets[target].size;
    if (offset > size || n > size - offset) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, offset + n, size);
    }
    return 0;
}

uint32_t mct_app_data(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint8_t target = request[MCT_WIRE_DATA_REQ_TARGET];
    uint16_t transfer = mct_get_u16(request + MCT_WIRE_DATA_REQ_TRANSFER);
    uint32_t offset = mct_get_u32(request + MCT_WIRE_DATA_REQ_OFFSET);
    uint32_t bytes = n - MCT_WIRE_DATA_REQ_BYTES;
    uint32_t failed = check_data(app, target, offset, bytes);

    if (failed != 0) {
        return failed;
    }
    mct_app_target *at = &app->targets[target];
    if (!app->transfer_open || target != app->transfer_target || transfer != app->transfer) {
        app->transfer_open = 1;
        app->transfer_target = target;
        app->transfer = transfer;
        at->present = 0;
    }
    if (offset == at->present) {
        failed = take(app, target, request + MCT_WIRE_DATA_REQ_DATA, bytes);
        if (failed != 0) {
            app->transfer_open = 0;
            return failed;
        }
    }
    response[MCT_WIRE_DATA_RSP_ACCEPTED] = offset < at->present;
    mct_put_u16(response + MCT_WIRE_DATA_RSP_TRANSFER, transfer);
    mct_put_u32(response + MCT_WIRE_DATA_RSP_NEXT, at->present);
    return MCT_WIRE_DATA_RSP_BYTES;
}

uint32_t mct_app_sample_memory(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint32_t offset = mct_get_u32(request + MCT_WIRE_SAMPLE_MEMORY_REQ_OFFSET);
    mct_app_target *sample = &app->targets[MCT_WIRE_TARGET_SAMPLE];
    const uint8_t *base;
    uint32_t size;

    (void)n;
    (void)response;
    if (app->image == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_IMAGE, 0, 0);
    }
    mct_hal_flash_partition(&base, &size);
    if (offset > size || sample->size > size - offset) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, offset + sample->size, size);
    }
    app->transfer_open = 0;
    app->sample_at = base + offset;
    sample->present = sample->size;
    return 0;
}

/* What a source holds, and its bytes: 0 where nothing is to be read. */
static uint32_t find_source(const mct_app *app, uint8_t source, const uint8_t **at)
{
    uint32_t bytes = 0;

    switch (source) {
    case MCT_WIRE_SOURCE_STATE:
        *at = mct_engine_state(&app->engine, &bytes);
        return bytes;
    case MCT_WIRE_SOURCE_LOGITS:
        *at = (const uint8_t *)mct_engine_logits(&app->engine);
        return app->logits_valid ? app->engine.image.header->classes * 4u : 0;
    case MCT_WIRE_SOURCE_PROFILE:
        *at = app->ticks_at;
        return app->ticks_at != NULL ? app->recorded * 4 : 0;
    case MCT_WIRE_SOURCE_RESULT:
        *at = MCT_APP_RESULT_AT(app);
        return MCT_APP_RESULT_BYTES;
    default:
        *at = app->traces_at;
        return app->traces_at != NULL ? app->recorded * 4 : 0;
    }
}

uint32_t mct_app_read(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint8_t source = request[MCT_WIRE_READ_REQ_SOURCE];
    uint32_t offset = mct_get_u32(request + MCT_WIRE_READ_REQ_OFFSET);
    uint32_t length = mct_get_u16(request + MCT_WIRE_READ_REQ_LENGTH);
    uint32_t failed = mct_app_check_ready(app);
    const uint8_t *at;

    (void)n;
    if (failed != 0) {
        return failed;
    }
    if (source > MCT_WIRE_SOURCE_RESULT) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, source, MCT_WIRE_SOURCE_RESULT);
    }
    if (length == 0 || length > MCT_WIRE_MAX_PAYLOAD) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, length, MCT_WIRE_MAX_PAYLOAD);
    }
    uint32_t bytes = find_source(app, source, &at);
    if (offset > bytes || length > bytes - offset) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, offset + length, bytes);
    }
    memcpy(response, at + offset, length);
    return length;
}
