/* Rows of planes to sums, which the caller finishes. */
#include "mct_planes.h"

#if MCT_DSP

#include "mct_plane_loop.h"

#if defined(__ARM_FEATURE_DSP)

/* The words of mct_sums_tail: to, back, end. */
#define TAIL "ldm %[w], {r3, r4, r5}\n\t" STORE_SUMS "cmp r3, r5\n\t"

#else

static void sums_in_c(uint32_t *table, const int16_t *x, uint32_t pitch, uint32_t kw, uint32_t sw)
{
    mct_sums_tail tail;
    memcpy(&tail, table + mct_table_words(kw, sw) - MCT_TABLE_TAIL, sizeof tail);
    mct_plane_sums_in_c((int32_t)table[0], table + 1, x, pitch, kw, kw, sw, tail);
}

#define TAIL sums_in_c

#endif

LOOPS(mct_plane_sums, TAIL)

#endif
