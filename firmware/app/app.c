/* Frames, sessions and sequence numbers (SPEC-wire, sections 1 to 4). */
#include <string.h>

#include "app_internal.h"
#include "hal.h"
#include "mct_crc32.h"

#define PAYLOAD(frame) ((frame) + MCT_WIRE_HEADER_BYTES)

typedef struct {
    mct_app_handler handle;
    uint16_t bytes; /* of the payload; the least for DATA */
} handler_row;

static const handler_row handlers[] = {
    [MCT_WIRE_HELLO] = {mct_app_hello, 0},
    [MCT_WIRE_IMAGE_BEGIN] = {mct_app_image_begin, MCT_WIRE_IMAGE_BEGIN_REQ_BYTES},
    [MCT_WIRE_DATA] = {mct_app_data, MCT_WIRE_DATA_REQ_BYTES + 1},
    [MCT_WIRE_IMAGE_OPEN] = {mct_app_image_open, MCT_WIRE_IMAGE_OPEN_REQ_BYTES},
    [MCT_WIRE_IMAGE_INFO] = {mct_app_image_info, 0},
    [MCT_WIRE_SAMPLE_MEMORY] = {mct_app_sample_memory, MCT_WIRE_SAMPLE_MEMORY_REQ_BYTES},
    [MCT_WIRE_STEP] = {mct_app_step, MCT_WIRE_STEP_REQ_BYTES},
    [MCT_WIRE_EVAL] = {mct_app_eval, MCT_WIRE_EVAL_REQ_BYTES},
    [MCT_WIRE_READ] = {mct_app_read, MCT_WIRE_READ_REQ_BYTES},
    [MCT_WIRE_RESET] = {mct_app_reset, MCT_WIRE_RESET_REQ_BYTES},
    [MCT_WIRE_STATS] = {mct_app_stats, 0},
    [MCT_WIRE_REBOOT] = {mct_app_reboot, 0},
    [MCT_WIRE_SAVE] = {mct_app_save, 0},
    [MCT_WIRE_LOAD] = {mct_app_load, 0},
    [MCT_WIRE_SPEED] = {mct_app_speed, MCT_WIRE_SPEED_REQ_BYTES},
};

static void to_uart(void *context, const uint8_t *bytes, uint32_t n)
{
    (void)context;
    mct_hal_tx(bytes, n);
}

/* Sends a frame whose payload is in place behind room for the header. */
static void send(uint8_t *frame, uint8_t type, uint16_t session, uint16_t seq, uint16_t payload)
{
    static const uint8_t border = 0;
    uint32_t n = MCT_WIRE_HEADER_BYTES + (uint32_t)payload;

    frame[MCT_WIRE_VERSION_AT] = MCT_WIRE_VERSION;
    frame[MCT_WIRE_TYPE_AT] = type;
    mct_put_u16(frame + MCT_WIRE_SESSION_AT, session);
    mct_put_u16(frame + MCT_WIRE_SEQ_AT, seq);
    mct_put_u16(frame + MCT_WIRE_LENGTH_AT, payload);
    mct_put_u32(frame + n, mct_crc32(0, frame, n));
    mct_hal_tx(&border, 1);
    mct_cobs_encode(frame, n + MCT_WIRE_CRC_BYTES, to_uart, NULL);
    mct_hal_tx(&border, 1);
}

static void send_nak(mct_app *app, uint8_t reason)
{
    uint8_t frame[MCT_WIRE_HEADER_BYTES + MCT_WIRE_NAK_RSP_BYTES + MCT_WIRE_CRC_BYTES];

    app->counts.damaged++;
    PAYLOAD(frame)[MCT_WIRE_NAK_RSP_REASON] = reason;
    send(frame, MCT_WIRE_NAK, app->session, app->last, MCT_WIRE_NAK_RSP_BYTES);
}

static void put_error(uint8_t *payload, uint32_t code, uint32_t a, uint32_t b, uint32_t c)
{
    mct_put_u16(payload + MCT_WIRE_ERROR_RSP_CODE, code);
    mct_put_u32(payload + MCT_WIRE_ERROR_RSP_A, a);
    mct_put_u32(payload + MCT_WIRE_ERROR_RSP_B, b);
    mct_put_u32(payload + MCT_WIRE_ERROR_RSP_C, c);
}

uint32_t mct_app_fail(mct_app *app, uint32_t code, uint32_t a, uint32_t b)
{
    app->tx_type = MCT_WIRE_ERROR;
    put_error(PAYLOAD(app->tx), code, a, b, 0);
    return MCT_WIRE_ERROR_RSP_BYTES;
}

uint32_t mct_app_fail_refused(mct_app *app, uint32_t code, mct_status status)
{
    const mct_image_error *at = &app->engine.refused;

    app->tx_type = MCT_WIRE_ERROR;
    put_error(PAYLOAD(app->tx), code, (uint32_t)status, at->index, at->detail);
    return MCT_WIRE_ERROR_RSP_BYTES;
}

/* An answer to a frame of no session of ours: the last response must stay as it is. */
static void refuse(const uint8_t *request, uint32_t code)
{
    uint8_t frame[MCT_WIRE_HEADER_BYTES + MCT_WIRE_ERROR_RSP_BYTES + MCT_WIRE_CRC_BYTES];

    put_error(PAYLOAD(frame), code, 0, 0, 0);
    send(frame, MCT_WIRE_ERROR, mct_get_u16(request + MCT_WIRE_SESSION_AT),
         mct_get_u16(request + MCT_WIRE_SEQ_AT), MCT_WIRE_ERROR_RSP_BYTES);
}

static uint32_t carry_out(mct_app *app, const uint8_t *request)
{
    uint8_t version = request[MCT_WIRE_VERSION_AT];
    uint8_t type = request[MCT_WIRE_TYPE_AT];
    uint32_t n = mct_get_u16(request + MCT_WIRE_LENGTH_AT);

    if (version != MCT_WIRE_VERSION) {
        return mct_app_fail(app, MCT_WIRE_ERR_VERSION, MCT_WIRE_VERSION, version);
    }
    if (type >= sizeof handlers / sizeof handlers[0] || handlers[type].handle == NULL) {
        return mct_app_fail(app, MCT_WIRE_ERR_UNKNOWN_TYPE, type, 0);
    }
    const handler_row *row = &handlers[type];
    if (type == MCT_WIRE_DATA ? n < row->bytes : n != row->bytes) {
        return mct_app_fail(app, MCT_WIRE_ERR_LENGTH, n, row->bytes);
    }
    app->tx_type = (uint8_t)(type | MCT_WIRE_RESPONSE);
    return row->handle(app, PAYLOAD(request), n, PAYLOAD(app->tx));
}

/* A HELLO with another id opens a session; 1 if the request belongs to the session then. */
static int in_session(mct_app *app, const uint8_t *request)
{
    uint16_t session = mct_get_u16(request + MCT_WIRE_SESSION_AT);
    uint16_t seq = mct_get_u16(request + MCT_WIRE_SEQ_AT);

    if (session == app->session && session != 0) {
        return 1;
    }
    if (request[MCT_WIRE_TYPE_AT] != MCT_WIRE_HELLO || session == 0) {
        refuse(request, app->session == 0 ? MCT_WIRE_ERR_NO_SESSION : MCT_WIRE_ERR_OTHER_SESSION);
        return 0;
    }
    app->session = session;
    app->last = (uint16_t)(seq - 1u);
    app->transfer_open = 0;
    return 1;
}

static void handle_frame(mct_app *app, const uint8_t *request)
{
    uint16_t seq = mct_get_u16(request + MCT_WIRE_SEQ_AT);

    app->counts.frames++;
    if (!in_session(app, request)) {
        return;
    }
    uint16_t ahead = (uint16_t)(seq - app->last);
    if (ahead >= 0x8000u) {
        app->counts.stale++;
        return;
    }
    if (ahead == 0) {
        app->counts.resent++;
    } else {
        app->last = seq;
        app->tx_payload = (uint16_t)carry_out(app, request);
    }
    send(app->tx, app->tx_type, app->session, seq, app->tx_payload);
    if (app->tx_type == (MCT_WIRE_SPEED | MCT_WIRE_RESPONSE)) {
        mct_app_switch_speed(app, PAYLOAD(request)); /* a copy came at the old rate: once more */
    }
    if (app->reboot) {
        mct_hal_reset();
    }
}

static void check_frame(mct_app *app, const uint8_t *frame, uint32_t length)
{
    uint32_t n = length - MCT_WIRE_CRC_BYTES;

    if (length < MCT_WIRE_HEADER_BYTES + MCT_WIRE_CRC_BYTES) {
        send_nak(app, MCT_WIRE_NAK_SHORT);
    } else if (mct_crc32(0, frame, n) != mct_get_u32(frame + n) ||
               mct_get_u16(frame + MCT_WIRE_LENGTH_AT) != n - MCT_WIRE_HEADER_BYTES) {
        send_nak(app, MCT_WIRE_NAK_CRC);
    } else {
        handle_frame(app, frame);
    }
}

void mct_app_receive(mct_app *app, const uint8_t *bytes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (app->trial != 0 && --app->trial == 0) {
            mct_hal_baud_set(mct_hal_baud_divider(0));
        }
        switch (mct_cobs_feed(&app->decoder, bytes[i])) {
        case MCT_COBS_FRAME:
            check_frame(app, app->rx, app->decoder.length);
            break;
        case MCT_COBS_BROKEN:
            send_nak(app, MCT_WIRE_NAK_COBS);
            break;
        case MCT_COBS_TOO_LONG:
            send_nak(app, MCT_WIRE_NAK_LONG);
            break;
        case MCT_COBS_MORE:
            break;
        }
    }
}

void mct_app_init(mct_app *app)
{
    memset(app, 0, sizeof *app);
    app->decoder.buffer = app->rx;
    app->decoder.capacity = sizeof app->rx;
    mct_hal_pool(&app->pool, &app->pool_bytes);
    app->top = app->pool_bytes;
    app->records = app->pool_bytes;
    mct_store_open(&app->store, mct_hal_store());
    mct_app_resume(app);
}
