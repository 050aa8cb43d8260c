/*
 * Consistent overhead byte stuffing: data without zero bytes, so that a zero can end a frame.
 * Neither direction needs a buffer of its own for the encoded form.
 */
#ifndef MCT_COBS_H
#define MCT_COBS_H

#include <stdint.h>

typedef enum {
    MCT_COBS_MORE,     /* the frame goes on */
    MCT_COBS_FRAME,    /* complete: length bytes are in the buffer */
    MCT_COBS_BROKEN,   /* a zero where data had to be */
    MCT_COBS_TOO_LONG, /* more data than the buffer holds */
} mct_cobs_event;

/* A decoder; the caller gives buffer and capacity and zeros the rest. */
typedef struct {
    uint8_t *buffer;
    uint32_t capacity;
    uint32_t length; /* of the frame that ended with the last event; kept until the next byte */
    uint8_t left;    /* bytes left in the block */
    uint8_t zero;    /* a zero follows the block, if anything does */
    uint8_t begun;
    uint8_t ended;
    uint8_t too_long;
} mct_cobs_decoder;

/* Takes one byte. Zeros between frames are MORE. */
mct_cobs_event mct_cobs_feed(mct_cobs_decoder *decoder, uint8_t byte);

typedef void (*mct_cobs_sink)(void *context, const uint8_t *bytes, uint32_t n);

/* Gives the encoded form of src to sink, in pieces and without the zero at the end. */
void mct_cobs_encode(const uint8_t *src, uint32_t n, mct_cobs_sink sink, void *context);

#endif
