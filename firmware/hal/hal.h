/*
 * The hardware under the portable firmware app. This header is all that the app may use.
 *
 * Entry: the start-up code prepares memory (.data, .bss, stack paint, guard paint, FPU) with
 * interrupts enabled but every source still off, and calls `int main(void)`, which the app
 * defines. main calls mct_hal_init() first. If main returns, the chip is reset.
 *
 * One thread, no heap. The receive interrupt only moves bytes into a ring of MCT_RX_RING_BYTES.
 */
#ifndef MCT_HAL_H
#define MCT_HAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mct_block.h"

typedef enum {
    MCT_HAL_COUNTER_EMULATED = 0, /* a timer of the emulator, which counts instructions */
    MCT_HAL_COUNTER_CYCLES = 1,   /* CPU cycles (DWT CYCCNT of a real core) */
    MCT_HAL_COUNTER_TICKS = 2,    /* timer ticks of a real chip without a cycle counter */
} mct_hal_counter_kind;

/*
 * events = ticks * num / den, where an event is an instruction (EMULATED) or a cycle (CYCLES).
 * For EMULATED the scale holds at the emulator's clock setting that the board table names.
 */
typedef struct {
    mct_hal_counter_kind kind;
    uint32_t num;
    uint32_t den;
} mct_hal_counter_info;

typedef struct {
    uint32_t overruns; /* times the UART had no room: at least one byte was lost each time */
    uint32_t stalls;   /* times the ring was full: nothing lost yet, but the sender must pause */
} mct_hal_rx_stats;

/* Why the chip was reset by a fault; pc 0 if it was not. The CFSR bits say which kind. */
typedef struct {
    uint32_t pc;
    uint32_t lr;
    uint32_t cfsr;
    uint32_t address; /* what was accessed, 0 if the core did not say */
} mct_hal_fault;

/* Sets up UART, counter and interrupts. Call once, first; bytes sent to the board before are lost.
 */
void mct_hal_init(void);

/* A constant text such as "netduinoplus2". */
const char *mct_hal_board(void);

/* Takes at most max received bytes from the ring without waiting; returns how many. */
size_t mct_hal_rx(uint8_t *dst, size_t max);

/* Sends n bytes; returns when the UART has taken the last one. Receiving goes on meanwhile. */
void mct_hal_tx(const uint8_t *src, size_t n);

/*
 * What makes a rate of the UART; 0 where it cannot make that rate within 2 %. baud 0: the rate that
 * it starts with, which can always be made.
 */
uint32_t mct_hal_baud_divider(uint32_t baud);

/* Waits until the last bit is on the line, then changes the rate. */
void mct_hal_baud_set(uint32_t divider);

/*
 * Sleeps until an interrupt, unless bytes wait in the ring already. May return without data: call
 * it in a loop around mct_hal_rx(). A byte that arrives just before the sleep still ends it.
 */
void mct_hal_wait(void);

mct_hal_rx_stats mct_hal_rx_statistics(void);

/* Free-running 32-bit counter; a difference of two reads (modulo 2^32) is an elapsed count. */
uint32_t mct_hal_counter(void);

mct_hal_counter_info mct_hal_counter_scale(void);

/* Masks interrupts and returns the earlier mask, which restore puts back; pairs may nest. */
uint32_t mct_hal_irq_save(void);
void mct_hal_irq_restore(uint32_t mask);

/* System reset; does not return. Memory outside .data and .bss keeps its bytes. */
void mct_hal_reset(void);

/* The fault that caused the last reset, if one did. Stays readable until the next reset. */
mct_hal_fault mct_hal_last_fault(void);

/* Reserved bytes of stack, and the high-water mark since boot (interrupts included). */
uint32_t mct_hal_stack_size(void);
uint32_t mct_hal_stack_used(void);

/* The memory pool of the caller: all SRAM that nothing else uses. 16-byte aligned, not cleared. */
void mct_hal_pool(uint8_t **base, uint32_t *size);

/* Where an image lies that was put there before boot (flasher, emulator). 16-byte aligned. */
void mct_hal_flash_partition(const uint8_t **base, uint32_t *size);

/*
 * Writes the next n bytes of an image into its partition and reads back what is programmed of them.
 * Offsets follow each other from 0 on; `last`: these end the image. Flash that is programmed in
 * units keeps the bytes of an incomplete one until the rest comes. Returns 0, or -1 where the range
 * lies outside, bytes before are missing, or this board cannot write the partition.
 */
int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n, bool last);

/*
 * The flash that keeps trained states, NULL where the board has none. An erasure may take seconds,
 * in which a chip that runs from the same bank receives nothing.
 */
const mct_block_device *mct_hal_store(void);

/*
 * Memory that the emulator has but the chip has not is painted at boot. Returns how many bytes of
 * it have changed since (0 is right), and in *size how many are watched (0: none exist).
 */
uint32_t mct_hal_guard_untouched(uint32_t *size);

#endif
