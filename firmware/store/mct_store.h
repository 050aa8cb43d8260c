/*
 * Trained states that survive a loss of power at any moment.
 *
 * Each of the two slots holds one record: a header of 32 bytes, then the state. A save erases the
 * slot that does not hold the newest record, programs the state, and the header last: the record
 * exists once its header's CRC is right, and until then the other slot still has the record before.
 * Saves alternate, so that both slots wear alike.
 *
 * Header, little-endian words: magic, sequence number, CRC-32 in the image's header, bytes of the
 * state, CRC-32 of the state, erasures of slot 0 and of slot 1, CRC-32 of the words before.
 */
#ifndef MCT_STORE_H
#define MCT_STORE_H

#include "mct_block.h"

typedef enum {
    MCT_STORE_OK = 0,
    MCT_STORE_ABSENT = -1, /* no record of that image, or no store */
    MCT_STORE_ROOM = -2,   /* the state is larger than a slot */
    MCT_STORE_FLASH = -3,  /* the flash reports an error, or reads back something else */
} mct_store_status;

/* A whole record, as found by its header. */
typedef struct {
    uint32_t valid;
    uint32_t sequence;
    uint32_t image_crc;
    uint32_t state_bytes;
    uint32_t state_crc;
} mct_store_record;

typedef struct {
    const mct_block_device *device; /* NULL: the board has no store */
    mct_store_record records[MCT_BLOCK_SLOTS];
    /* Erasures so far by the newest record; one that a loss of power cuts short is not counted. */
    uint32_t erasures[MCT_BLOCK_SLOTS];
} mct_store;

/* Looks for records, reading all of them. device: may be NULL. */
void mct_store_open(mct_store *store, const mct_block_device *device);

/* Bytes of the largest state that can be saved. */
uint32_t mct_store_capacity(const mct_store *store);

/* Bytes of the newest state of that image, 0: none. */
uint32_t mct_store_find(const mct_store *store, uint32_t image_crc);

/*
 * Copies the newest state of that image, which must have that many bytes. MCT_STORE_FLASH: it is
 * not there any more as it was found, and what is in `state` is to be thrown away.
 */
mct_store_status mct_store_load(const mct_store *store, uint32_t image_crc, uint8_t *state,
                                uint32_t bytes);

/* Saves a state; whatever fails, or wherever power does, the newest record before it remains. */
mct_store_status mct_store_save(mct_store *store, uint32_t image_crc, const uint8_t *state,
                                uint32_t bytes);

#endif
