/* Bytes put one behind the other; each function returns the end. */
#ifndef MCT_COPY_H
#define MCT_COPY_H

#include <stdint.h>
#include <string.h>

static inline int8_t *mct_copy(int8_t *to, const int8_t *from, uint32_t n)
{
    for (; n >= 4; n -= 4, to += 4, from += 4)
        memcpy(to, from, 4);
    for (; n > 0; n--)
        *to++ = *from++;
    return to;
}

static inline int8_t *mct_fill(int8_t *to, int8_t z, uint32_t n)
{
    for (; n > 0; n--)
        *to++ = z;
    return to;
}

/* from[perm[0]], from[perm[1]], ... */
static inline int8_t *mct_gather_to(int8_t *to, const int8_t *from, const uint16_t *perm,
                                    uint32_t n)
{
    for (const uint16_t *end = perm + n; perm != end;)
        *to++ = from[*perm++];
    return to;
}

#endif
