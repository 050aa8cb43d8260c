/*
 * How much scratch memory the kernels make use of (bytes). host/mcutrain/ir/scratch.py is the same
 * for the compiler. It does not depend on the core, so that an image runs everywhere.
 */
#ifndef MCT_SCRATCH_H
#define MCT_SCRATCH_H

#include <stddef.h>

#include "mct_lanes.h"
#include "mct_planes.h"
#include "mct_types.h"
#include "mct_window.h"

/*
 * Ungrouped convolutions: the elements of a window as bytes, one lane of int16, and, where they are
 * few and no whole quads, the weights with zeros between the channels.
 */
typedef struct {
    uint32_t window, lane, weights;
} mct_dense_scratch;

#define MCT_PADDED_BYTES_MAX 1024u

static inline mct_dense_scratch mct_dense_scratch_of(const mct_conv *conv)
{
    const mct_window *k = &conv->win;
    uint32_t taps = (uint32_t)k->kh * k->kw;
    uint32_t trained = taps * conv->trained, frozen = taps * (conv->x.c - conv->trained);
    uint32_t padded = 4 * MCT_QUADS(trained + frozen) * conv->y.c;
    mct_dense_scratch need = {0, 8 * (MCT_QUADS(trained) + MCT_QUADS(frozen)), 0};
    if (taps > 1 || conv->perm != NULL) /* else a window is a pixel as it lies in memory */
        need.window = 4 * MCT_QUADS(trained > frozen ? trained : frozen);
    if ((trained == 0 || frozen == 0) && (trained + frozen) % 4 != 0 &&
        padded <= MCT_PADDED_BYTES_MAX)
        need.weights = padded;
    return need;
}

/*
 * Depthwise ones: tables of the loops, perhaps sums of a row of outputs, and the planes for `rows`
 * rows of `width` outputs.
 */
static inline uint32_t mct_planes_bytes(const mct_conv *conv, uint32_t rows, uint32_t width,
                                        int sums)
{
    const mct_window *k = &conv->win;
    uint32_t inputs = (rows - 1) * k->sh + k->kh;
    return MCT_PLANES * (4 * mct_table_words(k->kw, k->sw) + (sums ? 4 * ((width + 3) & ~3u) : 0) +
                         2 * inputs * mct_plane_pitch(width, k->kw, k->sw));
}

#define MCT_PLANES_BYTES_MAX 2048u /* more than one row of outputs at a time only below this */

/* How many rows of outputs, at most `rows`, are best done at a time in `bytes` of scratch memory.
 */
static inline uint32_t mct_planes_rows(const mct_conv *conv, uint32_t rows, int sums,
                                       uint32_t bytes)
{
    while (rows > 1 && mct_planes_bytes(conv, rows, conv->y.w, sums) > bytes)
        rows--;
    return rows;
}

/* How many outputs of a single row, the last or whole groups of four; 0: none. */
static inline uint32_t mct_planes_width(const mct_conv *conv, int sums, uint32_t bytes)
{
    uint32_t width = conv->y.w;
    while (width > 0 && mct_planes_bytes(conv, 1, width, sums) > bytes)
        width = (width - 1) & ~3u;
    return width;
}

/* Outputs need neither a mask nor a clamp of their own, and are whole groups of four: no sums. */
static inline int mct_planes_plain(const mct_conv2d *p, int masked)
{
    return p->lo == INT8_MIN && p->hi == INT8_MAX && !masked && p->conv.y.w % 4 == 0;
}

/* Whether the kernels for planes are for this convolution. */
static inline int mct_planes_for(const mct_conv *conv)
{
    return mct_is_depthwise(conv) && conv->x.c % MCT_PLANES == 0 &&
           mct_planes_fit(conv->win.kh, conv->win.kw, conv->win.sw);
}

/* ---- conv2d_dx ---- */

/* Ungrouped: a vector over the output channels in four lanes for each tap. */
static inline uint32_t mct_dx_lanes_bytes(const mct_conv *conv)
{
    return 2u * conv->win.kh * conv->win.kw * MCT_LANES_SIZE(conv->y.c);
}

/*
 * Behind them the errors of outputs, in lanes of their own: of as many as fit into
 * MCT_DX_BYTES_MAX in all, where each meets so many weights that unpacking it pays.
 */
#define MCT_DX_BYTES_MAX 4096u
#define MCT_WIDE_WEIGHTS 24u

static inline uint32_t mct_dx_wide_bytes(const mct_conv *conv)
{
    uint32_t lanes = mct_dx_lanes_bytes(conv), one = 8 * MCT_QUADS(conv->y.c);
    uint32_t fit = lanes < MCT_DX_BYTES_MAX ? (MCT_DX_BYTES_MAX - lanes) / one : 0;
    uint32_t all = (uint32_t)conv->y.h * conv->y.w;
    if ((uint32_t)conv->win.kh * conv->win.kw * conv->x.c < MCT_WIDE_WEIGHTS)
        return 0;
    return one * (fit < all ? fit : all);
}

static inline int mct_dx_planes_for(const mct_conv *conv)
{
    return mct_planes_for(conv) && conv->win.sh <= 2;
}

/*
 * Depthwise: the kernel falls into parts, one for the inputs of each remainder by the stride. Of a
 * stride of 2 in one direction only, rows of zeros between those of the error are taken instead.
 */
static inline uint32_t mct_dx_row_stride(const mct_conv *conv)
{
    return conv->win.sw == 1 ? 1 : conv->win.sh;
}

/* Ceiling of n / s: inputs of the largest part along an axis, or its taps. */
static inline uint32_t mct_dx_part(uint32_t n, uint32_t s)
{
    return (n + s - 1) / s;
}

/* Weights of a packed row of a part. */
static inline uint32_t mct_dx_part_width(const mct_conv *conv)
{
    uint32_t taps = mct_dx_part(conv->win.kw, conv->win.sw);
    return taps < 3 ? 3 : taps;
}

/* Halfwords of a plane's row, an even number, for groups of four inputs of a part. */
static inline uint32_t mct_dx_plane_pitch(const mct_conv *conv)
{
    return 4 * MCT_QUADS(mct_dx_part(conv->x.w, conv->win.sw)) + (mct_dx_part_width(conv) & ~1u);
}

static inline uint32_t mct_dx_table_words(const mct_conv *conv)
{
    uint32_t taps = mct_dx_part(conv->win.kh, mct_dx_row_stride(conv));
    return 1 + taps * (mct_dx_part_width(conv) - 1) + MCT_TABLE_TAIL;
}

/*
 * Tables of the loops, sums of a row of a part or, if `down`, of a column of groups of four, and
 * the planes for `rows` rows of a part.
 */
static inline uint32_t mct_dx_planes_bytes(const mct_conv *conv, uint32_t rows, int down)
{
    uint32_t inputs = rows - 1 + mct_dx_part(conv->win.kh, mct_dx_row_stride(conv));
    uint32_t groups = MCT_QUADS(mct_dx_part(conv->x.w, conv->win.sw));
    return MCT_PLANES * (4 * mct_dx_table_words(conv) + 16 * (down ? rows : groups) +
                         2 * inputs * mct_dx_plane_pitch(conv));
}

/* Rows of a part made at a time in `bytes` of scratch memory, at least 1. */
static inline uint32_t mct_dx_planes_rows(const mct_conv *conv, uint32_t bytes)
{
    uint32_t rows = mct_dx_part(conv->x.h, mct_dx_row_stride(conv));
    while (rows > 1 && mct_dx_planes_bytes(conv, rows, 0) > bytes)
        rows--;
    return rows;
}

/* Whether so many rows are better made down the columns: fewer, longer loops. */
static inline int mct_dx_planes_down(const mct_conv *conv, uint32_t rows)
{
    return rows > MCT_QUADS(mct_dx_part(conv->x.w, conv->win.sw));
}

/* ---- conv2d_dw ---- */

#define MCT_DW_BYTES_MAX 4096u

/* Vectors over the output pixels: a tap and four input channels each. */
static inline uint32_t mct_dw_vectors(const mct_conv2d_dw *p)
{
    return (uint32_t)p->win.kh * p->win.kw * MCT_QUADS(p->cols);
}

/* The errors of four output channels, and that many vectors. */
static inline uint32_t mct_dw_bytes(const mct_conv2d_dw *p, uint32_t vectors)
{
    return MCT_QUADS((uint32_t)p->y.h * p->y.w) * (16 + 2 * MCT_LANE_STEP * vectors);
}

static inline uint32_t mct_dw_vectors_in(const mct_conv2d_dw *p, uint32_t bytes)
{
    uint32_t quads = MCT_QUADS((uint32_t)p->y.h * p->y.w);
    return (bytes / quads - 16) / (2 * MCT_LANE_STEP);
}

/* Whether the kernel for planes is for this update: depthwise, four channels at least. */
static inline int mct_dw_planes_for(const mct_conv2d_dw *p)
{
    return p->groups > 1 && p->groups == p->y.c && p->cols == 1 && p->rows >= MCT_PLANES &&
           mct_planes_fit(p->win.kh, p->win.kw, p->win.sw);
}

/* Sums of four kernels, and errors and inputs for `rows` rows of outputs. */
static inline uint32_t mct_dw_planes_bytes(const mct_conv2d_dw *p, uint32_t rows)
{
    const mct_window *k = &p->win;
    uint32_t inputs = (rows - 1) * k->sh + k->kh;
    return MCT_PLANES * (4u * k->kh * k->kw + 8 * MCT_QUADS(p->y.w) * rows +
                         2 * inputs * mct_plane_pitch(p->y.w, k->kw, k->sw));
}

/* How many rows at a time in `bytes` of scratch memory, at least 1. */
static inline uint32_t mct_dw_planes_rows(const mct_conv2d_dw *p, uint32_t bytes)
{
    uint32_t rows = p->y.h;
    while (rows > 1 && mct_dw_planes_bytes(p, rows) > bytes)
        rows--;
    return rows;
}

#endif
