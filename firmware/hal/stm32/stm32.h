/* What the STM32 families share, and what each of them gives to the shared part. */
#ifndef MCT_STM32_H
#define MCT_STM32_H

#include "board.h"
#include "cortexm.h"
#include "mct_reg.h"

/* Longer than any oscillator, PLL or regulator takes to start: over 50 ms at 16 MHz. */
#ifndef MCT_CLOCK_TURNS
#define MCT_CLOCK_TURNS 100000u
#endif

/* Longer than the longest erasure (4 s, 256 KB at the slowest parallelism) at 480 MHz. */
#define MCT_FLASH_TURNS 400000000u

static inline void mct_reg_modify(uint32_t address, uint32_t clear, uint32_t set)
{
    mct_reg_write(address, (mct_reg_read(address) & ~clear) | set);
}

/* Waits until the masked bits have that value; false after that many turns. */
static inline bool mct_reg_wait(uint32_t address, uint32_t mask, uint32_t value, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        if ((mct_reg_read(address) & mask) == value) {
            return true;
        }
    }
    return false;
}

/* ---- a family gives ---- */

/*
 * Takes the core to the board's speed. Where an oscillator or the PLL does not start in time (as in
 * an emulator without them), the chip stays on a slower clock that runs. Returns the clock of the
 * USART in Hz, which the baud rate is made from.
 */
uint32_t mct_clock_start(void);

/* Clocks and pins of the USART. */
void mct_pins_start(void);

/* Erases the sector that starts at an address. 0, or -1 on an error of the flash. */
int mct_flash_erase(uint32_t address);

/* Programs one unit of MCT_FLASH_UNIT bytes (family.h). 0, or -1. */
int mct_flash_program(uint32_t address, const uint8_t *src);

/* Copies n bytes; -1 where error correction says that they are no data. */
int mct_flash_read(uint32_t address, uint8_t *dst, uint32_t n);

/* Bytes of the sector that starts at an address; 0 where none starts. */
uint32_t mct_flash_sector(uint32_t address);

#endif
