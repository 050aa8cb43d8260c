/* Receive ring: one producer (the UART's interrupt), one consumer (mct_hal_rx). */
#include "cortexm.h"

#ifndef MCT_RX_RING_BYTES
#define MCT_RX_RING_BYTES 2048u
#endif
#define RING_MASK   (MCT_RX_RING_BYTES - 1u)
#define NOT_STALLED 0xFFFFFFFFu

/* A power of two, so that the free-running indices wrap onto the same slot. */
typedef char ring_bytes_must_be_a_power_of_two[(MCT_RX_RING_BYTES & RING_MASK) == 0 ? 1 : -1];

static uint8_t ring[MCT_RX_RING_BYTES];
static volatile uint32_t head; /* bytes pushed, written by the interrupt only */
static volatile uint32_t tail; /* bytes taken, written by mct_hal_rx only */
static volatile uint32_t stalled_irq = NOT_STALLED;
static volatile mct_hal_rx_stats stats;

bool mct_rx_has_room(void)
{
    return head - tail < MCT_RX_RING_BYTES;
}

void mct_rx_push(uint8_t byte)
{
    const uint32_t at = head;

    ring[at & RING_MASK] = byte;
    head = at + 1u;
}

void mct_rx_stall(uint32_t irq)
{
    mct_nvic_disable(irq);
    stalled_irq = irq;
    stats.stalls++;
}

void mct_rx_overrun(void)
{
    stats.overruns++;
}

size_t mct_hal_rx(uint8_t *dst, size_t max)
{
    const uint32_t start = tail;
    const uint32_t waiting = head - start;
    const uint32_t n = max < waiting ? (uint32_t)max : waiting;

    for (uint32_t i = 0; i < n; i++) {
        dst[i] = ring[(start + i) & RING_MASK];
    }
    __asm volatile("" ::: "memory"); /* the bytes are read before their slots are given back */
    tail = start + n;
    if (n != 0 && stalled_irq != NOT_STALLED) {
        const uint32_t irq = stalled_irq;

        stalled_irq = NOT_STALLED;
        mct_nvic_enable(irq);
        mct_nvic_pend(irq); /* the UART may hold a byte whose interrupt is acknowledged already */
    }
    return n;
}

void mct_hal_wait(void)
{
    /* Masked, so that no byte can slip in between the look and the sleep: WFI wakes all the same,
     * and the interrupt is taken when the mask is lifted. */
    const uint32_t mask = mct_hal_irq_save();

    if (head == tail) {
        __asm volatile("dsb\n\twfi" ::: "memory");
    }
    mct_hal_irq_restore(mask);
}

mct_hal_rx_stats mct_hal_rx_statistics(void)
{
    const mct_hal_rx_stats copy = {stats.overruns, stats.stalls};

    return copy;
}
