/* The store with power cut at every step of its saves, as tests/unit/test_store.py has it. */
#define _POSIX_C_SOURCE 200809L
#define SLOT_MAX        256u
#include "../../unit/store_flash.c"
#include "report.h"

#define SAVES       6u
#define STATE_BYTES 61u

static flash memory;

int main(void)
{
    static const uint32_t sector_bytes[2] = {128, 64}, sectors[2] = {1, 2};
    mct_block_device device;
    mct_store store;
    uint32_t counts[5] = {0};
    uint8_t state[STATE_BYTES];
    int saved = 1;

    report_start();
    (void)flash_new(&memory);
    make_device(&memory, &device, 8, sector_bytes, sectors);
    mct_store_open(&store, &device);
    for (uint32_t number = 0; number < SAVES; number++) {
        (void)cut_everywhere(&memory, &device, number, STATE_BYTES, counts);
        state_of(number, state, STATE_BYTES);
        saved &= save(&memory, &device, &store, 7, state, STATE_BYTES) == MCT_STORE_OK;
    }
    report("saves without a cut", saved);
    report("power was cut everywhere", counts[0] > SAVES * 6u * 13u);
    report("no state lost", counts[1] == 0);
    report("no wrong state loaded", counts[2] == 0);
    report("the next save works", counts[3] == 0);
    return report_end();
}
