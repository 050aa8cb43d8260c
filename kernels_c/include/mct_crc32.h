/* CRC-32/ISO-HDLC (the one of zlib), for images, frames of the link and traces. */
#ifndef MCT_CRC32_H
#define MCT_CRC32_H

#include <stdint.h>

/* Goes on from the CRC of what came before, 0 at the start: crc(ab) = crc32(crc32(0, a), b). */
uint32_t mct_crc32(uint32_t crc, const void *data, uint32_t n);

#endif
