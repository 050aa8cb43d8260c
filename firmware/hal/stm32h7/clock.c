/*
 * PLL1 of the H743 from the 64 MHz internal oscillator, which needs no crystal: 400 MHz, the most
 * that voltage scale 1 and every revision of the chip allow. The supply is the chip's regulator.
 */
#include "family.h"
#include "gpio_v2.h"

#define HSI_HZ 64000000u

#define RCC_CR               RCC_BASE
#define RCC_CR_PLL1ON        (1u << 24)
#define RCC_CR_PLL1RDY       (1u << 25)
#define RCC_CFGR             (RCC_BASE + 0x10u)
#define RCC_CFGR_SW_PLL1     3u
#define RCC_CFGR_SWS         (7u << 3)
#define RCC_CFGR_SWS_PLL1    (3u << 3)
#define RCC_D1CFGR           (RCC_BASE + 0x18u)
#define D1CFGR_HPRE_2        8u
#define D1CFGR_D1PPRE_2      (4u << 4)
#define RCC_D2CFGR           (RCC_BASE + 0x1Cu)
#define D2CFGR_D2PPRE1_2     (4u << 4)
#define D2CFGR_D2PPRE2_2     (4u << 8)
#define RCC_D3CFGR           (RCC_BASE + 0x20u)
#define D3CFGR_D3PPRE_2      (4u << 4)
#define RCC_PLLCKSELR        (RCC_BASE + 0x28u) /* source 0 is HSI */
#define RCC_PLLCFGR          (RCC_BASE + 0x2Cu)
#define PLLCFGR_RGE_4_TO_8   (2u << 2)
#define PLLCFGR_DIVP1EN      (1u << 16)
#define RCC_PLL1DIVR         (RCC_BASE + 0x30u)
#define PWR_CSR1             0x58024804u
#define PWR_CSR1_ACTVOSRDY   (1u << 13)
#define PWR_CR3              0x5802480Cu
#define PWR_CR3_SUPPLY       7u
#define PWR_CR3_LDOEN        2u
#define PWR_D3CR             0x58024818u
#define PWR_D3CR_VOS         (3u << 14)
#define PWR_D3CR_VOS_SCALE1  (3u << 14)
#define PWR_D3CR_VOSRDY      (1u << 13)
#define FLASH_ACR            0x52002000u
#define FLASH_ACR_LATENCY    0xFu
#define FLASH_ACR_WRHIGHFREQ (2u << 4)

static bool start_supply(void)
{
    mct_reg_modify(PWR_CR3, PWR_CR3_SUPPLY, PWR_CR3_LDOEN);
    if (!mct_reg_wait(PWR_CSR1, PWR_CSR1_ACTVOSRDY, PWR_CSR1_ACTVOSRDY, MCT_CLOCK_TURNS)) {
        return false;
    }
    mct_reg_modify(PWR_D3CR, PWR_D3CR_VOS, PWR_D3CR_VOS_SCALE1);
    return mct_reg_wait(PWR_D3CR, PWR_D3CR_VOSRDY, PWR_D3CR_VOSRDY, MCT_CLOCK_TURNS);
}

static bool start_pll(void)
{
    mct_reg_write(RCC_PLLCKSELR, MCT_PLL_M << 4);
    mct_reg_write(RCC_PLLCFGR, PLLCFGR_RGE_4_TO_8 | PLLCFGR_DIVP1EN);
    mct_reg_write(RCC_PLL1DIVR, (MCT_PLL_P - 1u) << 9 | (MCT_PLL_N - 1u));
    mct_reg_modify(RCC_CR, 0, RCC_CR_PLL1ON);
    return mct_reg_wait(RCC_CR, RCC_CR_PLL1RDY, RCC_CR_PLL1RDY, MCT_CLOCK_TURNS);
}

uint32_t mct_clock_start(void)
{
    const uint32_t hz = HSI_HZ / MCT_PLL_M * MCT_PLL_N / MCT_PLL_P;

    mct_cache_start();
    if (!start_supply() || !start_pll()) {
        mct_reg_modify(RCC_CR, RCC_CR_PLL1ON, 0);
        return HSI_HZ;
    }
    mct_reg_write(FLASH_ACR, FLASH_ACR_WRHIGHFREQ | MCT_FLASH_WAITS);
    if (!mct_reg_wait(FLASH_ACR, FLASH_ACR_LATENCY, MCT_FLASH_WAITS, MCT_CLOCK_TURNS)) {
        return HSI_HZ;
    }
    mct_reg_write(RCC_D1CFGR, D1CFGR_HPRE_2 | D1CFGR_D1PPRE_2);
    mct_reg_write(RCC_D2CFGR, D2CFGR_D2PPRE1_2 | D2CFGR_D2PPRE2_2);
    mct_reg_write(RCC_D3CFGR, D3CFGR_D3PPRE_2);
    mct_reg_modify(RCC_CFGR, 7u, RCC_CFGR_SW_PLL1);
    if (!mct_reg_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SWS_PLL1, MCT_CLOCK_TURNS)) {
        mct_reg_modify(RCC_CFGR, 7u, 0);
        return HSI_HZ / 4u; /* the dividers are set */
    }
    return hz / 4u; /* by HPRE and D2PPRE1 */
}

void mct_pins_start(void)
{
    mct_reg_modify(MCT_GPIO_ENR, 0, 1u << MCT_TX_PORT | 1u << MCT_RX_PORT);
    mct_reg_modify(MCT_USART_ENR, 0, MCT_USART_BIT);
    (void)mct_reg_read(MCT_USART_ENR);
    mct_pin_alternate(MCT_TX_PORT, MCT_TX_PIN, MCT_USART_FUNCTION);
    mct_pin_alternate(MCT_RX_PORT, MCT_RX_PIN, MCT_USART_FUNCTION);
}
