/*
 * Pointwise convolution, output rows, for cores without the DSP extension: two pixels by two output
 * channels, so that four loads serve four products.
 *
 * No overflow: see mct_conv2d_row_s8.c.
 */
#include "mct_conv2d_fast.h"

#if !MCT_DSP

#include "mct_copy.h"
#include "mct_output.h"
#include "mct_window.h"

/*
 * acc[i][j] += sum over n of pixel i times channel j. Unrolled by the compiler: written out, the
 * sums would be put in another order, in which no product can be added at once.
 */
static MCT_NOINLINE void dots(int32_t acc[2][2], const int8_t *x0, const int8_t *x1,
                              const int8_t *w0, const int8_t *w1, uint32_t n)
{
    int32_t a00 = acc[0][0], a01 = acc[0][1], a10 = acc[1][0], a11 = acc[1][1];
    const int8_t *end = x0 + n;
#pragma GCC unroll 4
    while (x0 != end) {
        int32_t a = *x0++, b = *x1++, v = *w0++, w = *w1++;
        a00 = mct_mac(a00, a, v);
        a10 = mct_mac(a10, b, v);
        a01 = mct_mac(a01, a, w);
        a11 = mct_mac(a11, b, w);
    }
    acc[0][0] = a00;
    acc[0][1] = a01;
    acc[1][0] = a10;
    acc[1][1] = a11;
}

/* A block of weights (c_out, n), the n channels of a pixel from `first` on. */
typedef struct {
    const int8_t *w;
    uint32_t n, first;
} block;

typedef struct {
    const mct_conv2d *p;
    block blocks[2];
    int8_t *y;
    uint8_t *mask;
    uint32_t bit; /* of y[0] in mask */
} output;

/* Channel o of two pixels, at y[at] and y[at + next]. */
static inline void put(const output *out, int32_t a0, int32_t a1, uint32_t o, uint32_t at,
                       uint32_t next)
{
    const mct_conv2d *p = out->p;
    int32_t mult = p->mult[o], lo = p->lo, hi = p->hi, z = p->z_y;
    uint32_t shift = p->shift[o];
    int32_t v0 = mct_requantize(a0, mult, shift, z), v1 = mct_requantize(a1, mult, shift, z);
    if (out->mask == NULL) {
        int8_t *y = out->y + at;
        y[0] = (int8_t)mct_sat(v0, lo, hi);
        y[next] = (int8_t)mct_sat(v1, lo, hi);
    } else {
        mct_put(v0, lo, hi, out->y + at, out->mask, out->bit + at);
        mct_put(v1, lo, hi, out->y + at + next, out->mask, out->bit + at + next);
    }
}

/* All channels of two pixels x, at y[at] and y[at + next]; next 0: it is one, made twice. */
static void make_pixels(const output *out, const int8_t *const x[2], uint32_t at, uint32_t next)
{
    const mct_conv2d *p = out->p;
    uint32_t c = p->conv.y.c;
    for (uint32_t o = 0; o < c; o += 2, at += 2) {
        uint32_t two = o + 1 < c ? 1 : 0;
        int32_t b0 = p->bias[o], b1 = p->bias[o + two];
        int32_t acc[2][2] = {{b0, b1}, {b0, b1}};
        for (const block *b = out->blocks; b != out->blocks + 2 && b->n != 0; b++) {
            const int8_t *w = b->w + o * b->n;
            dots(acc, x[0] + b->first, x[1] + b->first, w, w + two * b->n, b->n);
        }
        put(out, acc[0][0], acc[1][0], o, at, next);
        if (two != 0)
            put(out, acc[0][1], acc[1][1], o + 1, at + 1, next);
    }
}

/* One or two pixels at x; where the weights have another order, they are copied in that first. */
static void take_pixels(const output *out, const int8_t *x, uint32_t at, uint32_t pixels)
{
    const mct_conv *conv = &out->p->conv;
    uint32_t second = pixels == 2 ? (uint32_t)conv->win.sw * conv->x.c : 0;
    const int8_t *both[2] = {x, x + second};
    if (conv->perm != NULL) {
        int8_t *copy = out->p->scratch.base;
        mct_gather_to(mct_gather_to(copy, x, conv->perm, conv->x.c), both[1], conv->perm,
                      conv->x.c);
        both[0] = copy;
        both[1] = copy + conv->x.c;
    }
    make_pixels(out, both, at, pixels == 2 ? conv->y.c : 0);
}

static int is_for(const mct_conv2d *p)
{
    const mct_conv *conv = &p->conv;
    return conv->groups == 1 && conv->win.kh == 1 && conv->win.kw == 1 && conv->y.w > 1 &&
           (conv->perm == NULL || p->scratch.bytes >= 2u * conv->x.c);
}

int mct_conv2d_pointwise_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                            int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    uint32_t c = conv->y.c, step = (uint32_t)conv->win.sw * conv->x.c, at = 0;
    const block trained = {conv->w_trained, conv->trained, 0};
    const block frozen = {conv->w_frozen, (uint32_t)conv->x.c - conv->trained, conv->trained};
    output out = {p, {trained, frozen}, y, mask, oy * conv->y.w * c};
    if (!is_for(p))
        return 0;
    if (conv->trained == 0) {
        out.blocks[0] = frozen;
        out.blocks[1] = trained;
    }
    for (uint32_t end = oy + rows; oy < end; oy++) {
        const int8_t *from = mct_row(x, (int32_t)(oy * conv->win.sh));
        for (uint32_t left = conv->y.w, n; left > 0; left -= n) {
            n = left < 2 ? 1 : 2;
            take_pixels(&out, from, at, n);
            from += n * step;
            at += n * c;
        }
    }
    return 1;
}

#endif
