/* HELLO, REBOOT, SPEED: what the device is, and how it is reached. */
#include <string.h>

#include "app_internal.h"
#include "hal.h"

/* Set by the build: a hash over sources, flags and compiler. */
#ifndef MCT_BUILD_ID
#define MCT_BUILD_ID 0ULL
#endif

/* What a host sends in vain at a rate that does not work, and then in order to have it ended. */
#define TRIAL 128u

/* Volatile: as part of the code, its value would decide on the size of the code. */
static const volatile uint64_t build_id = MCT_BUILD_ID;

static void put_fault(uint8_t *response)
{
    mct_hal_fault fault = mct_hal_last_fault();

    mct_put_u32(response + MCT_WIRE_HELLO_RSP_FAULT_PC, fault.pc);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_FAULT_LR, fault.lr);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_FAULT_CFSR, fault.cfsr);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_FAULT_ADDRESS, fault.address);
}

static void put_image(const mct_app *app, uint8_t *response)
{
    const mct_image_header *header = app->image != NULL ? app->engine.image.header : NULL;
    const uint8_t *random = mct_app_random_state(app);

    response[MCT_WIRE_HELLO_RSP_IMAGE_OPEN] = header != NULL;
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_IMAGE_SIZE, header ? header->image_bytes : 0);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_IMAGE_CRC, header ? header->crc : 0);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_STEP, random ? mct_get_u32(random + 4) : 0);
}

uint32_t mct_app_hello(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    mct_hal_counter_info counter = mct_hal_counter_scale();
    uint64_t build = build_id;
    const char *board = mct_hal_board();
    uint32_t name = (uint32_t)strlen(board);
    const uint8_t *base;
    uint32_t flash;

    (void)request;
    (void)n;
    mct_hal_flash_partition(&base, &flash);
    mct_put_u16(response + MCT_WIRE_HELLO_RSP_FORMAT_VERSION, MCT_IMAGE_VERSION);
    mct_put_u16(response + MCT_WIRE_HELLO_RSP_MAX_PAYLOAD, MCT_WIRE_MAX_PAYLOAD);
    response[MCT_WIRE_HELLO_RSP_WINDOW] = MCT_WIRE_WINDOW;
    /* Most significant byte first, so that the bytes read like the build's hexadecimal name. */
    for (uint32_t i = 0; i < 8; i++) {
        response[MCT_WIRE_HELLO_RSP_BUILD + i] = (uint8_t)(build >> (56 - 8 * i));
    }
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_POOL_BYTES, app->pool_bytes);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_FLASH_BYTES, flash);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_STACK_BYTES, mct_hal_stack_size());
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_APP_BYTES, sizeof *app);
    response[MCT_WIRE_HELLO_RSP_COUNTER_KIND] = (uint8_t)counter.kind;
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_COUNTER_NUM, counter.num);
    mct_put_u32(response + MCT_WIRE_HELLO_RSP_COUNTER_DEN, counter.den);
    put_image(app, response);
    put_fault(response);
    if (name > MCT_WIRE_MAX_PAYLOAD - MCT_WIRE_HELLO_RSP_BYTES) {
        name = MCT_WIRE_MAX_PAYLOAD - MCT_WIRE_HELLO_RSP_BYTES;
    }
    memcpy(response + MCT_WIRE_HELLO_RSP_BOARD, board, name);
    return MCT_WIRE_HELLO_RSP_BYTES + name;
}

uint32_t mct_app_reboot(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    (void)request;
    (void)n;
    (void)response;
    app->reboot = 1; /* once the response is out */
    return 0;
}

uint32_t mct_app_speed(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response)
{
    uint32_t baud = mct_get_u32(request + MCT_WIRE_SPEED_REQ_BAUD);

    (void)n;
    (void)response;
    return mct_hal_baud_divider(baud) == 0 ? mct_app_fail(app, MCT_WIRE_ERR_BAUD, baud, 0) : 0;
}

void mct_app_switch_speed(mct_app *app, const uint8_t *request)
{
    uint32_t divider = mct_hal_baud_divider(mct_get_u32(request + MCT_WIRE_SPEED_REQ_BAUD));

    if (divider != 0) {
        mct_hal_baud_set(divider);
        app->trial = request[MCT_WIRE_SPEED_REQ_KEEP] != 0 ? 0 : TRIAL;
    }
}
