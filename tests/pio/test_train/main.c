/* An image trains ten steps; losses and state are those of the numpy reference. */
#define _POSIX_C_SOURCE 200809L
#include "expected.h"
#include "mct_crc32.h"
#include "mct_engine.h"
#include "report.h"

#define BLOCK_WORDS 8192u

__asm(".section .rodata\n"
      ".balign 4\n"
      ".global train_image\n"
      "train_image: .incbin \"tests/pio/test_train/image.bin\"\n"
      ".global train_image_end\n"
      "train_image_end:\n"
      ".text\n");
extern const uint8_t train_image[], train_image_end[];

static uint32_t block[BLOCK_WORDS];
static mct_engine engine;

static mct_status write_sample(uint32_t step)
{
    uint32_t x = EXPECTED_SEED + step;

    for (uint32_t i = 0; i < mct_engine_sample_bytes(&engine); i++) {
        x = x * 1664525u + 1013904223u;
        const uint8_t byte = (uint8_t)(x >> 24);
        const mct_status status = mct_engine_write(&engine, &byte, 1);
        if (status != MCT_OK) {
            return status;
        }
    }
    return MCT_OK;
}

static int steps_as_expected(void)
{
    int same = 1;

    for (uint32_t step = 0; step < EXPECTED_STEPS; step++) {
        mct_step_result result = {0};
        same &= write_sample(step) == MCT_OK;
        same &= mct_engine_train(&engine, step % EXPECTED_CLASSES, EXPECTED_LR, EXPECTED_LR_HEAD,
                                 &result) == MCT_OK;
        same &= result.loss_bits == expected_loss_bits[step];
    }
    return same;
}

int main(void)
{
    uint32_t bytes = 0;

    report_start();
    report("image opens",
           mct_engine_open(&engine, train_image, (uint32_t)(train_image_end - train_image), block,
                           sizeof block) == MCT_OK);
    report("losses of ten steps", steps_as_expected());
    const uint8_t *state = mct_engine_state(&engine, &bytes);
    report("state after them", mct_crc32(0, state, bytes) == EXPECTED_STATE_CRC);
    return report_end();
}
