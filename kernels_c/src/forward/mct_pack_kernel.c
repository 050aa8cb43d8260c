/* Kernels of depthwise convolutions, packed for the loops of mct_plane_loop.h. */
#include "mct_pack_row.h"

#if MCT_DSP

MCT_INLINE void pack(uint32_t *to, const int8_t *w, uint32_t kw, uint32_t sw)
{
    for (uint32_t i = 0; i < kw; i++, w += kw)
        to = mct_pack_more(to, w, kw, sw, 0);
}

static void pack_any(uint32_t *to, const int8_t *w, uint32_t kw, uint32_t sw)
{
    if (kw == 5)
        sw == 1 ? pack(to, w, 5, 1) : pack(to, w, 5, 2);
    else
        sw == 1 ? pack(to, w, 7, 1) : pack(to, w, 7, 2);
}

void mct_pack_kernel(uint32_t *table, int32_t bias, const int8_t *w, uint32_t kw, uint32_t sw,
                     uint32_t shift)
{
    uint32_t *end = table + mct_table_words(kw, sw) - MCT_TABLE_TAIL;
    *table++ = (uint32_t)bias << shift;
    if (kw == 3)
        mct_pack_nine(table, w);
    else
        pack_any(table, w, kw, sw);
    for (; shift != 0 && table != end; table++)
        *table = (*table & 0xffff0000u) << shift | (*table << shift & 0xffffu);
}

#endif
