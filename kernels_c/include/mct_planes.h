/*
 * Depthwise convolutions with the DSP extension, channel by channel: input rows are unpacked into
 * planes (rows of int16 of one channel, padding included), kernel rows are packed into words of two
 * weights, so that one SMLAD makes two products. Four neighbouring outputs are made together.
 */
#ifndef MCT_PLANES_H
#define MCT_PLANES_H

#include "mct_dsp.h"
#include "mct_types.h"

#define MCT_PLANES 4u /* channels unpacked together */

/*
 * The table that a loop over a row of outputs works with: the bias, the packed kernel, and what
 * follows here.
 */
#define MCT_TABLE_TAIL 10u /* words: room for either tail on any host */

/* Kernels that there is code for. */
static inline int mct_planes_fit(uint32_t kh, uint32_t kw, uint32_t sw)
{
    return kh == kw && (kw == 3 || kw == 5 || kw == 7) && (sw == 1 || sw == 2);
}

/* Words of a packed kernel row. */
static inline uint32_t mct_packed_words(uint32_t kw, uint32_t sw)
{
    return sw == 1 ? kw - 1 : (kw + 1) / 2;
}

static inline uint32_t mct_table_words(uint32_t kw, uint32_t sw)
{
    return 1 + kw * mct_packed_words(kw, sw) + MCT_TABLE_TAIL;
}

/* Halfwords of a plane's row, an even number: the windows of outputs rounded up to four. */
static inline uint32_t mct_plane_pitch(uint32_t outputs, uint32_t kw, uint32_t sw)
{
    return ((outputs + 3) & ~3u) * sw + kw - 1;
}

#if MCT_DSP

MCT_INLINE void mct_put_column(int16_t *plane, uint32_t step, const int8_t *x)
{
    uint32_t even = mct_even(mct_load4(x)), odd = mct_odd(mct_load4(x));
    plane[0] = (int16_t)even;
    plane[step] = (int16_t)odd;
    plane[2 * step] = (int16_t)(even >> 16);
    plane[3 * step] = (int16_t)(odd >> 16);
}

/*
 * Unpacks n pixels of four channels, c bytes apart, into columns at, at + 1, ... of a row of four
 * planes, step halfwords apart.
 */
void mct_planes_fill(int16_t *plane, uint32_t step, uint32_t at, const int8_t *x, uint32_t c,
                     uint32_t n);

/*
 * A loop over the outputs of a row, four at a time (w rounded up). table: bias, kernel packed, then
 * the words that the loop needs (below); x: the window of the first output; pitch in bytes.
 */
typedef void mct_plane_loop(uint32_t *table, const int16_t *x, uint32_t pitch);

/* Begins a table with the bias and the kernel w (kw, kw), both shifted left (by at most 8). */
void mct_pack_kernel(uint32_t *table, int32_t bias, const int8_t *w, uint32_t kw, uint32_t sw,
                     uint32_t shift);

/* The same without a bias, from the last weight to the first, each times 256; stride 1. */
void mct_pack_flipped(uint32_t *table, const int8_t *w, uint32_t kw);

/* The words behind the kernel of mct_plane_sums: every fourth int32 up to the end is a sum. */
typedef struct {
    int32_t *to;
    uint32_t back; /* bytes from behind the last row of a window to the next four's first */
    int32_t *end;
    uint32_t before; /* bytes of the table before these words, for mct_plane_parts */
} mct_sums_tail;

/* Those of mct_plane_outputs: scaled, clamped to int8, stored step bytes apart. */
typedef struct {
    int32_t mult, z;
    uint32_t step;
    int8_t *to;
    uint32_t back;
    int8_t *end;
} mct_outputs_tail;

/* The loops for a kernel that fits. */
mct_plane_loop *mct_plane_sums(uint32_t kw, uint32_t sw);
mct_plane_loop *mct_plane_outputs(uint32_t kw, uint32_t sw);

/*
 * Sums for kernels of any height, three or four weights wide, stride 1. Their table begins with the
 * height in place of the bias; the sums begin from 0.
 */
mct_plane_loop *mct_plane_parts(uint32_t kw);

#endif
#endif
