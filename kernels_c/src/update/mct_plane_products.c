#include "mct_plane_products.h"

#if MCT_DSP

#if defined(__ARM_FEATURE_DSP)

/* Errors 01 and 23 in r3 and r4, inputs in r5 and r6, two at a time; x moves on. */
#define FIRST_INPUTS                                                                               \
    "ldrd r5, r6, [%[x]], #8\n\t" /* 01 23 */                                                      \
    "smlad %[a0], r3, r5, %[a0]\n\t"                                                               \
    "smlabt %[a1], r3, r5, %[a1]\n\t"                                                              \
    "smlad %[a0], r4, r6, %[a0]\n\t"                                                               \
    "smlatb %[a1], r3, r6, %[a1]\n\t"                                                              \
    "smlabt %[a1], r4, r6, %[a1]\n\t"                                                              \
    "smlad %[a2], r3, r6, %[a2]\n\t"

#define GROUP_3_1                                                                                  \
    FIRST_INPUTS                                                                                   \
    "ldr r5, [%[x]]\n\t" /* 45 */                                                                  \
    "smlatb %[a1], r4, r5, %[a1]\n\t"                                                              \
    "smlad %[a2], r4, r5, %[a2]\n\t"

#define GROUP_4_1                                                                                  \
    FIRST_INPUTS                                                                                   \
    "smlabt %[a3], r3, r6, %[a3]\n\t"                                                              \
    "ldrd r5, r6, [%[x]]\n\t" /* 45 67 */                                                          \
    "smlatb %[a1], r4, r5, %[a1]\n\t"                                                              \
    "smlad %[a2], r4, r5, %[a2]\n\t"                                                               \
    "smlatb %[a3], r3, r5, %[a3]\n\t"                                                              \
    "smlabt %[a3], r4, r5, %[a3]\n\t"                                                              \
    "smlatb %[a3], r4, r6, %[a3]\n\t"

#define GROUP_3_2                                                                                  \
    "ldrd r5, r6, [%[x]], #16\n\t" /* 01 23 */                                                     \
    "smlabb %[a0], r3, r5, %[a0]\n\t"                                                              \
    "smlabt %[a1], r3, r5, %[a1]\n\t"                                                              \
    "smlatb %[a0], r3, r6, %[a0]\n\t"                                                              \
    "smlatt %[a1], r3, r6, %[a1]\n\t"                                                              \
    "smlabb %[a2], r3, r6, %[a2]\n\t"                                                              \
    "ldrd r5, r6, [%[x], #-8]\n\t" /* 45 67 */                                                     \
    "smlabb %[a0], r4, r5, %[a0]\n\t"                                                              \
    "smlabt %[a1], r4, r5, %[a1]\n\t"                                                              \
    "smlatb %[a2], r3, r5, %[a2]\n\t"                                                              \
    "smlatb %[a0], r4, r6, %[a0]\n\t"                                                              \
    "smlatt %[a1], r4, r6, %[a1]\n\t"                                                              \
    "smlabb %[a2], r4, r6, %[a2]\n\t"                                                              \
    "ldr r5, [%[x]]\n\t" /* 89 */                                                                  \
    "smlatb %[a2], r4, r5, %[a2]\n\t"

/* The words of rows: end, skip, groups. */
#define PRODUCTS(group)                                                                            \
    __asm volatile("1:\n\t"                                                                        \
                   "ldr %[n], [%[rows], #8]\n"                                                     \
                   "2:\n\t"                                                                        \
                   "ldrd r3, r4, [%[e]], #8\n\t" group "subs %[n], #1\n\t"                         \
                   "bne 2b\n\t"                                                                    \
                   "ldrd r3, r4, [%[rows]]\n\t"                                                    \
                   "add %[x], r4\n\t"                                                              \
                   "cmp %[e], r3\n\t"                                                              \
                   "bne 1b"                                                                        \
                   : [a0] "+r"(a0), [a1] "+r"(a1), [a2] "+r"(a2), [a3] "+r"(a3), [e] "+r"(e),      \
                     [x] "+r"(x), [n] "=&r"(n)                                                     \
                   : [rows] "r"(rows)                                                              \
                   : "r3", "r4", "r5", "r6", "cc", "memory")

void mct_plane_products(int32_t t[4], const int16_t *e, const int16_t *x,
                        const mct_product_rows *rows, uint32_t sw, int wide)
{
    int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
    uint32_t n;
    if (sw == 2)
        PRODUCTS(GROUP_3_2);
    else if (wide)
        PRODUCTS(GROUP_4_1);
    else
        PRODUCTS(GROUP_3_1);
    t[0] = a0;
    t[1] = a1;
    t[2] = a2;
    t[3] = a3;
}

#else

void mct_plane_products(int32_t t[4], const int16_t *e, const int16_t *x,
                        const mct_product_rows *rows, uint32_t sw, int wide)
{
    uint32_t taps = wide ? 4 : 3;
    t[0] = t[1] = t[2] = t[3] = 0;
    while (e != rows->end) {
        for (uint32_t n = 4 * rows->groups; n > 0; n--, e++, x += sw) {
            for (uint32_t j = 0; j < taps; j++)
                t[j] += *e * x[j];
        }
        x += rows->skip / 2;
    }
}

#endif
#endif
