/* In the place of firmware/hal/stm32/mct_reg.h: registers are a model's, in Python. */
#ifndef MCT_REG_H
#define MCT_REG_H

#include <stdint.h>
#include <string.h>

extern uint32_t (*model_read)(uint32_t address);
extern void (*model_write)(uint32_t address, uint32_t value, uint32_t bytes);
extern void (*model_barrier)(void);
extern int (*model_faults)(uint32_t address, uint32_t n);
extern uint8_t model_flash[2u << 20];

static inline uint32_t mct_reg_read(uint32_t address)
{
    return model_read(address);
}

static inline void mct_reg_write(uint32_t address, uint32_t value)
{
    model_write(address, value, 4);
}

static inline void mct_reg_write16(uint32_t address, uint16_t value)
{
    model_write(address, value, 2);
}

static inline void mct_reg_barrier(void)
{
    model_barrier();
}

static inline void mct_reg_copy(uint8_t *dst, uint32_t address, uint32_t n)
{
    if (!model_faults(address, n)) {
        memcpy(dst, model_flash + (address - 0x08000000u), n);
    }
}

static inline const uint8_t *mct_reg_memory(uint32_t address)
{
    return model_flash + (address - 0x08000000u);
}

#endif
