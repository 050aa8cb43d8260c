/* The loop of every board. */
#include "hal.h"
#include "mct_app.h"

static mct_app app;

int main(void)
{
    uint8_t bytes[32];

    mct_hal_init();
    mct_app_init(&app);
    for (;;) {
        size_t n = mct_hal_rx(bytes, sizeof bytes);

        if (n > 0) {
            mct_app_receive(&app, bytes, (uint32_t)n);
        } else {
            mct_hal_wait();
        }
    }
}
