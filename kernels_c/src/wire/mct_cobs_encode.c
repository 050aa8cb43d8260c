#include "mct_cobs.h"

#define BLOCK 254u

void mct_cobs_encode(const uint8_t *src, uint32_t n, mct_cobs_sink sink, void *context)
{
    uint32_t at = 0;

    for (;;) {
        uint32_t run = 0;

        while (run < BLOCK && at + run < n && src[at + run] != 0) {
            run++;
        }
        uint8_t code = (uint8_t)(run + 1);
        sink(context, &code, 1);
        if (run > 0) {
            sink(context, src + at, run);
        }
        at += run;
        if (at == n) {
            return;
        }
        /* A full block stands for its bytes alone, a shorter one for a zero as well. */
        if (run < BLOCK) {
            at++;
        }
    }
}
