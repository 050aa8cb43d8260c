/*
 * The HAL of a process: the app's board is a struct of the caller, its serial line two buffers. Any
 * number of boards may run, each in one thread at a time.
 */
#ifndef MCT_LOOPBACK_H
#define MCT_LOOPBACK_H

#include <stdint.h>

#include "mct_app.h"

typedef struct {
    /* set by the caller, before mct_loopback_start() */
    uint8_t *pool; /* 16-byte aligned */
    uint32_t pool_bytes;
    uint8_t *flash; /* the image partition, 16-byte aligned */
    uint32_t flash_bytes;
    int flash_writable;
    uint8_t *store; /* two slots of store_bytes / 2, a multiple of 2048; NULL: none */
    uint32_t store_bytes;
    uint32_t max_baud; /* the highest rate of its UART */
    /* the rate that the app has set */
    uint32_t baud;
    /* what the app sends; the caller empties it by setting sent to 0 */
    uint8_t *out;
    uint32_t out_bytes;
    uint32_t sent;
    int reset;
    mct_block_device device;
    mct_app app;
} mct_loopback;

/* Power on: the app starts; pool, flash and store keep what they hold. */
void mct_loopback_start(mct_loopback *host);

/*
 * The app takes received bytes. Returns how many it took: fewer than n when the output is so full
 * that a response may not fit; empty it and go on.
 */
uint32_t mct_loopback_run(mct_loopback *host, const uint8_t *bytes, uint32_t n);

#endif
