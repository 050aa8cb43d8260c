/*
 * The PLL of the F103 from an 8 MHz crystal: 72 MHz, which the internal oscillator cannot give.
 * Without a crystal the PLL runs from that one at 64 MHz.
 */
#include "family.h"
#include "stm32.h"

#define HSI_HZ    8000000u
#define HSE_HZ    8000000u
#define HSI_TIMES 16u /* of half of HSI */

#define RCC_CR             RCC_BASE
#define RCC_CR_HSEON       (1u << 16)
#define RCC_CR_HSERDY      (1u << 17)
#define RCC_CR_PLLON       (1u << 24)
#define RCC_CR_PLLRDY      (1u << 25)
#define RCC_CFGR           (RCC_BASE + 0x04u)
#define RCC_CFGR_SW        3u
#define RCC_CFGR_SW_PLL    2u
#define RCC_CFGR_SWS       (3u << 2)
#define RCC_CFGR_SWS_PLL   (2u << 2)
#define RCC_CFGR_PPRE1_2   (4u << 8)
#define RCC_CFGR_SRC_HSE   (1u << 16)
#define RCC_CFGR_MUL_AT    18u
#define RCC_APB2_AFIO      (1u << 0)
#define RCC_APB2_IOPA      (1u << 2)
#define GPIOA_CRH          0x40010804u
#define GPIOA_ODR          0x4001080Cu
#define CRH_PA9            (0xFu << 4)
#define CRH_PA9_ALTERNATE  (0xBu << 4) /* push-pull, 50 MHz */
#define CRH_PA10           (0xFu << 8)
#define CRH_PA10_PULLED    (0x8u << 8)
#define ODR_PA10_UP        (1u << 10)
#define FLASH_ACR          0x40022000u
#define FLASH_ACR_LATENCY  7u
#define FLASH_ACR_PREFETCH (1u << 4)

/* Starts an oscillator and the PLL from it; Hz, 0: one of them does not start. */
static uint32_t start_pll(void)
{
    uint32_t hz = HSI_HZ / 2u * HSI_TIMES;
    uint32_t cfgr = (HSI_TIMES - 2u) << RCC_CFGR_MUL_AT;

    mct_reg_modify(RCC_CR, 0, RCC_CR_HSEON);
    if (mct_reg_wait(RCC_CR, RCC_CR_HSERDY, RCC_CR_HSERDY, MCT_CLOCK_TURNS)) {
        hz = HSE_HZ * MCT_PLL_N;
        cfgr = RCC_CFGR_SRC_HSE | (MCT_PLL_N - 2u) << RCC_CFGR_MUL_AT;
    } else {
        mct_reg_modify(RCC_CR, RCC_CR_HSEON, 0);
    }
    mct_reg_write(RCC_CFGR, RCC_CFGR_PPRE1_2 | cfgr);
    mct_reg_modify(RCC_CR, 0, RCC_CR_PLLON);
    return mct_reg_wait(RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY, MCT_CLOCK_TURNS) ? hz : 0;
}

uint32_t mct_clock_start(void)
{
    const uint32_t hz = start_pll();

    if (hz == 0) {
        mct_reg_modify(RCC_CR, RCC_CR_PLLON, 0);
        return HSI_HZ;
    }
    mct_reg_write(FLASH_ACR, FLASH_ACR_PREFETCH | MCT_FLASH_WAITS);
    if (!mct_reg_wait(FLASH_ACR, FLASH_ACR_LATENCY, MCT_FLASH_WAITS, MCT_CLOCK_TURNS)) {
        return HSI_HZ;
    }
    mct_reg_modify(RCC_CFGR, RCC_CFGR_SW, RCC_CFGR_SW_PLL);
    if (!mct_reg_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SWS_PLL, MCT_CLOCK_TURNS)) {
        mct_reg_modify(RCC_CFGR, RCC_CFGR_SW, 0);
        return HSI_HZ;
    }
    return hz; /* USART1 is on APB2, which is not divided */
}

void mct_pins_start(void)
{
    mct_reg_modify(RCC_APB2ENR, 0, RCC_APB2_AFIO | RCC_APB2_IOPA | MCT_USART_BIT);
    (void)mct_reg_read(RCC_APB2ENR); /* the clock runs two cycles after the write */
    mct_reg_modify(GPIOA_ODR, 0, ODR_PA10_UP);
    mct_reg_modify(GPIOA_CRH, CRH_PA9 | CRH_PA10, CRH_PA9_ALTERNATE | CRH_PA10_PULLED);
}
