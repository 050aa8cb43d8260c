/*
 * Error of a pointwise convolution's input for cores without the DSP extension: the products
 * e_y * r of a pixel are listed in scratch memory first, without those that are 0, of which masks
 * make many.
 *
 * No overflow: see mct_conv2d_dx_s8.c; the sums are the same.
 */
#include <stddef.h>

#include "mct_conv2d_dx_fast.h"

#if !MCT_DSP

#include "mct_error.h"
#include "mct_kernels.h"

#define LANES 4u /* input channels computed together */

typedef struct {
    int32_t er;
    uint32_t o; /* output channel */
} term;

/* One pixel: index of its first channel, and its terms. */
typedef struct {
    const mct_conv2d_dx *p;
    const term *terms, *end;
    uint32_t mult, index;
} pixel;

/* A block of weights (c_out, cols); perm lists their input channels, NULL: in order. */
typedef struct {
    const int8_t *w;
    uint32_t cols;
    const uint16_t *perm;
} block;

/* acc[j] = sum of the terms times w[o * cols + j * lane]. */
static MCT_NOINLINE void dot(int32_t acc[LANES], const pixel *px, const int8_t *w, uint32_t cols,
                             uint32_t lane)
{
    int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
#pragma GCC unroll 2
    for (const term *t = px->terms, *end = px->end; t != end; t++) {
        const int8_t *v = w + t->o * cols;
        int32_t er = t->er;
        a0 = mct_mac(a0, er, v[0]);
        a1 = mct_mac(a1, er, v[lane]);
        a2 = mct_mac(a2, er, v[2 * lane]);
        a3 = mct_mac(a3, er, v[3 * lane]);
    }
    acc[0] = a0;
    acc[1] = a1;
    acc[2] = a2;
    acc[3] = a3;
}

/* The pixel's channels in a block, LANES at a time; what is left one by one with lane 0. */
static void make_block(const pixel *px, const block *b, int8_t *e_x, mct_error_stats *stats)
{
    uint32_t lanes;
    for (uint32_t i = 0; i < b->cols; i += lanes) {
        int32_t acc[LANES];
        lanes = b->cols - i >= LANES ? LANES : 1;
        dot(acc, px, b->w + i, b->cols, lanes == 1 ? 0 : 1);
        for (uint32_t j = 0; j < lanes; j++) {
            uint32_t c = b->perm != NULL ? b->perm[i + j] : i + j;
            mct_error_write(&px->p->error, px->index + c, acc[j], px->mult, e_x, stats);
        }
    }
}

/* Lists the products of a pixel; returns the end. */
static const term *list_terms(term *to, const int8_t *e, const int16_t *r, uint32_t outs)
{
    for (uint32_t o = 0; o < outs; o++) {
        int32_t er = e[o] * r[o];
        if (er == 0)
            continue;
        to->er = er;
        to->o = o;
        to++;
    }
    return to;
}

static int is_for(const mct_conv2d_dx *p)
{
    const mct_window *k = &p->conv.win;
    return p->conv.groups == 1 && k->kh == 1 && k->kw == 1 && k->sh == 1 && k->sw == 1 &&
           p->scratch.bytes >= p->conv.y.c * sizeof(term);
}

int mct_conv2d_dx_pointwise_s8(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                               mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    const block trained = {conv->w_trained, conv->trained, conv->perm};
    const block frozen = {conv->w_frozen, (uint32_t)conv->x.c - conv->trained,
                          conv->perm != NULL ? conv->perm + conv->trained : NULL};
    term *terms = p->scratch.base;
    pixel px = {.p = p, .terms = terms};
    if (!is_for(p))
        return 0;
    px.mult = mct_error_multiplier(p->mant[0], p->exp[0], p->f, p->error.e_out, p->e_y);
    for (uint32_t left = (uint32_t)conv->x.h * conv->x.w; left > 0; left--, e_y += conv->y.c) {
        px.end = list_terms(terms, e_y, p->r, conv->y.c);
        make_block(&px, &trained, e_x, stats);
        make_block(&px, &frozen, e_x, stats);
        px.index += conv->x.c;
    }
    return 1;
}

#endif
