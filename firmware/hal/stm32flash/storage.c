/* The store and the image partition in the chip's own flash. */
#include <string.h>

#include "family.h"
#include "stm32.h"

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
static int write_unit(uint32_t address, const uint8_t *unit)
{
    uint8_t found[MCT_FLASH_UNIT];

    if (mct_flash_sector(address) != 0 && mct_flash_erase(address) != 0) {
        return -1;
    }
    if (mct_flash_program(address, unit) != 0 ||
        mct_flash_read(address, found, sizeof found) != 0) {
        return -1;
    }
    return memcmp(found, unit, sizeof found) == 0 ? 0 : -1;
}

static bool in_partition(uint32_t offset, uint32_t n)
{
    const uint32_t size = mct_ld_layout.image_end - mct_ld_layout.image_start;

    return MCT_FLASH_WRITABLE && offset <= size && n <= size - offset;
}

int mct_hal_flash_write(uint32_t offset, const uint8_t *src, uint32_t n, bool last)
{
    static uint8_t unit[MCT_FLASH_UNIT];
    static uint32_t held; /* bytes of the unit that is not programmed yet */

    held = offset == 0 ? 0 : held;
    if (!in_partition(offset, n) || offset % MCT_FLASH_UNIT != held) {
        return -1;
    }
    uint32_t address = mct_ld_layout.image_start + offset - held;
    for (uint32_t i = 0; i < n; i++) {
        unit[held++] = src[i];
        if (held < MCT_FLASH_UNIT && !(last && i + 1 == n)) {
            continue;
        }
        memset(unit + held, 0xFF, sizeof unit - held);
        held = 0;
        if (write_unit(address, unit) != 0) {
            return -1;
        }
        address += MCT_FLASH_UNIT;
    }
    return 0;
}
