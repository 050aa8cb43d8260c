/*
 * Error of a depthwise convolution's input, written over the error of its output: channel after
 * channel, each copied to a plane first. Shapes, bounds and results are those of mct_conv2d_dx_s8.
 */
#include <stddef.h>

#include "mct_conv2d_dx_fast.h"
#include "mct_error.h"
#include "mct_kernels.h"
#include "mct_window.h"
#include "mct_simd.h"

/* One channel. */
typedef struct {
    const mct_conv2d_dx *p;
    const int8_t *plane; /* e_y (h, w) */
    const int8_t *w;     /* (kh, kw) */
    int32_t r;
    uint32_t mult;
} channel;

static void copy_plane(int8_t *plane, const int8_t *e, uint32_t pixels, uint32_t c)
{
    for (uint32_t i = 0; i < pixels; i++, e += c)
        plane[i] = *e;
}

/* Sum of e_y * w over the outputs [ox.first, ox.end) and [oy.first, oy.end) that saw an input. */
static int32_t window_sum(const channel *ch, mct_taps oy, mct_taps ox, int32_t ty, int32_t tx)
{
    const mct_conv *conv = &ch->p->conv;
    int32_t acc = 0;
    for (int32_t y = oy.first; y < oy.end; y++) {
        const int8_t *e = ch->plane + y * conv->y.w + ox.first;
        const int8_t *w = ch->w + (ty - y) * conv->win.kw + tx - ox.first;
        for (int32_t n = ox.end - ox.first; n > 0; n--)
            acc = mct_mac(acc, *e++, *w--);
    }
    return acc;
}

static void write_channel(const channel *ch, int8_t *e, uint32_t c, mct_error_stats *stats)
{
    const mct_conv *conv = &ch->p->conv;
    const mct_window *k = &conv->win;
    for (int32_t iy = 0; iy < conv->x.h; iy++) {
        int32_t ty = iy + k->pt;
        mct_taps oy = mct_outputs_over(ty, k->kh, 1, conv->y.h);
        for (int32_t ix = 0; ix < conv->x.w; ix++, c += conv->x.c) {
            int32_t tx = ix + k->pl;
            mct_taps ox = mct_outputs_over(tx, k->kw, 1, conv->y.w);
            int32_t acc = mct_mac(0, window_sum(ch, oy, ox, ty, tx), ch->r);
            mct_error_write(&ch->p->error, c, acc, ch->mult, e, stats);
        }
    }
}

/* Apart, so that the kernel for the DSP extension does not run on top of its frame. */
static MCT_NOINLINE void plain(const mct_conv2d_dx *p, int8_t *e, int8_t *plane,
                               mct_error_stats *stats)
{
    const mct_conv *conv = &p->conv;
    uint32_t taps = (uint32_t)conv->win.kh * conv->win.kw;
    uint32_t pixels = (uint32_t)conv->x.h * conv->x.w;
    for (uint32_t i = 0; i < conv->x.c; i++) {
        uint32_t c = conv->perm != NULL ? conv->perm[i] : i;
        channel ch = {p, plane, NULL, p->r[c], 0};
        ch.w = i < conv->trained ? conv->w_trained + i * taps
                                 : conv->w_frozen + (i - conv->trained) * taps;
        ch.mult = mct_error_multiplier(p->mant[c], p->exp[c], p->f, p->error.e_out, p->e_y);
        copy_plane(plane, e + c, pixels, conv->x.c);
        write_channel(&ch, e, c, stats);
    }
}

void mct_depthwise_dx_inplace_s8(const mct_conv2d_dx *p, int8_t *e, int8_t *plane,
                                 mct_error_stats *stats)
{
#if MCT_DSP
    if (mct_conv2d_dx_depthwise_dsp(p, e, e, stats))
        return;
#endif
#if MCT_SIMD
    if (mct_simd_active != NULL && mct_simd_active->conv2d_dx(p, e, e, stats))
        return;
#endif
    plain(p, e, plane, stats);
}
