/* Windows of kernels: which taps lie inside the input, and where their rows are. */
#ifndef MCT_WINDOW_H
#define MCT_WINDOW_H

#include <stdint.h>

#include "mct_types.h"

/* Taps [first, end) along one axis. */
typedef struct {
    int32_t first, end;
} mct_taps;

/* The taps of a window of k taps at start that fall on one of n inputs. */
static inline mct_taps mct_taps_inside(int32_t start, int32_t k, int32_t n)
{
    mct_taps t;
    t.first = start < 0 ? -start : 0;
    t.end = n - start < k ? n - start : k;
    if (t.end < t.first)
        t.end = t.first;
    return t;
}

/* The other way round: outputs [first, end) of n whose windows, k taps every s inputs, cover at. */
static inline mct_taps mct_outputs_over(int32_t at, int32_t k, int32_t s, int32_t n)
{
    mct_taps t;
    t.first = at < k ? 0 : (at - k) / s + 1;
    t.end = at / s + 1 < n ? at / s + 1 : n;
    if (t.end < t.first)
        t.end = t.first;
    return t;
}

/* Outputs [first, end) of n for which a tap, pad inputs before its window's place, is inside h. */
static inline mct_taps mct_outputs_inside(int32_t pad, int32_t s, int32_t h, int32_t n)
{
    int32_t last = h - 1 + pad; /* divided by s: the last such output */
    mct_taps t;
    t.first = pad > 0 ? (pad + s - 1) / s : 0;
    t.end = last < 0 ? 0 : last / s + 1 < n ? last / s + 1 : n;
    if (t.end < t.first)
        t.end = t.first;
    return t;
}

/* A depthwise convolution of one channel is an ordinary one of one channel. */
static inline int mct_is_depthwise(const mct_conv *conv)
{
    return conv->groups > 1 && conv->groups == conv->x.c && conv->groups == conv->y.c;
}

/* One tap, one block of weights, channels in order: rows and pixels are read as they lie. */
static inline int mct_is_pointwise(const mct_conv *conv)
{
    return conv->groups == 1 && conv->perm == 0 && conv->win.kh == 1 && conv->win.kw == 1;
}

/* Row y >= 0 of a map or ring. */
static inline const int8_t *mct_row(const mct_rows *x, int32_t y)
{
    return x->base + ((uint32_t)y % x->rows) * x->stride;
}

/* The row below one that mct_row gave. */
static inline const int8_t *mct_row_below(const mct_rows *x, const int8_t *row)
{
    row += x->stride;
    return row == x->base + x->rows * x->stride ? x->base : row;
}

#endif
