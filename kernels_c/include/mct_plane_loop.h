/*
 * The body of the loops of mct_planes.h. LOOP(kw, sw) is one asm statement: the accumulators of
 * four outputs in r8 to r11, weights and inputs in r3 to r6, r12 and lr, in the order in which
 * loads of several words fill registers. What the compiler makes of it spills.
 *
 * TAIL(words) ends it: it finds its words at %[w], which lies `words` bytes behind the table's
 * start, moves %[x] to the next window, sets the flags to "not equal" unless this was the last, and
 * may use r3 to r6, r12 and lr.
 */
#ifndef MCT_PLANE_LOOP_H
#define MCT_PLANE_LOOP_H

#include "mct_planes.h"

#if defined(__ARM_FEATURE_DSP)

#define NEXT_ROW "add %[x], %[pitch]\n\t"

#define ROW_3_1                                                                                    \
    "ldrd r3, r4, [%[w]], #8\n\t" /* weights 01 12 */                                              \
    "ldm %[x], {r5, r6, r12}\n\t" NEXT_ROW "smlad r8, r5, r3, r8\n\t"                              \
    "smlatb r9, r5, r3, r9\n\t"                                                                    \
    "smlad r10, r6, r3, r10\n\t"                                                                   \
    "smlatb r11, r6, r3, r11\n\t"                                                                  \
    "smlabt r8, r6, r4, r8\n\t"                                                                    \
    "smlad r9, r6, r4, r9\n\t"                                                                     \
    "smlabt r10, r12, r4, r10\n\t"                                                                 \
    "smlad r11, r12, r4, r11\n\t"

#define ROW_3_2                                                                                    \
    "ldrd r3, r4, [%[w]], #8\n\t" /* weights 01 12 */                                              \
    "ldm %[x], {r5, r6, r12, lr}\n\t"                                                              \
    "smlad r8, r5, r3, r8\n\t"                                                                     \
    "smlad r9, r6, r3, r9\n\t"                                                                     \
    "ldr r5, [%[x], #16]\n\t" NEXT_ROW "smlad r10, r12, r3, r10\n\t"                               \
    "smlad r11, lr, r3, r11\n\t"                                                                   \
    "smlabt r8, r6, r4, r8\n\t"                                                                    \
    "smlabt r9, r12, r4, r9\n\t"                                                                   \
    "smlabt r10, lr, r4, r10\n\t"                                                                  \
    "smlabt r11, r5, r4, r11\n\t"

/* What the first four of a row's weights make of its first four inputs. */
#define FIRST_FOUR                                                                                 \
    "ldmia %[w]!, {r3, r4, r5}\n\t" /* weights 01 23 12 */                                         \
    "ldrd r6, r12, [%[x]]\n\t"                                                                     \
    "smlad r8, r6, r3, r8\n\t"                                                                     \
    "smlatb r9, r6, r3, r9\n\t"                                                                    \
    "smlad r8, r12, r4, r8\n\t"                                                                    \
    "smlad r9, r12, r5, r9\n\t"                                                                    \
    "smlad r10, r12, r3, r10\n\t"                                                                  \
    "smlatb r11, r12, r3, r11\n\t"

#define ROW_4_1                                                                                    \
    FIRST_FOUR                                                                                     \
    "ldrd r6, r12, [%[x], #8]\n\t" NEXT_ROW "smlabt r9, r6, r4, r9\n\t"                            \
    "smlad r10, r6, r4, r10\n\t"                                                                   \
    "smlad r11, r6, r5, r11\n\t"                                                                   \
    "smlabt r11, r12, r4, r11\n\t"

#define ROW_5_1                                                                                    \
    "ldmia %[w]!, {r3, r4, r5, r6}\n\t" /* weights 01 23 34 12 */                                  \
    "ldrd r12, lr, [%[x]]\n\t"                                                                     \
    "smlad r8, r12, r3, r8\n\t"                                                                    \
    "smlatb r9, r12, r3, r9\n\t"                                                                   \
    "smlad r8, lr, r4, r8\n\t"                                                                     \
    "smlad r9, lr, r6, r9\n\t"                                                                     \
    "smlad r10, lr, r3, r10\n\t"                                                                   \
    "smlatb r11, lr, r3, r11\n\t"                                                                  \
    "ldrd r12, lr, [%[x], #8]\n\t" NEXT_ROW "smlabt r8, r12, r5, r8\n\t"                           \
    "smlad r9, r12, r5, r9\n\t"                                                                    \
    "smlad r10, r12, r4, r10\n\t"                                                                  \
    "smlad r11, r12, r6, r11\n\t"                                                                  \
    "smlabt r10, lr, r5, r10\n\t"                                                                  \
    "smlad r11, lr, r5, r11\n\t"

#define ROW_5_2                                                                                    \
    "ldmia %[w]!, {r3, r4, r5}\n\t" /* weights 01 23 34 */                                         \
    "ldm %[x], {r6, r12, lr}\n\t"                                                                  \
    "smlad r8, r6, r3, r8\n\t"                                                                     \
    "smlad r9, r12, r3, r9\n\t"                                                                    \
    "smlad r8, r12, r4, r8\n\t"                                                                    \
    "smlad r10, lr, r3, r10\n\t"                                                                   \
    "smlad r9, lr, r4, r9\n\t"                                                                     \
    "smlabt r8, lr, r5, r8\n\t"                                                                    \
    "ldrd r6, r12, [%[x], #12]\n\t"                                                                \
    "ldr lr, [%[x], #20]\n\t" NEXT_ROW "smlad r11, r6, r3, r11\n\t"                                \
    "smlad r10, r6, r4, r10\n\t"                                                                   \
    "smlabt r9, r6, r5, r9\n\t"                                                                    \
    "smlad r11, r12, r4, r11\n\t"                                                                  \
    "smlabt r10, r12, r5, r10\n\t"                                                                 \
    "smlabt r11, lr, r5, r11\n\t"

#define ROW_7_1                                                                                    \
    FIRST_FOUR                                                                                     \
    "ldrd r6, r12, [%[x], #8]\n\t"                                                                 \
    "smlad r10, r6, r4, r10\n\t"                                                                   \
    "smlad r11, r6, r5, r11\n\t"                                                                   \
    "ldmia %[w]!, {r3, r4, r5}\n\t" /* weights 45 56 34 */                                         \
    "smlad r8, r6, r3, r8\n\t"                                                                     \
    "smlad r9, r6, r5, r9\n\t"                                                                     \
    "smlabt r8, r12, r4, r8\n\t"                                                                   \
    "smlad r9, r12, r4, r9\n\t"                                                                    \
    "ldr r6, [%[x], #16]\n\t" NEXT_ROW "smlad r10, r12, r3, r10\n\t"                               \
    "smlad r11, r12, r5, r11\n\t"                                                                  \
    "smlabt r10, r6, r4, r10\n\t"                                                                  \
    "smlad r11, r6, r4, r11\n\t"

#define ROW_7_2                                                                                    \
    "ldmia %[w]!, {r3, r4, r5, r6}\n\t" /* weights 01 23 45 56 */                                  \
    "ldrd r12, lr, [%[x]]\n\t"                                                                     \
    "smlad r8, r12, r3, r8\n\t"                                                                    \
    "smlad r9, lr, r3, r9\n\t"                                                                     \
    "smlad r8, lr, r4, r8\n\t"                                                                     \
    "ldrd r12, lr, [%[x], #8]\n\t"                                                                 \
    "smlad r10, r12, r3, r10\n\t"                                                                  \
    "smlad r9, r12, r4, r9\n\t"                                                                    \
    "smlad r8, r12, r5, r8\n\t"                                                                    \
    "smlad r11, lr, r3, r11\n\t"                                                                   \
    "smlad r10, lr, r4, r10\n\t"                                                                   \
    "smlad r9, lr, r5, r9\n\t"                                                                     \
    "smlabt r8, lr, r6, r8\n\t"                                                                    \
    "ldrd r12, lr, [%[x], #16]\n\t"                                                                \
    "smlad r11, r12, r4, r11\n\t"                                                                  \
    "smlad r10, r12, r5, r10\n\t"                                                                  \
    "smlabt r9, r12, r6, r9\n\t"                                                                   \
    "ldr r12, [%[x], #24]\n\t" NEXT_ROW "smlad r11, lr, r5, r11\n\t"                               \
    "smlabt r10, lr, r6, r10\n\t"                                                                  \
    "smlabt r11, r12, r6, r11\n\t"

/* Four sums of a plane go to where r3 says, which moves on in the table; x goes back by r4. */
#define STORE_SUMS                                                                                 \
    "str r8, [r3]\n\t"                                                                             \
    "str r9, [r3, #16]\n\t"                                                                        \
    "str r10, [r3, #32]\n\t"                                                                       \
    "str r11, [r3, #48]\n\t"                                                                       \
    "add r3, #64\n\t"                                                                              \
    "str r3, [%[w]]\n\t"                                                                           \
    "sub %[x], r4\n\t"

/* The rows of a window: three in a row, more in a loop, for the sake of the code's size. */
#define ROWS_3(row) row row row
#define ROWS_5(row) "mov %[n], #5\n2:\n\t" row "subs %[n], #1\n\tbne 2b\n\t"
#define ROWS_7(row) "mov %[n], #7\n2:\n\t" row "subs %[n], #1\n\tbne 2b\n\t"

/* words: bytes of bias and packed kernel. */
#define LOOP(kw, sw, words, tail)                                                                  \
    uint32_t n;                                                                                    \
    __asm volatile("1:\n\t"                                                                        \
                   "ldr r8, [%[w]], #4\n\t"                                                        \
                   "mov r9, r8\n\t"                                                                \
                   "mov r10, r8\n\t"                                                               \
                   "mov r11, r8\n\t" ROWS_##kw(ROW_##kw##_##sw) tail "sub %[w], #" #words "\n\t"   \
                                                                     "bne 1b"                      \
                   : [w] "+r"(table), [x] "+r"(x), [n] "=&r"(n)                                    \
                   : [pitch] "r"(pitch)                                                            \
                   : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc",          \
                     "memory")

#elif MCT_DSP

/* acc of one output: x, the packed kernel w (kh, kw). */
static inline int32_t mct_plane_window(int32_t acc, const uint32_t *w, const int16_t *x,
                                       uint32_t pitch, uint32_t kh, uint32_t kw, uint32_t sw)
{
    for (uint32_t row = 0; row < kh; row++, w += mct_packed_words(kw, sw)) {
        const int16_t *v = (const int16_t *)(const void *)((const char *)x + row * pitch);
        for (uint32_t i = 0; i < kw; i++) {
            /* The last weight is a high half: the pairs are 01, 23, .., (kw - 2, kw - 1). */
            uint32_t high = i % 2 != 0 || i == kw - 1, at = i / 2;
            if (kw == 7 && sw == 1 && i > 3)
                at++; /* 12 is between */
            acc = (int32_t)((uint32_t)acc + (uint32_t)(v[i] * (int16_t)(w[at] >> (high ? 16 : 0))));
        }
    }
    return acc;
}

/* Windows of four outputs, sw apart, to every fourth int32 up to tail.end. */
static inline void mct_plane_sums_in_c(int32_t acc, const uint32_t *w, const int16_t *x,
                                       uint32_t pitch, uint32_t kh, uint32_t kw, uint32_t sw,
                                       mct_sums_tail tail)
{
    for (; tail.to != tail.end; tail.to += 4 * MCT_PLANES) {
        for (uint32_t i = 0; i < 4; i++)
            tail.to[i * MCT_PLANES] = mct_plane_window(acc, w, x + i * sw, pitch, kh, kw, sw);
        x = (const int16_t *)(const void *)((const char *)x + kh * pitch - tail.back);
    }
}

#define LOOP(kw, sw, words, tail) tail(table, x, pitch, kw, sw)

#endif

#define LOOPS(name, tail)                                                                          \
    static void name##_3_1(uint32_t *table, const int16_t *x, uint32_t pitch)                      \
    {                                                                                              \
        LOOP(3, 1, 28, tail);                                                                      \
    }                                                                                              \
    static void name##_3_2(uint32_t *table, const int16_t *x, uint32_t pitch)                      \
    {                                                                                              \
        LOOP(3, 2, 28, tail);                                                                      \
    }                                                                                              \
    static void name##_5_1(uint32_t *table, const int16_t *x, uint32_t pitch)                      \
    {                                                                                              \
        LOOP(5, 1, 84, tail);                                                                      \
    }                                                                                              \
    static void name##_5_2(uint32_t *table, const int16_t *x, uint32_t pitch)                      \
    {                                                                                              \
        LOOP(5, 2, 64, tail);                                                                      \
    }                                                                                              \
    static void name##_7_1(uint32_t *table, const int16_t *x, uint32_t pitch)                      \
    {                                                                                              \
        LOOP(7, 1, 172, tail);                                                                     \
    }                                                                                              \
    static void name##_7_2(uint32_t *table, const int16_t *x, uint32_t pitch)                      \
    {                                                                                              \
        LOOP(7, 2, 116, tail);                                                                     \
    }                                                                                              \
    mct_plane_loop *name(uint32_t kw, uint32_t sw)                                                 \
    {                                                                                              \
        if (kw == 3)                                                                               \
            return sw == 1 ? name##_3_1 : name##_3_2;                                              \
        if (kw == 5)                                                                               \
            return sw == 1 ? name##_5_1 : name##_5_2;                                              \
        return sw == 1 ? name##_7_1 : name##_7_2;                                                  \
    }

#endif
