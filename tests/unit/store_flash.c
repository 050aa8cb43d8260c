/*
 * Flash whose power fails at a chosen step, for test_store.py. A step is one unit programmed or one
 * sector erased; the one that power cuts is left half done, in one of several ways.
 */
#include <setjmp.h>
#include <string.h>

#include "mct_store.h"

#ifndef SLOT_MAX
#define SLOT_MAX 8192u
#endif

enum { TEAR_NONE, TEAR_ALL, TEAR_FIRST_HALF, TEAR_LAST_HALF, TEAR_BITS, TEAR_UNREADABLE, TEARS };

typedef struct {
    uint8_t bytes[MCT_BLOCK_SLOTS][SLOT_MAX];
    uint8_t programmed[MCT_BLOCK_SLOTS][SLOT_MAX]; /* since the erasure, by unit */
    uint8_t unreadable[MCT_BLOCK_SLOTS][SLOT_MAX]; /* error-correcting flash, by unit */
    uint32_t erasures[MCT_BLOCK_SLOTS];            /* of the first sector */
    uint32_t steps;
    uint32_t cut_at; /* step that power cuts, from 1; 0: none */
    uint32_t tear;
    uint32_t random;
    uint32_t misuse; /* programmed twice, out of range, not aligned */
    uint32_t fail_at;
    jmp_buf off;
} flash;

static uint32_t next_random(flash *f)
{
    f->random = f->random * 1664525u + 1013904223u;
    return f->random >> 8;
}

static int torn(flash *f, uint32_t i, uint32_t n)
{
    switch (f->tear) {
    case TEAR_NONE:
        return 0;
    case TEAR_ALL:
    case TEAR_UNREADABLE:
        return 0xFF;
    case TEAR_FIRST_HALF:
        return i < n / 2 ? 0xFF : 0;
    case TEAR_LAST_HALF:
        return i < n / 2 ? 0 : 0xFF;
    default:
        return (int)(next_random(f) & 0xFF);
    }
}

static int flash_read(const mct_block_device *device, uint32_t slot, uint32_t offset, uint8_t *dst,
                      uint32_t n)
{
    flash *f = device->context;
    memcpy(dst, f->bytes[slot] + offset, n);
    for (uint32_t i = 0; i < n; i++) {
        if (f->unreadable[slot][(offset + i) / device->unit]) {
            return -1;
        }
    }
    return 0;
}

static int flash_program(const mct_block_device *device, uint32_t slot, uint32_t offset,
                         const uint8_t *src)
{
    flash *f = device->context;
    const mct_block_slot *s = &device->slots[slot];
    uint32_t unit = offset / device->unit;
    int cut = ++f->steps == f->cut_at;

    f->misuse += offset % device->unit != 0 || offset >= s->sector_bytes * s->sectors;
    f->misuse += f->programmed[slot][unit];
    f->programmed[slot][unit] = 1;
    if (f->steps == f->fail_at) {
        return -1;
    }
    for (uint32_t i = 0; i < device->unit; i++) {
        uint8_t bits = (uint8_t)(cut ? torn(f, i, device->unit) : 0xFF);
        f->bytes[slot][offset + i] &= (uint8_t)(src[i] | (uint8_t)~bits);
    }
    if (cut) {
        f->unreadable[slot][unit] = f->tear == TEAR_UNREADABLE;
        longjmp(f->off, 1);
    }
    return 0;
}

static int flash_erase(const mct_block_device *device, uint32_t slot, uint32_t sector)
{
    flash *f = device->context;
    uint32_t n = device->slots[slot].sector_bytes;
    uint32_t unit = sector * n / device->unit, units = n / device->unit;
    int cut = ++f->steps == f->cut_at;

    f->misuse += sector >= device->slots[slot].sectors;
    if (f->steps == f->fail_at) {
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        f->bytes[slot][sector * n + i] |= (uint8_t)(cut ? torn(f, i, n) : 0xFF);
    }
    memset(f->programmed[slot] + unit, cut, units);
    memset(f->unreadable[slot] + unit, cut && f->tear == TEAR_UNREADABLE, units);
    f->erasures[slot] += sector == 0;
    if (cut) {
        longjmp(f->off, 1);
    }
    return 0;
}

static mct_block_device device_of(flash *f, uint32_t unit, const uint32_t *sector_bytes,
                                  const uint32_t *sectors)
{
    mct_block_device device = {
        .context = f,
        .slots = {{sector_bytes[0], sectors[0]}, {sector_bytes[1], sectors[1]}},
        .unit = unit,
        .read = flash_read,
        .program = flash_program,
        .erase = flash_erase,
    };
    return device;
}

flash *flash_new(flash *f);
int save(flash *f, mct_block_device *device, mct_store *store, uint32_t image, const uint8_t *state,
         uint32_t n);
uint32_t flash_bytes(void);
void make_device(flash *f, mct_block_device *device, uint32_t unit, const uint32_t *sector_bytes,
                 const uint32_t *sectors);
void state_of(uint32_t number, uint8_t *state, uint32_t n);
int cut_everywhere(flash *f, const mct_block_device *device, uint32_t number, uint32_t n,
                   uint32_t *counts);

uint32_t flash_bytes(void)
{
    return sizeof(flash);
}

void make_device(flash *f, mct_block_device *device, uint32_t unit, const uint32_t *sector_bytes,
                 const uint32_t *sectors)
{
    *device = device_of(f, unit, sector_bytes, sectors);
}

flash *flash_new(flash *f)
{
    memset(f, 0, sizeof *f);
    memset(f->bytes, 0xFF, sizeof f->bytes);
    return f;
}

/* The state of a save by its number; all bytes depend on it. */
void state_of(uint32_t number, uint8_t *state, uint32_t n)
{
    uint32_t x = number * 2654435761u + 1u;
    for (uint32_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        state[i] = (uint8_t)(x >> 24);
    }
}

/* A status, or 1 where power failed. */
int save(flash *f, mct_block_device *device, mct_store *store, uint32_t image, const uint8_t *state,
         uint32_t n)
{
    device->context = f;
    store->device = device;
    if (setjmp(f->off) != 0) {
        return 1;
    }
    return mct_store_save(store, image, state, n);
}

/* What a device that starts now loads: a save's number + 1, 0: nothing, -1: something wrong. */
static int loaded(mct_block_device *device, uint32_t newest, uint32_t n)
{
    uint8_t got[SLOT_MAX], want[SLOT_MAX];
    mct_store store;

    mct_store_open(&store, device);
    if (mct_store_find(&store, 7) == 0) {
        return 0;
    }
    if (mct_store_load(&store, 7, got, n) != MCT_STORE_OK) {
        return -1;
    }
    for (uint32_t back = 0; back < 3 && back <= newest; back++) {
        state_of(newest - back, want, n);
        if (memcmp(got, want, n) == 0) {
            return (int)(newest - back) + 1;
        }
    }
    return -1;
}

/* With power back, the next save and the next start must be as if nothing had been. */
static int recovers(flash *f, mct_block_device *device, uint32_t number, uint32_t n)
{
    uint8_t state[SLOT_MAX];
    mct_store store;

    f->cut_at = 0;
    mct_store_open(&store, device);
    state_of(number + 1, state, n);
    return save(f, device, &store, 7, state, n) == MCT_STORE_OK &&
           loaded(device, number + 1, n) == (int)number + 2 && f->misuse == 0;
}

/*
 * Save `number` on a copy of the flash, once for each step that power can cut and each way to tear
 * it. counts: [cuts, states lost, wrong states loaded, saves afterwards that failed, new states].
 * Returns the number of steps.
 */
int cut_everywhere(flash *f, const mct_block_device *device, uint32_t number, uint32_t n,
                   uint32_t *counts)
{
    static flash copy;
    uint8_t state[SLOT_MAX];
    mct_block_device on_copy = *device;
    mct_store store;
    uint32_t step = 1;

    on_copy.context = &copy;
    state_of(number, state, n);
    for (;; step++) {
        for (uint32_t tear = 0; tear < TEARS; tear++) {
            copy = *f;
            copy.steps = 0;
            copy.cut_at = step;
            copy.tear = tear;
            copy.random = number * 7919u + step;
            mct_store_open(&store, &on_copy);
            if (save(&copy, &on_copy, &store, 7, state, n) != 1) {
                return (int)step - 1;
            }
            int got = loaded(&on_copy, number, n);
            int before = (int)number; /* the number of the save before, + 1 */
            counts[0]++;
            counts[1] += got == 0 && before != 0;
            counts[2] += got < 0 || (got != before && got != before + 1);
            counts[3] += !recovers(&copy, &on_copy, number, n);
            counts[4] += got == before + 1;
        }
    }
}
