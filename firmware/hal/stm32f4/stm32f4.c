/*
 * STM32F405: USART1 on PA9/PA10, TIM2 as the counter.
 * Runs on the 16 MHz oscillator that the chip starts with: no PLL, so nothing to wait for.
 */
#include "board.h"
#include "stm32f4.h"

static bool has_cycles;

static void usart1_handler(void)
{
    uint32_t status = USART1_SR;

    while ((status & (USART_SR_RXNE | USART_SR_ORE)) != 0) {
        if (!mct_rx_has_room()) {
            mct_rx_stall(USART1_IRQ);
            return;
        }
        if ((status & USART_SR_ORE) != 0) {
            mct_rx_overrun();
        }
        mct_rx_push((uint8_t)USART1_DR); /* reading SR, then DR, clears both bits */
        status = USART1_SR;
    }
}

const mct_vector mct_vectors[16u + STM32F405_IRQS] __attribute__((section(".vectors"), used)) = {
    MCT_CORE_VECTORS,
    [16u + USART1_IRQ] = usart1_handler,
};

static void set_field(volatile uint32_t *reg, uint32_t shift, uint32_t width, uint32_t value)
{
    *reg = (*reg & ~(((1u << width) - 1u) << shift)) | (value << shift);
}

static void start_usart(void)
{
    RCC_AHB1ENR |= RCC_AHB1ENR_GPIOA;
    RCC_APB2ENR |= RCC_APB2ENR_USART1;
    (void)RCC_APB2ENR; /* the clock runs two cycles after the write: one read is enough */
    set_field(&GPIOA_AFRH, 4u * (GPIO_PIN_TX - 8u), 4, GPIO_AF_USART1);
    set_field(&GPIOA_AFRH, 4u * (GPIO_PIN_RX - 8u), 4, GPIO_AF_USART1);
    set_field(&GPIOA_PUPDR, 2u * GPIO_PIN_RX, 2, GPIO_PULL_UP);
    set_field(&GPIOA_MODER, 2u * GPIO_PIN_TX, 2, GPIO_ALTERNATE);
    set_field(&GPIOA_MODER, 2u * GPIO_PIN_RX, 2, GPIO_ALTERNATE);
    USART1_BRR = (MCT_BOARD_CLOCK_HZ + MCT_BOARD_BAUD / 2u) / MCT_BOARD_BAUD;
    USART1_CR1 = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE | USART_CR1_RXNEIE;
}

static void start_timer(void)
{
    RCC_APB1ENR |= RCC_APB1ENR_TIM2;
    (void)RCC_APB1ENR;
    TIM2_PSC = 0;
    TIM2_ARR = 0xFFFFFFFFu;
    TIM2_EGR = TIM_EGR_UG;
    TIM2_CR1 = TIM_CR1_CEN;
}

void mct_hal_init(void)
{
    has_cycles = mct_cycles_start();
    start_timer();
    start_usart();
    mct_nvic_enable(USART1_IRQ);
}

const char *mct_hal_board(void)
{
    return MCT_BOARD_NAME;
}

void mct_hal_tx(const uint8_t *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        while ((USART1_SR & USART_SR_TXE) == 0) {
            /* at most one character time */
        }
        USART1_DR = src[i];
    }
}

uint32_t mct_hal_counter(void)
{
    return has_cycles ? mct_cycles() : TIM2_CNT;
}

mct_hal_counter_info mct_hal_counter_scale(void)
{
    /* The emulator clocks TIM2 at 1 GHz: at -icount shift=0 one tick is one instruction. */
    const mct_hal_counter_info cycles = {MCT_HAL_COUNTER_CYCLES, 1, 1};
    const mct_hal_counter_info emulated = {MCT_HAL_COUNTER_EMULATED, 1, 1};

    return has_cycles ? cycles : emulated;
}

int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n)
{
    /* The partition is written by the flasher or the emulator only. */
    (void)offset;
    (void)src;
    (void)n;
    return -1;
}
