/* USART pins and the timer that counts where the core has no cycle counter. */
#include "family.h"
#include "gpio_v2.h"

#define TIM2_CR1    0x40000000u
#define TIM_CR1_CEN 1u
#define TIM2_EGR    0x40000014u
#define TIM_EGR_UG  1u
#define TIM2_CNT    0x40000024u
#define TIM2_PSC    0x40000028u
#define TIM2_ARR    0x4000002Cu

void mct_pins_start(void)
{
    mct_reg_modify(MCT_GPIO_ENR, 0, 1u << MCT_TX_PORT | 1u << MCT_RX_PORT);
    mct_reg_modify(MCT_USART_ENR, 0, MCT_USART_BIT);
    (void)mct_reg_read(MCT_USART_ENR); /* the clock runs two cycles after the write */
    mct_pin_alternate(MCT_TX_PORT, MCT_TX_PIN, MCT_USART_FUNCTION);
    mct_pin_alternate(MCT_RX_PORT, MCT_RX_PIN, MCT_USART_FUNCTION);
}

void mct_counter_start(void)
{
    mct_reg_modify(RCC_APB1ENR, 0, RCC_APB1ENR_TIM2);
    (void)mct_reg_read(RCC_APB1ENR);
    mct_reg_write(TIM2_PSC, 0);
    mct_reg_write(TIM2_ARR, 0xFFFFFFFFu);
    mct_reg_write(TIM2_EGR, TIM_EGR_UG);
    mct_reg_write(TIM2_CR1, TIM_CR1_CEN);
}

uint32_t mct_counter_read(void)
{
    return mct_reg_read(TIM2_CNT);
}
