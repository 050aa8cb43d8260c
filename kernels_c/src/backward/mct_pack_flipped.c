/* Kernels of the errors of depthwise convolutions, packed for the loops of mct_plane_loop.h. */
#include "mct_pack_row.h"

#if MCT_DSP

MCT_INLINE void pack_more(uint32_t *to, const int8_t *w, uint32_t kw)
{
    for (uint32_t i = kw; i > 0; i--)
        to = mct_pack_more(to, w + (i - 1) * kw, kw, 1, 1);
}

void mct_pack_flipped(uint32_t *table, const int8_t *w, uint32_t kw)
{
    *table++ = 0;
    if (kw == 3) {
        mct_pack_three(table, mct_reversed(mct_load4(w + 5)), 1);
        mct_pack_three(table + 2, mct_reversed(mct_load4(w + 2)), 1);
        mct_pack_three(table + 4, mct_reversed(mct_load4(w) << 8), 1);
    } else if (kw == 5) {
        pack_more(table, w, 5);
    } else {
        pack_more(table, w, 7);
    }
}

#endif
