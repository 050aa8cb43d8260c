/* What the drivers call beside registers, and the layout that the linker would write. */
#include <string.h>

#include "mct_store.h"
#include "stm32.h"

uint32_t (*model_read)(uint32_t address);
void (*model_write)(uint32_t address, uint32_t value, uint32_t bytes);
void (*model_barrier)(void);
void (*model_event)(const char *what);
int (*model_faults)(uint32_t address, uint32_t n); /* whether reading that memory faults */
uint8_t model_flash[2u << 20];

const mct_layout mct_ld_layout = {
    .image_start = MODEL_IMAGE,
    .image_end = MODEL_IMAGE_END,
    .store = {MODEL_SLOT_0, MODEL_SLOT_1},
};

uint32_t mct_hal_irq_save(void)
{
    model_event("mask");
    return 0;
}

void mct_hal_irq_restore(uint32_t mask)
{
    (void)mask;
    model_event("unmask");
}

void mct_cache_start(void)
{
    model_event("cache on");
}

void mct_cache_flush(void)
{
    model_event("cache flushed");
}

void mct_copy_ignoring_faults(uint8_t *dst, const uint8_t *src, uint32_t n)
{
    if (!model_faults(0x08000000u + (uint32_t)(src - model_flash), n)) {
        memcpy(dst, src, n);
    }
}
