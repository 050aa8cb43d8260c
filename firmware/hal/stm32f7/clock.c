/*
 * The PLL of the F746 from the 16 MHz internal oscillator, which needs no crystal, in the order of
 * RM0385, "entering over-drive mode". The caches of the core go on first: flash is slow.
 */
#include "family.h"
#include "gpio_v2.h"

#define HSI_HZ 16000000u

#define RCC_CR             RCC_BASE
#define RCC_CR_PLLON       (1u << 24)
#define RCC_CR_PLLRDY      (1u << 25)
#define RCC_PLLCFGR        (RCC_BASE + 0x04u)
#define RCC_PLLCFGR_KEPT   (2u << 28) /* reserved at this value */
#define RCC_CFGR           (RCC_BASE + 0x08u)
#define RCC_CFGR_SW_PLL    2u
#define RCC_CFGR_SWS       (3u << 2)
#define RCC_CFGR_SWS_PLL   (2u << 2)
#define RCC_CFGR_PPRE1_4   (5u << 10)
#define RCC_CFGR_PPRE2_2   (4u << 13)
#define RCC_APB1ENR_PWR    (1u << 28)
#define PWR_CR1            0x40007000u
#define PWR_CR1_ODEN       (1u << 16)
#define PWR_CR1_ODSWEN     (1u << 17)
#define PWR_CSR1           0x40007004u
#define PWR_CSR1_ODRDY     (1u << 16)
#define PWR_CSR1_ODSWRDY   (1u << 17)
#define FLASH_ACR          0x40023C00u
#define FLASH_ACR_LATENCY  0xFu
#define FLASH_ACR_PREFETCH (1u << 8)

/* The voltage scale stays at its reset value, which allows the rated speed with over-drive. */
static bool start_pll(void)
{
    mct_reg_write(RCC_PLLCFGR, RCC_PLLCFGR_KEPT | MCT_PLL_Q << 24 | (MCT_PLL_P / 2u - 1u) << 16 |
                                   MCT_PLL_N << 6 | MCT_PLL_M);
    mct_reg_modify(RCC_CR, 0, RCC_CR_PLLON);
    if (!mct_reg_wait(RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY, MCT_CLOCK_TURNS)) {
        return false;
    }
    mct_reg_modify(RCC_APB1ENR, 0, RCC_APB1ENR_PWR);
    (void)mct_reg_read(RCC_APB1ENR); /* the clock runs two cycles after the write */
    mct_reg_modify(PWR_CR1, 0, PWR_CR1_ODEN);
    if (!mct_reg_wait(PWR_CSR1, PWR_CSR1_ODRDY, PWR_CSR1_ODRDY, MCT_CLOCK_TURNS)) {
        return false;
    }
    mct_reg_modify(PWR_CR1, 0, PWR_CR1_ODSWEN);
    return mct_reg_wait(PWR_CSR1, PWR_CSR1_ODSWRDY, PWR_CSR1_ODSWRDY, MCT_CLOCK_TURNS);
}

uint32_t mct_clock_start(void)
{
    const uint32_t hz = HSI_HZ / MCT_PLL_M * MCT_PLL_N / MCT_PLL_P;

    mct_cache_start();
    if (!start_pll()) {
        mct_reg_modify(RCC_CR, RCC_CR_PLLON, 0);
        return HSI_HZ;
    }
    /* ART, the accelerator of the other bus to flash, stays off: the program is on this one. */
    mct_reg_write(FLASH_ACR, FLASH_ACR_PREFETCH | MCT_FLASH_WAITS);
    if (!mct_reg_wait(FLASH_ACR, FLASH_ACR_LATENCY, MCT_FLASH_WAITS, MCT_CLOCK_TURNS)) {
        return HSI_HZ;
    }
    mct_reg_write(RCC_CFGR, RCC_CFGR_PPRE1_4 | RCC_CFGR_PPRE2_2);
    mct_reg_modify(RCC_CFGR, 0, RCC_CFGR_SW_PLL);
    if (!mct_reg_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SWS_PLL, MCT_CLOCK_TURNS)) {
        mct_reg_write(RCC_CFGR, 0);
        return HSI_HZ;
    }
    return hz / 2u; /* USART1 is on APB2 */
}

void mct_flash_forget(void)
{
    mct_cache_flush();
}

void mct_pins_start(void)
{
    mct_reg_modify(MCT_GPIO_ENR, 0, 1u << MCT_TX_PORT | 1u << MCT_RX_PORT);
    mct_reg_modify(MCT_USART_ENR, 0, MCT_USART_BIT);
    (void)mct_reg_read(MCT_USART_ENR);
    mct_pin_alternate(MCT_TX_PORT, MCT_TX_PIN, MCT_USART_FUNCTION);
    mct_pin_alternate(MCT_RX_PORT, MCT_RX_PIN, MCT_USART_FUNCTION);
}
