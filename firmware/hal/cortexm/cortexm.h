/* What the Cortex-M parts of the HAL share: core registers, linker symbols, receive ring. */
#ifndef MCT_CORTEXM_H
#define MCT_CORTEXM_H

#include <stdbool.h>
#include <stdint.h>
#include "hal.h"

#define MCT_REG32(address) (*(volatile uint32_t *)(address))

#define MCT_SCB_ICSR  MCT_REG32(0xE000ED04u)
#define MCT_SCB_VTOR  MCT_REG32(0xE000ED08u)
#define MCT_SCB_AIRCR MCT_REG32(0xE000ED0Cu)
#define MCT_SCB_CCR   MCT_REG32(0xE000ED14u)
#define MCT_SCB_CFSR  MCT_REG32(0xE000ED28u)
#define MCT_SCB_MMFAR MCT_REG32(0xE000ED34u)
#define MCT_SCB_BFAR  MCT_REG32(0xE000ED38u)
#define MCT_SCB_CPACR MCT_REG32(0xE000ED88u)

typedef void (*mct_vector)(void);

/* The family's vector table. Entries of interrupts that are never enabled stay null. */
extern const mct_vector mct_vectors[];

/*
 * Where the linker put things: a table in flash that the linker script writes. Values, not symbols:
 * the compiler takes two symbols for different addresses, and an empty range has equal ones.
 */
typedef struct {
    uint32_t stack_start, stack_end;
    uint32_t data_start, data_end, data_load;
    uint32_t bss_start, bss_end;
    uint32_t pool_start, pool_end;
    uint32_t image_start, image_end;
    uint32_t guard_start, guard_end;
    struct {
        uint32_t base, sector_bytes, sectors; /* 0 sectors: no store */
    } store[MCT_BLOCK_SLOTS];
} mct_layout;

extern const mct_layout mct_ld_layout;
extern uint8_t mct_ld_stack_end[]; /* again, for the initial stack pointer */

/* Nothing raises it, unless a family has something that does. */
#ifndef MCT_NMI_HANDLER
#define MCT_NMI_HANDLER mct_fault_handler
#endif

/* The first entries of every vector table; faults all go to one handler, escalated or not. */
#define MCT_CORE_VECTORS                                                                           \
    [0] = (mct_vector)(void (*)(void))mct_ld_stack_end, [1] = mct_reset_handler,                   \
    [2] = MCT_NMI_HANDLER, [3] = mct_fault_handler, [4] = mct_fault_handler,                       \
    [5] = mct_fault_handler, [6] = mct_fault_handler

void mct_reset_handler(void);
void mct_fault_handler(void);

/* Paints what the chip does not have and the emulator does (start-up, before main). */
void mct_guard_paint(void);

/* Paints the unused stack below the caller (start-up, before main). */
void mct_stack_paint(void);

/*
 * Forbids the memory below the stack, where there is a memory protection unit: not every chip (or
 * emulator) faults by itself on a write to where nothing is.
 */
void mct_stack_fence(void);

/* Moves the record of a fault before the reset to where mct_hal_last_fault() finds it. */
void mct_fault_latch(void);

/* True if a byte can be read at address; a bus fault is caught. */
bool mct_probe(const volatile uint8_t *address);

void mct_nvic_enable(uint32_t irq);
void mct_nvic_pend(uint32_t irq);
void mct_nvic_disable(uint32_t irq);

/* Caches of an M7: on; written back and emptied. A core without them ignores the second. */
void mct_cache_start(void);
void mct_cache_flush(void);

/* memcpy from where a bus fault is possible: what cannot be read becomes any bytes. */
void mct_copy_ignoring_faults(uint8_t *dst, const uint8_t *src, uint32_t n);

/* The divider of hz that gives a rate; 0 where that is out of range, or off by more than 2 %. */
uint32_t mct_baud_divider(uint32_t hz, uint32_t baud);

/* Starts the core's cycle counter; false where the core (or the emulator) has none. */
bool mct_cycles_start(void);
uint32_t mct_cycles(void);

/*
 * Receive ring, called by the family's interrupt handler only. With no room the handler must call
 * mct_rx_stall() and return: it turns the interrupt off, mct_hal_rx() turns it on again.
 */
bool mct_rx_has_room(void);
void mct_rx_push(uint8_t byte);
void mct_rx_stall(uint32_t irq);
void mct_rx_overrun(void);

#endif
