/* HAL of all STM32 boards: the USART by interrupt, the counter. */
#include "family.h"
#include "stm32.h"

#define USART_STATUS MCT_REG32(MCT_USART_BASE + USART_STATUS_AT)
#define USART_READ   MCT_REG32(MCT_USART_BASE + USART_READ_AT)
#define USART_WRITE  MCT_REG32(MCT_USART_BASE + USART_WRITE_AT)
#define USART_BRR    MCT_REG32(MCT_USART_BASE + USART_BRR_AT)
#define USART_CR1    MCT_REG32(MCT_USART_BASE + USART_CR1_AT)

#define USART_ORE        (1u << 3)
#define USART_RXNE       (1u << 5)
#define USART_TC         (1u << 6)
#define USART_TXE        (1u << 7)
#define USART_CR1_RE     (1u << 2)
#define USART_CR1_TE     (1u << 3)
#define USART_CR1_RXNEIE (1u << 5)

static bool has_cycles;
static uint32_t usart_hz;

static void usart_handler(void)
{
    uint32_t status = USART_STATUS;

    while ((status & (USART_RXNE | USART_ORE)) != 0) {
        if (!mct_rx_has_room()) {
            mct_rx_stall(MCT_USART_IRQ);
            return;
        }
        if ((status & USART_ORE) != 0) {
            mct_rx_overrun();
#ifdef USART_CLEAR_AT
            MCT_REG32(MCT_USART_BASE + USART_CLEAR_AT) = USART_ORE;
#endif
        }
#ifdef USART_CLEAR_AT
        if ((status & USART_RXNE) == 0) {
            return; /* with this USART an overrun may come alone: its byte is lost, none is there */
        }
#endif
        mct_rx_push((uint8_t)USART_READ);
        status = USART_STATUS;
    }
}

/* No interrupt beyond the USART's is ever enabled, so that the table ends with it. */
const mct_vector mct_vectors[16u + MCT_USART_IRQ + 1u]
    __attribute__((section(".vectors"), used)) = {
        MCT_CORE_VECTORS,
        [16u + MCT_USART_IRQ] = usart_handler,
};

/* The divider takes writes only while the USART is off. */
static void usart_start(uint32_t divider)
{
    USART_CR1 = 0;
    USART_BRR = divider;
    USART_CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE;
}

uint32_t mct_hal_baud_divider(uint32_t baud)
{
    return mct_baud_divider(usart_hz, baud == 0 ? MCT_BOARD_BAUD : baud);
}

void mct_hal_baud_set(uint32_t divider)
{
    while ((USART_STATUS & USART_TC) == 0) {
        /* at most two character times */
    }
    usart_start(divider);
}

void mct_hal_init(void)
{
    usart_hz = mct_clock_start();
    has_cycles = mct_cycles_start();
#ifdef MCT_COUNTER_FALLBACK
    mct_counter_start();
#endif
    mct_pins_start();
    usart_start(mct_hal_baud_divider(0));
    mct_nvic_enable(MCT_USART_IRQ);
}

const char *mct_hal_board(void)
{
    return MCT_BOARD_NAME;
}

void mct_hal_tx(const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while ((USART_STATUS & USART_TXE) == 0) {
            /* at most one character time */
        }
        USART_WRITE = src[i];
    }
}

uint32_t mct_hal_counter(void)
{
#ifdef MCT_COUNTER_FALLBACK
    return has_cycles ? mct_cycles() : mct_counter_read();
#else
    return mct_cycles();
#endif
}

mct_hal_counter_info mct_hal_counter_scale(void)
{
    const mct_hal_counter_info cycles = {MCT_HAL_COUNTER_CYCLES, 1, 1};
    /* The emulator's timer at -icount shift=0: one tick is one instruction. */
    const mct_hal_counter_info emulated = {MCT_HAL_COUNTER_EMULATED, 1, 1};

    return has_cycles ? cycles : emulated;
}
