/*
 * Self-test of the HAL: the smallest app that uses every promise of hal.h.
 *
 * Each command is a letter and a little-endian word; each answer is a count and as many words.
 * After every boot one '!' is sent: what arrives before the UART is on is lost, as on a chip.
 * 'E' answers nothing but sends the next n bytes back. 'F' and 'O' fault on purpose, 'R' resets:
 * they answer nothing.
 */
#include <string.h>
#include "hal.h"

#define WORDS_MAX  8u
#define HOLE_DEPTH 64u

static uint32_t words[WORDS_MAX];

static void receive(uint8_t *dst, size_t n)
{
    size_t got = 0;

    while (got < n) {
        const size_t more = mct_hal_rx(dst + got, n - got);

        if (more == 0) {
            mct_hal_wait();
        }
        got += more;
    }
}

static uint32_t receive_word(void)
{
    uint8_t b[4];

    receive(b, sizeof b);
    return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

static void answer(uint32_t count)
{
    const uint8_t head = (uint8_t)count;

    mct_hal_tx(&head, 1);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t w = words[i];
        const uint8_t b[4] = {(uint8_t)w, (uint8_t)(w >> 8), (uint8_t)(w >> 16),
                              (uint8_t)(w >> 24)};

        mct_hal_tx(b, sizeof b);
    }
}

static void echo(uint32_t n)
{
    uint8_t block[64];

    while (n != 0) {
        const size_t got = mct_hal_rx(block, n < sizeof block ? n : sizeof block);

        if (got == 0) {
            mct_hal_wait();
        }
        mct_hal_tx(block, got);
        n -= (uint32_t)got;
    }
}

/* A fixed amount of work: 4 instructions a turn, whatever the compiler thinks of it. */
static __attribute__((noinline)) void spin(uint32_t turns)
{
    __asm volatile("1:\n\t"
                   "nop\n\t"
                   "nop\n\t"
                   "subs %0, #1\n\t"
                   "bne 1b"
                   : "+l"(turns)
                   :
                   : "cc");
}

static void count(uint32_t turns)
{
    const mct_hal_counter_info scale = mct_hal_counter_scale();
    const uint32_t mask = mct_hal_irq_save();
    const uint32_t start = mct_hal_counter();

    spin(turns);
    words[0] = mct_hal_counter() - start;
    mct_hal_irq_restore(mask);
    words[1] = (uint32_t)scale.kind;
    words[2] = scale.num;
    words[3] = scale.den;
    answer(4);
}

/* Each level keeps 64 bytes alive, so depth fixes how deep the stack gets. */
static __attribute__((noinline)) uint32_t dig(uint32_t depth)
{
    volatile uint8_t hole[HOLE_DEPTH];

    hole[depth % HOLE_DEPTH] = (uint8_t)depth;
    return depth == 0 ? 0 : dig(depth - 1u) + hole[depth % HOLE_DEPTH];
}

static void memory_report(uint32_t depth)
{
    const uint8_t *image;
    uint8_t *pool;

    (void)dig(depth);
    words[0] = mct_hal_stack_size();
    words[1] = mct_hal_stack_used();
    words[2] = mct_hal_guard_untouched(&words[3]);
    mct_hal_pool(&pool, &words[5]);
    words[4] = (uint32_t)(uintptr_t)pool;
    memset(pool, 0x5A, words[5]); /* all of it can be written, and nothing else changes */
    mct_hal_flash_partition(&image, &words[7]);
    words[6] = (uint32_t)(uintptr_t)image;
    answer(8);
}

static void image_sum(uint32_t n)
{
    const uint8_t *image;
    uint32_t size;

    words[0] = 0;
    mct_hal_flash_partition(&image, &size);
    for (uint32_t i = 0; i < n && i < size; i++) {
        words[0] = words[0] * 31u + image[i];
    }
    answer(1);
}

static void image_write(uint32_t offset)
{
    static const uint8_t text[] = {1, 2, 3, 4};
    const uint8_t *image;
    uint32_t size;

    mct_hal_flash_partition(&image, &size);
    words[0] = (uint32_t)mct_hal_flash_write(offset, text, sizeof text, true);
    words[1] = words[0] == 0 && memcmp(image + offset, text, sizeof text) == 0;
    words[2] = (uint32_t)mct_hal_flash_write(size - 3u, text, sizeof text, true);
    answer(3);
}

static void history(void)
{
    const mct_hal_fault fault = mct_hal_last_fault();
    const mct_hal_rx_stats rx = mct_hal_rx_statistics();

    words[0] = fault.pc;
    words[1] = fault.lr;
    words[2] = fault.cfsr;
    words[3] = fault.address;
    words[4] = rx.overruns;
    words[5] = rx.stalls;
    answer(6);
}

/* Does not look at the ring until it is full (or patience ends): the sender must be held back. */
static void sleepy(uint32_t patience)
{
    while (patience != 0 && mct_hal_rx_statistics().stalls == 0) {
        spin(1000);
        patience--;
    }
    history();
}

static void obey(uint8_t command, uint32_t argument)
{
    switch (command) {
    case 'E':
        echo(argument);
        break;
    case 'C':
        count(argument);
        break;
    case 'M':
        memory_report(argument);
        break;
    case 'I':
        image_sum(argument);
        break;
    case 'W':
        image_write(argument);
        break;
    case 'H':
        history();
        break;
    case 'S':
        sleepy(argument);
        break;
    case 'P': /* poke: changes one byte of memory at the address */
        *(volatile uint8_t *)(uintptr_t)argument ^= 1u;
        break;
    case 'F':
        (void)*(volatile uint32_t *)(uintptr_t)argument;
        break;
    case 'O':
        (void)dig(argument);
        break;
    case 'R':
        mct_hal_reset();
        break;
    default:
        answer(0);
        break;
    }
}

int main(void)
{
    static const uint8_t ready = '!';

    mct_hal_init();
    mct_hal_tx(&ready, 1);
    for (;;) {
        uint8_t command;

        receive(&command, 1);
        obey(command, receive_word());
    }
}
