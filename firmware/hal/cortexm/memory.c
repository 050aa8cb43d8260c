/* Stack, guard, pool and image partition: everything about where things lie. */
#include "cortexm.h"

#define PAINT      0xA5A5A5A5u
#define PAINT_BYTE 0xA5u

#define MPU_TYPE           MCT_REG32(0xE000ED90u)
#define MPU_TYPE_REGIONS   0xFF00u
#define MPU_CTRL           MCT_REG32(0xE000ED94u)
#define MPU_CTRL_ENABLE    (1u << 0)
#define MPU_CTRL_DEFAULT   (1u << 2) /* the default map holds where no region is */
#define MPU_RNR            MCT_REG32(0xE000ED98u)
#define MPU_RBAR           MCT_REG32(0xE000ED9Cu)
#define MPU_RBAR_REGION0   (1u << 4)
#define MPU_RASR           MCT_REG32(0xE000EDA0u)
#define MPU_RASR_NO_ACCESS (1u << 28) /* nor execution; access bits 0 */
#define MPU_RASR_ENABLE    1u
/* The registers of Armv8-M, which knows no region without access: nobody writes or executes. */
#define MPU_RBAR_READ_ONLY ((2u << 1) | 1u)
#define MPU_RLAR           MPU_RASR
#define MPU_RLAR_ENABLE    1u

/* More than any one frame, and less than what separates SRAM from the STM32's unique id. */
#define FENCE_LOG2 15u

static uint32_t guard_bytes;

void mct_stack_paint(void)
{
    /* Volatile, or the loop becomes a call of memset, whose own frame it would paint over. */
    volatile uint32_t *word = (volatile uint32_t *)mct_ld_layout.stack_start;
    uintptr_t sp;

    __asm volatile("mov %0, sp" : "=r"(sp));
    while ((uintptr_t)word < sp) {
        *word = PAINT;
        word++;
    }
}

void mct_stack_fence(void)
{
    if ((MPU_TYPE & MPU_TYPE_REGIONS) == 0) {
        return;
    }
    const uint32_t start = mct_ld_layout.stack_start - (1u << FENCE_LOG2);
#if __ARM_ARCH >= 8
    MPU_RNR = 0;
    MPU_RBAR = start | MPU_RBAR_READ_ONLY;
    MPU_RLAR = ((mct_ld_layout.stack_start - 1u) & ~31u) | MPU_RLAR_ENABLE;
#else
    MPU_RBAR = start | MPU_RBAR_REGION0;
    MPU_RASR = MPU_RASR_NO_ACCESS | ((FENCE_LOG2 - 1u) << 1) | MPU_RASR_ENABLE;
#endif
    MPU_CTRL = MPU_CTRL_DEFAULT | MPU_CTRL_ENABLE;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

uint32_t mct_hal_stack_size(void)
{
    return mct_ld_layout.stack_end - mct_ld_layout.stack_start;
}

uint32_t mct_hal_stack_used(void)
{
    const volatile uint32_t *word = (const volatile uint32_t *)mct_ld_layout.stack_start;
    const volatile uint32_t *end = (const volatile uint32_t *)mct_ld_layout.stack_end;

    while (word < end && *word == PAINT) {
        word++;
    }
    return (uint32_t)((uintptr_t)end - (uintptr_t)word);
}

void mct_guard_paint(void)
{
    volatile uint32_t *word = (volatile uint32_t *)mct_ld_layout.guard_start;
    volatile uint32_t *end = (volatile uint32_t *)mct_ld_layout.guard_end;

    /* A newer emulator has exactly the chip's memory: then an overrun faults by itself. */
    if (word == end || !mct_probe((const volatile uint8_t *)word)) {
        return;
    }
    guard_bytes = (uint32_t)((uintptr_t)end - (uintptr_t)word);
    while (word < end) {
        *word = PAINT;
        word++;
    }
}

uint32_t mct_hal_guard_untouched(uint32_t *size)
{
    const volatile uint8_t *byte = (const volatile uint8_t *)mct_ld_layout.guard_start;
    uint32_t changed = 0;

    for (uint32_t i = 0; i < guard_bytes; i++) {
        changed += byte[i] != PAINT_BYTE;
    }
    *size = guard_bytes;
    return changed;
}

void mct_hal_pool(uint8_t **base, uint32_t *size)
{
    *base = (uint8_t *)mct_ld_layout.pool_start;
    *size = mct_ld_layout.pool_end - mct_ld_layout.pool_start;
}

void mct_hal_flash_partition(const uint8_t **base, uint32_t *size)
{
    *base = (const uint8_t *)mct_ld_layout.image_start;
    *size = mct_ld_layout.image_end - mct_ld_layout.image_start;
}
