/*
 * Error of a depthwise convolution's input with the DSP extension: see mct_planes.h. It is the
 * convolution of the output's error with the flipped kernel, of stride 1; where the forward one has
 * stride 2, zeros lie between the errors. In place (e_x is e_y) all rows are unpacked at once.
 *
 * No overflow: see mct_conv2d_dx_s8.c; |sum * r| < 2^31.
 */
#include "mct_conv2d_dx_fast.h"

#if MCT_DSP

#include "mct_error4.h"
#include "mct_scratch.h"

typedef struct {
    const mct_conv2d_dx *p;
    const int8_t *e_y;
    int8_t *e_x;
    mct_error_stats *stats;
    mct_error_range range;
    uint32_t *tables; /* (4, words) of the loops */
    int32_t *sums;    /* (4, width) of a row */
    int16_t *planes;  /* (4, inputs, pitch) */
    uint32_t words, width, inputs, pitch;
    mct_plane_loop *loop;
} depthwise;

/* The errors in row r of the planes of the chunk that starts at input row iy; NULL: zeros. */
static const int8_t *error_row(const depthwise *d, uint32_t iy, uint32_t r)
{
    const mct_conv *conv = &d->p->conv;
    int32_t y = (int32_t)(iy + r) + conv->win.pt - (conv->win.kh - 1);
    if (y < 0 || y % conv->win.sh != 0 || y / conv->win.sh >= conv->y.h)
        return NULL;
    return d->e_y + (uint32_t)(y / conv->win.sh) * conv->y.w * conv->y.c;
}

static void fill_row(const depthwise *d, int16_t *plane, const int8_t *e)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t left = conv->win.kw - 1u - conv->win.pl, step = d->inputs * d->pitch;
    if (conv->win.sw == 1) {
        mct_planes_fill(plane, step, left, e, conv->y.c, conv->y.w);
        return;
    }
    for (uint32_t x = 0; x < conv->y.w; x++, e += conv->y.c)
        mct_put_column(plane + left + x * conv->win.sw, step, e);
}

/* A row of channels o .. o + 3 from their sums; index: of its first element. */
static void put_row(depthwise *d, uint32_t o, uint32_t index, const uint32_t mult[4])
{
    const int32_t *acc = d->sums, *end = acc + MCT_PLANES * d->p->conv.x.w;
    const int16_t *r = d->p->r + o;
    uint32_t c = d->p->conv.x.c;
    for (index += o; acc != end; acc += MCT_PLANES, index += c) {
        mct_acc4 a = {mct_mac(0, acc[0], r[0]), mct_mac(0, acc[1], r[1]), mct_mac(0, acc[2], r[2]),
                      mct_mac(0, acc[3], r[3])};
        mct_error_write4(&d->p->error, index, a, mult, d->e_x, &d->range, d->stats);
    }
}

/* Channels o .. o + 3 of input rows iy .. iy + rows - 1 from the planes. */
static void make_outputs(depthwise *d, uint32_t o, uint32_t iy, uint32_t rows)
{
    const mct_conv2d_dx *p = d->p;
    const mct_conv *conv = &p->conv;
    uint32_t back = 2 * conv->win.kh * d->pitch - 8u, mult[4];
    for (uint32_t j = 0; j < 4; j++)
        mult[j] = mct_error_multiplier(p->mant[o + j], p->exp[o + j], p->f, p->error.e_out, p->e_y);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t j = 0; j < MCT_PLANES; j++) {
            uint32_t *table = d->tables + j * d->words;
            const mct_sums_tail t = {d->sums + j, back, d->sums + j + MCT_PLANES * d->width};
            memcpy(table + d->words - MCT_TABLE_TAIL, &t, sizeof t);
            d->loop(table, d->planes + (j * d->inputs + r) * d->pitch, 2 * d->pitch);
        }
        put_row(d, o, (iy + r) * conv->x.w * conv->x.c, mult);
    }
}

static void make_rows(depthwise *d, uint32_t iy, uint32_t rows)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    uint32_t taps = (uint32_t)k->kh * k->kw;
    const int8_t *w = conv->trained != 0 ? conv->w_trained : conv->w_frozen;
    memset(d->planes, 0, 2 * MCT_PLANES * d->inputs * d->pitch); /* but for the errors it stays 0 */
    for (uint32_t o = 0; o < conv->x.c; o += MCT_PLANES) {
        for (uint32_t r = 0; r < rows + k->kh - 1u; r++) {
            const int8_t *e = error_row(d, iy, r);
            if (e != NULL)
                fill_row(d, d->planes + r * d->pitch, e + o);
        }
        for (uint32_t j = 0; j < MCT_PLANES; j++, w += taps)
            mct_pack_kernel(d->tables + j * d->words, 0, w, k->kw, 1, 0, 1);
        make_outputs(d, o, iy, rows);
    }
}

int mct_conv2d_dx_depthwise_dsp(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                                mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    depthwise d = {.p = p, .e_y = e_y, .e_x = e_x, .stats = stats, .tables = p->scratch.base};
    uint32_t chunk;
    if (!mct_dx_planes_for(conv))
        return 0;
    chunk = mct_dx_planes_rows(conv, p->scratch.bytes);
    if (mct_dx_planes_bytes(conv, chunk) > p->scratch.bytes || (e_x == e_y && chunk < conv->x.h))
        return 0;
    d.words = mct_table_words(conv->win.kw, 1);
    d.width = (conv->x.w + 3u) & ~3u;
    d.sums = (int32_t *)(d.tables + MCT_PLANES * d.words);
    d.planes = (int16_t *)(d.sums + MCT_PLANES * d.width);
    d.inputs = chunk - 1 + conv->win.kh;
    d.pitch = mct_plane_pitch(conv->x.w, conv->win.kw, 1);
    d.loop = mct_plane_sums(conv->win.kw, 1);
    for (uint32_t iy = 0; iy < conv->x.h; iy += chunk)
        make_rows(&d, iy, conv->x.h - iy < chunk ? conv->x.h - iy : chunk);
    mct_range_into(&d.range, stats);
    return 1;
}

#endif
