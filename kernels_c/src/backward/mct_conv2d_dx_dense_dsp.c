/*
 * Error of an ungrouped convolution's input with the DSP extension. The weights of four input
 * channels, times r, lie in the lanes of scratch memory, a vector over the output channels for each
 * tap; each is multiplied with the output's error at a pixel as it lies in memory.
 *
 * Where the scratch memory is too small for all output channels, those of a pointwise convolution
 * are done in parts, with the sums of the pixels kept between them.
 *
 * |w * r| <= 127 * 256 fits int16. No overflow: see mct_conv2d_dx_s8.c; the sums are the same.
 */
#include "mct_conv2d_dx_fast.h"

#if MCT_DSP

#include "mct_error4.h"
#include "mct_scratch.h"
#include "mct_window.h"

/* Four input channels at place i of a block of weights, cols channels a tap. */
typedef struct {
    const mct_conv2d_dx *p;
    const int8_t *e_y;
    int8_t *e_x;
    mct_error_stats *stats;
    mct_error_range range;
    int16_t *lanes;
    uint32_t step;    /* halfwords from tap to tap in the lanes */
    mct_acc4 *sums;   /* (pixels), if there are parts */
    uint32_t o, outs; /* output channels in the lanes */
    uint32_t mult[4];
    const int8_t *w; /* of the first */
    uint32_t cols, n;
    const uint16_t *perm; /* their input channels, NULL: c, c + 1, ... */
    uint32_t c;
} dx;

/* a's half times ra below b's half times rb. */
MCT_INLINE uint32_t low_products(uint32_t a, int32_t ra, uint32_t b, int32_t rb)
{
    return mct_halves((uint32_t)((int16_t)a * ra), (uint32_t)((int16_t)b * rb));
}

MCT_INLINE uint32_t high_products(uint32_t a, int32_t ra, uint32_t b, int32_t rb)
{
    return mct_halves((uint32_t)(((int32_t)a >> 16) * ra), (uint32_t)(((int32_t)b >> 16) * rb));
}

/* One word of each lane: four weights of output channel a with its r, and those of another, b. */
MCT_INLINE void put_words(int16_t *lanes, uint32_t a, int32_t ra, uint32_t b, int32_t rb)
{
    uint32_t even_a = mct_even(a), odd_a = mct_odd(a), even_b = mct_even(b), odd_b = mct_odd(b);
    mct_store_pair(lanes, low_products(even_a, ra, even_b, rb));
    mct_store_pair(lanes + 4, low_products(odd_a, ra, odd_b, rb));
    mct_store_pair(lanes + 8, high_products(even_a, ra, even_b, rb));
    mct_store_pair(lanes + 12, high_products(odd_a, ra, odd_b, rb));
}

/* The lanes of a tap from whole quads of output channels and four input channels. */
static void fill_quads(int16_t *lanes, const int8_t *w, uint32_t row, const int16_t *r, uint32_t n)
{
    for (; n > 0; n--, r += 4, lanes += MCT_LANE_STEP) {
        const int8_t *next = w + 2 * row;
        put_words(lanes, mct_load4(w), r[0], mct_load4(next), r[2]);
        put_words(lanes + 2, mct_load4(w + row), r[1], mct_load4(next + row), r[3]);
        w = next + 2 * row;
    }
}

/* The same for some output channels, less than four, and n input channels. */
static void fill_some(int16_t *lanes, const int8_t *w, uint32_t row, const int16_t *r,
                      uint32_t outs, uint32_t n)
{
    uint32_t words[4] = {0, 0, 0, 0};
    int32_t factors[4] = {0, 0, 0, 0};
    for (uint32_t k = 0; k < outs; k++, w += row) {
        words[k] = mct_load_some(w, n);
        factors[k] = r[k];
    }
    put_words(lanes, words[0], factors[0], words[2], factors[2]);
    put_words(lanes + 2, words[1], factors[1], words[3], factors[3]);
}

/* Fills the lanes for all taps. */
static void fill_lanes(const dx *d)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, row = taps * d->cols;
    const int16_t *r = d->p->r + d->o;
    for (uint32_t tap = 0; tap < taps; tap++) {
        int16_t *lanes = d->lanes + tap * d->step;
        const int8_t *w = d->w + d->o * row + tap * d->cols;
        uint32_t whole = d->n == 4 ? d->outs / 4 : 0;
        fill_quads(lanes, w, row, r, whole);
        for (uint32_t o = 4 * whole; o < d->outs; o += 4)
            fill_some(lanes + o * MCT_LANES, w + o * row, row, r + o,
                      d->outs - o < 4 ? d->outs - o : 4, d->n);
    }
}

/* acc += the errors e of all output channels at a pixel times the lanes of a tap. */
MCT_INLINE mct_acc4 dot(mct_acc4 acc, const int8_t *e, const int16_t *lanes, uint32_t n)
{
    uint32_t rest = n % 4;
    e = mct_dot_quads(&acc, e, lanes, n / 4);
    if (rest != 0)
        acc = mct_dot_quad(acc, mct_load_some(e, rest), lanes + n / 4 * MCT_LANE_STEP);
    return acc;
}

/* The same for all outputs [oy, ox] that saw the pixel at (ty, tx) of the padded input. */
static mct_acc4 dot_taps(const dx *d, mct_taps oy, mct_taps ox, int32_t ty, int32_t tx)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    mct_acc4 acc = mct_acc4_of(0);
    for (int32_t y = oy.first; y < oy.end; y++) {
        for (int32_t x = ox.first; x < ox.end; x++) {
            uint32_t tap = (uint32_t)((ty - y * k->sh) * k->kw + tx - x * k->sw);
            const int8_t *e = d->e_y + ((uint32_t)y * conv->y.w + (uint32_t)x) * conv->y.c;
            acc = dot(acc, e, d->lanes + tap * d->step, conv->y.c);
        }
    }
    return acc;
}

/* The channels of a pixel one by one; index: of its first channel. */
static MCT_NOINLINE void put_slow(dx *d, uint32_t index, const int32_t sums[4])
{
    for (uint32_t j = 0; j < d->n; j++) {
        uint32_t c = d->perm != NULL ? d->perm[j] : d->c + j;
        mct_error_write(&d->p->error, index + c, sums[j], d->mult[0], d->e_x, d->stats);
    }
}

MCT_INLINE void put(dx *d, uint32_t index, mct_acc4 acc)
{
    const int32_t sums[4] = {acc.a0, acc.a1, acc.a2, acc.a3};
    if (d->perm == NULL && d->n == 4 && d->p->conv.x.c % 4 == 0)
        mct_error_write4(&d->p->error, index + d->c, acc, d->mult, d->e_x, &d->range, d->stats);
    else
        put_slow(d, index, sums);
}

/*
 * All pixels of a pointwise convolution of stride 1, from the output channels that are in the
 * lanes.
 */
static MCT_NOINLINE void make_pointwise(dx *d)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t c = conv->x.c, end = (uint32_t)conv->x.h * conv->x.w * c;
    int first = d->o == 0, last = d->o + d->outs == conv->y.c;
    const int8_t *e = d->e_y + d->o;
    mct_acc4 *sum = d->sums;
    for (uint32_t index = 0; index < end; index += c, e += conv->y.c, sum++) {
        mct_acc4 acc = dot(first ? mct_acc4_of(0) : *sum, e, d->lanes, d->outs);
        if (last)
            put(d, index, acc);
        else
            *sum = acc;
    }
}

static MCT_NOINLINE void put_pixel(dx *d, uint32_t index, mct_acc4 acc)
{
    put(d, index, acc);
}

static MCT_NOINLINE void make_any(dx *d)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    uint32_t index = 0;
    for (int32_t iy = 0; iy < conv->x.h; iy++) {
        mct_taps oy = mct_outputs_over(iy + k->pt, k->kh, k->sh, conv->y.h);
        for (int32_t ix = 0; ix < conv->x.w; ix++, index += conv->x.c) {
            mct_taps ox = mct_outputs_over(ix + k->pl, k->kw, k->sw, conv->y.w);
            put_pixel(d, index, dot_taps(d, oy, ox, iy + k->pt, ix + k->pl));
        }
    }
}

static int is_pointwise(const mct_conv *conv)
{
    const mct_window *k = &conv->win;
    return k->kh == 1 && k->kw == 1 && k->sh == 1 && k->sw == 1;
}

/* All channels of a block of weights w; perm: their input channels. */
static void make_block(dx *d, const int8_t *w, uint32_t cols, const uint16_t *perm, uint32_t part)
{
    const mct_conv *conv = &d->p->conv;
    d->cols = cols;
    for (uint32_t i = 0; i < cols; i += 4) {
        d->w = w + i;
        d->n = cols - i < 4 ? cols - i : 4;
        d->perm = perm != NULL ? perm + i : NULL;
        d->c = i;
        for (d->o = 0; d->o < conv->y.c; d->o += part) {
            d->outs = conv->y.c - d->o < part ? conv->y.c - d->o : part;
            fill_lanes(d);
            if (is_pointwise(conv))
                make_pointwise(d);
            else
                make_any(d);
        }
    }
}

/* How many output channels go into the lanes at a time; 0: none. */
static uint32_t part_of(const mct_conv *conv, uint32_t bytes)
{
    uint32_t sums = (uint32_t)sizeof(mct_acc4) * conv->x.h * conv->x.w, part;
    if (bytes >= mct_dx_lanes_bytes(conv))
        return conv->y.c;
    if (!is_pointwise(conv) || bytes < sums)
        return 0;
    part = (bytes - sums) / (2 * MCT_LANE_STEP) * 4;
    return part < 16 ? 0 : part; /* for fewer it is not worth while */
}

int mct_conv2d_dx_dense_dsp(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                            mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    dx d = {.p = p, .e_y = e_y, .e_x = e_x, .stats = stats, .lanes = p->scratch.base};
    uint32_t part = part_of(conv, p->scratch.bytes), frozen = conv->x.c - (uint32_t)conv->trained;
    if (conv->groups != 1 || part == 0)
        return 0;
    d.step = MCT_LANES_SIZE(conv->y.c);
    d.sums = (mct_acc4 *)(void *)(d.lanes + MCT_LANES_SIZE(part));
    for (uint32_t j = 0; j < 4; j++)
        d.mult[j] = mct_error_multiplier(p->mant[0], p->exp[0], p->f, p->error.e_out, p->e_y);
    make_block(&d, conv->w_trained, conv->trained, conv->perm, part);
    make_block(&d, conv->w_frozen, frozen, conv->perm != NULL ? conv->perm + conv->trained : NULL,
               part);
    mct_range_into(&d.range, stats);
    return 1;
}

#endif
