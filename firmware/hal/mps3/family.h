/* Arm MPS3 with the image AN547 (M55), in the secure state. */
#ifndef MCT_FAMILY_H
#define MCT_FAMILY_H

#include "cortexm.h"

#define MCT_UART0_BASE   0x49303000u
#define MCT_UART0_RX_IRQ 33u
#define MCT_IRQS         96u

/* The system counter of the subsystem SSE-300, and its low word as timer 0 shows it. */
#define MCT_COUNTER_CTRL MCT_REG32(0x58100000u)
#define MCT_COUNTER_LOW  MCT_REG32(0x48000000u)

/* 32 MHz against 4 ns an instruction at -icount shift=2: 31.25 ns a tick. */
#define MCT_COUNTER_NUM 125
#define MCT_COUNTER_DEN 16

static inline void mct_family_counter_start(void)
{
    MCT_COUNTER_CTRL = 1;
}

static inline uint32_t mct_family_counter(void)
{
    return MCT_COUNTER_LOW;
}

#endif
