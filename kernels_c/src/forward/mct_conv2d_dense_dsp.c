/*
 * Ungrouped convolution, output rows, with the DSP extension: four pixels are unpacked into the
 * lanes of scratch memory (window, channels in the order of the weights) and reused for all output
 * channels. Without room for four lanes, or for a last lone pixel, there is one.
 *
 * No overflow: see mct_conv2d_row_s8.c; SMLAD adds modulo 2^32, so the order does not matter.
 */
#include "mct_conv2d_fast.h"

#if MCT_DSP

#include "mct_copy.h"
#include "mct_dense.h"
#include "mct_output.h"
#include "mct_scratch.h"

/* acc[0 .. n - 1] to channel o of the n pixels from number `pixel` on; any clamp, any mask. */
static void put_some(const mct_dense *d, uint32_t pixel, uint32_t n, uint32_t o, const int32_t *acc)
{
    const mct_conv2d *p = d->p;
    uint32_t c = p->conv.y.c, at = pixel * c + o;
    int32_t mult = p->mult[o], lo = p->lo, hi = p->hi, z = p->z_y;
    uint32_t shift = p->shift[o];
    for (uint32_t j = 0; j < n; j++, at += c) {
        int32_t v = mct_scale((int32_t)((uint32_t)acc[j] << shift), mult, z);
        mct_put(v, lo, hi, d->y + at, d->mask, d->bit + at);
    }
}

/*
 * All channels of four pixels, where d is regular. With a mask, channels come in eights: they fill
 * a byte of each pixel's mask, which bits collects from the top. The last two arguments are
 * constants where it is called.
 */
MCT_INLINE void make_four(const mct_dense *d, uint32_t pixel, int masked, int two)
{
    const mct_conv2d *p = d->p;
    const mct_dense_block *b0 = d->blocks, *b1 = b0 + 1;
    const int16_t *lanes0 = b0->lanes, *lanes1 = b1->lanes;
    const int32_t *bias = p->bias, *mult = p->mult, *end = bias + p->conv.y.c;
    const int8_t *w0 = b0->w, *w1 = b1->w;
    uint32_t c = p->conv.y.c, bits = 0, n0 = MCT_QUADS(b0->n), n1 = MCT_QUADS(b1->n);
    int32_t z = p->z_y;
    int8_t *y = d->y + pixel * c;
    uint8_t *mask = masked ? d->mask + (d->bit + pixel * c) / 8 : NULL;
    do {
        mct_acc4 a = mct_acc4_of(*bias++);
        w0 = mct_dot_quads(&a, w0, lanes0, n0);
        if (two)
            w1 = mct_dot_quads(&a, w1, lanes1, n1);
        a = mct_scale4(a, 0, *mult++, z);
        if (masked)
            bits = mct_put4_noted(a, y, c, bits >> 1);
        else
            mct_put4(a, y, c);
        y++;
        if (masked && (uint32_t)(end - bias) % 8 == 0) {
            for (uint32_t j = 0; j < MCT_LANES; j++)
                mask[j * (c / 8)] = (uint8_t)(bits >> 8 * j);
            mask++;
            bits = 0;
        }
    } while (bias != end);
}

/* One function for each kind: the compiler has too few registers for more than one loop. */
static MCT_NOINLINE void make_one_block(const mct_dense *d, uint32_t pixel)
{
    make_four(d, pixel, 0, 0);
}

static MCT_NOINLINE void make_one_block_masked(const mct_dense *d, uint32_t pixel)
{
    make_four(d, pixel, 1, 0);
}

static MCT_NOINLINE void make_two_blocks_masked(const mct_dense *d, uint32_t pixel)
{
    make_four(d, pixel, 1, 1);
}

/* acc += the weights of channel o in a block times the lanes, reading no byte behind them. */
static mct_acc4 dot_block(mct_acc4 acc, const mct_dense_block *b, uint32_t o)
{
    uint32_t rest = b->n % 4;
    const int8_t *w = mct_dot_quads(&acc, b->w + o * b->row, b->lanes, b->n / 4);
    if (rest != 0)
        acc = mct_dot_quad(acc, mct_load_some(w, rest), b->lanes + b->n / 4 * MCT_LANE_STEP);
    return acc;
}

/* The same as make_four for n pixels, any clamp, any mask, any weights. */
static MCT_NOINLINE void make_any(const mct_dense *d, uint32_t pixel, uint32_t n)
{
    for (uint32_t o = 0; o < d->p->conv.y.c; o++) {
        mct_acc4 a = dot_block(mct_acc4_of(d->p->bias[o]), &d->blocks[0], o);
        if (d->blocks[1].n != 0)
            a = dot_block(a, &d->blocks[1], o);
        const int32_t acc[MCT_LANES] = {a.a0, a.a1, a.a2, a.a3};
        put_some(d, pixel, n, o, acc);
    }
}

/* acc[0], acc[1] += two channels' weights of a block times the only lane. */
static void dot_pair(int32_t acc[2], const mct_dense_block *b, uint32_t o, uint32_t next)
{
    const int8_t *w0 = b->w + o * b->row, *w1 = w0 + next * b->row;
    const int16_t *v = b->lanes;
    uint32_t rest = b->n % 4;
    mct_dot_pair(acc, w0, w1, v, b->n / 4);
    if (rest != 0) {
        const int8_t *end = w0 + b->n - rest;
        uint32_t even = mct_load_pair(v + b->n - rest), odd = mct_load_pair(v + b->n - rest + 2);
        uint32_t word = mct_load_some(end, rest);
        acc[0] = mct_smlad(even, mct_even(word), mct_smlad(odd, mct_odd(word), acc[0]));
        word = mct_load_some(end + next * b->row, rest);
        acc[1] = mct_smlad(even, mct_even(word), mct_smlad(odd, mct_odd(word), acc[1]));
    }
}

/* All channels of a pixel, which is in a lane of its own. */
static void make_one(const mct_dense *d, uint32_t pixel)
{
    uint32_t c = d->p->conv.y.c;
    for (uint32_t o = 0; o < c; o += 2) {
        uint32_t next = o + 1 < c ? 1 : 0; /* a lone channel is made twice */
        int32_t acc[2] = {d->p->bias[o], d->p->bias[o + next]};
        dot_pair(acc, &d->blocks[0], o, next);
        if (d->blocks[1].n != 0)
            dot_pair(acc, &d->blocks[1], o, next);
        put_some(d, pixel, 1, o, acc);
        if (next != 0)
            put_some(d, pixel, 1, o + 1, acc + 1);
    }
}

/*
 * Full range of the output, no shifts (of multipliers above 1/2, which are rare), rows of weights
 * at multiples of 4, and masks of whole bytes.
 */
static int is_regular(const mct_dense *d)
{
    const mct_conv2d *p = d->p;
    uint32_t shifts = mct_load_some((const int8_t *)p->shift, p->conv.y.c % 4);
    for (uint32_t o = p->conv.y.c % 4; o < p->conv.y.c; o += 4)
        shifts |= mct_load4((const int8_t *)p->shift + o);
    return shifts == 0 && p->lo == INT8_MIN && p->hi == INT8_MAX && d->blocks[0].row % 4 == 0 &&
           d->blocks[1].row % 4 == 0 && (d->mask == NULL || p->conv.y.c % 8 == 0);
}

/* All channels of the n pixels in the lanes. */
static void make_lanes(const mct_dense *d, uint32_t pixel, uint32_t n)
{
    int masked = d->mask != NULL, two = d->blocks[1].n != 0;
    if (n < MCT_LANES || !d->regular || (two && !masked))
        make_any(d, pixel, n);
    else if (two) /* partly trained, so there is a mask as a rule */
        make_two_blocks_masked(d, pixel);
    else
        masked ? make_one_block_masked(d, pixel) : make_one_block(d, pixel);
}

static void make_pixels(mct_dense *d, uint32_t pixels, int four)
{
    d->regular = is_regular(d);
    for (uint32_t at = 0, n; at < pixels; at += n) {
        n = pixels - at < MCT_LANES ? pixels - at : MCT_LANES;
        if (!four || n == 1) {
            n = 1;
            mct_dense_fill(d, 1, 4);
            make_one(d, at);
            continue;
        }
        mct_dense_fill(d, n, MCT_LANE_STEP);
        make_lanes(d, at, n);
    }
}

/*
 * Copies the weights of a block to where each channel's are whole quads. What follows them in the
 * last one meets a 0: so it is what comes next in the block, where that much is left of it.
 */
static void pad_weights(mct_dense_block *b, uint32_t channels, int8_t *to)
{
    const int8_t *from = b->w;
    b->w = to;
    b->row = 4 * MCT_QUADS(b->n);
    for (; channels * b->n >= b->row; channels--, from += b->n) {
        for (const int8_t *at = from, *end = from + b->n; at < end; at += 4, to += 4)
            mct_store4(to, mct_load4(at));
    }
    for (; channels > 0; channels--, from += b->n)
        to = mct_fill(mct_copy(to, from, b->n), 0, b->row - b->n);
}

int mct_conv2d_dense_dsp(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                         int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    const mct_dense_scratch need = mct_dense_scratch_of(conv);
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, frozen = conv->x.c - conv->trained;
    uint32_t four = need.window + MCT_LANES * need.lane;
    int16_t *lanes = p->scratch.base;
    uint32_t nt = taps * conv->trained, nf = taps * frozen;
    mct_dense_block trained = {conv->w_trained, conv->trained, nt, nt, conv->perm, NULL};
    mct_dense_block rest = {conv->w_frozen, frozen, nf, nf, NULL, NULL};
    mct_dense d = {.p = p, .x = x, .y = y, .mask = mask, .oy = oy};
    if (conv->groups != 1 || p->scratch.bytes < need.window + need.lane)
        return 0;
    lanes += need.window / 2;
    if (conv->perm != NULL)
        rest.perm = conv->perm + conv->trained;
    trained.lanes = lanes;
    rest.lanes = lanes + MCT_QUADS(nt) * (p->scratch.bytes >= four ? MCT_LANE_STEP : 4);
    d.blocks[0] = conv->trained != 0 ? trained : rest; /* a lone block is the first */
    if (conv->trained != 0)
        d.blocks[1] = rest;
    if (need.weights != 0 && p->scratch.bytes >= four + need.weights)
        pad_weights(&d.blocks[0], conv->y.c, (int8_t *)p->scratch.base + four);
    d.bit = oy * conv->y.w * conv->y.c;
    if (need.window != 0) {
        d.window = p->scratch.base;
        memset(d.window, 0, need.window); /* what follows the elements stays 0 */
    }
    make_pixels(&d, rows * conv->y.w, p->scratch.bytes >= four);
    return 1;
}

#endif
