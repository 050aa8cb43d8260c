#include "mct_store.h"

#include <string.h>

#include "mct_bytes.h"
#include "mct_crc32.h"

#define MAGIC 0x5354434Du /* MCTS */
#define CHUNK 64u

enum {
    MAGIC_AT = 0,
    SEQUENCE_AT = 4,
    IMAGE_CRC_AT = 8,
    STATE_BYTES_AT = 12,
    STATE_CRC_AT = 16,
    ERASURES_AT = 20,
    HEADER_CRC_AT = 28,
    HEADER_BYTES = 32,
};

/* The header is whole program units, so that nothing else is lost or made with its last one. */
typedef char units_must_divide_the_header[HEADER_BYTES % MCT_BLOCK_UNIT_MAX == 0 ? 1 : -1];

static uint32_t slot_bytes(const mct_block_slot *slot)
{
    return slot->sector_bytes * slot->sectors;
}

uint32_t mct_store_capacity(const mct_store *store)
{
    if (store->device == NULL) {
        return 0;
    }
    uint32_t a = slot_bytes(&store->device->slots[0]);
    uint32_t b = slot_bytes(&store->device->slots[1]);
    return (a < b ? a : b) - HEADER_BYTES;
}

/* The CRC-32 of a state where it lies; -1 where it cannot be read. */
static int crc_of_state(const mct_block_device *device, uint32_t slot, uint32_t bytes,
                        uint32_t *crc)
{
    uint8_t chunk[CHUNK];

    *crc = 0;
    for (uint32_t at = 0; at < bytes; at += CHUNK) {
        uint32_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        if (device->read(device, slot, HEADER_BYTES + at, chunk, n) != 0) {
            return -1;
        }
        *crc = mct_crc32(*crc, chunk, n);
    }
    return 0;
}

/* 1 if the slot holds a whole record; its header is then in `header`. */
static int read_record(const mct_store *store, uint32_t slot, uint8_t *header)
{
    const mct_block_device *device = store->device;
    uint32_t crc;

    if (device->read(device, slot, 0, header, HEADER_BYTES) != 0 ||
        mct_get_u32(header + MAGIC_AT) != MAGIC ||
        mct_get_u32(header + HEADER_CRC_AT) != mct_crc32(0, header, HEADER_CRC_AT)) {
        return 0;
    }
    uint32_t bytes = mct_get_u32(header + STATE_BYTES_AT);
    return bytes <= mct_store_capacity(store) && crc_of_state(device, slot, bytes, &crc) == 0 &&
           crc == mct_get_u32(header + STATE_CRC_AT);
}

/* Whether record a came after record b, both valid; numbers may wrap. */
static int after(const mct_store_record *a, const mct_store_record *b)
{
    return a->sequence - b->sequence < 0x80000000u;
}

/* The slot of the newest record of an image, or (any) of the newest one. MCT_BLOCK_SLOTS: none. */
static uint32_t newest(const mct_store *store, uint32_t image_crc, int any)
{
    uint32_t found = MCT_BLOCK_SLOTS;

    for (uint32_t slot = 0; slot < MCT_BLOCK_SLOTS; slot++) {
        const mct_store_record *record = &store->records[slot];
        if (!record->valid || (!any && record->image_crc != image_crc)) {
            continue;
        }
        if (found == MCT_BLOCK_SLOTS || after(record, &store->records[found])) {
            found = slot;
        }
    }
    return found;
}

void mct_store_open(mct_store *store, const mct_block_device *device)
{
    uint8_t header[MCT_BLOCK_SLOTS][HEADER_BYTES] = {{0}};

    memset(store, 0, sizeof *store);
    store->device = device;
    if (device == NULL) {
        return;
    }
    for (uint32_t slot = 0; slot < MCT_BLOCK_SLOTS; slot++) {
        mct_store_record *record = &store->records[slot];
        record->valid = (uint32_t)read_record(store, slot, header[slot]);
        record->sequence = mct_get_u32(header[slot] + SEQUENCE_AT);
        record->image_crc = mct_get_u32(header[slot] + IMAGE_CRC_AT);
        record->state_bytes = mct_get_u32(header[slot] + STATE_BYTES_AT);
        record->state_crc = mct_get_u32(header[slot] + STATE_CRC_AT);
    }
    uint32_t slot = newest(store, 0, 1);
    if (slot < MCT_BLOCK_SLOTS) {
        store->erasures[0] = mct_get_u32(header[slot] + ERASURES_AT);
        store->erasures[1] = mct_get_u32(header[slot] + ERASURES_AT + 4);
    }
}

uint32_t mct_store_find(const mct_store *store, uint32_t image_crc)
{
    uint32_t slot = newest(store, image_crc, 0);

    return slot < MCT_BLOCK_SLOTS ? store->records[slot].state_bytes : 0;
}

mct_store_status mct_store_load(const mct_store *store, uint32_t image_crc, uint8_t *state,
                                uint32_t bytes)
{
    const mct_block_device *device = store->device;
    uint32_t slot = newest(store, image_crc, 0);

    if (slot == MCT_BLOCK_SLOTS || store->records[slot].state_bytes != bytes) {
        return MCT_STORE_ABSENT;
    }
    if (device->read(device, slot, HEADER_BYTES, state, bytes) != 0 ||
        mct_crc32(0, state, bytes) != store->records[slot].state_crc) {
        return MCT_STORE_FLASH;
    }
    return MCT_STORE_OK;
}

static int erase(const mct_block_device *device, uint32_t slot, uint32_t bytes)
{
    uint32_t sector_bytes = device->slots[slot].sector_bytes;

    for (uint32_t sector = 0; sector * sector_bytes < bytes; sector++) {
        if (device->erase(device, slot, sector) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Programs n bytes at a multiple of the unit; what is left of the last unit becomes 0xFF. */
static int program(const mct_block_device *device, uint32_t slot, uint32_t offset,
                   const uint8_t *src, uint32_t n)
{
    uint8_t unit[MCT_BLOCK_UNIT_MAX];

    for (uint32_t at = 0; at < n; at += device->unit) {
        uint32_t part = n - at < device->unit ? n - at : device->unit;
        memset(unit, 0xFF, sizeof unit);
        memcpy(unit, src + at, part);
        if (device->program(device, slot, offset + at, unit) != 0) {
            return -1;
        }
    }
    return 0;
}

/* The state is read back before the header makes it a record, the header before it counts. */
static int write_record(mct_store *store, uint32_t slot, const uint8_t *header,
                        const uint8_t *state, uint32_t bytes)
{
    const mct_block_device *device = store->device;
    uint8_t back[HEADER_BYTES];
    uint32_t crc;

    return erase(device, slot, HEADER_BYTES + bytes) == 0 &&
           program(device, slot, HEADER_BYTES, state, bytes) == 0 &&
           crc_of_state(device, slot, bytes, &crc) == 0 &&
           crc == mct_get_u32(header + STATE_CRC_AT) &&
           program(device, slot, 0, header, HEADER_BYTES) == 0 && read_record(store, slot, back) &&
           memcmp(back, header, HEADER_BYTES) == 0;
}

mct_store_status mct_store_save(mct_store *store, uint32_t image_crc, const uint8_t *state,
                                uint32_t bytes)
{
    uint8_t header[HEADER_BYTES];

    if (store->device == NULL) {
        return MCT_STORE_ABSENT;
    }
    if (bytes > mct_store_capacity(store)) {
        return MCT_STORE_ROOM;
    }
    uint32_t last = newest(store, 0, 1);
    uint32_t slot = last == 0 ? 1 : 0;
    uint32_t sequence = last < MCT_BLOCK_SLOTS ? store->records[last].sequence + 1u : 0;
    mct_store_record record = {1, sequence, image_crc, bytes, mct_crc32(0, state, bytes)};

    store->erasures[slot]++;
    store->records[slot].valid = 0;
    mct_put_u32(header + MAGIC_AT, MAGIC);
    mct_put_u32(header + SEQUENCE_AT, sequence);
    mct_put_u32(header + IMAGE_CRC_AT, image_crc);
    mct_put_u32(header + STATE_BYTES_AT, bytes);
    mct_put_u32(header + STATE_CRC_AT, record.state_crc);
    mct_put_u32(header + ERASURES_AT, store->erasures[0]);
    mct_put_u32(header + ERASURES_AT + 4, store->erasures[1]);
    mct_put_u32(header + HEADER_CRC_AT, mct_crc32(0, header, HEADER_CRC_AT));
    if (!write_record(store, slot, header, state, bytes)) {
        return MCT_STORE_FLASH;
    }
    store->records[slot] = record;
    return MCT_STORE_OK;
}
