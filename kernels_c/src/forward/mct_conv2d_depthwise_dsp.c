/*
 * Depthwise convolution, output rows, with the DSP extension: see mct_planes.h. Four neighbouring
 * channels of a few rows at a time: the more rows, the fewer input rows are unpacked twice. Where
 * the scratch memory is too small for one row, it is cut.
 *
 * No overflow: see mct_conv2d_row_s8.c. Taps outside the input lie in the planes as z_x.
 */
#include "mct_conv2d_fast.h"

#if MCT_DSP

#include "mct_channels.h"
#include "mct_kernels.h"
#include "mct_output.h"
#include "mct_pack_row.h"
#include "mct_scratch.h"

typedef struct {
    const mct_conv2d *p;
    const mct_rows *x;
    int8_t *y;
    uint8_t *mask;
    uint32_t bit;     /* of y[0] in mask */
    uint32_t *tables; /* (4, words) of the loops */
    int32_t *sums;    /* (4, width) of a row of outputs; not if plain */
    int16_t *planes;  /* (4, inputs, pitch) */
    uint32_t words, width, inputs, pitch;
    uint32_t outs;    /* of a row, up to width */
    uint32_t left;    /* columns of padding before them in the planes */
    uint32_t first;   /* bytes to the first input column */
    uint32_t columns; /* input columns */
    uint32_t back;    /* see mct_outputs_tail */
    int plain;        /* no clamp of its own, no mask, whole groups of four outputs */
    int masked;       /* no clamp of its own, whole bytes of the mask for each pixel */
    mct_plane_loop *outputs, *loop_sums;
} depthwise;

/* Whether row r of the chunk that starts at output row oy lies outside the input. */
static int is_outside(const depthwise *d, uint32_t oy, uint32_t r)
{
    const mct_conv *conv = &d->p->conv;
    int32_t iy = (int32_t)(oy * conv->win.sh + r) - conv->win.pt;
    return iy < 0 || iy >= conv->x.h;
}

/* The columns of padding, and whole rows that lie outside the input; alike for all channels. */
static void pad(const depthwise *d, uint32_t oy, uint32_t inputs)
{
    const mct_window *k = &d->p->conv.win;
    uint32_t used = (d->outs - 1) * k->sw + k->kw;
    for (uint32_t r = 0; r < inputs; r++) {
        int16_t *row = d->planes + r * d->pitch;
        uint32_t left = is_outside(d, oy, r) ? used : d->left;
        for (uint32_t j = 0; j < MCT_PLANES; j++, row += d->inputs * d->pitch) {
            for (uint32_t i = 0; i < left; i++)
                row[i] = d->p->z_x;
            for (uint32_t i = d->left + d->columns; i < used; i++)
                row[i] = d->p->z_x;
        }
    }
}

/* Four outputs y, from bit `bit` of the mask (NULL: none) on, for any clamp. */
static void put_any(const mct_conv2d *p, mct_acc4 a, int8_t *y, uint8_t *mask, uint32_t bit)
{
    mct_put(a.a0, p->lo, p->hi, y, mask, bit);
    mct_put(a.a1, p->lo, p->hi, y + 1, mask, bit + 1);
    mct_put(a.a2, p->lo, p->hi, y + 2, mask, bit + 2);
    mct_put(a.a3, p->lo, p->hi, y + 3, mask, bit + 3);
}

/* A row of channels o .. o + 3 from their sums, y[at] its first. */
static MCT_NOINLINE void put_row_any(const depthwise *d, uint32_t o, uint32_t at)
{
    const mct_conv2d *p = d->p;
    const int32_t *acc = d->sums, *end = acc + 4 * d->outs, *m = p->mult + o;
    int32_t z = p->z_y;
    for (at += o; acc != end; acc += 4, at += p->conv.y.c) {
        mct_acc4 a = {mct_scale(acc[0], m[0], z), mct_scale(acc[1], m[1], z),
                      mct_scale(acc[2], m[2], z), mct_scale(acc[3], m[3], z)};
        put_any(p, a, d->y + at, d->mask, d->bit + at);
    }
}

/*
 * The same without a clamp of its own and with a mask that has bytes of its own for each pixel: a
 * word of y, half a byte of the mask.
 */
static MCT_NOINLINE void put_row_masked(const depthwise *d, uint32_t o, uint32_t at)
{
    const mct_conv2d *p = d->p;
    const int32_t *acc = d->sums, *end = acc + 4 * d->outs;
    int32_t m0 = p->mult[o], m1 = p->mult[o + 1], m2 = p->mult[o + 2], m3 = p->mult[o + 3];
    uint32_t c = p->conv.y.c, shift = o % 8, word, noted;
    int32_t z = p->z_y;
    int8_t *y = d->y + at + o;
    uint8_t *mask = d->mask + (d->bit + at + o) / 8;
    for (; acc != end; acc += 4, y += c, mask += c / 8) {
        mct_acc4 a = {mct_scale(acc[0], m0, z), mct_scale(acc[1], m1, z), mct_scale(acc[2], m2, z),
                      mct_scale(acc[3], m3, z)};
        word = mct_pack4_noted(a, &noted);
        memcpy(y, &word, sizeof word);
        /* The low half comes first and clears the byte. */
        *mask = (uint8_t)(shift == 0 ? noted : *mask | noted << 4);
    }
}

static uint32_t *tail_of(const depthwise *d, uint32_t j)
{
    return d->tables + (j + 1) * d->words - MCT_TABLE_TAIL;
}

/* Channels o .. o + 3 of a chunk's rows from the planes, the first at y[at]. */
static void make_plain(const depthwise *d, uint32_t o, uint32_t rows, uint32_t at)
{
    const mct_conv2d *p = d->p;
    uint32_t c = p->conv.y.c, row = p->conv.y.w * c, step = p->conv.win.sh * d->pitch;
    for (uint32_t j = 0; j < MCT_PLANES; j++) {
        uint32_t *table = d->tables + j * d->words, *tail = tail_of(d, j);
        const int16_t *plane = d->planes + j * d->inputs * d->pitch;
        mct_outputs_tail t = {p->mult[o + j], p->z_y, c, d->y + at + o + j, d->back, NULL};
        for (uint32_t r = 0; r < rows; r++, plane += step, t.to += row) {
            t.end = t.to + d->outs * c;
            memcpy(tail, &t, sizeof t);
            d->outputs(table, plane, 2 * d->pitch);
        }
    }
}

/* The same for any clamp and mask. */
static void make_any(const depthwise *d, uint32_t o, uint32_t rows, uint32_t at)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t step = conv->win.sh * d->pitch;
    for (uint32_t r = 0; r < rows; r++, at += conv->y.w * conv->y.c) {
        for (uint32_t j = 0; j < MCT_PLANES; j++) {
            uint32_t *table = d->tables + j * d->words, *tail = tail_of(d, j);
            uint32_t outs = (d->outs + 3) & ~3u;
            const mct_sums_tail t = {d->sums + j, d->back, d->sums + j + MCT_PLANES * outs, 0};
            memcpy(tail, &t, sizeof t);
            d->loop_sums(table, d->planes + j * d->inputs * d->pitch + r * step, 2 * d->pitch);
        }
        if (d->masked)
            put_row_masked(d, o, at);
        else
            put_row_any(d, o, at);
    }
}

/* The planes' columns for outputs ox .. ox + outs - 1 of a row. */
static void set_columns(depthwise *d, uint32_t ox, uint32_t outs)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    uint32_t start = ox * k->sw, used = (outs - 1) * k->sw + k->kw;
    d->outs = outs;
    d->left = start < k->pl ? k->pl - start : 0;
    d->left = d->left < used ? d->left : used;
    start = start < k->pl ? 0 : start - k->pl;
    d->first = start * conv->x.c;
    d->columns = start < conv->x.w ? conv->x.w - start : 0;
    if (d->columns > used - d->left)
        d->columns = used - d->left;
}

/* The input rows under these outputs, the first of them in row `first` of the planes. */
static void fill(const depthwise *d, const int8_t *top, uint32_t first, uint32_t rows, uint32_t o)
{
    const int8_t *end = d->x->base + d->x->rows * d->x->stride, *row = top;
    uint32_t step = d->inputs * d->pitch, c = d->p->conv.x.c, at = d->first + o;
    int16_t *plane = d->planes + first * d->pitch;
    for (; rows > 0; rows--, plane += d->pitch) {
        mct_planes_fill(plane, step, d->left, row + at, c, d->columns);
        row += d->x->stride;
        if (row == end)
            row = d->x->base;
    }
}

/* Table j: bias and kernel w of channel o. */
static void pack(const depthwise *d, uint32_t j, uint32_t o, const int8_t *w)
{
    const mct_window *k = &d->p->conv.win;
    uint32_t *table = d->tables + j * d->words, shift = d->p->shift[o];
    if (k->kw == 3 && shift == 0) {
        table[0] = (uint32_t)d->p->bias[o];
        mct_pack_nine(table + 1, w);
    } else {
        mct_pack_kernel(table, d->p->bias[o], w, k->kw, k->sw, shift);
    }
}

/* These outputs of rows oy .. oy + rows - 1, the first at y[at]. */
static void make_rows(const depthwise *d, uint32_t oy, uint32_t rows, uint32_t at)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    uint32_t inputs = (rows - 1) * k->sh + k->kh, taps = (uint32_t)k->kh * k->kw;
    int32_t iy = (int32_t)(oy * k->sh) - k->pt;
    const mct_taps inside = mct_taps_inside(iy, (int32_t)inputs, conv->x.h);
    const int8_t *top = mct_row(d->x, iy + inside.first);
    mct_channels next = mct_channels_of(conv);
    pad(d, oy, inputs);
    for (uint32_t o = 0; o < conv->y.c; o += MCT_PLANES) {
        fill(d, top, (uint32_t)inside.first, (uint32_t)(inside.end - inside.first), o);
        for (uint32_t j = 0; j < MCT_PLANES; j++)
            pack(d, j, o + j, mct_next_weights(&next, o + j, taps));
        if (d->plain)
            make_plain(d, o, rows, at);
        else
            make_any(d, o, rows, at);
    }
}

/* Whether all shifts can be done to the weights, which have 16 bits when they are packed. */
static int shifts_fit(const mct_conv2d *p)
{
    for (uint32_t o = 0; o < p->conv.y.c; o++) {
        if (p->shift[o] > 8)
            return 0;
    }
    return 1;
}

static int has_whole_mask(const mct_conv2d *p, const uint8_t *mask)
{
    return mask != NULL && p->lo == INT8_MIN && p->hi == INT8_MAX && p->conv.y.c % 8 == 0;
}

/* Lays out the scratch memory for chunks of `rows` rows of `width` outputs. */
static void lay_out(depthwise *d, uint32_t rows, uint32_t width)
{
    const mct_window *k = &d->p->conv.win;
    d->words = mct_table_words(k->kw, k->sw);
    d->width = (width + 3) & ~3u;
    d->tables = d->p->scratch.base;
    d->sums = (int32_t *)(d->tables + MCT_PLANES * d->words);
    d->planes = (int16_t *)(d->sums + (d->plain ? 0 : MCT_PLANES * d->width));
    d->inputs = (rows - 1) * k->sh + k->kh;
    d->pitch = mct_plane_pitch(width, k->kw, k->sw);
    d->back = 2 * k->kh * d->pitch - 8u * k->sw;
    d->outputs = mct_plane_outputs(k->kw, k->sw);
    d->loop_sums = mct_plane_sums(k->kw, k->sw);
}

int mct_conv2d_depthwise_dsp(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                             int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    uint32_t w = conv->y.w, c = conv->y.c, chunk, width = w;
    depthwise d = {.p = p, .x = x, .y = y, .mask = mask, .bit = oy * w * c};
    if (!mct_planes_for(conv) || !shifts_fit(p) || !mct_channels_rise(conv))
        return 0;
    d.plain = mct_planes_plain(p, mask != NULL);
    d.masked = has_whole_mask(p, mask);
    chunk = mct_planes_rows(conv, rows, !d.plain, p->scratch.bytes);
    if (chunk == 1)
        width = mct_planes_width(conv, !d.plain, p->scratch.bytes);
    if (width == 0)
        return 0;
    lay_out(&d, chunk, width);
    for (uint32_t ox = 0; ox < w; ox += width) {
        set_columns(&d, ox, w - ox < width ? w - ox : width);
        for (uint32_t i = 0; i < rows; i += chunk)
            make_rows(&d, oy + i, rows - i < chunk ? rows - i : chunk, (i * w + ox) * c);
    }
    return 1;
}

#endif
