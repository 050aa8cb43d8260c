/* Rows of planes to sums for the parts of a kernel of stride 2: see mct_conv2d_dx_depthwise_dsp.c.
 */
#include "mct_planes.h"

#if MCT_DSP

#include "mct_plane_loop.h"

#if defined(__ARM_FEATURE_DSP)

/* The words of mct_sums_tail: to, back, end, before. */
#define PARTS(kw)                                                                                  \
    uint32_t n;                                                                                    \
    __asm volatile(                                                                                \
        "1:\n\t"                                                                                   \
        "ldr %[n], [%[w]], #4\n\t"                                                                 \
        "mov r8, #0\n\t"                                                                           \
        "mov r9, #0\n\t"                                                                           \
        "mov r10, #0\n\t"                                                                          \
        "mov r11, #0\n"                                                                            \
        "2:\n\t" ROW_##kw##_1 "subs %[n], #1\n\t"                                                  \
                              "bne 2b\n\t"                                                         \
                              "ldm %[w], {r3, r4, r5, r6}\n\t" STORE_SUMS "sub %[w], r6\n\t"       \
                              "cmp r3, r5\n\t"                                                     \
                              "bne 1b"                                                             \
        : [w] "+r"(table), [x] "+r"(x), [n] "=&r"(n)                                               \
        : [pitch] "r"(pitch)                                                                       \
        : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r11", "r12", "lr", "cc", "memory")

#else

static void parts_in_c(const uint32_t *table, const int16_t *x, uint32_t pitch, uint32_t kw)
{
    uint32_t kh = table[0];
    mct_sums_tail tail;
    memcpy(&tail, table + 1 + kh * mct_packed_words(kw, 1), sizeof tail);
    mct_plane_sums_in_c(0, table + 1, x, pitch, kh, kw, 1, tail);
}

#define PARTS(kw) parts_in_c(table, x, pitch, kw)

#endif

static void mct_plane_parts_3(uint32_t *table, const int16_t *x, uint32_t pitch)
{
    PARTS(3);
}

static void mct_plane_parts_4(uint32_t *table, const int16_t *x, uint32_t pitch)
{
    PARTS(4);
}

mct_plane_loop *mct_plane_parts(uint32_t kw)
{
    return kw == 3 ? mct_plane_parts_3 : mct_plane_parts_4;
}

#endif
