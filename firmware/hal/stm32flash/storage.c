/* The store and the image partition in the chip's own flash. */
#include <string.h>

#include "family.h"
#include "stm32.h"

/* The app's DATA frames start at multiples of this. */
#define FRAME_ALIGN 8u

static uint32_t address_of(uint32_t slot, uint32_t offset)
{
    return mct_ld_layout.store[slot].base + offset;
}

static int store_read(const mct_block_device *device, uint32_t slot, uint32_t offset, uint8_t *dst,
                      uint32_t n)
{
    (void)device;
    return mct_flash_read(address_of(slot, offset), dst, n);
}

static int store_program(const mct_block_device *device, uint32_t slot, uint32_t offset,
                         const uint8_t *src)
{
    (void)device;
    return mct_flash_program(address_of(slot, offset), src);
}

static int store_erase(const mct_block_device *device, uint32_t slot, uint32_t sector)
{
    return mct_flash_erase(address_of(slot, sector * device->slots[slot].sector_bytes));
}

const mct_block_device *mct_hal_store(void)
{
    static mct_block_device device = {
        .unit = MCT_FLASH_UNIT,
        .read = store_read,
        .program = store_program,
        .erase = store_erase,
    };

    if (mct_ld_layout.store[0].sectors == 0) {
        return NULL;
    }
    for (uint32_t slot = 0; slot < MCT_BLOCK_SLOTS; slot++) {
        device.slots[slot].sector_bytes = mct_ld_layout.store[slot].sector_bytes;
        device.slots[slot].sectors = mct_ld_layout.store[slot].sectors;
    }
    return &device;
}

/* Erases a sector when its first byte comes, as an image is sent from its first byte on. */
static int write_unit(uint32_t address, const uint8_t *src, uint32_t n)
{
    uint8_t unit[MCT_FLASH_UNIT];

    if (mct_flash_sector(address) != 0 && mct_flash_erase(address) != 0) {
        return -1;
    }
    memset(unit, 0xFF, sizeof unit);
    memcpy(unit, src, n);
    return mct_flash_program(address, unit);
}

int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n)
{
    const uint32_t size = mct_ld_layout.image_end - mct_ld_layout.image_start;
    const uint32_t address = mct_ld_layout.image_start + offset;

    if (offset > size || n > size - offset || offset % MCT_FLASH_UNIT != 0 ||
        MCT_FLASH_UNIT > FRAME_ALIGN || !MCT_FLASH_WRITABLE) {
        return -1;
    }
    for (uint32_t at = 0; at < n; at += MCT_FLASH_UNIT) {
        const uint32_t part = n - at < MCT_FLASH_UNIT ? n - at : MCT_FLASH_UNIT;

        if (write_unit(address + at, src + at, part) != 0) {
            return -1;
        }
    }
    return memcmp(mct_reg_memory(address), src, n) == 0 ? 0 : -1;
}
