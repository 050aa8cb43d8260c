/*
 * Runs single kernels for the host and counts their instructions.
 *
 * A command is a letter and little-endian words; an answer is words, too. After boot one '!' is
 * sent.
 *   P              -> address and size of the memory for the data
 *   W address n    -> nothing; n bytes follow the command
 *   R address n    -> n bytes
 *   K kernel a[7]  -> result and counter ticks of kernels[kernel](a)
 */
#include <stdint.h>

#include "hal.h"
#include "mct_kernels.h"

#define ARGS 7u

/* The order is that of KERNELS in kernel_board.py. */
static uint32_t call(uint32_t kernel, void *const a[ARGS])
{
    switch (kernel) {
    case 0:
        mct_conv2d_rows_s8(a[0], a[1], (uint32_t)(uintptr_t)a[2], (uint32_t)(uintptr_t)a[3], a[4],
                           a[5]);
        return 0;
    case 1:
        mct_conv2d_dx_s8(a[0], a[1], a[2], a[3]);
        return 0;
    case 2:
        mct_conv2d_dw_s8(a[0], a[1], a[2], a[3], a[4], a[5], a[6]);
        return 0;
    case 3:
        mct_conv2d_db_s8(a[0], a[1], a[2]);
        return 0;
    case 4:
        mct_add_s8(a[0], a[1], a[2], a[3], a[4], (uint32_t)(uintptr_t)a[5]);
        return 0;
    case 5:
        mct_avgpool_row_s8(a[0], a[1], (uint32_t)(uintptr_t)a[2], a[3]);
        return 0;
    case 6:
        mct_avgpool_dx_s8(a[0], a[1], a[2], a[3]);
        return 0;
    case 7:
        mct_rescale_s8(a[0], a[1], a[2], a[3], (uint32_t)(uintptr_t)a[4]);
        return 0;
    case 8:
        mct_depthwise_dx_inplace_s8(a[0], a[1], a[2], a[3]);
        return 0;
    default:
        return 1;
    }
}

static void receive(uint8_t *dst, uint32_t n)
{
    while (n != 0) {
        const uint32_t got = (uint32_t)mct_hal_rx(dst, n);

        if (got == 0) {
            mct_hal_wait();
        }
        dst += got;
        n -= got;
    }
}

static uint32_t receive_word(void)
{
    uint32_t word;

    receive((uint8_t *)&word, sizeof word);
    return word;
}

static void answer(const uint32_t words[2])
{
    mct_hal_tx((const uint8_t *)words, 2 * sizeof words[0]);
}

static void place(void)
{
    uint8_t *pool;
    uint32_t words[2];

    mct_hal_pool(&pool, &words[1]);
    words[0] = (uint32_t)(uintptr_t)pool;
    answer(words);
}

static void run(void)
{
    void *a[ARGS];
    uint32_t words[2], mask;
    const uint32_t kernel = receive_word();

    for (uint32_t i = 0; i < ARGS; i++) {
        a[i] = (void *)(uintptr_t)receive_word();
    }
    mask = mct_hal_irq_save();
    words[1] = mct_hal_counter();
    words[0] = call(kernel, a);
    words[1] = mct_hal_counter() - words[1];
    mct_hal_irq_restore(mask);
    answer(words);
}

int main(void)
{
    const uint8_t ready = '!';

    mct_hal_init();
    mct_hal_tx(&ready, 1);
    for (;;) {
        uint8_t command, *address;

        receive(&command, 1);
        if (command == 'P') {
            place();
        } else if (command == 'K') {
            run();
        } else if (command == 'W') {
            address = (uint8_t *)(uintptr_t)receive_word();
            receive(address, receive_word());
        } else if (command == 'R') {
            address = (uint8_t *)(uintptr_t)receive_word();
            mct_hal_tx(address, receive_word());
        }
    }
}
