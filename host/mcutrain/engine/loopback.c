#define _POSIX_C_SOURCE 199309L /* clock_gettime */
#include <string.h>
#include <time.h>

#include "hal.h"
#include "loopback.h"

/* One byte can complete one frame, whose answer is at most one frame with its borders. */
#define ROOM ((uint32_t)MCT_WIRE_MAX_ENCODED)

#define STORE_SECTOR 2048u
#define STORE_UNIT   8u

#define START_BAUD 115200u

static __thread mct_loopback *board;

void mct_loopback_start(mct_loopback *host)
{
    board = host;
    host->reset = 0;
    host->baud = START_BAUD;
    mct_hal_init();
    mct_app_init(&host->app);
}

uint32_t mct_loopback_run(mct_loopback *host, const uint8_t *bytes, uint32_t n)
{
    uint32_t taken = 0;

    board = host;
    while (taken < n && host->out_bytes - host->sent >= ROOM) {
        mct_app_receive(&host->app, bytes + taken, 1);
        taken++;
        if (host->reset) {
            mct_loopback_start(host);
        }
    }
    return taken;
}

void mct_hal_init(void)
{
}

const char *mct_hal_board(void)
{
    return "host";
}

size_t mct_hal_rx(uint8_t *dst, size_t max)
{
    /* Bytes are given to mct_loopback_run(). */
    (void)dst;
    (void)max;
    return 0;
}

void mct_hal_tx(const uint8_t *src, size_t n)
{
    if (n > board->out_bytes - board->sent) {
        return; /* mct_loopback_run() keeps room, so that this is never the case */
    }
    memcpy(board->out + board->sent, src, n);
    board->sent += (uint32_t)n;
}

uint32_t mct_hal_baud_divider(uint32_t baud)
{
    if (baud == 0) {
        return START_BAUD;
    }
    return baud <= board->max_baud ? baud : 0;
}

void mct_hal_baud_set(uint32_t divider)
{
    board->baud = divider;
}

void mct_hal_wait(void)
{
}

mct_hal_rx_stats mct_hal_rx_statistics(void)
{
    mct_hal_rx_stats none = {0, 0};

    return none;
}

uint32_t mct_hal_counter(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint32_t)((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec);
}

mct_hal_counter_info mct_hal_counter_scale(void)
{
    mct_hal_counter_info nanoseconds = {MCT_HAL_COUNTER_TICKS, 1, 1};

    return nanoseconds;
}

uint32_t mct_hal_irq_save(void)
{
    return 0;
}

void mct_hal_irq_restore(uint32_t mask)
{
    (void)mask;
}

void mct_hal_reset(void)
{
    /* Unlike a chip, this returns; the app's last act is to call it. */
    board->reset = 1;
}

mct_hal_fault mct_hal_last_fault(void)
{
    mct_hal_fault none = {0, 0, 0, 0};

    return none;
}

uint32_t mct_hal_stack_size(void)
{
    return 0;
}

uint32_t mct_hal_stack_used(void)
{
    return 0;
}

void mct_hal_pool(uint8_t **base, uint32_t *size)
{
    *base = board->pool;
    *size = board->pool_bytes;
}

void mct_hal_flash_partition(const uint8_t **base, uint32_t *size)
{
    *base = board->flash;
    *size = board->flash_bytes;
}

int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n, bool last)
{
    (void)last;
    if (!board->flash_writable || offset > board->flash_bytes || n > board->flash_bytes - offset) {
        return -1;
    }
    memcpy(board->flash + offset, src, n);
    return 0;
}

static uint8_t *in_store(uint32_t slot, uint32_t offset)
{
    return board->store + slot * (board->store_bytes / MCT_BLOCK_SLOTS) + offset;
}

static int store_read(const mct_block_device *device, uint32_t slot, uint32_t offset, uint8_t *dst,
                      uint32_t n)
{
    (void)device;
    memcpy(dst, in_store(slot, offset), n);
    return 0;
}

/* As flash does: a bit goes from 1 to 0 and never back. */
static int store_program(const mct_block_device *device, uint32_t slot, uint32_t offset,
                         const uint8_t *src)
{
    uint8_t *dst = in_store(slot, offset);

    for (uint32_t i = 0; i < device->unit; i++) {
        dst[i] &= src[i];
    }
    return 0;
}

static int store_erase(const mct_block_device *device, uint32_t slot, uint32_t sector)
{
    uint32_t n = device->slots[slot].sector_bytes;

    memset(in_store(slot, sector * n), 0xFF, n);
    return 0;
}

const mct_block_device *mct_hal_store(void)
{
    mct_block_device *device = &board->device;

    if (board->store == NULL) {
        return NULL;
    }
    device->unit = STORE_UNIT;
    for (uint32_t slot = 0; slot < MCT_BLOCK_SLOTS; slot++) {
        device->slots[slot].sector_bytes = STORE_SECTOR;
        device->slots[slot].sectors = board->store_bytes / MCT_BLOCK_SLOTS / STORE_SECTOR;
    }
    device->read = store_read;
    device->program = store_program;
    device->erase = store_erase;
    return device;
}

uint32_t mct_hal_guard_untouched(uint32_t *size)
{
    *size = 0;
    return 0;
}
