/*
 * Flash as the store sees it: two slots of whole sectors, which are erased one by one to 0xFF and
 * programmed in units. Drivers are in firmware/hal; tests have one that loses power at any step.
 */
#ifndef MCT_BLOCK_H
#define MCT_BLOCK_H

#include <stdint.h>

#define MCT_BLOCK_SLOTS    2u
#define MCT_BLOCK_UNIT_MAX 32u /* bytes; the largest program unit of the supported chips (H7) */

typedef struct {
    uint32_t sector_bytes;
    uint32_t sectors;
} mct_block_slot;

/*
 * The functions return 0, or -1 where the flash reports an error. Offsets are bytes from the start
 * of a slot; all ranges lie inside it.
 */
typedef struct mct_block_device mct_block_device;
struct mct_block_device {
    void *context;
    mct_block_slot slots[MCT_BLOCK_SLOTS];
    uint32_t unit; /* bytes programmed at once: a power of two up to MCT_BLOCK_UNIT_MAX */

    int (*read)(const mct_block_device *device, uint32_t slot, uint32_t offset, uint8_t *dst,
                uint32_t n);

    /* One unit that is erased and has not been programmed since. offset: a multiple of the unit. */
    int (*program)(const mct_block_device *device, uint32_t slot, uint32_t offset,
                   const uint8_t *src);

    int (*erase)(const mct_block_device *device, uint32_t slot, uint32_t sector);
};

#endif
