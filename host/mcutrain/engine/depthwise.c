/*
 * A few channels at a time lie side by side in scratch memory, so that the innermost loop runs over
 * channels: the compiler makes vector instructions of it whatever the width of the map is.
 */
#include "depthwise.h"

#define LANES 8

/* Planes of `lanes` channels, n floats each, side by side. */
static void interleave(const float *planes, int32_t lanes, int32_t n, float *out)
{
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k < LANES; k++) {
            out[i * LANES + k] = k < lanes ? planes[k * n + i] : 0.0f;
        }
    }
}

static void separate(const float *in, int32_t lanes, int32_t n, float *planes)
{
    for (int32_t k = 0; k < lanes; k++) {
        for (int32_t i = 0; i < n; i++) {
            planes[k * n + i] = in[i * LANES + k];
        }
    }
}

/* sum += a * b, lane by lane. */
static inline void add_product(float *sum, const float *a, const float *b)
{
    for (int32_t k = 0; k < LANES; k++) {
        sum[k] += a[k] * b[k];
    }
}

static inline void store(float *to, const float *sum)
{
    for (int32_t k = 0; k < LANES; k++) {
        to[k] = sum[k];
    }
}

/* The first tap, and the one behind the last, of a window from `start` on that meet the input. */
static inline int32_t first_tap(int32_t start)
{
    return start < 0 ? -start : 0;
}

static inline int32_t end_of_taps(int32_t start, int32_t taps, int32_t size)
{
    return start + taps > size ? size - start : taps;
}

static void outputs(const mcutrain_windows *p, const float *x, const float *w, float *y)
{
    for (int32_t oy = 0; oy < p->ho; oy++) {
        const int32_t top = oy * p->sh - p->pt, ky1 = end_of_taps(top, p->kh, p->h);
        for (int32_t ox = 0; ox < p->wo; ox++) {
            const int32_t left = ox * p->sw - p->pl, kx1 = end_of_taps(left, p->kw, p->w);
            float sum[LANES] = {0};
            for (int32_t ky = first_tap(top); ky < ky1; ky++) {
                const int32_t in = (top + ky) * p->w + left, tap = ky * p->kw;
                for (int32_t kx = first_tap(left); kx < kx1; kx++) {
                    add_product(sum, x + (in + kx) * LANES, w + (tap + kx) * LANES);
                }
            }
            store(y + (oy * p->wo + ox) * LANES, sum);
        }
    }
}

/* Of one input pixel: the taps by which outputs saw it. */
static inline void input_error(const mcutrain_windows *p, const float *g, const float *w,
                               int32_t down, int32_t right, float *sum)
{
    for (int32_t ky = down % p->sh; ky < p->kh && ky <= down; ky += p->sh) {
        const int32_t oy = (down - ky) / p->sh;
        if (oy >= p->ho) {
            continue;
        }
        for (int32_t kx = right % p->sw; kx < p->kw && kx <= right; kx += p->sw) {
            const int32_t ox = (right - kx) / p->sw;
            if (ox < p->wo) {
                add_product(sum, g + (oy * p->wo + ox) * LANES, w + (ky * p->kw + kx) * LANES);
            }
        }
    }
}

static void input_errors(const mcutrain_windows *p, const float *g, const float *w, float *gx)
{
    for (int32_t iy = 0; iy < p->h; iy++) {
        for (int32_t ix = 0; ix < p->w; ix++) {
            float sum[LANES] = {0};
            input_error(p, g, w, iy + p->pt, ix + p->pl, sum);
            store(gx + (iy * p->w + ix) * LANES, sum);
        }
    }
}

/* Of one tap: the outputs that saw the input through it. */
static inline void tap_gradient(const mcutrain_windows *p, const float *x, const float *g,
                                int32_t ky, int32_t kx, float *sum)
{
    for (int32_t oy = 0; oy < p->ho; oy++) {
        const int32_t iy = oy * p->sh - p->pt + ky;
        if (iy < 0 || iy >= p->h) {
            continue;
        }
        for (int32_t ox = 0; ox < p->wo; ox++) {
            const int32_t ix = ox * p->sw - p->pl + kx;
            if (ix >= 0 && ix < p->w) {
                add_product(sum, x + (iy * p->w + ix) * LANES, g + (oy * p->wo + ox) * LANES);
            }
        }
    }
}

static void gradients(const mcutrain_windows *p, const float *x, const float *g, float *gw)
{
    for (int32_t ky = 0; ky < p->kh; ky++) {
        for (int32_t kx = 0; kx < p->kw; kx++) {
            float sum[LANES] = {0};
            tap_gradient(p, x, g, ky, kx, sum);
            store(gw + (ky * p->kw + kx) * LANES, sum);
        }
    }
}

typedef struct {
    float *x, *w, *y;              /* interleaved */
    int32_t inputs, taps, outputs; /* floats of a channel */
} blocks;

static blocks blocks_in(const mcutrain_windows *p, float *scratch)
{
    blocks b = {scratch, scratch, scratch, p->h * p->w, p->kh * p->kw, p->ho * p->wo};
    b.w = b.x + b.inputs * LANES;
    b.y = b.w + b.taps * LANES;
    return b;
}

static int32_t lanes_from(const mcutrain_windows *p, int32_t channel)
{
    return p->channels - channel < LANES ? p->channels - channel : LANES;
}

uint32_t mcutrain_depthwise_scratch(const mcutrain_windows *p)
{
    return (uint32_t)((p->h * p->w + p->kh * p->kw + p->ho * p->wo) * LANES);
}

void mcutrain_depthwise(const mcutrain_windows *p, float *scratch, const float *x, const float *w,
                        float *y)
{
    const blocks b = blocks_in(p, scratch);
    for (int32_t c = 0; c < p->channels; c += LANES) {
        const int32_t lanes = lanes_from(p, c);
        interleave(x + c * b.inputs, lanes, b.inputs, b.x);
        interleave(w + c * b.taps, lanes, b.taps, b.w);
        outputs(p, b.x, b.w, b.y);
        separate(b.y, lanes, b.outputs, y + c * b.outputs);
    }
}

void mcutrain_depthwise_dx(const mcutrain_windows *p, float *scratch, const float *g,
                           const float *w, float *gx)
{
    const blocks b = blocks_in(p, scratch);
    for (int32_t c = 0; c < p->channels; c += LANES) {
        const int32_t lanes = lanes_from(p, c);
        interleave(g + c * b.outputs, lanes, b.outputs, b.y);
        interleave(w + c * b.taps, lanes, b.taps, b.w);
        input_errors(p, b.y, b.w, b.x);
        separate(b.x, lanes, b.inputs, gx + c * b.inputs);
    }
}

void mcutrain_depthwise_dw(const mcutrain_windows *p, float *scratch, const float *x,
                           const float *g, float *gw)
{
    const blocks b = blocks_in(p, scratch);
    for (int32_t c = 0; c < p->channels; c += LANES) {
        const int32_t lanes = lanes_from(p, c);
        interleave(x + c * b.inputs, lanes, b.inputs, b.x);
        interleave(g + c * b.outputs, lanes, b.outputs, b.y);
        gradients(p, b.x, b.y, b.w);
        separate(b.w, lanes, b.taps, gw + c * b.taps);
    }
}
