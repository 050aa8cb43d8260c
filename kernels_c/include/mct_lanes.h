/*
 * Sums of products for the fast kernels of cores with the DSP extension: a vector of int8 is
 * multiplied with four vectors of int16. These lie in scratch memory in quads: for each four
 * elements v0 .. v3, and for each lane, the words (v0, v2) and (v1, v3). This is the order in which
 * SXTB16 takes four int8 apart, so only these are unpacked, once for all lanes. The last quad is
 * filled with zeros.
 */
#ifndef MCT_LANES_H
#define MCT_LANES_H

#include "mct_dsp.h"

#define MCT_LANES 4u

/* Halfwords of n elements in one lane of four, and in a lane of its own. */
#define MCT_QUADS(n)      (((uint32_t)(n) + 3) / 4)
#define MCT_LANE_STEP     (4 * MCT_LANES) /* from quad to quad of a lane */
#define MCT_LANES_SIZE(n) (MCT_QUADS(n) * MCT_LANE_STEP)

#if MCT_DSP

/* Accumulators of four lanes. Not an array: they must stay in registers. */
typedef struct {
    int32_t a0, a1, a2, a3;
} mct_acc4;

MCT_INLINE mct_acc4 mct_acc4_of(int32_t a)
{
    mct_acc4 acc = {a, a, a, a};
    return acc;
}

/* acc += one quad, as two words, times one of each lane of v. */
MCT_INLINE mct_acc4 mct_dot_words(mct_acc4 acc, uint32_t even, uint32_t odd, const int16_t *v)
{
    acc.a0 = mct_smlad(mct_load_pair(v), even, acc.a0);
    acc.a0 = mct_smlad(mct_load_pair(v + 2), odd, acc.a0);
    acc.a1 = mct_smlad(mct_load_pair(v + 4), even, acc.a1);
    acc.a1 = mct_smlad(mct_load_pair(v + 6), odd, acc.a1);
    acc.a2 = mct_smlad(mct_load_pair(v + 8), even, acc.a2);
    acc.a2 = mct_smlad(mct_load_pair(v + 10), odd, acc.a2);
    acc.a3 = mct_smlad(mct_load_pair(v + 12), even, acc.a3);
    acc.a3 = mct_smlad(mct_load_pair(v + 14), odd, acc.a3);
    return acc;
}

/* The same from the quad's bytes. */
MCT_INLINE mct_acc4 mct_dot_quad(mct_acc4 acc, uint32_t w, const int16_t *v)
{
    return mct_dot_words(acc, mct_even(w), mct_odd(w), v);
}

#if defined(__ARM_FEATURE_DSP)

/*
 * Loops over n quads of w and the lanes of v. The compiler's own code for them spills registers;
 * these have none to spare. `load` puts a quad into even and odd, and loads the first lanes. The
 * first round, of four quads, makes n % 4 of them: `jumps` are the halfwords from the
 * table's start to its end (nothing to jump over) and to the last one, two and three quads.
 */
#define MCT_QUAD(load)                                                                             \
    load "smlad %[a0], r3, %[even], %[a0]\n\t"                                                     \
         "smlad %[a1], r5, %[even], %[a1]\n\t"                                                     \
         "smlad %[a0], r4, %[odd], %[a0]\n\t"                                                      \
         "smlad %[a1], r6, %[odd], %[a1]\n\t"                                                      \
         "ldmia.w %[v]!, {r3, r4, r5, r6}\n\t"                                                     \
         "smlad %[a2], r3, %[even], %[a2]\n\t"                                                     \
         "smlad %[a3], r5, %[even], %[a3]\n\t"                                                     \
         "smlad %[a2], r4, %[odd], %[a2]\n\t"                                                      \
         "smlad %[a3], r6, %[odd], %[a3]\n\t"

#define MCT_QUADS_LOOP(quad, jumps)                                                                \
    mct_acc4 a = *acc;                                                                             \
    uint32_t even, odd;                                                                            \
    __asm volatile("and %[odd], %[n], #3\n\t"                                                      \
                   "tbb [pc, %[odd]]\n\t"                                                          \
                   ".byte " jumps "\n\t"                                                           \
                   "cmp.w %[n], #0\n\t"                                                            \
                   "beq.w 2f\n"                                                                    \
                   "1:\n\t" quad quad quad quad "subs %[n], #4\n\t"                                \
                   "bhi 1b\n"                                                                      \
                   "2:"                                                                            \
                   : [a0] "+r"(a.a0), [a1] "+r"(a.a1), [a2] "+r"(a.a2), [a3] "+r"(a.a3),           \
                     [w] "+r"(w), [v] "+r"(v), [n] "+r"(n), [even] "=&r"(even), [odd] "=&r"(odd)   \
                   :                                                                               \
                   : "r3", "r4", "r5", "r6", "cc", "memory");                                      \
    *acc = a

#endif

/* acc += n quads of w times the lanes of v: 13 instructions, 26 halfwords, for 16 products. Returns
 * what follows in w.
 */
MCT_INLINE const int8_t *mct_dot_quads(mct_acc4 *acc, const int8_t *w, const int16_t *v, uint32_t n)
{
#if defined(__ARM_FEATURE_DSP)
#define QUAD                                                                                       \
    MCT_QUAD("ldr.w %[odd], [%[w]], #4\n\t"                                                        \
             "ldmia.w %[v]!, {r3, r4, r5, r6}\n\t"                                                 \
             "sxtb16 %[even], %[odd]\n\t"                                                          \
             "sxtb16 %[odd], %[odd], ror #8\n\t")
    MCT_QUADS_LOOP(QUAD, "2, 84, 58, 32");
#undef QUAD
#else
    for (; n > 0; n--, w += 4, v += MCT_LANE_STEP)
        *acc = mct_dot_quad(*acc, mct_load4(w), v);
#endif
    return w;
}

/* The same for quads that are unpacked already, as in a lane of their own, at a multiple of 4: 11
 * instructions, 22 halfwords, for 16 products.
 */
MCT_INLINE const int16_t *mct_dot_wide(mct_acc4 *acc, const int16_t *w, const int16_t *v,
                                       uint32_t n)
{
#if defined(__ARM_FEATURE_DSP)
#define QUAD                                                                                       \
    MCT_QUAD("ldrd %[even], %[odd], [%[w]], #8\n\t"                                                \
             "ldmia.w %[v]!, {r3, r4, r5, r6}\n\t")
    MCT_QUADS_LOOP(QUAD, "2, 72, 50, 28");
#undef QUAD
#else
    for (; n > 0; n--, w += 4, v += MCT_LANE_STEP)
        *acc = mct_dot_words(*acc, mct_load_pair(w), mct_load_pair(w + 2), v);
#endif
    return w;
}

/* acc[0], acc[1] += n quads of w0 and of w1 times a lane of its own: 11 instructions for 8
 * products.
 */
MCT_INLINE void mct_dot_pair(int32_t acc[2], const int8_t *w0, const int8_t *w1, const int16_t *v,
                             uint32_t n)
{
#if defined(__ARM_FEATURE_DSP)
    int32_t a0 = acc[0], a1 = acc[1];
#define QUAD                                                                                       \
    "ldr r3, [%[w0]], #4\n\t"                                                                      \
    "ldr r4, [%[w1]], #4\n\t"                                                                      \
    "ldrd r5, r6, [%[v]], #8\n\t"                                                                  \
    "sxtb16 r8, r3\n\t"                                                                            \
    "sxtb16 r3, r3, ror #8\n\t"                                                                    \
    "smlad %[a0], r5, r8, %[a0]\n\t"                                                               \
    "sxtb16 r8, r4\n\t"                                                                            \
    "sxtb16 r4, r4, ror #8\n\t"                                                                    \
    "smlad %[a1], r5, r8, %[a1]\n\t"                                                               \
    "smlad %[a0], r6, r3, %[a0]\n\t"                                                               \
    "smlad %[a1], r6, r4, %[a1]\n\t"
    __asm volatile(
        "subs %[n], #4\n\t"
        "blo 2f\n"
        "1:\n\t" QUAD QUAD QUAD QUAD "subs %[n], #4\n\t"
        "bhs 1b\n"
        "2:\n\t"
        "adds %[n], #4\n\t"
        "beq 4f\n"
        "3:\n\t" QUAD "subs %[n], #1\n\t"
        "bne 3b\n"
        "4:"
        : [a0] "+r"(a0), [a1] "+r"(a1), [w0] "+r"(w0), [w1] "+r"(w1), [v] "+r"(v), [n] "+r"(n)
        :
        : "r3", "r4", "r5", "r6", "r8", "cc", "memory");
#undef QUAD
    acc[0] = a0;
    acc[1] = a1;
#else
    for (; n > 0; n--, w0 += 4, w1 += 4, v += 4) {
        uint32_t even = mct_load_pair(v), odd = mct_load_pair(v + 2);
        uint32_t x = mct_load4(w0), y = mct_load4(w1);
        acc[0] = mct_smlad(even, mct_even(x), mct_smlad(odd, mct_odd(x), acc[0]));
        acc[1] = mct_smlad(even, mct_even(y), mct_smlad(odd, mct_odd(y), acc[1]));
    }
#endif
}

/* Each accumulator shifted, scaled, and moved to the zero point, before the clamp. */
MCT_INLINE mct_acc4 mct_scale4(mct_acc4 a, uint32_t shift, int32_t mult, int32_t z)
{
    if (shift != 0) {
        a.a0 = (int32_t)((uint32_t)a.a0 << shift);
        a.a1 = (int32_t)((uint32_t)a.a1 << shift);
        a.a2 = (int32_t)((uint32_t)a.a2 << shift);
        a.a3 = (int32_t)((uint32_t)a.a3 << shift);
    }
    a.a0 = mct_scale(a.a0, mult, z);
    a.a1 = mct_scale(a.a1, mult, z);
    a.a2 = mct_scale(a.a2, mult, z);
    a.a3 = mct_scale(a.a3, mult, z);
    return a;
}

/* x, but the compiler does not know: so it keeps no copies of x times something. */
MCT_INLINE uint32_t mct_opaque(uint32_t x)
{
    __asm("" : "+r"(x));
    return x;
}

/* Clamps the four and stores them step bytes apart. */
MCT_INLINE void mct_put4(mct_acc4 a, int8_t *y, uint32_t step)
{
    step = mct_opaque(step);
    y[3 * step] = (int8_t)mct_sat8(a.a3);
    y[2 * step] = (int8_t)mct_sat8(a.a2);
    y[step] = (int8_t)mct_sat8(a.a1);
    y[0] = (int8_t)mct_sat8(a.a0);
}

/* The same; returns bits, with the top bit of byte j set where a_j is an int8. */
MCT_INLINE uint32_t mct_put4_noted(mct_acc4 a, int8_t *y, uint32_t step, uint32_t bits)
{
    int32_t s0, s1, s2, s3;
    step = mct_opaque(step);
    MCT_SAT8_NOTE(s0, a.a0, bits, 0x80u);
    MCT_SAT8_NOTE(s1, a.a1, bits, 0x8000u);
    MCT_SAT8_NOTE(s2, a.a2, bits, 0x800000u);
    MCT_SAT8_NOTE(s3, a.a3, bits, 0x80000000u);
    y[3 * step] = (int8_t)s3;
    y[2 * step] = (int8_t)s2;
    y[step] = (int8_t)s1;
    y[0] = (int8_t)s0;
    return bits;
}

/* The low bytes of four numbers in one word. */
MCT_INLINE uint32_t mct_bytes4(int32_t b0, int32_t b1, int32_t b2, int32_t b3)
{
#if defined(__ARM_FEATURE_DSP)
    __asm("bfi %0, %1, #8, #8\n\t"
          "bfi %0, %2, #16, #8\n\t"
          "bfi %0, %3, #24, #8"
          : "+r"(b0)
          : "r"(b1), "r"(b2), "r"(b3));
    return (uint32_t)b0;
#else
    return (uint8_t)b0 | (uint32_t)(uint8_t)b1 << 8 | (uint32_t)(uint8_t)b2 << 16 |
           (uint32_t)b3 << 24;
#endif
}

/* Clamps the four to the bytes of a word; bit j of *noted is set where a_j is an int8. */
MCT_INLINE uint32_t mct_pack4_noted(mct_acc4 a, uint32_t *noted)
{
    int32_t s0, s1, s2, s3;
    uint32_t bits = 0;
    MCT_SAT8_NOTE(s0, a.a0, bits, 1u);
    MCT_SAT8_NOTE(s1, a.a1, bits, 2u);
    MCT_SAT8_NOTE(s2, a.a2, bits, 4u);
    MCT_SAT8_NOTE(s3, a.a3, bits, 8u);
    *noted = bits;
    return mct_bytes4(s0, s1, s2, s3);
}

/* Puts one quad into a lane. */
MCT_INLINE void mct_put_quad(int16_t *lane, uint32_t word)
{
    mct_store_pair(lane, mct_even(word));
    mct_store_pair(lane + 2, mct_odd(word));
}

/* Puts the n elements at x into a lane; step: halfwords from quad to quad. */
static inline void mct_widen(int16_t *lane, uint32_t step, const int8_t *x, uint32_t n)
{
    for (; n >= 4; n -= 4, x += 4, lane += step)
        mct_put_quad(lane, mct_load4(x));
    if (n != 0)
        mct_put_quad(lane, mct_load_some(x, n));
}

/* Puts n quads of four vectors, at x and step bytes apart from there on, into the lanes. */
MCT_INLINE void mct_widen_four(int16_t *lanes, const int8_t *x, uint32_t step, uint32_t n)
{
    for (; n > 0; n--, x += 4, lanes += MCT_LANE_STEP) {
        const int8_t *third = x + 2 * step;
        mct_put_quad(lanes, mct_load4(x));
        mct_put_quad(lanes + 4, mct_load4(x + step));
        mct_put_quad(lanes + 8, mct_load4(third));
        mct_put_quad(lanes + 12, mct_load4(third + step));
    }
}

#endif
#endif
