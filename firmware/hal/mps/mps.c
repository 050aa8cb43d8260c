/*
 * Arm MPS2 and MPS3: CMSDK UART0, and a counter of the family's. What differs is in family.h; the
 * memory map is in the linker's symbols.
 */
#include <string.h>
#include "board.h"
#include "cortexm.h"
#include "family.h"

#define UART0_DATA     MCT_REG32(MCT_UART0_BASE)
#define UART0_STATE    MCT_REG32(MCT_UART0_BASE + 0x04u)
#define UART_TX_FULL   (1u << 0)
#define UART_RX_FULL   (1u << 1)
#define UART_RX_OVER   (1u << 3)
#define UART0_CTRL     MCT_REG32(MCT_UART0_BASE + 0x08u)
#define UART_TX_ENABLE (1u << 0)
#define UART_RX_ENABLE (1u << 1)
#define UART_RX_IRQ    (1u << 3)
#define UART0_INTCLEAR MCT_REG32(MCT_UART0_BASE + 0x0Cu)
#define UART_RX_INT    (1u << 1)
#define UART0_BAUDDIV  MCT_REG32(MCT_UART0_BASE + 0x10u)

static bool has_cycles;

static void uart0_rx_handler(void)
{
    /* Cleared first: a byte that comes in during the loop raises the interrupt again. */
    UART0_INTCLEAR = UART_RX_INT;
    while ((UART0_STATE & UART_RX_FULL) != 0) {
        if (!mct_rx_has_room()) {
            mct_rx_stall(MCT_UART0_RX_IRQ);
            return;
        }
        if ((UART0_STATE & UART_RX_OVER) != 0) {
            UART0_STATE = UART_RX_OVER;
            mct_rx_overrun();
        }
        mct_rx_push((uint8_t)UART0_DATA);
    }
}

const mct_vector mct_vectors[16u + MCT_IRQS] __attribute__((section(".vectors"), used)) = {
    MCT_CORE_VECTORS,
    [16u + MCT_UART0_RX_IRQ] = uart0_rx_handler,
};

void mct_hal_init(void)
{
    has_cycles = mct_cycles_start();
    mct_family_counter_start();
    UART0_BAUDDIV = mct_hal_baud_divider(0);
    UART0_CTRL = UART_TX_ENABLE | UART_RX_ENABLE | UART_RX_IRQ;
    mct_nvic_enable(MCT_UART0_RX_IRQ);
}

uint32_t mct_hal_baud_divider(uint32_t baud)
{
    return mct_baud_divider(MCT_BOARD_CLOCK_HZ, baud == 0 ? MCT_BOARD_BAUD : baud);
}

void mct_hal_baud_set(uint32_t divider)
{
    /* The receiver rests first, as this UART does not say when the last bit is out: two characters
     * at the old rate, each turn at least a cycle. */
    for (uint32_t turns = 20u * UART0_BAUDDIV; turns != 0; turns--) {
        (void)UART0_STATE;
    }
    UART0_BAUDDIV = divider;
}

const char *mct_hal_board(void)
{
    return MCT_BOARD_NAME;
}

void mct_hal_tx(const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while ((UART0_STATE & UART_TX_FULL) != 0) {
            /* at most one character time */
        }
        UART0_DATA = src[i];
    }
}

uint32_t mct_hal_counter(void)
{
    return has_cycles ? mct_cycles() : mct_family_counter();
}

mct_hal_counter_info mct_hal_counter_scale(void)
{
    const mct_hal_counter_info cycles = {MCT_HAL_COUNTER_CYCLES, 1, 1};
    const mct_hal_counter_info emulated = {MCT_HAL_COUNTER_EMULATED, MCT_COUNTER_NUM,
                                           MCT_COUNTER_DEN};

    return has_cycles ? cycles : emulated;
}

/* The store is RAM that a reset leaves alone; it does as flash does. */
static int store_read(const mct_block_device *device, uint32_t slot, uint32_t offset, uint8_t *dst,
                      uint32_t n)
{
    (void)device;
    memcpy(dst, (const uint8_t *)mct_ld_layout.store[slot].base + offset, n);
    return 0;
}

static int store_program(const mct_block_device *device, uint32_t slot, uint32_t offset,
                         const uint8_t *src)
{
    uint8_t *dst = (uint8_t *)mct_ld_layout.store[slot].base + offset;

    for (uint32_t i = 0; i < device->unit; i++) {
        dst[i] &= src[i];
    }
    return 0;
}

static int store_erase(const mct_block_device *device, uint32_t slot, uint32_t sector)
{
    const uint32_t n = device->slots[slot].sector_bytes;

    memset((uint8_t *)mct_ld_layout.store[slot].base + sector * n, 0xFF, n);
    return 0;
}

const mct_block_device *mct_hal_store(void)
{
    static mct_block_device device = {
        .unit = 4,
        .read = store_read,
        .program = store_program,
        .erase = store_erase,
    };

    for (uint32_t slot = 0; slot < MCT_BLOCK_SLOTS; slot++) {
        device.slots[slot].sector_bytes = mct_ld_layout.store[slot].sector_bytes;
        device.slots[slot].sectors = mct_ld_layout.store[slot].sectors;
    }
    return &device;
}

int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n, bool last)
{
    const uint32_t size = mct_ld_layout.image_end - mct_ld_layout.image_start;
    uint8_t *dst = (uint8_t *)mct_ld_layout.image_start + offset;

    (void)last;
    if (offset > size || n > size - offset) {
        return -1;
    }
    memcpy(dst, src, n); /* this partition is RAM */
    return memcmp(dst, src, n) == 0 ? 0 : -1;
}
