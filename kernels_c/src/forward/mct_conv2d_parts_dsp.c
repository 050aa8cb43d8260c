/*
 * Pointwise convolution, output rows, with the DSP extension, where scratch memory has no room for
 * four whole pixels: a part of the channels of four pixels at a time is unpacked into the lanes,
 * and the sums of some output channels wait in scratch memory for the next part. The more channels
 * wait, the less often the input is unpacked.
 *
 * No overflow: see mct_conv2d_row_s8.c; SMLAD adds modulo 2^32, so the order does not matter.
 */
#include "mct_conv2d_fast.h"

#if MCT_DSP

#include "mct_output.h"
#include "mct_scratch.h"

enum { LEAST_PART = 32 }; /* channels; with fewer, one pixel at a time is faster */

typedef struct {
    const mct_conv2d *p;
    const mct_rows *x;
    int8_t *y;
    uint8_t *mask;
    const int8_t *w;
    mct_acc4 *sums; /* (outs) */
    int16_t *lanes; /* of `part` channels */
    uint32_t outs, part;
    uint32_t oy; /* the first row */
    int regular; /* full range of the output, and masks of whole bytes, eight channels each */
} parts;

/* Channels i to i + n - 1 of the four pixels from number `pixel` on. */
static void fill_lanes(const parts *d, uint32_t pixel, uint32_t i, uint32_t n)
{
    const mct_shape *shape = &d->p->conv.x;
    uint32_t w = shape->w, c = shape->c;
    if (w % MCT_LANES == 0) {
        const int8_t *row = mct_row(d->x, (int32_t)(d->oy + pixel / w));
        mct_widen_four(d->lanes, row + pixel % w * c + i, c, n / 4);
        return;
    }
    for (uint32_t j = 0; j < MCT_LANES; j++, pixel++) {
        const int8_t *row = mct_row(d->x, (int32_t)(d->oy + pixel / w));
        mct_widen(d->lanes + 4 * j, MCT_LANE_STEP, row + pixel % w * c + i, n);
    }
}

/* Outputs o to o + n - 1 of four pixels: mct_conv2d_dense_dsp's make_four, from sums. */
static MCT_NOINLINE void put_regular(const parts *d, uint32_t pixel, uint32_t o, uint32_t n)
{
    const mct_conv2d *p = d->p;
    uint32_t c = p->conv.y.c, at = pixel * c + o, bits = 0;
    uint8_t *mask = d->mask != NULL ? d->mask + (d->oy * p->conv.y.w * c + at) / 8 : NULL;
    int8_t *y = d->y + at;
    for (uint32_t k = 0; k < n; k++, y++) {
        mct_acc4 a = mct_scale4(d->sums[k], p->shift[o + k], p->mult[o + k], p->z_y);
        bits = mct_put4_noted(a, y, c, bits >> 1);
        if (mask == NULL || k % 8 != 7)
            continue;
        for (uint32_t j = 0; j < MCT_LANES; j++)
            mask[j * (c / 8)] = (uint8_t)(bits >> 8 * j);
        mask++;
        bits = 0;
    }
}

/* The same for any clamp and any mask. */
static MCT_NOINLINE void put_any(const parts *d, uint32_t pixel, uint32_t o, uint32_t n)
{
    const mct_conv2d *p = d->p;
    uint32_t c = p->conv.y.c, start = d->oy * p->conv.y.w * c;
    for (uint32_t k = 0; k < n; k++, o++) {
        mct_acc4 a = mct_scale4(d->sums[k], p->shift[o], p->mult[o], p->z_y);
        const int32_t v[MCT_LANES] = {a.a0, a.a1, a.a2, a.a3};
        for (uint32_t j = 0, at = pixel * c + o; j < MCT_LANES; j++, at += c)
            mct_put(v[j], p->lo, p->hi, d->y + at, d->mask, start + at);
    }
}

/* n sums += rows of weights, c apart, times the lanes. */
static MCT_NOINLINE void add_products(const parts *d, const int8_t *w, uint32_t quads, uint32_t n)
{
    uint32_t next = d->p->conv.x.c - 4 * quads;
    const int16_t *lanes = d->lanes;
    for (mct_acc4 *sum = d->sums, *end = sum + n; sum != end; sum++, w += next) {
        mct_acc4 acc = *sum;
        w = mct_dot_quads(&acc, w, lanes, quads);
        *sum = acc;
    }
}

/* Output channels o to o + n - 1 of four pixels. */
static void make_some(const parts *d, uint32_t pixel, uint32_t o, uint32_t n)
{
    uint32_t c = d->p->conv.x.c, m;
    for (uint32_t k = 0; k < n; k++)
        d->sums[k] = mct_acc4_of(d->p->bias[o + k]);
    for (uint32_t i = 0; i < c; i += m) {
        m = c - i < d->part ? c - i : d->part;
        fill_lanes(d, pixel, i, m);
        add_products(d, d->w + o * c + i, m / 4, n);
    }
    if (d->regular)
        put_regular(d, pixel, o, n);
    else
        put_any(d, pixel, o, n);
}

/* Pixels in fours, weights in one block and in quads, as they lie in the image or the state. */
static int is_for(const mct_conv2d *p, uint32_t pixels)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    int pointwise = k->kh == 1 && k->kw == 1 && k->sh == 1 && k->sw == 1;
    return conv->groups == 1 && pointwise && conv->perm == NULL && conv->x.c % 4 == 0 &&
           pixels % MCT_LANES == 0 &&
           p->scratch.bytes < MCT_LANES * mct_dense_scratch_of(conv).lane;
}

static int is_regular(const mct_conv2d *p, const uint8_t *mask)
{
    return p->lo == INT8_MIN && p->hi == INT8_MAX && (mask == NULL || p->conv.y.c % 8 == 0);
}

int mct_conv2d_parts_dsp(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                         int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    uint32_t pixels = rows * conv->y.w, bytes = p->scratch.bytes;
    const int8_t *w = conv->trained != 0 ? conv->w_trained : conv->w_frozen;
    parts d = {.p = p, .x = x, .y = y, .mask = mask, .w = w, .oy = oy};
    d.outs = bytes * 2 / (5 * (uint32_t)sizeof(mct_acc4)) & ~7u; /* two fifths of the memory */
    d.sums = p->scratch.base;
    d.lanes = (int16_t *)(void *)(d.sums + d.outs);
    d.part = (bytes - d.outs * (uint32_t)sizeof(mct_acc4)) / (2 * MCT_LANE_STEP) * 4;
    if (d.outs == 0 || d.part < LEAST_PART || !is_for(p, pixels))
        return 0;
    d.regular = is_regular(p, mask);
    for (uint32_t pixel = 0; pixel < pixels; pixel += MCT_LANES) {
        for (uint32_t o = 0; o < conv->y.c; o += d.outs)
            make_some(&d, pixel, o, conv->y.c - o < d.outs ? conv->y.c - o : d.outs);
    }
    return 1;
}

#endif
