/*
 * Depthwise convolution, output rows, for cores without the DSP extension: the input rows of a
 * channel are copied to scratch memory, padding included, and four neighbouring outputs are made
 * together.
 *
 * No overflow: see mct_conv2d_row_s8.c. Taps outside the input lie in the copy as z_x.
 */
#include <string.h>

#include "mct_conv2d_fast.h"

#if !MCT_DSP

#include "mct_output.h"
#include "mct_window.h"

#define OUTPUTS 4u /* made together */

typedef struct {
    const mct_conv2d *p;
    const mct_rows *x;
    int8_t *plane; /* (kh, pitch) of one channel */
    uint32_t pitch;
    int8_t *y;
    uint8_t *mask;
    uint32_t bit; /* of y[0] in mask */
} depthwise;

/* Channel o of the rows under the window of output row oy; what is padding stays as it is. */
static void copy_rows(const depthwise *d, uint32_t oy, uint32_t o)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t c = conv->x.c, room = d->pitch - conv->win.pl;
    uint32_t n = conv->x.w < room ? conv->x.w : room;
    int32_t iy = (int32_t)(oy * conv->win.sh) - conv->win.pt;
    const mct_taps ty = mct_taps_inside(iy, conv->win.kh, conv->x.h);
    const int8_t *row = mct_row(d->x, iy + ty.first);
    int8_t *plane = d->plane + (uint32_t)ty.first * d->pitch + conv->win.pl;
    for (int32_t k = ty.first; k < ty.end; k++, plane += d->pitch) {
        const int8_t *x = row + o;
        int8_t *to = plane;
#pragma GCC unroll 4
        for (uint32_t i = n; i > 0; i--, x += c)
            *to++ = *x;
        row = mct_row_below(d->x, row);
    }
}

/* acc[j] += the window that starts at column j * sw of x; w (kh, kw). */
static MCT_NOINLINE void window_sums(int32_t acc[OUTPUTS], const depthwise *d, const int8_t *x,
                                     const int8_t *w)
{
    const mct_window *k = &d->p->conv.win;
    int32_t a0 = acc[0], a1 = acc[1], a2 = acc[2], a3 = acc[3];
    uint32_t sw = k->sw, kw = k->kw, rest = d->pitch - kw;
    for (const int8_t *end = w + k->kh * kw; w != end; x += rest) {
        for (const int8_t *last = w + kw; w != last; x++) {
            int32_t v = *w++;
            a0 = mct_mac(a0, x[0], v);
            a1 = mct_mac(a1, x[sw], v);
            a2 = mct_mac(a2, x[2 * sw], v);
            a3 = mct_mac(a3, x[3 * sw], v);
        }
    }
    acc[0] = a0;
    acc[1] = a1;
    acc[2] = a2;
    acc[3] = a3;
}

/* n outputs of channel o, the first at y[at]. */
static inline void put(const depthwise *d, const int32_t acc[OUTPUTS], uint32_t o, uint32_t at,
                       uint32_t n)
{
    const mct_conv2d *p = d->p;
    uint32_t c = p->conv.y.c, shift = p->shift[o];
    int32_t mult = p->mult[o], lo = p->lo, hi = p->hi, z = p->z_y;
    int8_t *y = d->y + at;
    if (d->mask == NULL) {
        for (const int32_t *end = acc + n; acc != end; acc++, y += c)
            *y = (int8_t)mct_sat(mct_requantize(*acc, mult, shift, z), lo, hi);
    } else {
        for (uint32_t j = 0; j < n; j++, at += c)
            mct_put(mct_requantize(acc[j], mult, shift, z), lo, hi, d->y + at, d->mask,
                    d->bit + at);
    }
}

/* Channel o of a row, whose first element is y[at]; w (kh, kw). */
static void make_channel(const depthwise *d, const int8_t *w, uint32_t o, uint32_t at)
{
    const mct_conv *conv = &d->p->conv;
    const int8_t *x = d->plane;
    int32_t bias = d->p->bias[o];
    at += o;
    for (uint32_t left = conv->y.w, n; left > 0; left -= n) {
        int32_t acc[OUTPUTS] = {bias, bias, bias, bias};
        n = left < OUTPUTS ? left : OUTPUTS;
        window_sums(acc, d, x, w);
        put(d, acc, o, at, n);
        at += n * conv->y.c;
        x += OUTPUTS * conv->win.sw;
    }
}

int mct_conv2d_depthwise_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                            int8_t *y, uint8_t *mask)
{
    const mct_conv *conv = &p->conv;
    const mct_window *k = &conv->win;
    uint32_t row = conv->y.w * (uint32_t)conv->y.c, taps = (uint32_t)k->kh * k->kw;
    uint32_t outputs = (conv->y.w + OUTPUTS - 1) & ~(OUTPUTS - 1);
    uint32_t pitch = (outputs - 1) * k->sw + k->kw;
    const depthwise d = {p, x, p->scratch.base, pitch, y, mask, oy * row};
    if (!mct_is_depthwise(conv) || p->scratch.bytes < k->kh * pitch)
        return 0;
    for (uint32_t r = 0; r < rows; r++) {
        memset(d.plane, p->z_x, k->kh * pitch);
        for (uint32_t i = 0; i < conv->y.c; i++) {
            uint32_t o = conv->perm != NULL ? conv->perm[i] : i;
            const int8_t *w = i < conv->trained ? conv->w_trained + i * taps
                                                : conv->w_frozen + (i - conv->trained) * taps;
            copy_rows(&d, oy + r, o);
            make_channel(&d, w, o, r * row);
        }
    }
    return 1;
}

#endif
