/* Arm MPS2 with the images AN385 (M3), AN386 (M4) and AN500 (M7). */
#ifndef MCT_FAMILY_H
#define MCT_FAMILY_H

#include "cortexm.h"

#define MCT_UART0_BASE   0x40004000u
#define MCT_UART0_RX_IRQ 0u
#define MCT_IRQS         32u

#define MCT_TIMER0_CTRL   MCT_REG32(0x40000000u)
#define MCT_TIMER0_VALUE  MCT_REG32(0x40000004u)
#define MCT_TIMER0_RELOAD MCT_REG32(0x40000008u)

/* 25 MHz against 64 ns an instruction at -icount shift=6: 40 ns a tick. */
#define MCT_COUNTER_NUM 40
#define MCT_COUNTER_DEN 64

static inline void mct_family_counter_start(void)
{
    MCT_TIMER0_RELOAD = 0xFFFFFFFFu;
    MCT_TIMER0_VALUE = 0xFFFFFFFFu;
    MCT_TIMER0_CTRL = 1;
}

static inline uint32_t mct_family_counter(void)
{
    return ~MCT_TIMER0_VALUE; /* it counts down */
}

#endif
