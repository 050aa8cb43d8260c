/*
 * The PLL of F405 and F446 from the 16 MHz internal oscillator, which needs no crystal. The order
 * is that of RM0390, "entering over-drive mode": PLL, over-drive, wait states, dividers, switch.
 */
#include "family.h"
#include "stm32.h"

#define HSI_HZ 16000000u

#define RCC_CR             RCC_BASE
#define RCC_CR_PLLON       (1u << 24)
#define RCC_CR_PLLRDY      (1u << 25)
#define RCC_PLLCFGR        (RCC_BASE + 0x04u)
#define RCC_PLLCFGR_KEPT   (2u << 28) /* R of the F446; reserved at this value on the F405 */
#define RCC_CFGR           (RCC_BASE + 0x08u)
#define RCC_CFGR_SW_PLL    2u
#define RCC_CFGR_SWS       (3u << 2)
#define RCC_CFGR_SWS_PLL   (2u << 2)
#define RCC_CFGR_PPRE1_4   (5u << 10)
#define RCC_CFGR_PPRE2_2   (4u << 13)
#define RCC_APB1ENR_PWR    (1u << 28)
#define PWR_CR             0x40007000u
#define PWR_CR_ODEN        (1u << 16)
#define PWR_CR_ODSWEN      (1u << 17)
#define PWR_CSR            0x40007004u
#define PWR_CSR_ODRDY      (1u << 16)
#define PWR_CSR_ODSWRDY    (1u << 17)
#define FLASH_ACR          0x40023C00u
#define FLASH_ACR_LATENCY  0xFu
#define FLASH_ACR_PREFETCH (1u << 8)
#define FLASH_ACR_ICACHE   (1u << 9)
#define FLASH_ACR_DCACHE   (1u << 10)
#define FLASH_ACR_ICRST    (1u << 11)
#define FLASH_ACR_DCRST    (1u << 12)

/* Not set by the board: the voltage scale, whose reset value allows the rated speed. */
static bool start_pll(void)
{
    mct_reg_write(RCC_PLLCFGR, RCC_PLLCFGR_KEPT | MCT_PLL_Q << 24 | (MCT_PLL_P / 2u - 1u) << 16 |
                                   MCT_PLL_N << 6 | MCT_PLL_M);
    mct_reg_modify(RCC_CR, 0, RCC_CR_PLLON);
    if (!mct_reg_wait(RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY, MCT_CLOCK_TURNS)) {
        return false;
    }
#if MCT_OVERDRIVE
    mct_reg_modify(RCC_APB1ENR, 0, RCC_APB1ENR_PWR);
    (void)mct_reg_read(RCC_APB1ENR); /* the clock runs two cycles after the write */
    mct_reg_modify(PWR_CR, 0, PWR_CR_ODEN);
    if (!mct_reg_wait(PWR_CSR, PWR_CSR_ODRDY, PWR_CSR_ODRDY, MCT_CLOCK_TURNS)) {
        return false;
    }
    mct_reg_modify(PWR_CR, 0, PWR_CR_ODSWEN);
    if (!mct_reg_wait(PWR_CSR, PWR_CSR_ODSWRDY, PWR_CSR_ODSWRDY, MCT_CLOCK_TURNS)) {
        return false;
    }
#endif
    return true;
}

uint32_t mct_clock_start(void)
{
    const uint32_t hz = HSI_HZ / MCT_PLL_M * MCT_PLL_N / MCT_PLL_P;

    if (!start_pll()) {
        mct_reg_modify(RCC_CR, RCC_CR_PLLON, 0);
        return HSI_HZ;
    }
    mct_reg_write(FLASH_ACR,
                  FLASH_ACR_PREFETCH | FLASH_ACR_ICACHE | FLASH_ACR_DCACHE | MCT_FLASH_WAITS);
    if (!mct_reg_wait(FLASH_ACR, FLASH_ACR_LATENCY, MCT_FLASH_WAITS, MCT_CLOCK_TURNS)) {
        return HSI_HZ;
    }
    mct_reg_write(RCC_CFGR, RCC_CFGR_PPRE1_4 | RCC_CFGR_PPRE2_2);
    mct_reg_modify(RCC_CFGR, 0, RCC_CFGR_SW_PLL);
    if (!mct_reg_wait(RCC_CFGR, RCC_CFGR_SWS, RCC_CFGR_SWS_PLL, MCT_CLOCK_TURNS)) {
        mct_reg_write(RCC_CFGR, 0);
        return HSI_HZ;
    }
    return MCT_BOARD_USART == 1 ? hz / 2u : hz / 4u;
}

void mct_flash_forget(void)
{
    const uint32_t acr = mct_reg_read(FLASH_ACR);
    const uint32_t off = acr & ~(FLASH_ACR_ICACHE | FLASH_ACR_DCACHE);

    mct_reg_write(FLASH_ACR, off); /* they can be reset only while they are off */
    mct_reg_write(FLASH_ACR, off | FLASH_ACR_ICRST | FLASH_ACR_DCRST);
    mct_reg_write(FLASH_ACR, off);
    mct_reg_write(FLASH_ACR, acr);
}
