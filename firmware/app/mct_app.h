/*
 * The firmware behind SPEC-wire: takes bytes, answers through mct_hal_tx(). One thread, no heap,
 * all static memory in one struct that the caller owns.
 */
#ifndef MCT_APP_H
#define MCT_APP_H

#include <stdint.h>

#include "mct_cobs.h"
#include "mct_engine.h"
#include "mct_store.h"
#include "mct_wire.h"

/* Bytes of a target (image, sample, state) that are in place, from its start. */
typedef struct {
    uint32_t size;
    uint32_t present;
} mct_app_target;

typedef struct {
    uint32_t steps, evals, saturated, clamped, skipped, learnt;
    uint32_t frames, damaged, stale, resent;
} mct_app_counts;

typedef struct {
    /* link */
    mct_cobs_decoder decoder;
    uint16_t session; /* 0: none since the start */
    uint16_t last;    /* seq of the last request carried out */
    uint16_t tx_payload;
    uint8_t tx_type;
    uint8_t reboot;
    uint8_t trial; /* characters that a new rate has left to bring a request to keep it; 0: kept */
    uint8_t rx[MCT_WIRE_MAX_FRAME];
    uint8_t tx[MCT_WIRE_MAX_FRAME]; /* the last response, kept to be sent again */

    /* memory: [state | arena | free | records | image in SRAM] */
    uint8_t *pool;
    uint32_t pool_bytes;
    uint32_t top;     /* where the image in SRAM starts, else pool_bytes */
    uint32_t records; /* where the lowest record since the paint starts */

    /* image */
    mct_engine engine;
    const uint8_t *image; /* NULL: none is open */
    uint8_t place;        /* of the image that is open or being loaded */
    uint8_t loading;      /* IMAGE_BEGIN came, IMAGE_OPEN not yet */
    uint8_t logits_valid;
    uint8_t overrun; /* a kernel wrote beside a buffer; engine.refused says where */

    /* DATA */
    mct_app_target targets[3];
    uint16_t transfer;
    uint8_t transfer_target;
    uint8_t transfer_open;
    const uint8_t *sample_at; /* where the next run takes its sample from; NULL: DATA brings it */

    /* the run that goes on, or was the last */
    uint8_t *ticks_at;  /* records; NULL: not asked for */
    uint8_t *traces_at; /* the same */
    uint32_t recorded;  /* instructions in them */
    uint32_t instruction;
    uint32_t mark;  /* counter when compute went on */
    uint32_t spent; /* ticks of the instruction that runs */
    uint32_t ticks_forward;
    uint32_t ticks_backward;

    mct_store store;
    mct_app_counts counts;
} mct_app;

/*
 * Takes pool and store from the HAL. If the flash partition holds an image of which a state was
 * saved, the image is open then and goes on from that state. The struct need not be cleared.
 */
void mct_app_init(mct_app *app);

/* Takes received bytes; carries out and answers each request that becomes complete. */
void mct_app_receive(mct_app *app, const uint8_t *bytes, uint32_t n);

#endif
