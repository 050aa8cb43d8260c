/*
 * The HAL of a process: the serial line is standard input and output, SRAM and flash are memory of
 * the process. A reset starts the program anew: nothing outlives it.
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hal.h"

#define POOL_BYTES  (512u << 10)
#define IMAGE_BYTES (2u << 20)
#define ALIGNED     __attribute__((aligned(16)))

static uint8_t pool[POOL_BYTES] ALIGNED;
static uint8_t image[IMAGE_BYTES] ALIGNED;

void mct_hal_init(void)
{
    memset(image, 0xFF, sizeof image);
}

const char *mct_hal_board(void)
{
    return "native";
}

static int wait_for(int events, int fd, int timeout)
{
    struct pollfd line = {fd, (short)events, 0};

    return poll(&line, 1, timeout) > 0;
}

size_t mct_hal_rx(uint8_t *dst, size_t max)
{
    if (!wait_for(POLLIN, STDIN_FILENO, 0)) {
        return 0;
    }
    const ssize_t n = read(STDIN_FILENO, dst, max);
    if (n <= 0) {
        _exit(0); /* the other end is closed */
    }
    return (size_t)n;
}

void mct_hal_tx(const uint8_t *src, size_t n)
{
    while (n != 0) {
        const ssize_t sent = write(STDOUT_FILENO, src, n);
        if (sent <= 0) {
            _exit(0);
        }
        src += sent;
        n -= (size_t)sent;
    }
}

uint32_t mct_hal_baud_divider(uint32_t baud)
{
    (void)baud;
    return 1; /* a pipe has every rate */
}

void mct_hal_baud_set(uint32_t divider)
{
    (void)divider;
}

void mct_hal_wait(void)
{
    (void)wait_for(POLLIN, STDIN_FILENO, -1);
}

mct_hal_rx_stats mct_hal_rx_statistics(void)
{
    const mct_hal_rx_stats none = {0, 0};

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
    const mct_hal_counter_info nanoseconds = {MCT_HAL_COUNTER_TICKS, 1, 1};

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
    static char path[] = "/proc/self/exe";
    char *const arguments[] = {path, NULL};

    (void)execv(path, arguments);
    _exit(1);
}

mct_hal_fault mct_hal_last_fault(void)
{
    const mct_hal_fault none = {0, 0, 0, 0};

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
    *base = pool;
    *size = sizeof pool;
}

void mct_hal_flash_partition(const uint8_t **base, uint32_t *size)
{
    *base = image;
    *size = sizeof image;
}

int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n, bool last)
{
    (void)last;
    if (offset > sizeof image || n > sizeof image - offset) {
        return -1;
    }
    memcpy(image + offset, src, n);
    return 0;
}

const mct_block_device *mct_hal_store(void)
{
    return NULL; /* a process keeps nothing */
}

uint32_t mct_hal_guard_untouched(uint32_t *size)
{
    *size = 0;
    return 0;
}
