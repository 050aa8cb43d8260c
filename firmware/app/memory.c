/* What is known about the pool: paint, high-water mark, the state's words, statistics. */
#include <string.h>

#include "app_internal.h"
#include "hal.h"

#define PAINT 0xA5u

void mct_app_paint(mct_app *app, uint32_t from)
{
    memset(app->pool + from, PAINT, app->top - from);
    app->records = app->top;
}

uint32_t mct_app_pool_used(const mct_app *app)
{
    uint32_t used = app->records;

    if (app->image == NULL) {
        return 0;
    }
    while (used > 0 && app->pool[used - 1] == PAINT) {
        used--;
    }
    return used + (app->pool_bytes - app->top);
}

uint32_t mct_app_pool_planned(const mct_app *app)
{
    if (app->image == NULL) {
        return 0;
    }
    return (uint32_t)mct_image_block_bytes(&app->engine.image) + (app->pool_bytes - app->top);
}

uint8_t *mct_app_random_state(const mct_app *app)
{
    const mct_image *image = &app->engine.image;
    uint32_t bytes;

    if (app->image == NULL) {
        return NULL;
    }
    return mct_engine_state(&app->engine, &bytes) + image->tensors[image->header->rng].offset;
}

uint32_t mct_app_stats(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    mct_hal_rx_stats rx = mct_hal_rx_statistics();
    uint32_t guard;
    uint32_t changed = mct_hal_guard_untouched(&guard);

    (void)request;
    (void)n;
    mct_put_u32(response + MCT_WIRE_STATS_RSP_STACK_BYTES, mct_hal_stack_size());
    mct_put_u32(response + MCT_WIRE_STATS_RSP_STACK_USED, mct_hal_stack_used());
    mct_put_u32(response + MCT_WIRE_STATS_RSP_POOL_BYTES, app->pool_bytes);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_POOL_PLANNED, mct_app_pool_planned(app));
    mct_put_u32(response + MCT_WIRE_STATS_RSP_POOL_USED, mct_app_pool_used(app));
    mct_put_u32(response + MCT_WIRE_STATS_RSP_GUARD_BYTES, guard);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_GUARD_CHANGED, changed);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_STEPS, app->counts.steps);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_EVALS, app->counts.evals);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_SATURATED, app->counts.saturated);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_CLAMPED, app->counts.clamped);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_SKIPPED, app->counts.skipped);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_LEARNT, app->counts.learnt);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_FRAMES, app->counts.frames);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_DAMAGED, app->counts.damaged);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_STALE, app->counts.stale);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_RESENT, app->counts.resent);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_RX_OVERRUNS, rx.overruns);
    mct_put_u32(response + MCT_WIRE_STATS_RSP_RX_STALLS, rx.stalls);
    return MCT_WIRE_STATS_RSP_BYTES;
}
