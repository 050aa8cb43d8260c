/* From reset to main(). */
#include <string.h>
#include "cortexm.h"

int main(void);

void mct_reset_handler(void)
{
    const mct_layout *at = &mct_ld_layout;

    MCT_SCB_VTOR = (uint32_t)(uintptr_t)mct_vectors;
#if defined(__ARM_FP)
    /* Full access to CP10 and CP11; nothing above may use the FPU. */
    MCT_SCB_CPACR |= 0xFu << 20;
    __asm volatile("dsb\n\tisb" ::: "memory");
#endif
    mct_stack_paint();
    memcpy((void *)at->data_start, (const void *)at->data_load, at->data_end - at->data_start);
    memset((void *)at->bss_start, 0, at->bss_end - at->bss_start);
    mct_fault_latch();
    mct_guard_paint();
    mct_stack_fence();
    (void)main();
    mct_hal_reset();
}
