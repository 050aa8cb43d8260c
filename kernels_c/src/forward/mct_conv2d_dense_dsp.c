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
#include "mct_output.h"
#include "mct_scratch.h"
#include "mct_window.h"

/* One of the two blocks of weights: its place in the lanes. */
typedef struct {
    const int8_t *w;
    uint32_t cols, n;     /* channels a tap, elements a window */
    uint32_t row;         /* bytes from one output channel's weights to the next's */
    const uint16_t *perm; /* its input channels, NULL: in order */
    int16_t *lanes;
} block;

typedef struct {
    const mct_conv2d *p;
    const mct_rows *x;
    int8_t *y;
    uint8_t *mask;
    uint32_t bit; /* of y[0] in mask */
    block blocks[2];
    int8_t *window;  /* one block's elements of a pixel; NULL: they lie in x as they are */
    uint32_t oy, ox; /* the next pixel to unpack */
} dense;

/* The elements of block b in the window at input row iy, column ix. */
static void copy_window(const dense *d, const block *b, int32_t iy, int32_t ix)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    const mct_taps ty = mct_taps_inside(iy, k->kh, conv->x.h);
    const mct_taps tx = mct_taps_inside(ix, k->kw, conv->x.w);
    uint32_t n = (uint32_t)(tx.end - tx.first), row = k->kw * b->cols;
    uint32_t left = (uint32_t)tx.first * b->cols, right = row - left - n * b->cols;
    uint32_t at = (uint32_t)(ix + tx.first) * conv->x.c;
    const int8_t *from = mct_row(d->x, iy + ty.first);
    int8_t z = d->p->z_x, *to = mct_fill(d->window, z, (uint32_t)ty.first * row);
    for (int32_t y = ty.first; y < ty.end; y++) {
        to = mct_fill(to, z, left);
        if (b->perm == NULL)
            to = mct_copy(to, from + at, n * b->cols);
        for (uint32_t i = 0; b->perm != NULL && i < n; i++)
            to = mct_gather_to(to, from + at + i * conv->x.c, b->perm, b->cols);
        to = mct_fill(to, z, right);
        from = mct_row_below(d->x, from);
    }
    mct_fill(to, z, (uint32_t)(k->kh - ty.end) * row);
}

/* The same for a window inside the input, channels in order: the taps of a row are one run. */
static void copy_inside(const dense *d, int32_t iy, int32_t ix)
{
    const mct_conv *conv = &d->p->conv;
    const int8_t *from = mct_row(d->x, iy), *end = d->x->base + d->x->rows * d->x->stride;
    uint32_t at = (uint32_t)ix * conv->x.c, n = (uint32_t)conv->win.kw * conv->x.c;
    int8_t *to = d->window;
    for (uint32_t k = conv->win.kh; k > 0; k--) {
        to = mct_copy(to, from + at, n);
        from += d->x->stride;
        if (from == end)
            from = d->x->base;
    }
}

/* Unpacks the window of the next output pixel; step: halfwords from quad to quad. */
static void fill_lane(dense *d, uint32_t lane, uint32_t step)
{
    const mct_conv *conv = &d->p->conv;
    int32_t iy = (int32_t)(d->oy * conv->win.sh) - conv->win.pt;
    int32_t ix = (int32_t)(d->ox * conv->win.sw) - conv->win.pl;
    if (d->window == NULL) {
        const int8_t *x = mct_row(d->x, iy) + (uint32_t)ix * conv->x.c;
        mct_widen(d->blocks[0].lanes + 4 * lane, step, x, d->blocks[0].n);
    } else if (conv->perm == NULL && iy >= 0 && iy + conv->win.kh <= conv->x.h && ix >= 0 &&
               ix + conv->win.kw <= conv->x.w) {
        copy_inside(d, iy, ix);
        mct_widen(d->blocks[0].lanes + 4 * lane, step, d->window, 4 * MCT_QUADS(d->blocks[0].n));
    } else {
        for (const block *b = d->blocks; b != d->blocks + 2 && b->n != 0; b++) {
            copy_window(d, b, iy, ix);
            mct_widen(b->lanes + 4 * lane, step, d->window, b->n);
        }
    }
    if (++d->ox == conv->y.w) {
        d->ox = 0;
        d->oy++;
    }
}

/* acc[0 .. n - 1] to channel o of the n pixels from number `pixel` on; any clamp, any mask. */
static void put_some(const dense *d, uint32_t pixel, uint32_t n, uint32_t o, const int32_t *acc)
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
 * All channels of four pixels, without a clamp of their own, from whole quads. With a mask,
 * channels come in eights: they fill a byte of each pixel's mask, which bits collects from the top.
 * The last two arguments are constants where it is called.
 */
MCT_INLINE void make_four(const dense *d, uint32_t pixel, int masked, int two)
{
    const mct_conv2d *p = d->p;
    const block *b0 = d->blocks, *b1 = b0 + 1;
    const int32_t *bias = p->bias, *mult = p->mult, *end = bias + p->conv.y.c;
    const uint8_t *shift = p->shift;
    const int8_t *w0 = b0->w, *w1 = b1->w;
    uint32_t c = p->conv.y.c, bits = 0, seen = 0;
    uint32_t n0 = MCT_QUADS(b0->n), n1 = MCT_QUADS(b1->n);
    int32_t z = p->z_y;
    int8_t *y = d->y + pixel * c;
    uint8_t *mask = masked ? d->mask + (d->bit + pixel * c) / 8 : NULL;
    do {
        mct_acc4 a = mct_acc4_of(*bias++);
        w0 = mct_dot_quads(&a, w0, b0->lanes, n0);
        if (two)
            w1 = mct_dot_quads(&a, w1, b1->lanes, n1);
        a = mct_scale4(a, *shift++, *mult++, z);
        if (masked)
            bits = mct_put4_noted(a, y++, c, bits >> 1);
        else
            mct_put4(a, y++, c);
        if (masked && ++seen == 8) {
            for (uint32_t j = 0; j < MCT_LANES; j++)
                mask[j * (c / 8)] = (uint8_t)(bits >> 8 * j);
            mask++;
            bits = seen = 0;
        }
    } while (bias != end);
}

/* One function for each kind: the compiler has too few registers for more than one loop. */
static MCT_NOINLINE void make_one_block(const dense *d, uint32_t pixel)
{
    make_four(d, pixel, 0, 0);
}

static MCT_NOINLINE void make_one_block_masked(const dense *d, uint32_t pixel)
{
    make_four(d, pixel, 1, 0);
}

static MCT_NOINLINE void make_two_blocks_masked(const dense *d, uint32_t pixel)
{
    make_four(d, pixel, 1, 1);
}

/* acc += the weights of channel o in a block times the lanes, reading no byte behind them. */
static mct_acc4 dot_block(mct_acc4 acc, const block *b, uint32_t o)
{
    uint32_t rest = b->n % 4;
    const int8_t *w = mct_dot_quads(&acc, b->w + o * b->row, b->lanes, b->n / 4);
    if (rest != 0)
        acc = mct_dot_quad(acc, mct_load_some(w, rest), b->lanes + b->n / 4 * MCT_LANE_STEP);
    return acc;
}

/* The same as make_four for n pixels, any clamp, any mask, any weights. */
static MCT_NOINLINE void make_any(const dense *d, uint32_t pixel, uint32_t n)
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
static void dot_pair(int32_t acc[2], const block *b, uint32_t o, uint32_t next)
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
static void make_one(const dense *d, uint32_t pixel)
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

/* Full range of the output, rows of weights at multiples of 4, and masks of whole bytes. */
static int is_regular(const dense *d)
{
    const mct_conv2d *p = d->p;
    return p->lo == INT8_MIN && p->hi == INT8_MAX && d->blocks[0].row % 4 == 0 &&
           d->blocks[1].row % 4 == 0 && (d->mask == NULL || p->conv.y.c % 8 == 0);
}

/* All channels of the n pixels in the lanes. */
static void make_lanes(const dense *d, uint32_t pixel, uint32_t n)
{
    int masked = d->mask != NULL, two = d->blocks[1].n != 0;
    if (n < MCT_LANES || !is_regular(d) || (two && !masked))
        make_any(d, pixel, n);
    else if (two) /* partly trained, so there is a mask as a rule */
        make_two_blocks_masked(d, pixel);
    else
        masked ? make_one_block_masked(d, pixel) : make_one_block(d, pixel);
}

static void make_pixels(dense *d, uint32_t pixels, int four)
{
    for (uint32_t at = 0, n; at < pixels; at += n) {
        n = pixels - at < MCT_LANES ? pixels - at : MCT_LANES;
        if (!four || n == 1) {
            n = 1;
            fill_lane(d, 0, 4);
            make_one(d, at);
            continue;
        }
        for (uint32_t j = 0; j < n; j++)
            fill_lane(d, j, MCT_LANE_STEP);
        make_lanes(d, at, n);
    }
}

/* Copies the weights of a block to where each channel's are whole quads. */
static void pad_weights(block *b, uint32_t channels, int8_t *to)
{
    const int8_t *from = b->w;
    b->w = to;
    b->row = 4 * MCT_QUADS(b->n);
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
    block trained = {conv->w_trained, conv->trained, nt, nt, conv->perm, NULL};
    block rest = {conv->w_frozen, frozen, nf, nf, NULL, NULL};
    dense d = {.p = p, .x = x, .y = y, .mask = mask, .oy = oy};
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
