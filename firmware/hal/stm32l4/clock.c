/*
 * The PLL of the L476 from the 16 MHz internal oscillator, which needs no crystal: 80 MHz, the most
 * that voltage range 1 (the one after reset) allows.
 */
#include "family.h"
#include "gpio_v2.h"

#define MSI_HZ 4000000u /* what the chip starts with */
#define HSI_HZ 16000000u

#define RCC_CR             RCC_BASE
#define RCC_CR_HSION       (1u << 8)
#define RCC_CR_HSIRDY      (1u << 10)
#define RCC_CR_PLLON       (1u << 24)
#define RCC_CR_PLLRDY      (1u << 25)
#define RCC_CFGR           (RCC_BASE + 0x08u)
#define RCC_CFGR_SW_PLL    3u
#define RCC_CFGR_SWS       (3u << 2)
#define RCC_CFGR_SWS_PLL   (3u << 2)
#define RCC_PLLCFGR        (RCC_BASE + 0x0Cu)
#define PLLCFGR_SRC_HSI    2u
#define PLLCFGR_REN        (1u << 24)
#define FLASH_ACR          0x40022000u
#define FLASH_ACR_LATENCY  7u
#define FLASH_ACR_PREFETCH (1u << 8)
#define FLASH_ACR_ICACHE   (1u << 9)
#define FLASH_ACR_DCACHE   (1u << 10)

static bool start_pll(void)
{
    mct_reg_modify(RCC_CR, 0, RCC_CR_HSION);
    if (!mct_reg_wait(RCC_CR, RCC_CR_HSIRDY, RCC_CR_HSIRDY, MCT_CLOCK_TURNS)) {
        return false;
    }
    mct_reg_write(RCC_PLLCFGR, (MCT_PLL_R / 2u - 1u) << 25 | PLLCFGR_REN | MCT_PLL_N << 8 |
                                   (MCT_PLL_M - 1u) << 4 | PLLCFGR_SRC_HSI);
    mct_reg_modify(RCC_CR, 0, RCC_CR_PLLON);
    return mct_reg_wait(RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY, MCT_CLOCK_TURNS);
}

uint32_t mct_clock_start(void)
{
    const uint32_t hz = HSI_HZ / MCT_PLL_M * MCT_PLL_N / MCT_PLL_R;

    if (!start_pll()) {
        mct_reg_modify(RCC_CR, RCC_CR_PLLON, 0);
        return MSI_HZ;
    }
    mct_reg_write(FLASH_ACR,
                  FLASH_ACR_PREFETCH | FLASH_ACR_ICACHE | FLASH_ACR_DCACHE | MCT_FLASH_WAITS);
    if (!mct_reg_wait(FLASH_ACR, FLASH_ACR_LATENCY, MCT_FLASH_WAITS, MCT_CLOCK_TURNS)) {
        return MSI_HZ;
    }
    mct_reg_modify(RCC_CFGR, 3u, RCC_CFGR_SW_PLL);
    if (!mct_reg_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SWS_PLL, MCT_CLOCK_TURNS)) {
        mct_reg_modify(RCC_CFGR, 3u, 0);
        return MSI_HZ;
    }
    return hz; /* no bus is divided */
}

void mct_pins_start(void)
{
    mct_reg_modify(MCT_GPIO_ENR, 0, 1u << MCT_TX_PORT | 1u << MCT_RX_PORT);
    mct_reg_modify(MCT_USART_ENR, 0, MCT_USART_BIT);
    (void)mct_reg_read(MCT_USART_ENR);
    mct_pin_alternate(MCT_TX_PORT, MCT_TX_PIN, MCT_USART_FUNCTION);
    mct_pin_alternate(MCT_RX_PORT, MCT_RX_PIN, MCT_USART_FUNCTION);
}
