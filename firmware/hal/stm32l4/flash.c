/*
 * The L476 keeps no states yet: a double word that a loss of power has left half programmed raises
 * the non-maskable interrupt when it is read, which this HAL does not step over.
 */
#include "family.h"
#include "stm32.h"

const mct_block_device *mct_hal_store(void)
{
    return NULL;
}

int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n)
{
    /* The partition is written by the flasher only. */
    (void)offset;
    (void)src;
    (void)n;
    return -1;
}
