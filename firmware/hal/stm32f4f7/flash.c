/*
 * Flash of F4 and F7 (RM0090, RM0390, RM0385: embedded flash memory interface). The core waits
 * while the one bank is busy, so that this may run from it. Words are programmed 32 bits at a time,
 * for which the supply must have 2.7 V or more, as on all boards here.
 */
#include <string.h>

#include "family.h"
#include "stm32.h"

#define FLASH_ACR   0x40023C00u
#define FLASH_KEYR  0x40023C04u
#define FLASH_SR    0x40023C0Cu
#define FLASH_CR    0x40023C10u
#define KEY1        0x45670123u
#define KEY2        0xCDEF89ABu
#define SR_ERRORS   0x1F2u /* OPERR, WRPERR, PGAERR, PGPERR, PGSERR or ERSERR, RDERR */
#define SR_BSY      (1u << 16)
#define CR_PG       (1u << 0)
#define CR_SER      (1u << 1)
#define CR_SNB_AT   3u
#define CR_PSIZE_32 (2u << 8)
#define CR_STRT     (1u << 16)
#define CR_LOCK     (1u << 31)
#define FLASH_BASE  0x08000000u

/* Four small sectors, one of four times their size, then ones of eight times. */
#define LARGE (8u * MCT_FLASH_SMALL_SECTOR)

static uint32_t sector_number(uint32_t offset)
{
    if (offset < 4u * MCT_FLASH_SMALL_SECTOR) {
        return offset / MCT_FLASH_SMALL_SECTOR;
    }
    return offset < LARGE ? 4u : 4u + offset / LARGE;
}

uint32_t mct_flash_sector(uint32_t address)
{
    const uint32_t offset = address - FLASH_BASE;

    if (offset < 4u * MCT_FLASH_SMALL_SECTOR) {
        return offset % MCT_FLASH_SMALL_SECTOR == 0 ? MCT_FLASH_SMALL_SECTOR : 0;
    }
    if (offset < LARGE) {
        return offset == 4u * MCT_FLASH_SMALL_SECTOR ? 4u * MCT_FLASH_SMALL_SECTOR : 0;
    }
    return offset % LARGE == 0 ? LARGE : 0;
}

static int wait_idle(void)
{
    if (!mct_reg_wait(FLASH_SR, SR_BSY, 0, MCT_FLASH_TURNS)) {
        return -1;
    }
    return (mct_reg_read(FLASH_SR) & SR_ERRORS) == 0 ? 0 : -1;
}

/* Unlocked, idle, and without errors of earlier operations, which writing 1 clears. */
static int begin(void)
{
    if ((mct_reg_read(FLASH_CR) & CR_LOCK) != 0) {
        mct_reg_write(FLASH_KEYR, KEY1);
        mct_reg_write(FLASH_KEYR, KEY2);
    }
    if (!mct_reg_wait(FLASH_SR, SR_BSY, 0, MCT_FLASH_TURNS)) {
        return -1;
    }
    mct_reg_write(FLASH_SR, SR_ERRORS);
    return 0;
}

static int end(int status)
{
    mct_reg_write(FLASH_CR, CR_LOCK);
    mct_flash_forget();
    return status;
}

int mct_flash_erase(uint32_t address)
{
    const uint32_t number = sector_number(address - FLASH_BASE);

    if (begin() != 0) {
        return end(-1);
    }
    mct_reg_write(FLASH_CR, CR_PSIZE_32 | CR_SER | number << CR_SNB_AT);
    mct_reg_modify(FLASH_CR, 0, CR_STRT);
    return end(wait_idle());
}

int mct_flash_program(uint32_t address, const uint8_t *src)
{
    uint32_t word;

    memcpy(&word, src, sizeof word);
    if (begin() != 0) {
        return end(-1);
    }
    mct_reg_write(FLASH_CR, CR_PSIZE_32 | CR_PG);
    mct_reg_write(address, word);
    mct_reg_barrier();
    return end(wait_idle());
}

int mct_flash_read(uint32_t address, uint8_t *dst, uint32_t n)
{
    memcpy(dst, mct_reg_memory(address), n);
    return 0;
}
