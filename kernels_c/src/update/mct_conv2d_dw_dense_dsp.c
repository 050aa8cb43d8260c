/*
 * Update of an ungrouped convolution's weights with the DSP extension. Four input channels under a
 * tap lie in the lanes of scratch memory, less their zero point, as a vector over the output
 * pixels; the errors of four output channels lie there as rows of bytes over the pixels. Where
 * there is no room for all vectors, each of them meets as many rows of weights as there is room for
 * the changes of their sums, which the biases need.
 *
 * No overflow: see mct_conv2d_dw_s8.c; |x - z_x| <= 255.
 */
#include "mct_conv2d_dw_fast.h"

#if MCT_DSP

#include "mct_scratch.h"
#include "mct_weight_row.h"

typedef struct {
    const mct_conv2d_dw *p;
    const int8_t *e_y, *x;
    int8_t *w;
    uint8_t *frac;
    mct_update_stats *stats;
    int8_t *e;       /* (4, quads of pixels) */
    int16_t *lanes;  /* vectors */
    uint32_t quads;  /* of output pixels */
    uint32_t blocks; /* of four input channels */
} dw;

/* The output pixel whose input is next. */
typedef struct {
    const dw *d;
    uint32_t oy, ox;
    int32_t pad_y, pad_x; /* the tap reads the input at (oy * sh - pad_y, ox * sw - pad_x) */
    uint32_t i, n;        /* first input channel and how many, at most 4 */
} cursor;

/* Its channels, as z_x where there is no input, and on to the next pixel. */
static uint32_t next_word(cursor *c)
{
    const mct_conv2d_dw *p = c->d->p;
    uint32_t word = (uint8_t)p->z_x * 0x01010101u;
    if (c->oy < p->y.h) {
        int32_t iy = (int32_t)(c->oy * p->win.sh) - c->pad_y;
        int32_t ix = (int32_t)(c->ox * p->win.sw) - c->pad_x;
        if (iy >= 0 && iy < p->x.h && ix >= 0 && ix < p->x.w) {
            const int8_t *x = c->d->x + ((uint32_t)iy * p->x.w + (uint32_t)ix) * p->x.c + c->i;
            word = c->n == 4 ? mct_load4(x) : mct_load_some(x, c->n);
        }
        if (++c->ox == p->y.w) {
            c->ox = 0;
            c->oy++;
        }
    }
    return word;
}

/* One quad of pixels, less z (a pair of it), as words of the lanes. */
static void put_quad(int16_t *lanes, const uint32_t words[4], uint32_t z)
{
    for (uint32_t k = 0; k < 2; k++, lanes += 2) {
        uint32_t even_a = mct_less(mct_even(words[k]), z), odd_a = mct_less(mct_odd(words[k]), z);
        uint32_t even_b = mct_less(mct_even(words[k + 2]), z);
        uint32_t odd_b = mct_less(mct_odd(words[k + 2]), z);
        mct_store_pair(lanes, mct_halves(even_a, even_b));
        mct_store_pair(lanes + 4, mct_halves(odd_a, odd_b));
        mct_store_pair(lanes + 8, mct_tops(even_a, even_b));
        mct_store_pair(lanes + 12, mct_tops(odd_a, odd_b));
    }
}

/* Vector v: a tap and a block of input channels. */
static void fill_vector(const dw *d, uint32_t v, int16_t *lanes)
{
    const mct_conv2d_dw *p = d->p;
    uint32_t tap = v / d->blocks, i = v % d->blocks * 4;
    uint32_t z = mct_halves((uint32_t)p->z_x, (uint32_t)p->z_x);
    cursor c = {d,
                0,
                0,
                p->win.pt - (int32_t)(tap / p->win.kw),
                p->win.pl - (int32_t)(tap % p->win.kw),
                i,
                p->cols - i < 4 ? p->cols - i : 4};
    for (uint32_t q = 0; q < d->quads; q++, lanes += MCT_LANE_STEP) {
        uint32_t words[4];
        for (uint32_t k = 0; k < 4; k++)
            words[k] = next_word(&c);
        put_quad(lanes, words, z);
    }
}

/* The errors of n <= 4 channels from e_y on, as rows of bytes; 0 if all are zeros. */
static int fill_errors(const dw *d, const int8_t *e_y, uint32_t n)
{
    uint32_t pixels = (uint32_t)d->p->y.h * d->p->y.w, any = 0;
    int8_t *e = d->e;
    for (uint32_t q = 0; q < d->quads; q++, e += 4) {
        uint32_t words[4] = {0, 0, 0, 0}, ac, bd;
        for (uint32_t k = 0; k < 4 && 4 * q + k < pixels; k++, e_y += d->p->y.c)
            words[k] = n == 4 ? mct_load4(e_y) : mct_load_some(e_y, n);
        any |= words[0] | words[1] | words[2] | words[3];
        ac = mct_halves(words[0], words[2]);
        bd = mct_halves(words[1], words[3]);
        mct_store4(e, (ac & 0x00ff00ffu) | (bd & 0x00ff00ffu) << 8);
        mct_store4(e + 4 * d->quads, (ac >> 8 & 0x00ff00ffu) | (bd & 0xff00ff00u));
        ac = mct_tops(words[0], words[2]);
        bd = mct_tops(words[1], words[3]);
        mct_store4(e + 8 * d->quads, (ac & 0x00ff00ffu) | (bd & 0x00ff00ffu) << 8);
        mct_store4(e + 12 * d->quads, (ac >> 8 & 0x00ff00ffu) | (bd & 0xff00ff00u));
    }
    return any != 0;
}

/* Updates of row k of the weights from vectors [v, v + n), the first of them in the lanes. */
static void update_row(const dw *d, mct_weight_row *row, uint32_t k, const int8_t *e, uint32_t v,
                       uint32_t n)
{
    const mct_conv2d_dw *p = d->p;
    uint32_t taps = (uint32_t)p->win.kh * p->win.kw;
    const int16_t *lanes = d->lanes;
    for (; n > 0; n--, v++, lanes += d->quads * MCT_LANE_STEP) {
        uint32_t i = v % d->blocks * 4, at = (k * taps + v / d->blocks) * p->cols + i;
        mct_acc4 a = mct_acc4_of(0);
        mct_dot_quads(&a, e, lanes, d->quads);
        const int32_t sums[4] = {a.a0, a.a1, a.a2, a.a3};
        mct_step_weights(row, at, sums, p->cols - i < 4 ? p->cols - i : 4);
    }
}

static MCT_NOINLINE void fill_vectors(const dw *d, uint32_t v, uint32_t count)
{
    for (uint32_t j = 0; j < count; j++)
        fill_vector(d, v + j, d->lanes + j * d->quads * MCT_LANE_STEP);
}

/*
 * Steps of n rows of weights, the first of them k, n at most 4, for `count` vectors from v on;
 * changes of their sums.
 */
static void update_four(const dw *d, uint32_t k, uint32_t n, uint32_t v, uint32_t count,
                        int32_t *changes)
{
    if (!fill_errors(d, d->e_y + k, n))
        return; /* all steps are 0 */
    for (uint32_t j = 0; j < n; j++) {
        mct_weight_row row = mct_weight_row_of(d->p, k + j, d->w, d->frac, d->stats);
        if (row.mult != 0)
            update_row(d, &row, k + j, d->e + 4 * j * d->quads, v, count);
        changes[j] += (int32_t)row.change;
    }
}

/* Biases of n rows, the first of them k, after their weights. */
static void update_biases(const dw *d, uint32_t k, uint32_t n, const int32_t *changes,
                          int32_t *bias)
{
    for (uint32_t j = 0; j < n; j++) {
        mct_weight_row row = mct_weight_row_of(d->p, k + j, d->w, d->frac, d->stats);
        row.change = changes[j];
        if (row.mult != 0)
            mct_update_folded(&row, bias);
    }
}

/* Steps of n rows of weights from `first` on for all vectors, `fit` at a time. */
static void update_block(const dw *d, uint32_t first, uint32_t n, uint32_t fit, int32_t *changes)
{
    uint32_t vectors = mct_dw_vectors(d->p);
    memset(changes, 0, 4 * n);
    for (uint32_t v = 0, count; v < vectors; v += count) {
        count = vectors - v < fit ? vectors - v : fit;
        if (first == 0 || fit < vectors) /* else they are there */
            fill_vectors(d, v, count);
        for (uint32_t k = 0; k < n; k += 4)
            update_four(d, first + k, n - k < 4 ? n - k : 4, v, count, changes + k);
    }
}

int mct_conv2d_dw_dense_dsp(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x, int8_t *w,
                            uint8_t *frac, int32_t *bias, mct_update_stats *stats)
{
    dw d = {p, e_y, x, w, frac, stats, .e = p->scratch.base};
    uint32_t bytes = p->scratch.bytes, fit, block = 4, n;
    int32_t four[4], *changes = four;
    if (p->groups != 1 || bytes < mct_dw_bytes(p, 1))
        return 0;
    d.quads = MCT_QUADS((uint32_t)p->y.h * p->y.w);
    d.blocks = MCT_QUADS(p->cols);
    d.lanes = (int16_t *)(void *)(d.e + 16 * d.quads);
    fit = mct_dw_vectors_in(p, bytes);
    if (fit < mct_dw_vectors(p) && bytes - mct_dw_bytes(p, fit) > sizeof four) {
        block = (bytes - mct_dw_bytes(p, fit)) / 16 * 4;
        changes = (int32_t *)(void *)(d.lanes + fit * d.quads * MCT_LANE_STEP);
    }
    for (uint32_t first = 0; first < p->rows; first += n) {
        n = p->rows - first < block ? p->rows - first : block;
        update_block(&d, first, n, fit, changes);
        update_biases(&d, first, n, changes, bias);
    }
    return 1;
}

#endif
