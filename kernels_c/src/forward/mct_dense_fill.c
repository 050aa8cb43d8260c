/*
 * The windows of output pixels, unpacked into the lanes of scratch memory.
 */
#include "mct_dense.h"

#if MCT_DSP

#include "mct_copy.h"
#include "mct_window.h"

/* The elements of block b in the window at input row iy, column ix. */
static void copy_window(const mct_dense *d, const mct_dense_block *b, int32_t iy, int32_t ix)
{
    const mct_conv *conv = &d->p->conv;
    const mct_window *k = &conv->win;
    const mct_taps ty = mct_taps_inside(iy, k->kh, conv->x.h);
    const mct_taps tx = mct_taps_inside(ix, k->kw, conv->x.w);
    uint32_t n = (uint32_t)(tx.end - tx.first), row = k->kw * b->cols;
    uint32_t left = (uint32_t)tx.first * b->cols, right = row - left - n * b->cols;
    uint32_t at = (uint32_t)(ix + tx.first) * conv->x.c;
    const int8_t *from = mct_row(d->x, iy + ty.first);
    int8_t z = d->p->z_x, *to = mct_fill(d->window, z, (uint32_t)ty.first * row);
    for (int32_t y = ty.first; y < ty.end; y++) {
        to = mct_fill(to, z, left);
        if (b->perm == NULL)
            to = mct_copy(to, from + at, n * b->cols);
        for (uint32_t i = 0; b->perm != NULL && i < n; i++)
            to = mct_gather_to(to, from + at + i * conv->x.c, b->perm, b->cols);
        to = mct_fill(to, z, right);
        from = mct_row_below(d->x, from);
    }
    mct_fill(to, z, (uint32_t)(k->kh - ty.end) * row);
}

/* Three rows of nine bytes, as the first layer for a picture in colours has them. */
static void widen_nines(int16_t *lane, uint32_t step, const int8_t *a, const int8_t *b,
                        const int8_t *c)
{
    mct_put_quad(lane, mct_load4(a));
    mct_put_quad(lane + step, mct_load4(a + 4));
    lane += 2 * step;
    mct_put_quad(lane, (uint8_t)a[8] | mct_load4(b) << 8);
    mct_put_quad(lane + step, mct_load4(b + 3));
    lane += 2 * step;
    mct_put_quad(lane, mct_load4(b + 5) >> 16 | mct_load4(c) << 16);
    mct_put_quad(lane + step, mct_load4(c + 2));
    mct_put_quad(lane + 2 * step, mct_load4(c + 5) >> 8);
}

/* A window inside the input, channels in order: the taps of a row are one run of bytes. */
static void fill_inside(const mct_dense *d, int16_t *lane, uint32_t step, int32_t iy, int32_t ix)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t n = (uint32_t)conv->win.kw * conv->x.c, at = (uint32_t)ix * conv->x.c;
    const int8_t *row = mct_row(d->x, iy);
    if (n == 9 && conv->win.kh == 3) {
        const int8_t *second = mct_row_below(d->x, row), *third = mct_row_below(d->x, second);
        widen_nines(lane, step, row + at, second + at, third + at);
        return;
    }
    for (uint32_t k = conv->win.kh; k > 0; k--, row = mct_row_below(d->x, row)) {
        mct_widen(lane, step, row + at, n);
        lane += n / 4 * step;
    }
}

/* Whether fill_inside is for the window at input row iy, column ix. */
static int is_inside(const mct_conv *conv, int32_t iy, int32_t ix)
{
    uint32_t n = (uint32_t)conv->win.kw * conv->x.c;
    return conv->perm == NULL && (n % 4 == 0 || (n == 9 && conv->win.kh == 3)) && iy >= 0 &&
           iy + conv->win.kh <= conv->x.h && ix >= 0 && ix + conv->win.kw <= conv->x.w;
}

static void next_pixels(mct_dense *d, uint32_t n)
{
    d->ox += n;
    if (d->ox == d->p->conv.y.w) {
        d->ox = 0;
        d->oy++;
    }
}

/* The next pixel. */
static void fill_lane(mct_dense *d, uint32_t lane, uint32_t step)
{
    const mct_conv *conv = &d->p->conv;
    int32_t iy = (int32_t)(d->oy * conv->win.sh) - conv->win.pt;
    int32_t ix = (int32_t)(d->ox * conv->win.sw) - conv->win.pl;
    int16_t *to = d->blocks[0].lanes + 4 * lane;
    if (d->window == NULL)
        mct_widen(to, step, mct_row(d->x, iy) + (uint32_t)ix * conv->x.c, conv->x.c);
    else if (is_inside(conv, iy, ix))
        fill_inside(d, to, step, iy, ix);
    else
        for (const mct_dense_block *b = d->blocks; b != d->blocks + 2 && b->n != 0; b++) {
            copy_window(d, b, iy, ix);
            mct_widen(b->lanes + 4 * lane, step, d->window, b->n);
        }
    next_pixels(d, 1);
}

/* The next four pixels, which lie in x as they are, one beside the other. */
static void fill_four(mct_dense *d)
{
    const mct_conv *conv = &d->p->conv;
    uint32_t c = conv->x.c, to_next = conv->win.sw * c;
    const int8_t *x = mct_row(d->x, (int32_t)(d->oy * conv->win.sh)) + d->ox * to_next;
    int16_t *lanes = d->blocks[0].lanes;
    mct_widen_four(lanes, x, to_next, c / 4);
    for (uint32_t j = 0; j < MCT_LANES && c % 4 != 0; j++)
        mct_put_quad(lanes + c / 4 * MCT_LANE_STEP + 4 * j,
                     mct_load_some(x + j * to_next + c / 4 * 4, c % 4));
    next_pixels(d, MCT_LANES);
}

void mct_dense_fill(mct_dense *d, uint32_t n, uint32_t step)
{
    if (d->window == NULL && n == MCT_LANES && d->ox + n <= d->p->conv.y.w) {
        fill_four(d);
        return;
    }
    for (uint32_t j = 0; j < n; j++)
        fill_lane(d, j, step);
}

#endif
