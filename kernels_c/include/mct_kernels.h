/*
 * The kernels: one function an instruction of an image, portable C99, every legal shape.
 *
 * void or status f(parameters, inputs..., outputs...). No state, no allocation; the executor has
 * verified shapes and pointers. Every result is that of SPEC-arithmetic to the bit, whatever the
 * order of the calls. Buffers do not overlap except where "in place" is named. Each .c file says
 * why its accumulator cannot overflow.
 */
#ifndef MCT_KERNELS_H
#define MCT_KERNELS_H

#include <stdint.h>

#include "mct_status.h"
#include "mct_types.h"

/* ---- forward ---- */

/*
 * Row oy of the output: y (w_out, c_out). mask, if not NULL, is the mask of the whole output; the
 * bits of this row are set or cleared, its neighbours stay.
 */
void mct_conv2d_row_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, int8_t *y,
                       uint8_t *mask);

/*
 * The same for rows oy .. oy + rows - 1, y (rows, w_out, c_out), with a faster kernel where the
 * core, the shape and the scratch memory allow: mct_conv2d_scratch_bytes gives what is of use.
 */
void mct_conv2d_rows_s8(const mct_conv2d *p, const mct_rows *x, uint32_t oy, uint32_t rows,
                        int8_t *y, uint8_t *mask);
uint32_t mct_conv2d_scratch_bytes(const mct_conv2d *p, uint32_t rows, int masked);

/* Row oy of the output: y (w_out, c). */
void mct_avgpool_row_s8(const mct_pool *p, const mct_rows *x, uint32_t oy, int8_t *y);

/* Row oy of the output, y (w_out, c); index, if not NULL, is the same row of the tap indices. */
void mct_maxpool_row_s8(const mct_pool *p, const mct_rows *x, uint32_t oy, int8_t *y,
                        uint8_t *index);

/* n elements, a whole tensor or a part. mask_bit is the bit of y[0]. In place: y may be a or b. */
void mct_add_s8(const mct_add *p, const int8_t *a, const int8_t *b, int8_t *y, uint8_t *mask,
                uint32_t mask_bit);

/*
 * x (pixels, c_x) into channels of y (pixels, c_y). mask_bit is the bit of y[0]. In place: y may
 * be x if c_x = c_y.
 */
void mct_rescale_s8(const mct_rescale *p, const int8_t *x, int8_t *y, uint8_t *mask,
                    uint32_t mask_bit);

/* x (pixels, c_x) to y (pixels, c_y). */
void mct_gather_s8(const mct_gather *p, const int8_t *x, int8_t *y);

/* ---- errors; e_x may be skip (or, in error_sum, an input of its own shape): in place ---- */

/* e_y (y) to e_x (x). */
void mct_conv2d_dx_s8(const mct_conv2d_dx *p, const int8_t *e_y, int8_t *e_x,
                      mct_error_stats *stats);
uint32_t mct_conv2d_dx_scratch_bytes(const mct_conv *conv);

/*
 * In place: e holds e_y, then e_x. Depthwise, stride 1, e_y and e_x of one shape (h, w, c). plane:
 * h * w bytes of any contents.
 */
void mct_depthwise_dx_inplace_s8(const mct_conv2d_dx *p, int8_t *e, int8_t *plane,
                                 mct_error_stats *stats);

void mct_avgpool_dx_s8(const mct_pool_dx *p, const int8_t *e_y, int8_t *e_x,
                       mct_error_stats *stats);

/* index (y): what the forward kernel wrote. */
void mct_maxpool_dx_s8(const mct_pool_dx *p, const int8_t *e_y, const uint8_t *index, int8_t *e_x,
                       mct_error_stats *stats);

/* e[i] (pixels, c_in[i]) to e_x (pixels, c). One input is copied: e_out is not used. */
void mct_error_sum_s8(const mct_error_sum *p, const int8_t *const e[], int8_t *e_x,
                      mct_error_stats *stats);

/* ---- updates ---- */

/*
 * Weights w and their fractions (bits = 0: NULL; 4: two a byte; 8: one a byte), and the folded
 * biases (c_out) that go with them, from e_y (y) and x.
 */
void mct_conv2d_dw_s8(const mct_conv2d_dw *p, const int8_t *e_y, const int8_t *x, int8_t *w,
                      uint8_t *frac, int32_t *bias, mct_update_stats *stats);
uint32_t mct_conv2d_dw_scratch_bytes(const mct_conv2d_dw *p);

/* bias (c_out) from e_y (y). */
void mct_conv2d_db_s8(const mct_conv2d_db *p, const int8_t *e_y, int32_t *bias);

/* ---- classifier and loss, binary32 (SPEC-arithmetic, sections 9 and 10) ---- */

/* x (features), w (classes, features), b (classes) to logits (classes). */
void mct_head_f32(const mct_head *p, const int8_t *x, const float *w, const float *b,
                  float *logits);

/*
 * Loss, predicted class and, if df is not NULL, df (classes) = dloss/dlogits. In place: df may be
 * logits. MCT_ERR_NOT_FINITE, with nothing written, if a logit is.
 */
mct_status mct_loss_f32(const mct_loss *p, const float *logits, float *df, mct_loss_result *result);

/*
 * df (classes), w (classes, features) to e_x (features) with its exponent; scratch (features).
 * MCT_ERR_NOT_FINITE, with only scratch written, if an error is.
 */
mct_status mct_head_dx_s8(const mct_head_dx *p, const float *df, const float *w, float *scratch,
                          int8_t *e_x, mct_top_error *top);

/* One step of rate on w (classes, features) and b (classes), from x (features) and df (classes). */
void mct_head_dw_f32(const mct_head *p, float rate, const int8_t *x, const float *df, float *w,
                     float *b);

float mct_exp_f32(float x); /* x <= 0 */
float mct_log_f32(float x); /* x >= 1, finite */

#endif
