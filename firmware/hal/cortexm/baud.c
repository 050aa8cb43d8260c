/* The divider of a UART that samples 16 times a bit. */
#include "cortexm.h"

#define DIVIDER_MIN 16u
#define DIVIDER_MAX 0xFFFFu
/* Receivers bear 3.7 %; the other end has its own part of that. */
#define ERROR_SHARE 50u

uint32_t mct_baud_divider(uint32_t hz, uint32_t baud)
{
    const uint32_t divider = (hz + baud / 2u) / baud;
    const uint32_t made = divider * baud;
    const uint32_t error = made > hz ? made - hz : hz - made;

    if (divider < DIVIDER_MIN || divider > DIVIDER_MAX || error > made / ERROR_SHARE) {
        return 0;
    }
    return divider;
}
