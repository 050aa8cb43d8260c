/* SAVE and LOAD, and going on from a saved state after a start. */
#include <string.h>

#include "app_internal.h"
#include "hal.h"

static uint32_t fail_store(mct_app *app, mct_store_status status, uint32_t bytes)
{
    switch (status) {
    case MCT_STORE_ROOM:
        return mct_app_fail(app, MCT_WIRE_ERR_NO_ROOM, bytes, mct_store_capacity(&app->store));
    case MCT_STORE_ABSENT:
        return mct_app_fail(app, MCT_WIRE_ERR_NOTHING_SAVED, 0, 0);
    default:
        return mct_app_fail(app, MCT_WIRE_ERR_FLASH, 0, 0);
    }
}

static uint32_t describe(mct_app *app, uint32_t bytes, uint8_t *response)
{
    mct_put_u32(response + MCT_WIRE_SAVE_RSP_STEP, mct_get_u32(mct_app_random_state(app) + 4));
    mct_put_u32(response + MCT_WIRE_SAVE_RSP_STATE_BYTES, bytes);
    mct_put_u32(response + MCT_WIRE_SAVE_RSP_ERASURES_0, app->store.erasures[0]);
    mct_put_u32(response + MCT_WIRE_SAVE_RSP_ERASURES_1, app->store.erasures[1]);
    return MCT_WIRE_SAVE_RSP_BYTES;
}

uint32_t mct_app_save(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint32_t failed = mct_app_check_ready(app);
    uint32_t bytes;

    (void)request;
    (void)n;
    if (failed != 0) {
        return failed;
    }
    if (app->store.device == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_STORE, 0, 0);
    }
    const uint8_t *state = mct_engine_state(&app->engine, &bytes);
    mct_store_status status =
        mct_store_save(&app->store, app->engine.image.header->crc, state, bytes);
    if (status != MCT_STORE_OK) {
        return fail_store(app, status, bytes);
    }
    return describe(app, bytes, response);
}

uint32_t mct_app_load(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint32_t bytes;

    (void)request;
    (void)n;
    if (app->image == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_IMAGE, 0, 0);
    }
    if (app->store.device == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_STORE, 0, 0);
    }
    uint8_t *state = mct_engine_state(&app->engine, &bytes);
    mct_store_status status =
        mct_store_load(&app->store, app->engine.image.header->crc, state, bytes);
    if (status == MCT_STORE_ABSENT) {
        return fail_store(app, status, bytes); /* the state is as it was */
    }
    mct_app_state_changed(app);
    if (status != MCT_STORE_OK) {
        mct_engine_reset(&app->engine);
        return fail_store(app, status, bytes);
    }
    mct_status checked = mct_engine_check_state(&app->engine);
    if (checked != MCT_OK) {
        return mct_app_fail_refused(app, MCT_WIRE_ERR_STATE_REFUSED, checked);
    }
    return describe(app, bytes, response);
}

void mct_app_resume(mct_app *app)
{
    const uint8_t *image;
    uint32_t room;
    mct_image_header header;

    mct_hal_flash_partition(&image, &room);
    /* After a fault nothing is opened: that may have been the fault, over and over. */
    if (room < sizeof header || mct_hal_last_fault().pc != 0) {
        return;
    }
    memcpy(&header, image, sizeof header);
    if (header.image_bytes > room || mct_store_find(&app->store, header.crc) == 0) {
        return;
    }
    app->place = MCT_WIRE_PLACE_FLASH;
    if (mct_app_open_at(app, image, header.image_bytes) != 0) {
        return;
    }
    /* A saved state that cannot be had leaves the initial one, and the step counter says so. */
    (void)mct_app_load(app, NULL, 0, app->tx + MCT_WIRE_HEADER_BYTES);
}
