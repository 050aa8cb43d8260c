/* The pins of F4, F7, H7 and L4: one block of registers a port, at MCT_GPIO_BASE (family.h). */
#ifndef MCT_GPIO_H
#define MCT_GPIO_H

#include "stm32.h"

#define GPIO_PORT_BYTES 0x400u
#define GPIO_MODER_AT   0x00u
#define GPIO_PUPDR_AT   0x0Cu
#define GPIO_AFRL_AT    0x20u
#define GPIO_ALTERNATE  2u
#define GPIO_PULL_UP    1u

/* Gives a pin to a peripheral, with a pull-up so that an open line rests. */
static inline void mct_pin_alternate(uint32_t port, uint32_t pin, uint32_t function)
{
    const uint32_t base = MCT_GPIO_BASE + port * GPIO_PORT_BYTES;
    const uint32_t shift = 4u * (pin % 8u);

    mct_reg_modify(base + GPIO_AFRL_AT + 4u * (pin / 8u), 0xFu << shift, function << shift);
    mct_reg_modify(base + GPIO_PUPDR_AT, 3u << 2u * pin, GPIO_PULL_UP << 2u * pin);
    mct_reg_modify(base + GPIO_MODER_AT, 3u << 2u * pin, GPIO_ALTERNATE << 2u * pin);
}

#endif
