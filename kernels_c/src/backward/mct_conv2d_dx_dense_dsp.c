/*
 * Error of an ungrouped convolution's input with the DSP extension. The weights of four
 * neighbouring input channels, times r, lie in the lanes of scratch memory, a vector over the
 * output channels for each tap; each is multiplied with the output's error at a pixel as it lies in
 * memory.
 *
 * Where the scratch memory is too small for all output channels, those of a pointwise convolution
 * are done in parts, with the sums of the pixels kept between them. Where there is more, it takes
 * errors unpacked once for all input channels, of as many pixels as fit.
 *
 * |w * r| <= 127 * 256 fits int16. No overflow: see mct_conv2d_dx_s8.c; the sums are the same.
 */
#include "mct_conv2d_dx_fast.h"

#if MCT_DSP

#include "mct_error_pixels.h"
#include "mct_scratch.h"
#include "mct_window.h"

#define TILE 8u /* pixels that are summed before their errors are written */

/* Weights of an input channel at a tap: step bytes from output channel to output channel. */
typedef struct {
    const int8_t *w;
    uint32_t step;
} column;

/* Input channels c to c + n - 1, at most four. */
typedef struct {
    const mct_conv2d_dx *p;
    const int8_t *e_y;
    mct_error_pixels end;
    int16_t *lanes;
    uint32_t part;    /* output channels in the lanes, at most */
    uint32_t o, outs; /* those in the lanes */
    uint32_t c, n;
    mct_acc4 *sums;      /* (pixels), if there are parts, else NULL */
    const int16_t *wide; /* errors of the first wide_pixels outputs, unpacked */
    uint32_t wide_pixels;
} dx;

static column column_of(const mct_conv *conv, uint32_t c, uint32_t tap)
{
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw, place = c, trained = conv->trained;
    uint32_t frozen = conv->x.c - trained;
    if (conv->perm != NULL) {
        place = 0;
        while (place + 1 < conv->x.c && conv->perm[place] != c)
            place++;
    }
    if (place < trained) {
        column col = {conv->w_trained + tap * trained + place, taps * trained};
        return col;
    }
    column col = {conv->w_frozen + tap * frozen + place - trained, taps * frozen};
    return col;
}

/* One word of each lane: four weights of output channel a with its r, and those of another, b. */
MCT_INLINE void put_words(int16_t *lanes, uint32_t a, int32_t ra, uint32_t b, int32_t rb)
{
    uint32_t even_a = mct_even(a), odd_a = mct_odd(a), even_b = mct_even(b), odd_b = mct_odd(b);
    mct_store_pair(lanes, mct_halves(mct_low_product(even_a, ra), mct_low_product(even_b, rb)));
    mct_store_pair(lanes + 4, mct_halves(mct_low_product(odd_a, ra), mct_low_product(odd_b, rb)));
    mct_store_pair(lanes + 8,
                   mct_halves(mct_high_product(even_a, ra), mct_high_product(even_b, rb)));
    mct_store_pair(lanes + 12,
                   mct_halves(mct_high_product(odd_a, ra), mct_high_product(odd_b, rb)));
}

/* All lanes, from n whole quads of output channels. */
static void fill_quads(int16_t *lanes, column col, const int16_t *r, uint32_t n)
{
    const int8_t *w = col.w;
    for (; n > 0; n--, r += 4, lanes += MCT_LANE_STEP) {
        const int8_t *next = w + 2 * col.step;
        put_words(lanes, mct_load4(w), r[0], mct_load4(next), r[2]);
        put_words(lanes + 2, mct_load4(w + col.step), r[1], mct_load4(next + col.step), r[3]);
        w = next + 2 * col.step;
    }
}

/* One lane, from any number of output channels. */
static void fill_lane(int16_t *lane, column col, const int16_t *r, uint32_t n)
{
    for (uint32_t left = n, k; left > 0; left -= k, r += 4, lane += MCT_LANE_STEP) {
        uint32_t v[4] = {0, 0, 0, 0};
        k = left < 4 ? left : 4;
        for (uint32_t j = 0; j < k; j++, col.w += col.step)
            v[j] = (uint32_t)(*col.w * r[j]);
        mct_store_pair(lane, mct_halves(v[0], v[2]));
        mct_store_pair(lane + 2, mct_halves(v[1], v[3]));
    }
}

/* Fills the lanes for all taps; those of no channel like the last one. */
static MCT_NOINLINE void fill_lanes(const dx *d)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t whole = d->n == 4 && conv->perm == NULL ? d->outs / 4 : 0, done = 4 * whole;
    const int16_t *r = d->p->r + d->o;
    int16_t *lanes = d->lanes;
    for (uint32_t tap = 0; tap < (uint32_t)conv->win.kh * conv->win.kw; tap++) {
        column col = column_of(conv, d->c, tap);
        col.w += d->o * col.step;
        fill_quads(lanes, col, r, whole);
        for (uint32_t j = 0; j < MCT_LANES && done < d->outs; j++) {
            col = column_of(conv, d->c + (j < d->n ? j : d->n - 1), tap);
            col.w += (d->o + done) * col.step;
            fill_lane(lanes + whole * MCT_LANE_STEP + 4 * j, col, r + done, d->outs - done);
        }
        lanes += MCT_LANES_SIZE(conv->y.c);
    }
}

/* sums of n pixels = (more ? themselves : 0) + errors of outs channels, c apart, times the lanes.
 */
static MCT_NOINLINE void add_bytes(const dx *d, const int8_t *e, const int16_t *lanes,
                                   mct_acc4 *sum, uint32_t n, int more)
{
    uint32_t outs = d->outs, rest = outs % 4, next = d->p->conv.y.c - outs + rest;
    for (mct_acc4 *end = sum + n; sum != end; sum++, e += next) {
        mct_acc4 acc = more ? *sum : mct_acc4_of(0);
        e = mct_dot_quads(&acc, e, lanes, outs / 4);
        if (rest != 0)
            acc = mct_dot_quad(acc, mct_load_some(e, rest), lanes + outs / 4 * MCT_LANE_STEP);
        *sum = acc;
    }
}

/* The same from all channels, unpacked. */
static MCT_NOINLINE void add_wide(const dx *d, const int16_t *e, const int16_t *lanes,
                                  mct_acc4 *sum, uint32_t n, int more)
{
    uint32_t quads = MCT_QUADS(d->outs);
    for (mct_acc4 *end = sum + n; sum != end; sum++) {
        mct_acc4 acc = more ? *sum : mct_acc4_of(0);
        e = mct_dot_wide(&acc, e, lanes, quads);
        *sum = acc;
    }
}

/* Products of output pixels y to y + n - 1 and a tap: unpacked are all of them or none. */
static void add(const dx *d, uint32_t y, uint32_t tap, mct_acc4 *sum, uint32_t n, int more)
{
    uint32_t c = d->p->conv.y.c;
    const int16_t *lanes = d->lanes + tap * MCT_LANES_SIZE(c);
    if (y < d->wide_pixels)
        add_wide(d, d->wide + y * 4 * MCT_QUADS(c), lanes, sum, n, more);
    else
        add_bytes(d, d->e_y + y * c + d->o, lanes, sum, n, more);
}

/* Sums of n pixels: of all outputs that saw them. */
static MCT_NOINLINE void sum_any(const dx *d, uint32_t pixel, uint32_t n, mct_acc4 *sum)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    for (; n > 0; n--, pixel++, sum++) {
        int32_t ty = (int32_t)(pixel / conv->x.w) + k->pt;
        int32_t tx = (int32_t)(pixel % conv->x.w) + k->pl;
        mct_taps oy = mct_outputs_over(ty, k->kh, k->sh, conv->y.h);
        mct_taps ox = mct_outputs_over(tx, k->kw, k->sw, conv->y.w);
        *sum = mct_acc4_of(0);
        for (int32_t y = oy.first; y < oy.end; y++) {
            for (int32_t x = ox.first; x < ox.end; x++)
                add(d, (uint32_t)y * conv->y.w + (uint32_t)x,
                    (uint32_t)((ty - y * k->sh) * k->kw + tx - x * k->sw), sum, 1, 1);
        }
    }
}

static int is_pointwise(const mct_conv *conv)
{
    const mct_window *k = &conv->win;
    return k->kh == 1 && k->kw == 1 && k->sh == 1 && k->sw == 1;
}

/* Errors of n pixels. */
static void put(dx *d, uint32_t pixel, uint32_t n, const mct_acc4 *sum)
{
    uint32_t c = d->p->conv.x.c, i = pixel * c + d->c;
    if (c % 4 == 0) {
        mct_error_write_pixels(&d->end, i, sum, n);
        return;
    }
    for (; n > 0; n--, sum++, i += c) {
        const int32_t acc[MCT_LANES] = {sum->a0, sum->a1, sum->a2, sum->a3};
        for (uint32_t j = 0; j < d->n; j++)
            mct_error_write(&d->p->error, i + j, acc[j], d->end.mult[0], d->end.e_x, d->end.stats);
    }
}

/* How many of the `left` pixels from `at` on are summed together: unpacked ones or others. */
static uint32_t tile_of(const dx *d, uint32_t at, uint32_t left)
{
    uint32_t n = d->sums != NULL || left < TILE ? left : TILE;
    if (at < d->wide_pixels && n > d->wide_pixels - at)
        n = d->wide_pixels - at;
    return n;
}

/* All pixels. */
static void make_channels(dx *d)
{
    const mct_conv *conv = &d->p->conv;
    mct_acc4 tile[TILE], *sums = d->sums != NULL ? d->sums : tile;
    uint32_t pixels = (uint32_t)conv->x.h * conv->x.w, n;
    for (d->o = 0; d->o < conv->y.c; d->o += d->outs) {
        d->outs = conv->y.c - d->o < d->part ? conv->y.c - d->o : d->part;
        fill_lanes(d);
        for (uint32_t at = 0; at < pixels; at += n) {
            n = tile_of(d, at, pixels - at);
            if (is_pointwise(conv))
                add(d, at, 0, sums, n, d->o != 0);
            else
                sum_any(d, at, n, sums);
            if (d->o + d->outs == conv->y.c)
                put(d, at, n, sums);
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

/* Unpacks errors into the memory behind the lanes. */
static void widen(dx *d)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t c = conv->y.c, room = d->p->scratch.bytes - mct_dx_lanes_bytes(conv);
    uint32_t wanted = mct_dx_wide_bytes(conv), bytes = 8 * MCT_QUADS(c);
    int16_t *to = d->lanes + mct_dx_lanes_bytes(conv) / 2;
    const int8_t *e = d->e_y;
    d->wide = to;
    d->wide_pixels = (room < wanted ? room : wanted) / bytes;
    for (uint32_t n = d->wide_pixels; n > 0; n--, e += c, to += bytes / 2)
        mct_widen(to, 4, e, c);
}

int mct_conv2d_dx_dense_dsp(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                            mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    uint32_t mult = mct_error_multiplier(p->mant[0], p->exp[0], p->f, p->error.e_out, p->e_y);
    dx d = {.p = p, .e_y = e_y, .lanes = p->scratch.base};
    d.part = part_of(conv, p->scratch.bytes);
    if (conv->groups != 1 || d.part == 0)
        return 0;
    if (d.part < conv->y.c)
        d.sums = (mct_acc4 *)(void *)(d.lanes + MCT_LANES_SIZE(d.part));
    else
        widen(&d);
    mct_error_pixels_start(&d.end, &p->error, conv->x.c, e_x, stats);
    for (uint32_t j = 0; j < 4; j++)
        d.end.mult[j] = mult;
    for (d.c = 0; d.c < conv->x.c; d.c += 4) {
        d.n = conv->x.c - d.c < 4 ? conv->x.c - d.c : 4;
        make_channels(&d);
    }
    mct_range_into(&d.end.range, stats);
    return 1;
}

#endif
