/*
 * Flash of the H743 (RM0433: embedded flash memory): two banks of sectors of 128 KB, flash words of
 * 32 bytes with error correction. A word that a loss of power has left half programmed does not
 * read: the bus faults. Reads therefore ignore bus faults and ask the bank whether there was one.
 */
#include <string.h>

#include "family.h"
#include "stm32.h"

#define FLASH_BASE  0x08000000u
#define BANK_BYTES  0x100000u
#define SECTOR      0x20000u
#define BANK(n)     (0x52002000u + 0x100u * (n))
#define KEYR_AT     0x04u
#define CR_AT       0x0Cu
#define SR_AT       0x10u
#define CCR_AT      0x14u
#define KEY1        0x45670123u
#define KEY2        0xCDEF89ABu
#define CR_LOCK     (1u << 0)
#define CR_PG       (1u << 1)
#define CR_SER      (1u << 2)
#define CR_PSIZE_64 (3u << 4)
#define CR_START    (1u << 7)
#define CR_SNB_AT   8u
#define SR_BUSY     7u /* BSY, WBNE, QW */
#define SR_DBECCERR (1u << 26)
#define SR_ERRORS   0x7EE0000u /* WRP, PGS, STRB, INC, OP, RDP, RDS, SNECC, DBECC */
#define SR_FAILED   0x06E0000u /* of these, what a program or an erasure can cause */

static uint32_t bank_of(uint32_t address)
{
    return BANK((address - FLASH_BASE) / BANK_BYTES);
}

uint32_t mct_flash_sector(uint32_t address)
{
    return (address - FLASH_BASE) % SECTOR == 0 ? SECTOR : 0;
}

static int begin(uint32_t bank)
{
    if (!mct_reg_wait(bank + SR_AT, SR_BUSY, 0, MCT_FLASH_TURNS)) {
        return -1;
    }
    if ((mct_reg_read(bank + CR_AT) & CR_LOCK) != 0) {
        mct_reg_write(bank + KEYR_AT, KEY1);
        mct_reg_write(bank + KEYR_AT, KEY2);
    }
    mct_reg_write(bank + CCR_AT, SR_ERRORS);
    return 0;
}

static int end(uint32_t bank)
{
    const bool idle = mct_reg_wait(bank + SR_AT, SR_BUSY, 0, MCT_FLASH_TURNS);
    const uint32_t errors = mct_reg_read(bank + SR_AT) & SR_FAILED;

    mct_reg_write(bank + CR_AT, CR_LOCK);
    mct_cache_flush();
    return idle && errors == 0 ? 0 : -1;
}

int mct_flash_erase(uint32_t address)
{
    const uint32_t bank = bank_of(address);
    const uint32_t number = (address - FLASH_BASE) % BANK_BYTES / SECTOR;

    if (begin(bank) != 0) {
        return -1;
    }
    mct_reg_write(bank + CR_AT, CR_PSIZE_64 | CR_SER | number << CR_SNB_AT);
    mct_reg_modify(bank + CR_AT, 0, CR_START);
    return end(bank);
}

/* The eight words of a flash word must come without anything else between. */
int mct_flash_program(uint32_t address, const uint8_t *src)
{
    const uint32_t bank = bank_of(address);
    uint32_t words[MCT_FLASH_UNIT / 4u];

    memcpy(words, src, sizeof words);
    if (begin(bank) != 0) {
        return -1;
    }
    mct_reg_write(bank + CR_AT, CR_PSIZE_64 | CR_PG);
    mct_reg_barrier();
    const uint32_t mask = mct_hal_irq_save();
    for (uint32_t i = 0; i < MCT_FLASH_UNIT / 4u; i++) {
        mct_reg_write(address + 4u * i, words[i]);
    }
    mct_reg_barrier();
    mct_hal_irq_restore(mask);
    return end(bank);
}

int mct_flash_read(uint32_t address, uint8_t *dst, uint32_t n)
{
    const uint32_t bank = bank_of(address);

    mct_reg_write(bank + CCR_AT, SR_DBECCERR);
    mct_copy_ignoring_faults(dst, mct_reg_memory(address), n);
    if ((mct_reg_read(bank + SR_AT) & SR_DBECCERR) == 0) {
        return 0;
    }
    mct_reg_write(bank + CCR_AT, SR_DBECCERR);
    return -1;
}
