/*
 * Flash of the high-density F103 (PM0075): pages of 2 KB, half-words. The core waits while the
 * flash is busy, so that this may run from it.
 */
#include <string.h>

#include "family.h"
#include "stm32.h"

#define FLASH_BASE 0x08000000u
#define PAGE       0x800u
#define FLASH_KEYR 0x40022004u
#define FLASH_SR   0x4002200Cu
#define FLASH_CR   0x40022010u
#define FLASH_AR   0x40022014u
#define KEY1       0x45670123u
#define KEY2       0xCDEF89ABu
#define SR_BSY     (1u << 0)
#define SR_ERRORS  0x14u /* PGERR, WRPRTERR */
#define CR_PG      (1u << 0)
#define CR_PER     (1u << 1)
#define CR_STRT    (1u << 6)
#define CR_LOCK    (1u << 7)

uint32_t mct_flash_sector(uint32_t address)
{
    return (address - FLASH_BASE) % PAGE == 0 ? PAGE : 0;
}

static int begin(void)
{
    if ((mct_reg_read(FLASH_CR) & CR_LOCK) != 0) {
        mct_reg_write(FLASH_KEYR, KEY1);
        mct_reg_write(FLASH_KEYR, KEY2);
    }
    if (!mct_reg_wait(FLASH_SR, SR_BSY, 0, MCT_FLASH_TURNS)) {
        return -1;
    }
    mct_reg_write(FLASH_SR, SR_ERRORS); /* cleared by writing 1 */
    return 0;
}

static int end(void)
{
    const bool idle = mct_reg_wait(FLASH_SR, SR_BSY, 0, MCT_FLASH_TURNS);
    const uint32_t errors = mct_reg_read(FLASH_SR) & SR_ERRORS;

    mct_reg_write(FLASH_CR, CR_LOCK);
    return idle && errors == 0 ? 0 : -1;
}

int mct_flash_erase(uint32_t address)
{
    if (begin() != 0) {
        return -1;
    }
    mct_reg_write(FLASH_CR, CR_PER);
    mct_reg_write(FLASH_AR, address);
    mct_reg_write(FLASH_CR, CR_PER | CR_STRT);
    return end();
}

int mct_flash_program(uint32_t address, const uint8_t *src)
{
    uint16_t half;

    memcpy(&half, src, sizeof half);
    if (begin() != 0) {
        return -1;
    }
    mct_reg_write(FLASH_CR, CR_PG);
    mct_reg_write16(address, half);
    return end();
}

int mct_flash_read(uint32_t address, uint8_t *dst, uint32_t n)
{
    memcpy(dst, mct_reg_memory(address), n);
    return 0;
}
