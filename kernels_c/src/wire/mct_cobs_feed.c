#include "mct_cobs.h"

static void append(mct_cobs_decoder *decoder, uint8_t byte)
{
    if (decoder->length < decoder->capacity) {
        decoder->buffer[decoder->length] = byte;
        decoder->length++;
    } else {
        decoder->too_long = 1;
    }
}

static mct_cobs_event end(mct_cobs_decoder *decoder)
{
    uint8_t begun = decoder->begun;
    uint8_t left = decoder->left;

    decoder->ended = 1;
    decoder->begun = 0;
    decoder->left = 0;
    decoder->zero = 0;
    if (!begun) {
        return MCT_COBS_MORE;
    }
    if (decoder->too_long) {
        return MCT_COBS_TOO_LONG;
    }
    return left == 0 ? MCT_COBS_FRAME : MCT_COBS_BROKEN;
}

mct_cobs_event mct_cobs_feed(mct_cobs_decoder *decoder, uint8_t byte)
{
    if (decoder->ended) {
        decoder->ended = 0;
        decoder->length = 0;
        decoder->too_long = 0;
    }
    if (byte == 0) {
        return end(decoder);
    }
    decoder->begun = 1;
    if (decoder->left > 0) {
        append(decoder, byte);
        decoder->left--;
        return MCT_COBS_MORE;
    }
    if (decoder->zero) {
        append(decoder, 0);
    }
    decoder->left = (uint8_t)(byte - 1);
    decoder->zero = byte != 0xffu;
    return MCT_COBS_MORE;
}
