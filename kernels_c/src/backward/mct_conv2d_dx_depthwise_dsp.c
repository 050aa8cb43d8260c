/*
 * Error of a depthwise convolution's input with the DSP extension: see mct_planes.h. It is the
 * convolution of the output's error with the flipped kernel. Of stride 2, inputs at even places see
 * every other weight, those at odd places the others: each of these parts of the kernel makes every
 * other input, as a convolution of stride 1. In place (e_x is e_y) all rows are unpacked at once.
 *
 * r is 256 where it matters (r_fits), and multiplied into the weights when they are packed. No
 * overflow: see mct_conv2d_dx_s8.c; the sums here are those there.
 */
#include "mct_conv2d_dx_fast.h"

#if MCT_DSP

#include "mct_channels.h"
#include "mct_error_pixels.h"
#include "mct_pack_row.h"
#include "mct_scratch.h"

/* A part of the kernel along one axis: weights tap, tap + stride, ..., for n inputs. */
typedef struct {
    uint16_t n;
    uint8_t tap, taps;
    uint8_t start; /* where in the planes the first input's window is, 0 or 1 */
} part;

typedef struct {
    const mct_conv2d_dx *p;
    const int8_t *e_y;
    mct_error_pixels end;
    const int8_t *w[MCT_PLANES]; /* kernels of the four channels */
    uint32_t *tables;            /* (4, words) of the loops */
    int32_t *sums;               /* (.., 4) of a row, or of a column of groups of four inputs */
    int16_t *planes;             /* (4, inputs, pitch) */
    uint32_t words, inputs, pitch;
    uint32_t sy;     /* stride between the rows of a part */
    uint32_t chunk;  /* rows of a part made at a time */
    int down;        /* the loops go down a column of groups */
    int16_t *first;  /* in the planes: the first row of errors */
    const int8_t *e; /* that row */
    uint32_t errors; /* rows of them in the planes */
    part rows[2], cols[2];
} depthwise;

/* Zeros in the planes before the error: what the part with most taps needs. */
static uint32_t lead(uint32_t k, uint32_t s, uint32_t pad)
{
    return (k + s - 1) / s - 1 - (pad + s - 1) / s;
}

/* The part for inputs first, first + s, ... */
static part part_of(uint32_t first, uint32_t k, uint32_t s, uint32_t pad, uint32_t inputs)
{
    uint32_t t = first + pad, tap = t % s, taps = (k - tap + s - 1) / s;
    uint32_t n = inputs > first ? (inputs - first + s - 1) / s : 0;
    part a = {(uint16_t)n, (uint8_t)tap, (uint8_t)taps,
              (uint8_t)(lead(k, s, pad) + t / s + 1 - taps)};
    return a;
}

/* Which errors are in the planes of the chunk that starts at row j of the parts. */
static MCT_NOINLINE void find_errors(depthwise *d, uint32_t j)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t gap = conv->win.sh / d->sy; /* from error to error in the planes */
    uint32_t zeros = lead(conv->win.kh, d->sy, conv->win.pt);
    uint32_t y = j > zeros ? (j - zeros + gap - 1) / gap : 0, at = gap * y + zeros - j;
    uint32_t below = conv->y.h > y ? conv->y.h - y : 0;
    d->errors = d->inputs > at ? (d->inputs - at + gap - 1) / gap : 0;
    d->errors = d->errors < below ? d->errors : below;
    d->first = d->planes + at * d->pitch;
    d->e = d->e_y + y * conv->y.w * conv->y.c;
}

static void fill(const depthwise *d, uint32_t o)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t left = lead(conv->win.kw, conv->win.sw, conv->win.pl), n = d->pitch - left;
    uint32_t row = conv->y.w * conv->y.c, next = conv->win.sh / d->sy * d->pitch;
    const int8_t *e = d->e + o;
    int16_t *plane = d->first;
    n = conv->y.w < n ? conv->y.w : n;
    for (uint32_t r = d->errors; r > 0; r--, plane += next, e += row)
        mct_planes_fill(plane, d->inputs * d->pitch, left, e, conv->y.c, n);
}

/*
 * Packs a part of kernel w as rows of width 3 or 4, for mct_plane_parts. A row of the kernel is
 * read from its end, as bytes of head and tail; the part is every other of them.
 */
static void pack_part(uint32_t *to, const int8_t *w, const mct_window *k, const part *rows,
                      const part *cols, uint32_t width)
{
    uint32_t kw = k->kw, above = k->sh * kw, odd = (kw - 1 - cols->tap) % 2, start = cols->start;
    w += rows->tap * kw + rows->taps * above;
    *to++ = rows->taps;
    for (uint32_t i = rows->taps; i > 0; i--) {
        uint32_t head, tail = 0;
        w -= above;
        if (kw == 3) {
            head = (uint8_t)w[2] | (uint32_t)(uint8_t)w[1] << 8 | (uint32_t)(uint8_t)w[0] << 16;
        } else {
            head = mct_reversed(mct_load4(w + kw - 4));
            tail = mct_reversed(mct_load4(w)) >> (64 - 8 * kw);
        }
        if (start != 0) { /* a zero before the weights, since windows begin with words */
            tail = tail << 16 | head >> 16;
            head <<= 16;
        }
        head = odd ? mct_odd_weights(head, 1) : mct_even_weights(head, 1);
        tail = odd ? mct_odd_weights(tail, 1) : mct_even_weights(tail, 1);
        *to++ = head;
        if (width == 4)
            *to++ = tail;
        *to++ = mct_halves(head >> 16, tail);
    }
}

/* `runs` rows of n pixels from their sums; index: the first one's first channel. */
MCT_INLINE void put(depthwise *d, uint32_t index, uint32_t runs, uint32_t n)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t row = d->sy * conv->x.w * conv->x.c;
    const mct_acc4 *sums = (const mct_acc4 *)(const void *)d->sums;
    if (n % 4 == 0 && row == n * d->end.step) { /* the rows are one */
        n *= runs;
        runs = 1;
    }
    for (; runs > 0; runs--, index += row) {
        mct_error_write_pixels(&d->end, index, sums, n);
        sums += (n + 3) & ~3u;
    }
}

/* n rows of a part from the tables; index: of the first input's first channel. */
static void make_part(depthwise *d, const part *rows, const part *cols, uint32_t width,
                      uint32_t index, uint32_t n)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t groups = MCT_QUADS(cols->n), packed = 1 + rows->taps * (width - 1);
    uint32_t outer = d->down ? groups : n, inner = d->down ? n : groups;
    uint32_t pitch = d->pitch, back = 2 * rows->taps * pitch - (d->down ? 2 * pitch : 8);
    const int16_t *x = d->planes + rows->start * pitch;
    mct_plane_loop *loop = conv->win.sw == 1 ? mct_plane_sums(width, 1) : mct_plane_parts(width);
    for (uint32_t i = 0; i < outer; i++, x += d->down ? 4 : pitch) {
        uint32_t left = cols->n - 4 * i;
        for (uint32_t j = 0; j < MCT_PLANES; j++) {
            uint32_t *table = d->tables + j * d->words;
            int32_t *sums = d->sums + j;
            const mct_sums_tail t = {sums, back, sums + 4 * MCT_PLANES * inner, 4 * packed};
            memcpy(table + packed, &t, sizeof t);
            loop(table, x + j * d->inputs * pitch, 2 * pitch);
        }
        if (!d->down)
            put(d, index + i * d->sy * conv->x.w * conv->x.c, 1, cols->n);
        else
            put(d, index + 4 * i * conv->win.sw * conv->x.c, n, left < 4 ? left : 4);
    }
}

/* Packs the part's weights of the four channels; returns the width of its rows. */
static uint32_t pack_weights(const depthwise *d, const part *rows, const part *cols)
{
    const mct_window *k = &d->p->conv.win;
    uint32_t width = k->kw, *table = d->tables;
    if (k->sw == 2)
        width = (uint32_t)cols->taps + cols->start > 3 ? 4 : 3;
    for (uint32_t i = 0; i < MCT_PLANES; i++, table += d->words) {
        if (k->sw == 2)
            pack_part(table, d->w[i], k, rows, cols, width);
        else
            mct_pack_flipped(table, d->w[i], width);
    }
    return width;
}

/* Channels o .. o + 3 of the chunk that starts at row j, from the planes. */
static void make_channels(depthwise *d, uint32_t o, uint32_t j)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    for (uint32_t y = 0; y < d->sy; y++) {
        const part *rows = &d->rows[y];
        uint32_t n = rows->n - j < d->chunk ? rows->n - j : d->chunk;
        for (uint32_t x = 0; x < k->sw && j < rows->n; x++) {
            const part *cols = &d->cols[x];
            uint32_t at = ((y + d->sy * j) * conv->x.w + x) * conv->x.c + o;
            if (cols->n != 0)
                make_part(d, rows, cols, pack_weights(d, rows, cols), at, n);
        }
    }
}

static void make_rows(depthwise *d, uint32_t j)
{
    const mct_conv2d_dx *p = d->p;
    const mct_conv *conv = &p->conv;
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw;
    mct_channels at = mct_channels_of(conv);
    memset(d->planes, 0, 2 * MCT_PLANES * d->inputs * d->pitch); /* but for the errors it stays 0 */
    find_errors(d, j);
    for (uint32_t o = 0; o < conv->x.c; o += MCT_PLANES) {
        for (uint32_t i = 0; i < MCT_PLANES; i++) {
            d->w[i] = mct_next_weights(&at, o + i, taps);
            d->end.mult[i] =
                mct_error_multiplier(p->mant[o + i], p->exp[o + i], p->f, p->error.e_out, p->e_y);
        }
        fill(d, o);
        make_channels(d, o, j);
    }
}

/* Whether r is 256 in all channels that are not dead. */
static MCT_NOINLINE int r_fits(const mct_conv2d_dx *p)
{
    for (uint32_t o = 0; o < p->conv.x.c; o++) {
        if (p->r[o] != 256 && p->mant[o] > 0)
            return 0;
    }
    return 1;
}

static MCT_NOINLINE void lay_out(depthwise *d)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    uint32_t rows = d->chunk, groups = MCT_QUADS(mct_dx_part(conv->x.w, k->sw));
    d->sy = mct_dx_row_stride(conv);
    d->down =
        mct_dx_planes_down(conv, rows) && mct_dx_planes_bytes(conv, rows, 1) <= d->p->scratch.bytes;
    d->words = mct_dx_table_words(conv);
    d->tables = d->p->scratch.base;
    d->sums = (int32_t *)(d->tables + MCT_PLANES * d->words);
    d->planes = (int16_t *)(d->sums + 4 * MCT_PLANES * (d->down ? rows : groups));
    d->inputs = rows - 1 + mct_dx_part(k->kh, d->sy);
    d->pitch = mct_dx_plane_pitch(conv);
    for (uint32_t i = 0; i < 2; i++) {
        d->rows[i] = part_of(i, k->kh, d->sy, k->pt, conv->x.h);
        d->cols[i] = part_of(i, k->kw, k->sw, k->pl, conv->x.w);
    }
}

int mct_conv2d_dx_depthwise_dsp(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                                mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    depthwise d = {.p = p, .e_y = e_y};
    uint32_t rows;
    if (!mct_dx_planes_for(conv) || !r_fits(p) || !mct_channels_rise(conv))
        return 0;
    rows = mct_dx_part(conv->x.h, mct_dx_row_stride(conv));
    d.chunk = mct_dx_planes_rows(conv, p->scratch.bytes);
    if (mct_dx_planes_bytes(conv, d.chunk, 0) > p->scratch.bytes || (e_x == e_y && d.chunk < rows))
        return 0;
    lay_out(&d);
    mct_error_pixels_start(&d.end, &p->error, (uint32_t)conv->win.sw * conv->x.c, e_x, stats);
    for (uint32_t j = 0; j < rows; j += d.chunk)
        make_rows(&d, j);
    mct_range_into(&d.end.range, stats);
    return 1;
}

#endif
