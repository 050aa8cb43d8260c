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
} parts;

/* Channels i to i + n - 1 of the four pixels from number `pixel` on. */
static void fill_lanes(const parts *d, uint32_t pixel, uint32_t i, uint32_t n)
{
    const mct_shape *shape = &d->p->conv.x;
    for (uint32_t j = 0; j < MCT_LANES; j++, pixel++) {
        const int8_t *row = mct_row(d->x, (int32_t)(d->oy + pixel / shape->w));
        mct_widen(d->lanes + 4 * j, MCT_LANE_STEP, row + pixel % shape->w * shape->c + i, n);
    }
}

static void put(const parts *d, uint32_t pixel, uint32_t o, mct_acc4 acc)
{
    const mct_conv2d *p = d->p;
    uint32_t c = p->conv.y.c, at = pixel * c + o, bit = d->oy * p->conv.y.w * c + at;
    mct_acc4 a = mct_scale4(acc, p->shift[o], p->mult[o], p->z_y);
    mct_put(a.a0, p->lo, p->hi, d->y + at, d->mask, bit);
    mct_put(a.a1, p->lo, p->hi, d->y + at + c, d->mask, bit + c);
    mct_put(a.a2, p->lo, p->hi, d->y + at + 2 * c, d->mask, bit + 2 * c);
    mct_put(a.a3, p->lo, p->hi, d->y + at + 3 * c, d->mask, bit + 3 * c);
}

/* Apart, for the loop needs all registers. */
static MCT_NOINLINE void dot(mct_acc4 *acc, const int8_t *w, const int16_t *lanes, uint32_t quads)
{
    mct_dot_quads(acc, w, lanes, quads);
}

/* Output channels o to end - 1 of four pixels. */
static void make_some(const parts *d, uint32_t pixel, uint32_t o, uint32_t end)
{
    uint32_t c = d->p->conv.x.c, n;
    for (uint32_t i = 0; i < c; i += n) {
        const int8_t *w = d->w + o * c + i;
        mct_acc4 *sum = d->sums;
        n = c - i < d->part ? c - i : d->part;
        fill_lanes(d, pixel, i, n);
        for (uint32_t k = o; k < end; k++, w += c, sum++) {
            mct_acc4 acc = i == 0 ? mct_acc4_of(d->p->bias[k]) : *sum;
            dot(&acc, w, d->lanes, n / 4);
            if (i + n == c)
                put(d, pixel, k, acc);
            else
                *sum = acc;
        }
    }
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

int mct_conv2d_parts_dsp(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                         int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    uint32_t pixels = rows * conv->y.w, bytes = p->scratch.bytes;
    const int8_t *w = conv->trained != 0 ? conv->w_trained : conv->w_frozen;
    parts d = {.p = p, .x = x, .y = y, .mask = mask, .w = w, .oy = oy};
    d.outs = bytes / (4 * (uint32_t)sizeof(mct_acc4)); /* a quarter of the scratch memory */
    d.sums = p->scratch.base;
    d.lanes = (int16_t *)(void *)(d.sums + d.outs);
    d.part = (bytes - d.outs * (uint32_t)sizeof(mct_acc4)) / (2 * MCT_LANE_STEP) * 4;
    if (d.part < LEAST_PART || !is_for(p, pixels))
        return 0;
    for (uint32_t pixel = 0; pixel < pixels; pixel += MCT_LANES) {
        for (uint32_t o = 0; o < conv->y.c; o += d.outs)
            make_some(&d, pixel, o, conv->y.c - o < d.outs ? conv->y.c : o + d.outs);
    }
    return 1;
}

#endif
