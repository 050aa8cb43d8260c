/*
 * Depthwise convolutions and the errors of their inputs, sixteen channels at a time.
 *
 * Rows of the input, with their padding, lie in a ring as pairs of neighbouring pixels, so that one
 * instruction takes two taps of a window. The error of an input is a convolution, too: of the
 * output's error, spread by the stride, with the kernel turned around.
 */
#ifndef MCT_SIMD_DEPTHWISE_H
#define MCT_SIMD_DEPTHWISE_H

#include "mct_simd_put.h"
#include "mct_window.h"

#define MCT_RING_MAX  32768u /* int16 */
#define MCT_TAPS_MAX  4096u  /* int16 */
#define MCT_WIDTH_MAX 512u   /* pixels of a row, with padding or of outputs */
#define MCT_PAIR      (2 * MCT_BLOCK)

/* What is convolved: rows of x, spread by `up`, at (top, left) among elements `fill`. */
typedef struct {
    const mct_rows *x;
    uint32_t h, w, c;
    int32_t top, left;
    uint32_t up_y, up_x;
    int8_t fill;
    uint32_t kh, kw, sh, sw; /* the kernel and its stride over that */
    uint32_t width;          /* elements of a row that windows read */
    uint32_t out_w;
} mct_plane;

typedef struct {
    int16_t ring[MCT_RING_MAX] __attribute__((aligned(64))); /* (kh, width, 16, 2) */
    int16_t taps[MCT_TAPS_MAX] __attribute__((aligned(64))); /* (kh, pairs, 16, 2) */
    int32_t acc[MCT_WIDTH_MAX * MCT_BLOCK] __attribute__((aligned(64)));
    int8_t line[(MCT_WIDTH_MAX + 1) * MCT_BLOCK];
    uint8_t blank[256]; /* rows of the ring that are only zeros */
    uint32_t next;      /* row that comes into the ring */
} mct_depthwise;

static uint32_t mct_tap_pairs(const mct_plane *s)
{
    return (s->kw + 1) / 2;
}

/* Whether it fits the memory that there is. */
static int mct_plane_fits(mct_plane *s)
{
    s->width = (s->out_w - 1) * s->sw + s->kw;
    return s->out_w <= MCT_WIDTH_MAX && s->width <= MCT_WIDTH_MAX &&
           s->kh * s->width * MCT_PAIR <= MCT_RING_MAX &&
           s->kh * mct_tap_pairs(s) * MCT_PAIR <= MCT_TAPS_MAX;
}

/* The kernel w of one channel, perhaps turned around, to its lane. */
static void mct_pack_tap(const mct_conv *conv, const int8_t *w, int turned, int16_t *taps)
{
    uint32_t kh = conv->win.kh, kw = conv->win.kw, pairs = (kw + 1) / 2;
    int step = turned ? -1 : 1;
    w += turned ? kh * kw - 1 : 0;
    for (uint32_t ky = 0; ky < kh; ky++, taps += pairs * MCT_PAIR) {
        for (uint32_t kx = 0; kx < kw; kx++, w += step)
            taps[kx / 2 * MCT_PAIR + kx % 2] = *w;
    }
}

/* Those of n channels from o on. */
static void mct_pack_taps(const mct_conv *conv, uint32_t o, uint32_t n, int turned, int16_t *taps)
{
    uint32_t size = (uint32_t)conv->win.kh * conv->win.kw, pairs = (conv->win.kw + 1u) / 2;
    uint32_t first = conv->perm != NULL ? 0 : o, end = conv->perm != NULL ? conv->x.c : o + n;
    memset(taps, 0, conv->win.kh * pairs * MCT_PAIR * sizeof *taps);
    for (uint32_t i = first; i < end; i++) {
        uint32_t lane = (conv->perm != NULL ? conv->perm[i] : i) - o;
        const int8_t *w = i < conv->trained ? conv->w_trained + i * size
                                            : conv->w_frozen + (i - conv->trained) * size;
        if (lane < n) /* a channel below o wraps */
            mct_pack_tap(conv, w, turned, taps + 2 * lane);
    }
}

/* Row `row` of the plane, n channels from o on, to its place in the ring. */
static void mct_ring_row(const mct_plane *s, mct_depthwise *d, uint32_t row, uint32_t o, uint32_t n)
{
    int32_t at = (int32_t)row - s->top;
    int inside = at >= 0 && at % (int32_t)s->up_y == 0 && at / (int32_t)s->up_y < (int32_t)s->h;
    int16_t *to = d->ring + row % s->kh * s->width * MCT_PAIR;
    d->blank[row % s->kh] = !inside && s->fill == 0;
    if (d->blank[row % s->kh])
        return;
    memset(d->line, s->fill, (s->width + 1) * MCT_BLOCK);
    if (inside) {
        const int8_t *x = mct_row(s->x, at / (int32_t)s->up_y) + o;
        int8_t *line = d->line + s->left * (int32_t)MCT_BLOCK;
        for (uint32_t i = 0; i < s->w && (uint32_t)s->left + i * s->up_x < s->width; i++)
            memcpy(line + i * s->up_x * MCT_BLOCK, x + i * s->c, n);
    }
    for (uint32_t i = 0; i < s->width; i++, to += MCT_PAIR)
        mct_v_interleave(to, d->line + i * MCT_BLOCK, d->line + (i + 1) * MCT_BLOCK);
}

/* acc of `count` outputs whose first window starts at element `at` of the plane's row `row`. */
static inline void mct_depthwise_some(const mct_plane *s, const mct_depthwise *d, uint32_t row,
                                      uint32_t at, uint32_t count, int32_t *acc)
{
    uint32_t pairs = mct_tap_pairs(s);
    mct_v16 sum[MCT_V_ROWS];
    for (uint32_t r = 0; r < count; r++)
        sum[r] = mct_v_set(0);
    for (uint32_t ky = 0; ky < s->kh; ky++) {
        uint32_t place = (row + ky) % s->kh;
        const int16_t *x = d->ring + (place * s->width + at) * MCT_PAIR;
        const int16_t *w = d->taps + ky * pairs * MCT_PAIR;
        if (d->blank[place])
            continue;
        for (uint32_t k = 0; k < pairs; k++, x += 2 * MCT_PAIR, w += MCT_PAIR) {
            mct_v16 tap = mct_v_pairs(w);
            for (uint32_t r = 0; r < count; r++)
                sum[r] = mct_v_dot(sum[r], mct_v_pairs(x + r * s->sw * MCT_PAIR), tap);
        }
    }
    for (uint32_t r = 0; r < count; r++)
        mct_v_store(acc + r * MCT_BLOCK, sum[r]);
}

/* d->acc of output row oy. */
static void mct_depthwise_row(const mct_plane *s, mct_depthwise *d, uint32_t oy, uint32_t o,
                              uint32_t n)
{
    uint32_t row = oy * s->sh, ox = 0;
    d->next = d->next < row ? row : d->next;
    for (; d->next < row + s->kh; d->next++)
        mct_ring_row(s, d, d->next, o, n);
    for (; ox + MCT_V_ROWS <= s->out_w; ox += MCT_V_ROWS)
        mct_depthwise_some(s, d, row, ox * s->sw, MCT_V_ROWS, d->acc + ox * MCT_BLOCK);
    for (; ox < s->out_w; ox++)
        mct_depthwise_some(s, d, row, ox * s->sw, 1, d->acc + ox * MCT_BLOCK);
}

static int mct_conv2d_depthwise(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                                int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    uint32_t c = conv->x.c, row = conv->y.w * c;
    mct_plane s = {x,      conv->x.h, conv->x.w, c,     k->pt, k->pl, 1,        1,
                   p->z_x, k->kh,     k->kw,     k->sh, k->sw, 0,     conv->y.w};
    mct_depthwise d;
    if (!mct_is_depthwise(conv) || !mct_plane_fits(&s))
        return 0;
    for (uint32_t o = 0; o < c; o += MCT_BLOCK) {
        const mct_outputs out = mct_outputs_of(p, o);
        mct_pack_taps(conv, o, out.n, 0, d.taps);
        d.next = 0;
        for (uint32_t i = 0; i < rows; i++) {
            mct_depthwise_row(&s, &d, oy + i, o, out.n);
            mct_put_outputs(&out, d.acc, conv->y.w, y + i * row + o, mask, (oy + i) * row + o);
        }
    }
    return 1;
}

/* Multipliers and factors r of n channels from o on. */
static mct_errors mct_errors_of(const mct_conv2d_dx *p, uint32_t o, uint32_t n, mct_v16 *r)
{
    int32_t mult[MCT_BLOCK] = {0}, factor[MCT_BLOCK] = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t g = o + i;
        factor[i] = p->r[g];
        mult[i] =
            (int32_t)mct_error_multiplier(p->mant[g], p->exp[g], p->f, p->error.e_out, p->e_y);
    }
    mct_errors out = {&p->error, mct_v_load(mult), n, p->conv.x.c};
    *r = mct_v_load(factor);
    return out;
}

static void mct_scale_sums(int32_t *acc, uint32_t n, mct_v16 r)
{
    for (; n > 0; n--, acc += MCT_BLOCK)
        mct_v_store(acc, mct_v_mul(mct_v_load(acc), r));
}

static int mct_conv2d_dx_depthwise(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                                   mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    uint32_t c = conv->x.c, w = conv->x.w;
    const mct_rows y = {e_y, conv->y.w * c, conv->y.h};
    mct_plane s = {&y,
                   conv->y.h,
                   conv->y.w,
                   c,
                   k->kh - 1 - k->pt,
                   k->kw - 1 - k->pl,
                   k->sh,
                   k->sw,
                   0,
                   k->kh,
                   k->kw,
                   1,
                   1,
                   0,
                   w};
    mct_depthwise d;
    if (!mct_is_depthwise(conv) || s.top < 0 || s.left < 0 || !mct_plane_fits(&s))
        return 0;
    for (uint32_t o = 0; o < c; o += MCT_BLOCK) {
        mct_v16 r;
        const mct_errors out = mct_errors_of(p, o, c - o < MCT_BLOCK ? c - o : MCT_BLOCK, &r);
        mct_pack_taps(conv, o, out.n, 1, d.taps);
        d.next = 0;
        for (uint32_t iy = 0; iy < conv->x.h; iy++) {
            mct_depthwise_row(&s, &d, iy, o, out.n);
            mct_scale_sums(d.acc, w, r);
            mct_put_errors(&out, iy * w * c + o, d.acc, w, e_x, stats);
        }
    }
    return 1;
}

#endif
