/*
 * Update of a depthwise convolution's weights, sixteen channels at a time.
 *
 * Their gradients are what a convolution of stride 1 makes of the input, with the errors, spread by
 * the stride, as its kernel. Outside the input is its zero point.
 */
#ifndef MCT_SIMD_DEPTHWISE_DW_H
#define MCT_SIMD_DEPTHWISE_DW_H

#include "mct_simd_depthwise.h"
#include "mct_simd_update.h"

#define MCT_DW_TAPS 256u /* weights of a channel, at most */

typedef struct {
    mct_depthwise plane; /* its taps are errors */
    int32_t sums[MCT_DW_TAPS * MCT_BLOCK] __attribute__((aligned(64)));
    int32_t d[MCT_DW_TAPS + 2 * MCT_BLOCK]; /* of one channel, behind a block without use */
} mct_dw_planes;

/* Output rows as one kernel; 0 if not even one row fits. s->kh is the kernel of so many. */
static uint32_t mct_dw_rows_fit(const mct_conv2d_dw *p, mct_plane *s)
{
    uint32_t rows = p->y.h;
    for (; rows > 0; rows--) {
        s->kh = (rows - 1) * p->win.sh + 1;
        if (mct_plane_fits(s))
            break;
    }
    return rows;
}

/* The kernel: errors of output rows oy to oy + rows - 1 and of rows k to k + n - 1 of weights. */
static void mct_dw_pack_errors(const mct_conv2d_dw *p, mct_depthwise *d, uint32_t k, uint32_t n,
                               uint32_t oy, uint32_t rows, const int8_t *e_y)
{
    uint32_t steps = ((rows - 1) * p->win.sh + 1) * d->groups;
    memset(d->taps, 0, steps * MCT_GROUP * sizeof *d->taps);
    for (uint32_t y = 0; y < rows; y++) {
        mct_w *row = d->taps + y * p->win.sh * d->groups * MCT_GROUP;
        for (uint32_t x = 0, at = 0; x < p->y.w; x++, at += p->win.sw) {
            const int8_t *e = e_y + ((oy + y) * p->y.w + x) * p->y.c;
            mct_w *to = row + at / MCT_V_TAPS * MCT_GROUP + at % MCT_V_TAPS;
            for (uint32_t j = 0; j < n; j++)
                to[MCT_V_TAPS * j] = e[p->chan != NULL ? p->chan[k + j] : k + j];
        }
    }
}

/* Gradients of rows k to k + n - 1 of weights, from all outputs. */
static void mct_dw_gradients(const mct_conv2d_dw *p, mct_plane *s, uint32_t most, uint32_t k,
                             uint32_t n, const int8_t *e_y, mct_dw_planes *g)
{
    mct_depthwise *d = &g->plane;
    d->taps = d->room;
    d->groups = mct_tap_groups(s->kw);
    for (uint32_t oy = 0, rows; oy < p->y.h; oy += rows) {
        int32_t *sums = g->sums;
        rows = p->y.h - oy < most ? p->y.h - oy : most;
        s->kh = (rows - 1) * p->win.sh + 1;
        s->top = p->win.pt - (int32_t)(oy * p->win.sh);
        d->next = 0;
        mct_dw_pack_errors(p, d, k, n, oy, rows, e_y);
        const mct_v16 start = mct_start_of(mct_v_set(0), p->z_x, d->taps, s->kh * d->groups);
        for (uint32_t ky = 0; ky < p->win.kh; ky++) {
            uint32_t first = mct_depthwise_rows(s, d, ky, k, n);
            for (uint32_t kx = 0; kx < p->win.kw; kx++, sums += MCT_BLOCK) {
                mct_v16 sum = oy > 0 ? mct_v_add(mct_v_load(sums), start) : start;
                mct_depthwise_sums(s, d, first, kx, 1, &sum);
                mct_v_store(sums, sum);
            }
        }
    }
}

/* The steps of a row of weights, the first of them at `at`, from the gradients in lane j. */
static void mct_dw_step(mct_weight_row *row, uint32_t at, uint32_t taps, uint32_t j,
                        mct_dw_planes *g)
{
    int32_t *d = g->d + MCT_BLOCK;
    for (uint32_t i = 0; i < taps; i++)
        d[i] = g->sums[i * MCT_BLOCK + j];
    for (uint32_t i = 0; i < taps; i += MCT_BLOCK)
        mct_update_weights(row, at + i, d + i, taps - i < MCT_BLOCK ? taps - i : MCT_BLOCK);
}

static int mct_conv2d_dw_depthwise(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x,
                                   int8_t *w, uint8_t *frac, int32_t *bias, mct_update_stats *stats)
{
    uint32_t taps = (uint32_t)p->win.kh * p->win.kw, c = p->x.c;
    const mct_rows rows = {x, p->x.w * c, p->x.h};
    mct_plane s = {&rows, p->x.h, p->x.w, c, 0, p->win.pl, 1, 1, p->z_x, 0, 0, 1, 1, 0, p->win.kw};
    mct_dw_planes g;
    uint32_t most;
    s.kw = (p->y.w - 1u) * p->win.sw + 1;
    most = mct_dw_rows_fit(p, &s);
    if (p->groups != p->y.c || p->cols != 1 || taps > MCT_DW_TAPS || most == 0)
        return 0;
    for (uint32_t k = 0; k < c; k += MCT_BLOCK) {
        uint32_t n = c - k < MCT_BLOCK ? c - k : MCT_BLOCK;
        mct_dw_gradients(p, &s, most, k, n, e_y, &g);
        for (uint32_t j = 0; j < n; j++) {
            mct_weight_row row = mct_weight_row_of(p, k + j, w, frac, stats);
            if (row.mult == 0)
                continue;
            mct_dw_step(&row, (k + j) * taps, taps, j, &g);
            mct_update_folded(&row, bias);
        }
    }
    return 1;
}

#endif
