/*
 * The weights of a depthwise convolution, channel after channel, where they lie in two blocks: perm
 * rises within each, so that the next channel is the next of the one or of the other.
 */
#ifndef MCT_CHANNELS_H
#define MCT_CHANNELS_H

#include <stddef.h>

#include "mct_types.h"

/* What comes next: which channel of the trained ones, and the kernels of either block. */
typedef struct {
    const uint16_t *perm, *end;
    const int8_t *trained, *frozen;
} mct_channels;

static inline mct_channels mct_channels_of(const mct_conv *conv)
{
    mct_channels at = {NULL, NULL, NULL, conv->trained != 0 ? conv->w_trained : conv->w_frozen};
    if (conv->perm != NULL) {
        at.perm = conv->perm;
        at.end = conv->perm + conv->trained;
        at.trained = conv->w_trained;
        at.frozen = conv->w_frozen;
    }
    return at;
}

/* The kernel of channel c, taps weights. */
static inline const int8_t *mct_next_weights(mct_channels *at, uint32_t c, uint32_t taps)
{
    const int8_t *w;
    if (at->perm != at->end && *at->perm == c) {
        at->perm++;
        w = at->trained;
        at->trained += taps;
    } else {
        w = at->frozen;
        at->frozen += taps;
    }
    return w;
}

/* Whether perm rises: what the compiler makes does. */
static inline int mct_channels_rise(const mct_conv *conv)
{
    uint32_t trained = 0, frozen = conv->trained;
    if (conv->perm == NULL)
        return 1;
    for (uint32_t c = 0; c < conv->x.c; c++) {
        if (trained < conv->trained && conv->perm[trained] == c)
            trained++;
        else if (frozen < conv->x.c && conv->perm[frozen] == c)
            frozen++;
        else
            return 0;
    }
    return 1;
}

#endif
