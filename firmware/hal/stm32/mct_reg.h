/*
 * Every access to a peripheral register of an STM32 goes through these, so that tests can put a
 * model of the peripheral in their place.
 */
#ifndef MCT_REG_H
#define MCT_REG_H

#include <stdint.h>

static inline uint32_t mct_reg_read(uint32_t address)
{
    return *(volatile uint32_t *)address;
}

static inline void mct_reg_write(uint32_t address, uint32_t value)
{
    *(volatile uint32_t *)address = value;
}

/* Flash takes writes of its program unit only. */
static inline void mct_reg_write16(uint32_t address, uint16_t value)
{
    *(volatile uint16_t *)address = value;
}

/* What was written before is done: memory and registers are otherwise not ordered on an M7. */
static inline void mct_reg_barrier(void)
{
    __asm volatile("dsb\n\tisb" ::: "memory");
}

/* Bytes as they are read from flash, whose error correction may have something to say. */
static inline void mct_reg_copy(uint8_t *dst, uint32_t address, uint32_t n)
{
    const volatile uint8_t *src = (const volatile uint8_t *)address;

    for (uint32_t i = 0; i < n; i++) {
        dst[i] = src[i];
    }
}

/* What is programmed at an address of flash. */
static inline const uint8_t *mct_reg_memory(uint32_t address)
{
    return (const uint8_t *)address;
}

#endif
