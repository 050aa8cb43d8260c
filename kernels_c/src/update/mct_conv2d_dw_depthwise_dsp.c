/*
 * Update of a depthwise convolution's weights with the DSP extension. Errors and inputs of four
 * channels are unpacked into planes, as many rows of outputs at a time as the scratch memory holds;
 * the sums for their kernels lie there as well. The last four channels may have been done in part
 * before.
 *
 * No overflow: see mct_conv2d_dw_s8.c. Taps outside the input lie in the planes as z_x.
 */
#include "mct_conv2d_dw_fast.h"

#if MCT_DSP

#include "mct_plane_products.h"
#include "mct_scratch.h"
#include "mct_weight_row.h"

typedef struct {
    const mct_conv2d_dw *p;
    const int8_t *e_y, *x;
    int32_t *sums;    /* (4, taps) */
    int32_t total[4]; /* of the errors */
    int16_t *e;       /* (4, chunk, groups, 4) */
    int16_t *planes;  /* (4, inputs, pitch) of the inputs */
    uint32_t taps, groups, pitch;
    uint32_t chunk, inputs; /* rows of outputs, and of inputs under them */
    uint32_t first;         /* the first of the four channels */
} dw;

/* Channel o of the errors, n pixels, c bytes apart. */
static void fill_one(int16_t *plane, const int8_t *e, uint32_t c, uint32_t n)
{
    for (; n > 0; n--, e += c)
        *plane++ = *e;
}

/* The errors of the rows from oy on; what fills up the groups stays 0. */
static void fill_errors(const dw *d, uint32_t oy, uint32_t rows)
{
    const mct_conv2d_dw *p = d->p;
    uint32_t n = p->y.w, c = p->y.c, step = 4 * d->groups * d->chunk;
    const int8_t *e = d->e_y + oy * n * c;
    if (n == 4 * d->groups) { /* the rows are one */
        n *= rows;
        rows = 1;
    }
    for (uint32_t r = 0; r < rows; r++, e += n * c) {
        int16_t *plane = d->e + 4 * d->groups * r;
        if (p->chan == NULL)
            mct_planes_fill(plane, step, 0, e + d->first, c, n);
        for (uint32_t j = 0; j < MCT_PLANES && p->chan != NULL; j++)
            fill_one(plane + j * step, e + p->chan[d->first + j], c, n);
    }
}

/* The inputs under the windows of the rows from oy on. */
static void fill_inputs(const dw *d, uint32_t oy, int pad)
{
    const mct_conv2d_dw *p = d->p;
    uint32_t step = d->inputs * d->pitch, n = d->pitch - p->win.pl, row = p->x.w * p->x.c;
    uint32_t z = mct_halves((uint32_t)p->z_x, (uint32_t)p->z_x);
    int32_t iy = (int32_t)(oy * p->win.sh) - p->win.pt;
    n = p->x.w < n ? p->x.w : n;
    for (uint32_t i = 0; i < MCT_PLANES * step && pad; i += 2)
        mct_store_pair(d->planes + i, z);
    for (uint32_t r = 0; r < d->inputs; r++, iy++) {
        if (iy >= 0 && iy < p->x.h)
            mct_planes_fill(d->planes + r * d->pitch, step, p->win.pl,
                            d->x + (uint32_t)iy * row + d->first, p->x.c, n);
    }
}

/* Adds what `rows` rows of outputs in the planes give. */
static void add_products(dw *d, uint32_t j, uint32_t rows)
{
    const mct_window *k = &d->p->win;
    const int16_t *e = d->e + 4 * j * d->groups * d->chunk,
                  *x = d->planes + j * d->inputs * d->pitch;
    const mct_product_rows t = {e + 4 * d->groups * rows,
                                2 * k->sh * d->pitch - 8 * k->sw * d->groups, d->groups};
    int32_t *sum = d->sums + j * d->taps;
    for (const int16_t *v = e; v != t.end; v += 4)
        d->total[j] = mct_smlad(mct_load_pair(v), 0x10001u,
                                mct_smlad(mct_load_pair(v + 2), 0x10001u, d->total[j]));
    for (uint32_t ky = 0; ky < k->kh; ky++, x += d->pitch) {
        for (uint32_t at = 0, from, n; at < k->kw; at += n) {
            int wide = at == 0 && k->kw == 7 && k->sw == 1;
            int32_t part[4];
            from = at < k->kw - 3u ? at & ~1u : k->kw - 3u; /* an even number: x + from is a word */
            mct_plane_products(part, e, x + from, &t, k->sw, wide);
            n = from + (wide ? 4u : 3u) - at;
            for (uint32_t i = 0; i < n; i++)
                *sum++ += part[at - from + i];
        }
    }
}

/* Steps of the four channels from the done'th on. */
static void update_channels(const dw *d, uint32_t done, int8_t *w, uint8_t *frac, int32_t *bias,
                            mct_update_stats *stats)
{
    const mct_conv2d_dw *p = d->p;
    for (uint32_t j = done; j < MCT_PLANES; j++) {
        mct_weight_row row = mct_weight_row_of(p, d->first + j, w, frac, stats);
        int32_t *sum = d->sums + j * d->taps;
        if (row.mult == 0)
            continue;
        for (uint32_t i = 0; i < d->taps; i++)
            sum[i] = mct_mac(sum[i], -p->z_x, d->total[j]);
        mct_step_weights(&row, (d->first + j) * d->taps, sum, d->taps);
        mct_update_folded(&row, bias);
    }
}

static void make_sums(dw *d)
{
    const mct_conv2d_dw *p = d->p;
    int pad = d->first == 0 || d->chunk < p->y.h; /* else it is there */
    memset(d->sums, 0, 4 * MCT_PLANES * d->taps);
    memset(d->total, 0, sizeof d->total);
    for (uint32_t oy = 0, rows; oy < p->y.h; oy += rows) {
        rows = p->y.h - oy < d->chunk ? p->y.h - oy : d->chunk;
        fill_errors(d, oy, rows);
        fill_inputs(d, oy, pad);
        for (uint32_t j = 0; j < MCT_PLANES; j++)
            add_products(d, j, rows);
    }
}

int mct_conv2d_dw_depthwise_dsp(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x,
                                int8_t *w, uint8_t *frac, int32_t *bias, mct_update_stats *stats)
{
    dw d = {.p = p, .e_y = e_y, .x = x, .sums = p->scratch.base};
    if (!mct_dw_planes_for(p))
        return 0;
    d.chunk = mct_dw_planes_rows(p, p->scratch.bytes);
    if (mct_dw_planes_bytes(p, d.chunk) > p->scratch.bytes)
        return 0;
    d.taps = (uint32_t)p->win.kh * p->win.kw;
    d.groups = MCT_QUADS(p->y.w);
    d.pitch = mct_plane_pitch(p->y.w, p->win.kw, p->win.sw);
    d.inputs = (d.chunk - 1) * p->win.sh + p->win.kh;
    d.e = (int16_t *)(d.sums + MCT_PLANES * d.taps);
    d.planes = d.e + MCT_PLANES * 4 * d.groups * d.chunk;
    memset(d.e, 0, 2 * MCT_PLANES * 4 * d.groups * d.chunk);
    for (uint32_t k = 0; k < p->rows; k += MCT_PLANES) {
        d.first = k < p->rows - MCT_PLANES ? k : p->rows - MCT_PLANES;
        make_sums(&d);
        update_channels(&d, k - d.first, w, frac, bias, stats);
    }
    return 1;
}

#endif
