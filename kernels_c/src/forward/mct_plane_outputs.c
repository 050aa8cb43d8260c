/* Rows of planes to int8: what a depthwise convolution does in its usual case. */
#include "mct_planes.h"

#if MCT_DSP

#include "mct_plane_loop.h"

#if defined(__ARM_FEATURE_DSP)

/* The words of mct_outputs_tail: mult, z, step, to, back, end. */
#define TAIL                                                                                       \
    "ldm %[w], {r3, r4, r5, r6, r12, lr}\n\t"                                                      \
    "smmlar r8, r8, r3, r4\n\t"                                                                    \
    "smmlar r9, r9, r3, r4\n\t"                                                                    \
    "smmlar r10, r10, r3, r4\n\t"                                                                  \
    "smmlar r11, r11, r3, r4\n\t"                                                                  \
    "ssat r8, #8, r8\n\t"                                                                          \
    "ssat r9, #8, r9\n\t"                                                                          \
    "ssat r10, #8, r10\n\t"                                                                        \
    "ssat r11, #8, r11\n\t"                                                                        \
    "strb r8, [r6]\n\t"                                                                            \
    "strb r9, [r6, r5]\n\t"                                                                        \
    "add r3, r6, r5, lsl #1\n\t"                                                                   \
    "strb r10, [r3]\n\t"                                                                           \
    "strb r11, [r3, r5]\n\t"                                                                       \
    "add r6, r6, r5, lsl #2\n\t"                                                                   \
    "str r6, [%[w], #12]\n\t"                                                                      \
    "sub %[x], r12\n\t"                                                                            \
    "cmp r6, lr\n\t"

#else

static void outputs_in_c(uint32_t *table, const int16_t *x, uint32_t pitch, uint32_t kw,
                         uint32_t sw)
{
    mct_outputs_tail tail;
    memcpy(&tail, table + mct_table_words(kw, sw) - MCT_TABLE_TAIL, sizeof tail);
    for (; tail.to != tail.end; tail.to += tail.step, x += sw) {
        int32_t acc = mct_plane_window((int32_t)table[0], table + 1, x, pitch, kw, kw, sw);
        *tail.to = (int8_t)mct_sat8(mct_scale(acc, tail.mult, tail.z));
    }
}

#define TAIL outputs_in_c

#endif

LOOPS(mct_plane_outputs, TAIL)

#endif
