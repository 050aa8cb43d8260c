/*
 * The weights of a depthwise convolution, channel after channel, where they lie in two blocks: perm
 * rises within each, so that the next channel is the next of the one or of the other.
 */
#ifndef MCT_CHANNELS_H
#define MCT_CHANNELS_H

#include <stddef.h>

#include "mct_types.h"

/* The next place in each block. */
typedef struct {
    uint32_t trained, frozen;
} mct_channels;

static inline int mct_is_trained(const mct_conv *conv, const mct_channels *at, uint32_t c)
{
    return at->trained < conv->trained && (conv->perm == NULL || conv->perm[at->trained] == c);
}

/* The kernel of channel c, taps weights. */
static inline const int8_t *mct_next_weights(const mct_conv *conv, mct_channels *at, uint32_t c,
                                             uint32_t taps)
{
    if (mct_is_trained(conv, at, c))
        return conv->w_trained + taps * at->trained++;
    return conv->w_frozen + taps * at->frozen++;
}

/* Whether perm rises: what the compiler makes does. */
static inline int mct_channels_rise(const mct_conv *conv)
{
    mct_channels at = {0, 0};
    if (conv->perm == NULL)
        return 1;
    for (uint32_t c = 0; c < conv->x.c; c++) {
        uint32_t place = conv->trained + at.frozen;
        if (mct_is_trained(conv, &at, c))
            at.trained++;
        else if (place < conv->x.c && conv->perm[place] == c)
            at.frozen++;
        else
            return 0;
    }
    return 1;
}

#endif
