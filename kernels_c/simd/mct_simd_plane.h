/*
 * What a depthwise convolution reads, sixteen channels at a time: rows of the input, with their
 * padding, in a ring as groups of neighbouring pixels, and kernels in the same order, so that one
 * instruction takes two or four taps of a window.
 */
#ifndef MCT_SIMD_PLANE_H
#define MCT_SIMD_PLANE_H

#include "mct_simd_weights.h"
#include "mct_window.h"

#define MCT_RING_MAX   32768u                   /* elements */
#define MCT_TAPS_MAX   8192u                    /* elements */
#define MCT_KERNEL_MAX 256u                     /* weights of a channel */
#define MCT_GROUP      (MCT_V_TAPS * MCT_BLOCK) /* taps that one product takes */

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
    mct_x ring[MCT_RING_MAX] __attribute__((aligned(64))); /* (kh, width, 16, MCT_V_TAPS) */
    mct_w room[MCT_TAPS_MAX] __attribute__((aligned(64)));
    mct_w *taps;        /* (kh, groups, 16, MCT_V_TAPS): in room, or in one that stays */
    uint8_t blank[256]; /* rows of the ring that are only zeros, and need no products */
    uint32_t next;      /* row that comes into the ring */
    uint32_t groups;    /* of taps in a row of the kernel */
} mct_depthwise;

static uint32_t mct_tap_groups(uint32_t kw)
{
    return (kw + MCT_V_TAPS - 1) / MCT_V_TAPS;
}

/* Whether it fits the memory that there is. */
static int mct_plane_fits(mct_plane *s)
{
    s->width = (s->out_w - 1) * s->sw + s->kw;
    return s->kh * s->kw <= MCT_KERNEL_MAX && s->width <= MCT_RING_MAX / MCT_GROUP &&
           s->kh * s->width * MCT_GROUP <= MCT_RING_MAX &&
           s->kh * mct_tap_groups(s->kw) * MCT_GROUP <= MCT_TAPS_MAX;
}

/* The kernel w of one channel, perhaps turned around, to its lane. */
static inline void mct_pack_tap(const mct_conv *conv, const int8_t *w, int turned, mct_w *to)
{
    uint32_t kh = conv->win.kh, kw = conv->win.kw, size = kh * kw;
    int8_t kernel[MCT_KERNEL_MAX + MCT_V_TAPS];
    memset(kernel + size, 0, MCT_V_TAPS);
    for (uint32_t i = 0; i < size; i++)
        kernel[i] = w[turned ? size - 1 - i : i];
    for (uint32_t ky = 0; ky < kh; ky++) {
        for (uint32_t kx = 0; kx < kw; kx += MCT_V_TAPS, to += MCT_GROUP) {
            mct_v_copy_taps(to, kernel + ky * kw + kx);
            for (uint32_t i = kw - kx; i < MCT_V_TAPS; i++) /* of the next row */
                to[i] = 0;
        }
    }
}

/* Those of n channels from o on; where frozen ones are there, of the trained ones among them. */
static void mct_pack_taps(const mct_conv *conv, uint32_t o, uint32_t n, int turned, int there,
                          mct_w *taps)
{
    uint32_t size = (uint32_t)conv->win.kh * conv->win.kw;
    uint32_t first = conv->perm != NULL ? 0 : o, end = conv->perm != NULL ? conv->x.c : o + n;
    if (there)
        end = conv->trained;
    else if (n < MCT_BLOCK)
        memset(taps, 0, conv->win.kh * mct_tap_groups(conv->win.kw) * MCT_GROUP * sizeof *taps);
    for (uint32_t i = first; i < end; i++) {
        uint32_t lane = (conv->perm != NULL ? conv->perm[i] : i) - o;
        const int8_t *w = i < conv->trained ? conv->w_trained + i * size
                                            : conv->w_frozen + (i - conv->trained) * size;
        if (lane < n) /* a channel below o wraps */
            mct_pack_tap(conv, w, turned, taps + MCT_V_TAPS * lane);
    }
}

/* An input row x, n channels of each pixel, between elements `fill`, as taps. */
static void mct_spread_row(const mct_plane *s, const int8_t *x, uint32_t n, mct_x *to)
{
    int8_t fill[MCT_BLOCK], room[MCT_BLOCK] = {0};
    uint32_t at = (uint32_t)s->left, end = at + s->w * s->up_x; /* of the pixels */
    mct_pixels pixels;
    memset(fill, s->fill, sizeof fill);
    pixels = mct_v_no_pixels();
    for (uint32_t i = 0; i < s->width + MCT_V_TAPS - 1; i++) {
        const int8_t *from = fill;
        if (i == at && at < end) {
            from = mct_some_bytes(room, x, n);
            x += s->c;
            at += s->up_x;
        }
        pixels = mct_v_slide(pixels, from);
        if (i >= MCT_V_TAPS - 1) {
            mct_v_spread(to, pixels);
            to += MCT_GROUP;
        }
    }
}

/* Row `row` of the plane, n channels from o on, to its place in the ring. */
static void mct_ring_row(const mct_plane *s, mct_depthwise *d, uint32_t row, uint32_t o, uint32_t n)
{
    int32_t at = (int32_t)row - s->top;
    int inside = at >= 0 && at % (int32_t)s->up_y == 0 && at / (int32_t)s->up_y < (int32_t)s->h;
    mct_x *to = d->ring + row % s->kh * s->width * MCT_GROUP;
    d->blank[row % s->kh] = !inside && s->fill == 0 && MCT_V_OFFSET == 0;
    if (inside)
        mct_spread_row(s, mct_row(s->x, at / (int32_t)s->up_y) + o, n, to);
    else
        mct_fill_to(to, s->fill, s->width * MCT_GROUP);
}

#endif
