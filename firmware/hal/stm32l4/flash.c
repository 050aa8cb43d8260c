/*
 * Flash of the L476 (RM0351: embedded flash memory): two banks of pages of 2 KB, double words with
 * error correction. One that a loss of power has left half programmed reads as any bytes, with a
 * flag and the non-maskable interrupt.
 */
#include <string.h>

#include "family.h"
#include "stm32.h"

#define FLASH_BASE 0x08000000u
#define BANK_BYTES 0x80000u
#define PAGE       0x800u
#define FLASH_ACR  0x40022000u
#define FLASH_KEYR 0x40022008u
#define FLASH_SR   0x40022010u
#define FLASH_CR   0x40022014u
#define FLASH_ECCR 0x40022018u
#define ACR_CACHES (3u << 9)
#define ACR_RESETS (3u << 11)
#define KEY1       0x45670123u
#define KEY2       0xCDEF89ABu
#define SR_ERRORS  0xC3FAu /* OPERR, PROGERR to FASTERR, RDERR, OPTVERR */
#define SR_FAILED  0x43FAu /* of these, what a program or an erasure can cause */
#define SR_BSY     (1u << 16)
#define CR_PG      (1u << 0)
#define CR_PER     (1u << 1)
#define CR_PNB_AT  3u
#define CR_BKER    (1u << 11)
#define CR_STRT    (1u << 16)
#define CR_LOCK    (1u << 31)
#define ECCR_ECCD  (1u << 31)

static volatile bool torn;

/* Until the flag is cleared the interrupt would come again. */
void mct_nmi_handler(void)
{
    torn = true;
    mct_reg_write(FLASH_ECCR, ECCR_ECCD);
}

uint32_t mct_flash_sector(uint32_t address)
{
    return (address - FLASH_BASE) % PAGE == 0 ? PAGE : 0;
}

/* The caches may hold what was there before; they can be reset only while they are off. */
static void forget(void)
{
    const uint32_t acr = mct_reg_read(FLASH_ACR);
    const uint32_t off = acr & ~ACR_CACHES;

    mct_reg_write(FLASH_ACR, off);
    mct_reg_write(FLASH_ACR, off | ACR_RESETS);
    mct_reg_write(FLASH_ACR, off);
    mct_reg_write(FLASH_ACR, acr);
}

/* Unlocked, idle, and without errors of earlier operations, which writing 1 clears. */
static int begin(void)
{
    if (!mct_reg_wait(FLASH_SR, SR_BSY, 0, MCT_FLASH_TURNS)) {
        return -1;
    }
    if ((mct_reg_read(FLASH_CR) & CR_LOCK) != 0) {
        mct_reg_write(FLASH_KEYR, KEY1);
        mct_reg_write(FLASH_KEYR, KEY2);
    }
    mct_reg_write(FLASH_SR, SR_ERRORS);
    return 0;
}

static int end(void)
{
    const bool idle = mct_reg_wait(FLASH_SR, SR_BSY, 0, MCT_FLASH_TURNS);
    const uint32_t errors = mct_reg_read(FLASH_SR) & SR_FAILED;

    mct_reg_write(FLASH_CR, CR_LOCK);
    forget();
    return idle && errors == 0 ? 0 : -1;
}

int mct_flash_erase(uint32_t address)
{
    const uint32_t offset = address - FLASH_BASE;
    const uint32_t page = offset % BANK_BYTES / PAGE << CR_PNB_AT;

    if (begin() != 0) {
        return -1;
    }
    mct_reg_write(FLASH_CR, CR_PER | page | (offset < BANK_BYTES ? 0 : CR_BKER));
    mct_reg_modify(FLASH_CR, 0, CR_STRT);
    return end();
}

int mct_flash_program(uint32_t address, const uint8_t *src)
{
    uint32_t words[MCT_FLASH_UNIT / 4u];

    memcpy(words, src, sizeof words);
    if (begin() != 0) {
        return -1;
    }
    mct_reg_write(FLASH_CR, CR_PG);
    mct_reg_write(address, words[0]);
    mct_reg_barrier();
    mct_reg_write(address + 4u, words[1]);
    mct_reg_barrier();
    return end();
}

/* From flash itself: what is in a cache raises no flag a second time. */
int mct_flash_read(uint32_t address, uint8_t *dst, uint32_t n)
{
    forget();
    torn = false;
    mct_reg_copy(dst, address, n);
    mct_reg_barrier();
    return torn ? -1 : 0;
}
