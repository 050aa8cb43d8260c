/* The caches of a Cortex-M7 (Armv7-M manual, B2.2.8). Other cores have none and never call this. */
#include "cortexm.h"

#define CCR           MCT_REG32(0xE000ED14u)
#define CCR_DC        (1u << 16)
#define CCR_IC        (1u << 17)
#define CCSIDR        MCT_REG32(0xE000ED80u)
#define CSSELR        MCT_REG32(0xE000ED84u)
#define ICIALLU       MCT_REG32(0xE000EF50u)
#define DCISW         MCT_REG32(0xE000EF60u)
#define DCCISW        MCT_REG32(0xE000EF74u)
#define CSSELR_L1_D   0u
#define SETS_LESS_ONE (CCSIDR >> 13 & 0x7FFFu)
#define WAYS_LESS_ONE (CCSIDR >> 3 & 0x3FFu)
#define SET_AT        5u  /* lines of 32 bytes */
#define WAY_AT        30u /* four ways */

static void for_all_lines(volatile uint32_t *operation)
{
    CSSELR = CSSELR_L1_D;
    __asm volatile("dsb" ::: "memory");
    const uint32_t sets = SETS_LESS_ONE, ways = WAYS_LESS_ONE;
    for (uint32_t set = 0; set <= sets; set++) {
        for (uint32_t way = 0; way <= ways; way++) {
            *operation = way << WAY_AT | set << SET_AT;
        }
    }
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void mct_cache_start(void)
{
    __asm volatile("dsb\n\tisb" ::: "memory");
    ICIALLU = 0;
    for_all_lines(&DCISW);
    CCR |= CCR_IC | CCR_DC;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void mct_cache_flush(void)
{
    if ((CCR & CCR_DC) == 0) {
        return;
    }
    __asm volatile("dsb" ::: "memory");
    for_all_lines(&DCCISW);
    ICIALLU = 0;
    __asm volatile("dsb\n\tisb" ::: "memory");
}
