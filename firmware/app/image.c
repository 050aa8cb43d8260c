/* The image: room for it, opening, description, reset. */
#include <string.h>

#include "app_internal.h"
#include "hal.h"
#include "mct_crc32.h"

#define ALIGN    16u
#define SIZE_AT  offsetof(mct_image_header, image_bytes)
#define STATE_AT offsetof(mct_image_header, state_bytes)
#define ARENA_AT offsetof(mct_image_header, arena_bytes)

static void close_image(mct_app *app)
{
    app->image = NULL;
    app->logits_valid = 0;
    app->ticks_at = NULL;
    app->traces_at = NULL;
    app->transfer_open = 0;
    memset(app->targets, 0, sizeof app->targets);
}

uint32_t mct_app_image_begin(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint8_t place = request[MCT_WIRE_IMAGE_BEGIN_REQ_PLACE];
    uint32_t size = mct_get_u32(request + MCT_WIRE_IMAGE_BEGIN_REQ_SIZE);
    uint32_t room = app->pool_bytes;
    const uint8_t *base;

    (void)n;
    (void)response;
    if (place > MCT_WIRE_PLACE_FLASH) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, place, MCT_WIRE_PLACE_FLASH);
    }
    if (place == MCT_WIRE_PLACE_FLASH) {
        mct_hal_flash_partition(&base, &room);
    }
    if (size > room) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_ROOM, size, room);
    }
    close_image(app);
    app->place = place;
    app->loading = 1;
    app->top = app->pool_bytes;
    if (place == MCT_WIRE_PLACE_SRAM) {
        app->top = (app->pool_bytes - size) & ~(ALIGN - 1u);
    }
    app->targets[MCT_WIRE_TARGET_IMAGE].size = size;
    return 0;
}

uint32_t mct_app_open_at(mct_app *app, const uint8_t *image, uint32_t size)
{
    app->logits_valid = 0;
    mct_app_paint(app, 0);
    memset(&app->engine, 0, sizeof app->engine);
    mct_status status = mct_engine_open(&app->engine, image, size, app->pool, app->top);
    if (status == MCT_ERR_MEMORY) {
        /* Verified before, so the header is there. */
        uint32_t arena = mct_get_u32(image + ARENA_AT);
        uint32_t state = (mct_get_u32(image + STATE_AT) + 3u) & ~3u;
        return mct_app_fail(app, MCT_WIRE_ERR_NO_ROOM, state + arena, app->top);
    }
    if (status != MCT_OK) {
        return mct_app_fail_refused(app, MCT_WIRE_ERR_IMAGE_REFUSED, status);
    }
    app->image = image;
    app->loading = 0;
    mct_app_target *sample = &app->targets[MCT_WIRE_TARGET_SAMPLE];
    mct_app_target *state = &app->targets[MCT_WIRE_TARGET_STATE];
    sample->size = mct_engine_sample_bytes(&app->engine);
    (void)mct_engine_state(&app->engine, &state->size);
    state->present = state->size;
    return 0;
}

/* The bytes at a place, and in *size how many an image there may have. 0, or the error. */
static uint32_t find_image(mct_app *app, uint8_t place, const uint8_t **base, uint32_t *size)
{
    const mct_app_target *loaded = &app->targets[MCT_WIRE_TARGET_IMAGE];

    if (place > MCT_WIRE_PLACE_FLASH) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, place, MCT_WIRE_PLACE_FLASH);
    }
    if (place == MCT_WIRE_PLACE_FLASH) {
        mct_hal_flash_partition(base, size);
        app->top = app->pool_bytes;
        app->loading = 0;
        return 0;
    }
    if (!app->loading || app->place != place) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_IMAGE, 0, 0);
    }
    if (loaded->present != loaded->size) {
        return mct_app_fail(app, MCT_WIRE_ERR_INCOMPLETE, loaded->present, loaded->size);
    }
    *base = app->pool + app->top;
    *size = loaded->size;
    return 0;
}

/* Its bytes by its header. Without an image there, these are any: the executor says what is wrong.
 */
static uint32_t size_in_header(const uint8_t *image, uint32_t room)
{
    uint32_t size = room < sizeof(mct_image_header) ? room : mct_get_u32(image + SIZE_AT);

    return size < room ? size : room;
}

uint32_t mct_app_image_open(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint8_t place = request[MCT_WIRE_IMAGE_OPEN_REQ_PLACE];
    uint32_t size = mct_get_u32(request + MCT_WIRE_IMAGE_OPEN_REQ_SIZE);
    uint32_t crc = mct_get_u32(request + MCT_WIRE_IMAGE_OPEN_REQ_CRC);
    const uint8_t *base;
    uint32_t room;
    uint32_t failed = find_image(app, place, &base, &room);

    if (failed != 0) {
        return failed;
    }
    mct_app_target loaded = app->targets[MCT_WIRE_TARGET_IMAGE];
    close_image(app);
    /* What was loaded stays, so that it can be loaded again after a wrong CRC. */
    app->targets[MCT_WIRE_TARGET_IMAGE] = loaded;
    app->place = place;
    if (size > room) {
        return mct_app_fail(app, MCT_WIRE_ERR_RANGE, size, room);
    }
    if (size == 0) {
        size = size_in_header(base, room);
    } else if (mct_crc32(0, base, size) != crc) {
        return mct_app_fail(app, MCT_WIRE_ERR_IMAGE_CRC, crc, mct_crc32(0, base, size));
    }
    failed = mct_app_open_at(app, base, size);
    return failed != 0 ? failed : mct_app_image_info(app, request, n, response);
}

uint32_t mct_app_image_info(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    (void)request;
    (void)n;
    if (app->image == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_IMAGE, 0, 0);
    }
    const mct_image_header *header = app->engine.image.header;
    uint32_t block = (uint32_t)mct_image_block_bytes(&app->engine.image);

    response[MCT_WIRE_IMAGE_OPEN_RSP_PLACE] = app->place;
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_SIZE, header->image_bytes);
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_CRC, header->crc);
    memcpy(response + MCT_WIRE_IMAGE_OPEN_RSP_MODEL_HASH, header->model_hash,
           sizeof header->model_hash);
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_STATE_BYTES, header->state_bytes);
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_ARENA_BYTES, header->arena_bytes);
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_SAMPLE_BYTES,
                app->targets[MCT_WIRE_TARGET_SAMPLE].size);
    mct_put_u16(response + MCT_WIRE_IMAGE_OPEN_RSP_CLASSES, header->classes);
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_FORWARD, header->forward);
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_INSTRUCTIONS, header->instructions);
    mct_put_u32(response + MCT_WIRE_IMAGE_OPEN_RSP_FREE_BYTES, app->top - block);
    return MCT_WIRE_IMAGE_OPEN_RSP_BYTES;
}

void mct_app_state_changed(mct_app *app)
{
    app->targets[MCT_WIRE_TARGET_SAMPLE].present = 0;
    app->targets[MCT_WIRE_TARGET_STATE].present = app->targets[MCT_WIRE_TARGET_STATE].size;
    app->transfer_open = 0;
    app->logits_valid = 0;
    app->ticks_at = NULL;
    app->traces_at = NULL;
    mct_app_paint(app, app->targets[MCT_WIRE_TARGET_STATE].size);
}

uint32_t mct_app_reset(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    (void)n;
    (void)response;
    if (app->image == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_NO_IMAGE, 0, 0);
    }
    mct_engine_reset(&app->engine);
    if (request[MCT_WIRE_RESET_REQ_SET_SEED]) {
        memcpy(mct_app_random_state(app), request + MCT_WIRE_RESET_REQ_SEED, sizeof(uint32_t));
    }
    mct_app_state_changed(app);
    return 0;
}
