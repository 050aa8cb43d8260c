/* The core's own peripherals: interrupt controller, reset, cycle counter. */
#include "cortexm.h"

#define NVIC_ENABLE   0xE000E100u
#define NVIC_DISABLE  0xE000E180u
#define NVIC_PEND     0xE000E200u
#define AIRCR_RESET   ((0x5FAu << 16) | (1u << 2))
#define DEMCR         MCT_REG32(0xE000EDFCu)
#define DEMCR_TRCENA  (1u << 24)
#define DWT_CTRL      MCT_REG32(0xE0001000u)
#define DWT_CYCCNT    MCT_REG32(0xE0001004u)
#define DWT_LAR       MCT_REG32(0xE0001FB0u)
#define DWT_LAR_KEY   0xC5ACCE55u
#define DWT_CYCCNTENA 1u

void mct_nvic_enable(uint32_t irq)
{
    MCT_REG32(NVIC_ENABLE + 4u * (irq / 32u)) = 1u << (irq % 32u);
}

void mct_nvic_disable(uint32_t irq)
{
    MCT_REG32(NVIC_DISABLE + 4u * (irq / 32u)) = 1u << (irq % 32u);
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void mct_nvic_pend(uint32_t irq)
{
    MCT_REG32(NVIC_PEND + 4u * (irq / 32u)) = 1u << (irq % 32u);
}

uint32_t mct_hal_irq_save(void)
{
    uint32_t mask;

    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(mask)::"memory");
    return mask;
}

void mct_hal_irq_restore(uint32_t mask)
{
    __asm volatile("msr primask, %0" ::"r"(mask) : "memory");
}

void mct_hal_reset(void)
{
    mct_cache_flush(); /* the reset forgets what is in the cache only, the record of a fault too */
    __asm volatile("dsb" ::: "memory");
    MCT_SCB_AIRCR = AIRCR_RESET;
    __asm volatile("dsb" ::: "memory");
    for (;;) {
        /* the reset takes a few cycles */
    }
}

bool mct_cycles_start(void)
{
    DEMCR |= DEMCR_TRCENA;
    DWT_LAR = DWT_LAR_KEY; /* an M7 keeps the unit locked; others ignore the write */
    DWT_CYCCNT = 0;
    DWT_CTRL |= DWT_CYCCNTENA;
    __asm volatile("dsb\n\tisb\n\tnop\n\tnop\n\tnop" ::: "memory");
    return DWT_CYCCNT != 0;
}

uint32_t mct_cycles(void)
{
    return DWT_CYCCNT;
}
