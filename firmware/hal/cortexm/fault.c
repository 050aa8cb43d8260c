/* Faults: record where, reset, and tell after the reset. The same on silicon and emulator. */
#include "cortexm.h"

#define FAULT_MAGIC      0x4D435446u
#define CFSR_MMARVALID   (1u << 7)
#define CFSR_BFARVALID   (1u << 15)
#define CCR_BFHFNMIGN    (1u << 8)
#define FRAME_LR         5
#define FRAME_PC         6
#define FRAME_BYTES      32u
#define PC_NOT_AVAILABLE 0xFFFFFFFFu

/* Survives the reset, since the start-up code clears .data and .bss only. */
static struct {
    uint32_t magic;
    mct_hal_fault fault;
} fault_record __attribute__((section(".noinit")));

static mct_hal_fault last_fault;

/* Read by the assembly below: while set, a fault means "nothing there" and is stepped over. */
volatile uint32_t mct_probe_pending;

void mct_fault_report(const uint32_t *frame);

/*
 * The stack pointer goes back to the top at once: after an overflow there is no stack left to run
 * on, and nothing returns from here. A pending probe steps over its 2-byte load instead.
 */
__attribute__((naked)) void mct_fault_handler(void)
{
    __asm volatile("mov  r0, sp\n\t"
                   "ldr  r1, =mct_probe_pending\n\t"
                   "ldr  r2, [r1]\n\t"
                   "cbz  r2, 1f\n\t"
                   "movs r2, #0\n\t"
                   "str  r2, [r1]\n\t"
                   "ldr  r2, [r0, #24]\n\t"
                   "adds r2, #2\n\t"
                   "str  r2, [r0, #24]\n\t"
                   "bx   lr\n"
                   "1:\n\t"
                   "ldr  r1, =mct_ld_stack_end\n\t"
                   "mov  sp, r1\n\t"
                   "b    mct_fault_report\n\t"
                   ".ltorg");
}

void mct_fault_report(const uint32_t *frame)
{
    const uintptr_t at = (uintptr_t)frame;
    const uint32_t cfsr = MCT_SCB_CFSR;
    const bool frame_ok =
        at >= mct_ld_layout.stack_start && at + FRAME_BYTES <= mct_ld_layout.stack_end;

    fault_record.fault.pc = frame_ok ? frame[FRAME_PC] : PC_NOT_AVAILABLE;
    fault_record.fault.lr = frame_ok ? frame[FRAME_LR] : PC_NOT_AVAILABLE;
    fault_record.fault.cfsr = cfsr;
    fault_record.fault.address = 0;
    if ((cfsr & CFSR_BFARVALID) != 0) {
        fault_record.fault.address = MCT_SCB_BFAR;
    } else if ((cfsr & CFSR_MMARVALID) != 0) {
        fault_record.fault.address = MCT_SCB_MMFAR;
    }
    fault_record.magic = FAULT_MAGIC;
    mct_hal_reset();
}

void mct_fault_latch(void)
{
    if (fault_record.magic == FAULT_MAGIC) {
        last_fault = fault_record.fault;
    }
    fault_record.magic = 0;
}

mct_hal_fault mct_hal_last_fault(void)
{
    return last_fault;
}

/* With FAULTMASK set and BFHFNMIGN, a precise bus fault of a load is ignored (Armv7-M, B1.5.14). */
void mct_copy_ignoring_faults(uint8_t *dst, const uint8_t *src, uint32_t n)
{
    const volatile uint8_t *from = src;
    uint32_t mask;

    __asm volatile("mrs %0, faultmask\n\tcpsid f" : "=r"(mask)::"memory");
    MCT_SCB_CCR |= CCR_BFHFNMIGN;
    __asm volatile("dsb\n\tisb" ::: "memory");
    for (uint32_t i = 0; i < n; i++) {
        dst[i] = from[i];
    }
    __asm volatile("dsb\n\tisb" ::: "memory");
    MCT_SCB_CCR &= ~CCR_BFHFNMIGN;
    MCT_SCB_CFSR = MCT_SCB_CFSR; /* an ignored fault is none to report later */
    __asm volatile("dsb\n\tisb\n\tmsr faultmask, %0" ::"r"(mask) : "memory");
}

bool mct_probe(const volatile uint8_t *address)
{
    uint32_t byte = 0;
    bool reachable;

    mct_probe_pending = 1;
    /* The narrow load is 2 bytes long, as the handler relies on. */
    __asm volatile("dsb\n\t"
                   "ldrb.n %0, [%1]\n\t"
                   "dsb\n\t"
                   "isb"
                   : "+l"(byte)
                   : "l"(address)
                   : "memory");
    reachable = mct_probe_pending != 0;
    mct_probe_pending = 0;
    MCT_SCB_CFSR = MCT_SCB_CFSR; /* bits clear by writing 1; a probe is no fault to report later */
    return reachable;
}
