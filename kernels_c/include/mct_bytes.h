/* Little-endian numbers at any address. */
#ifndef MCT_BYTES_H
#define MCT_BYTES_H

#include <stdint.h>

static inline uint16_t mct_get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | (at[1] << 8));
}

static inline uint32_t mct_get_u32(const uint8_t *at)
{
    return mct_get_u16(at) | ((uint32_t)mct_get_u16(at + 2) << 16);
}

static inline void mct_put_u16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)value;
    at[1] = (uint8_t)(value >> 8);
}

static inline void mct_put_u32(uint8_t *at, uint32_t value)
{
    mct_put_u16(at, value);
    mct_put_u16(at + 2, value >> 16);
}

#endif
