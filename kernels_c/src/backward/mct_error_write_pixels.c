/*
 * No overflow: see mct_error.h; a skip error q with an exponent above the output's, in units of
 * 2^(e_out - 32), is (q << up) * scale with |q << up| < 2^31 and scale <= 2^30.
 */
#include "mct_error_pixels.h"

#if MCT_DSP

/* How skip errors are aligned (section 6); scale 0: not in this way. */
typedef struct {
    uint32_t up;
    int32_t scale;
} alignment;

static alignment alignment_of(const mct_error *e)
{
    int32_t d = 32 + e->e_skip - e->e_out;
    uint32_t by = d > 54 ? 54u : (uint32_t)d;
    alignment a = {0, 0};
    if (d < 0)
        return a;
    a.up = by > 30 ? by - 30 : 0;
    a.scale = (int32_t)(1u << (by - a.up));
    return a;
}

static MCT_NOINLINE void write_slow(const mct_error_pixels *p, uint32_t i, const mct_acc4 *sum)
{
    const int32_t *acc = (const int32_t *)(const void *)sum;
    mct_error_write_slow(p->error, i, acc, p->mult, p->e_x, p->stats);
}

/* Nothing but 0s below the sign, or nothing but 1s: small is below the power of two above |q|. */
MCT_INLINE uint32_t magnitude(int32_t q)
{
    return (uint32_t)(q ^ (q >> 31));
}

/* Element j of a skip error's word, times a.scale. */
MCT_INLINE int64_t aligned(uint32_t word, uint32_t j, alignment a)
{
    int32_t q = (int8_t)(word >> 8 * j);
    return (int64_t)(int32_t)((uint32_t)q << a.up) * a.scale;
}

/* skipped is a constant where it is called. */
MCT_INLINE void write_all(mct_error_pixels *p, uint32_t i, const mct_acc4 *sum, uint32_t n,
                          int skipped, alignment a)
{
    const mct_error *e = p->error;
    const uint32_t golden = mct_opaque(0x9e3779b9u);
    const mct_acc4 *end = sum + n;
    mct_error_range range = p->range;
    for (; sum != end; sum++, i += p->step) {
        uint32_t mask = mct_mask_get4(e->mask, i), word = 0;
        if (mask != 0) {
            uint32_t r0 = e->key + golden * (i >> 1), r1 = r0 + golden;
            uint32_t skip = skipped ? mct_load4(e->skip + i) : 0;
            int64_t v0, v1, v2, v3;
            int32_t q0, q1, q2, q3;
            mct_mix_both(&r0, &r1);
            v0 = skipped ? aligned(skip, 0, a) + (r0 << 16) : (int64_t)(r0 << 16);
            q0 = (int32_t)((v0 + (int64_t)sum->a0 * (int32_t)p->mult[0]) >> 32);
            v1 = skipped ? aligned(skip, 1, a) + (r0 & 0xffff0000u) : (int64_t)(r0 & 0xffff0000u);
            q1 = (int32_t)((v1 + (int64_t)sum->a1 * (int32_t)p->mult[1]) >> 32);
            v2 = skipped ? aligned(skip, 2, a) + (r1 << 16) : (int64_t)(r1 << 16);
            q2 = (int32_t)((v2 + (int64_t)sum->a2 * (int32_t)p->mult[2]) >> 32);
            v3 = skipped ? aligned(skip, 3, a) + (r1 & 0xffff0000u) : (int64_t)(r1 & 0xffff0000u);
            q3 = (int32_t)((v3 + (int64_t)sum->a3 * (int32_t)p->mult[3]) >> 32);
            if ((magnitude(q0) | magnitude(q1) | magnitude(q2) | magnitude(q3)) > 126u) {
                write_slow(p, i, sum);
                continue;
            }
            word = mct_bytes4(q0, q1, q2, q3);
            word &= (mask * 0x00204081u & 0x01010101u) * 255u; /* bits to bytes */
            range.max = mct_max4(word, range.max);
            range.min = mct_min4(word, range.min);
        }
        mct_store4(p->e_x + i, word);
    }
    p->range = range;
}

#if defined(__ARM_FEATURE_DSP)

/* Errors of four channels as the bytes of r12 less 127 (in r3), random bits from seed. */
#define ERRORS                                                                                     \
    "ldm %[p], {r3, r4, r5}\n\t" /* golden, first, second */                                       \
    "add r6, %[seed], r3\n\t"    /* mct_mix_both */                                                \
    "eor r8, %[seed], %[seed], lsr #16\n\t"                                                        \
    "eor r6, r6, r6, lsr #16\n\t"                                                                  \
    "mul r8, r8, r4\n\t"                                                                           \
    "mul r6, r6, r4\n\t"                                                                           \
    "eor r8, r8, r8, lsr #15\n\t"                                                                  \
    "eor r6, r6, r6, lsr #15\n\t"                                                                  \
    "mul r8, r8, r5\n\t"                                                                           \
    "mul r6, r6, r5\n\t"                                                                           \
    "eor r8, r8, r8, lsr #16\n\t"                                                                  \
    "eor r6, r6, r6, lsr #16\n\t"                                                                  \
    "ldrd r3, r4, [%[sums]], #8\n\t"                                                               \
    "ldrd r5, r9, [%[p], #12]\n\t" /* mult */                                                      \
    "lsl r10, r8, #16\n\t"                                                                         \
    "mov r12, #127\n\t"                                                                            \
    "smlal r10, r12, r3, r5\n\t"                                                                   \
    "bfc r8, #0, #16\n\t"                                                                          \
    "mov lr, #127\n\t"                                                                             \
    "smlal r8, lr, r4, r9\n\t"                                                                     \
    "ldrd r3, r4, [%[sums]], #8\n\t"                                                               \
    "ldrd r5, r9, [%[p], #20]\n\t"                                                                 \
    "lsl r10, r6, #16\n\t"                                                                         \
    "mov r8, #127\n\t"                                                                             \
    "smlal r10, r8, r3, r5\n\t"                                                                    \
    "bfc r6, #0, #16\n\t"                                                                          \
    "mov r10, #127\n\t"                                                                            \
    "smlal r6, r10, r4, r9\n\t"                                                                    \
    "cmp r12, #254\n\t"                                                                            \
    "ittt ls\n\t"                                                                                  \
    "cmpls lr, #254\n\t"                                                                           \
    "cmpls r8, #254\n\t"                                                                           \
    "cmpls r10, #254\n\t"                                                                          \
    "bhi 3f\n\t"                                                                                   \
    "bfi r12, lr, #8, #8\n\t"                                                                      \
    "bfi r12, r8, #16, #8\n\t"                                                                     \
    "bfi r12, r10, #24, #8\n\t"                                                                    \
    "mov r3, #0x7f7f7f7f\n\t"

/* Masks and stores them, and moves on; the flags say whether it was the last pixel. */
#define STORE                                                                                      \
    "ldrd r4, r9, [%[p], #36]\n\t" /* mask, e_x */                                                 \
    "ssub8 r12, r12, r3\n\t"                                                                       \
    "cbz r4, 2f\n\t"                                                                               \
    "lsr r5, %[at], #3\n\t"                                                                        \
    "ldrb r4, [r4, r5]\n\t"                                                                        \
    "and r5, %[at], #4\n\t"                                                                        \
    "lsr r4, r4, r5\n\t"                                                                           \
    "ldr r5, [%[p], #52]\n\t" /* bytes */                                                          \
    "and r4, r4, #15\n\t"                                                                          \
    "ldr r4, [r5, r4, lsl #2]\n\t"                                                                 \
    "and r12, r4\n"                                                                                \
    "2:\n\t"                                                                                       \
    "ldrd r3, r4, [%[p], #44]\n\t" /* range */                                                     \
    "ssub8 r5, r12, r3\n\t"                                                                        \
    "sel r3, r12, r3\n\t"                                                                          \
    "ssub8 r5, r12, r4\n\t"                                                                        \
    "sel r4, r4, r12\n\t"                                                                          \
    "strd r3, r4, [%[p], #44]\n\t"                                                                 \
    "str r12, [r9, %[at]]\n\t"                                                                     \
    "ldrd r3, r4, [%[p], #28]\n\t" /* ahead, step */                                               \
    "ldr r5, [%[p], #56]\n\t"      /* end */                                                       \
    "add %[seed], r3\n\t"                                                                          \
    "add %[at], r4\n\t"                                                                            \
    "cmp %[sums], r5\n\t"

/*
 * Pixels without skip errors up to p->end, or to one that saturates; returns where it stopped, and
 * leaves the element there in *i. An error q is made as q + 127, which is 0 to 254 unless it
 * saturates. Of the compiler's code for this, half is spilled registers.
 */
static const mct_acc4 *write_some(mct_error_pixels *p, uint32_t *i, const mct_acc4 *sums)
{
    uint32_t at = *i, seed = p->error->key + p->golden * (at >> 1);
    __asm volatile("1:\n\t" ERRORS STORE "bne 1b\n\t"
                   "b 4f\n"
                   "3:\n\t"
                   "sub %[sums], #16\n"
                   "4:"
                   : [sums] "+r"(sums), [at] "+r"(at), [seed] "+r"(seed)
                   : [p] "r"(p)
                   : "r3", "r4", "r5", "r6", "r8", "r9", "r10", "r12", "lr", "cc", "memory");
    *i = at;
    return sums;
}

static void write_plain(mct_error_pixels *p, uint32_t i, const mct_acc4 *sums, uint32_t n)
{
    p->end = sums + n;
    for (;; i += p->step, sums++) {
        if (sums != p->end)
            sums = write_some(p, &i, sums);
        if (sums == p->end)
            return;
        write_slow(p, i, sums);
    }
}

#else

static void write_plain(mct_error_pixels *p, uint32_t i, const mct_acc4 *sums, uint32_t n)
{
    const alignment none = {0, 0};
    write_all(p, i, sums, n, 0, none);
}

#endif

void mct_error_write_pixels(mct_error_pixels *p, uint32_t i, const mct_acc4 *sums, uint32_t n)
{
    alignment a;
    if (p->error->skip == NULL) {
        write_plain(p, i, sums, n);
        return;
    }
    a = alignment_of(p->error);
    if (a.scale != 0) {
        write_all(p, i, sums, n, 1, a);
        return;
    }
    for (; n > 0; n--, sums++, i += p->step)
        write_slow(p, i, sums);
}

#endif
