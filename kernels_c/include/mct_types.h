/*
 * Parameters of the kernels (mct_kernels.h), one struct an operator. A struct holds what an image
 * fixes (shapes, constants) and what the executor knows (exponents, random key, rate); activations,
 * errors and whatever is written are arguments. Rules and names are those of SPEC-arithmetic.
 *
 * Maps are (h, w, c), batch 1, channels innermost. Weights are OHWI.
 */
#ifndef MCT_TYPES_H
#define MCT_TYPES_H

#include <stdint.h>

typedef struct {
    uint16_t h, w, c;
} mct_shape;

/* Kernel, stride, padding at the top and left. What lies below and right follows from the shapes.
 */
typedef struct {
    uint8_t kh, kw, sh, sw, pt, pl;
} mct_window;

/*
 * Input rows of a kernel with a window: row y is at base + (y % rows) * stride (bytes). rows is the
 * height of a map held whole; fewer make a ring, which must hold every row of the window that lies
 * inside the map. Padding rows need no memory.
 */
typedef struct {
    const int8_t *base;
    uint32_t stride;
    uint32_t rows;
} mct_rows;

/*
 * Memory that a kernel may use as it likes while it runs, 4-byte aligned. With less than it asks
 * for (mct_..._scratch_bytes), down to none, a kernel gives the same result in more time.
 */
typedef struct {
    void *base;
    uint32_t bytes;
} mct_scratch;

/*
 * A convolution: shapes and weights. The weights are two blocks cut along the input channels,
 * w_trained (c_out, kh, kw, trained) and w_frozen (c_out, kh, kw, c_in / groups - trained); a block
 * without channels is NULL. perm (c_in) is there when both are: place i of [trained | frozen] is
 * input channel perm[i]. A depthwise one (groups = c_in = c_out > 1) is cut into whole channels:
 * (trained, kh, kw) and (c - trained, kh, kw), and place i is also output channel perm[i]. Other
 * grouped ones have one block.
 */
typedef struct {
    mct_shape x, y;
    mct_window win;
    uint16_t groups;
    uint16_t trained; /* channels in w_trained */
    const int8_t *w_trained;
    const int8_t *w_frozen;
    const uint16_t *perm;
} mct_conv;

typedef struct {
    mct_conv conv;
    const int32_t *bias;  /* (c_out), folded */
    const int32_t *mult;  /* (c_out) */
    const uint8_t *shift; /* (c_out), 0 to 15 */
    int8_t z_x, z_y, lo, hi;
    mct_scratch scratch;
} mct_conv2d;

/* Average pooling (all fields) and maximum pooling (shapes and window). */
typedef struct {
    mct_shape x, y;
    mct_window win;
    int8_t z_x;
    uint8_t shift;
    int32_t mult;
} mct_pool;

typedef struct {
    uint32_t n; /* elements */
    int32_t mult_a, mult_b;
    uint8_t shift; /* n of SPEC-arithmetic, 1 to 24 */
    int8_t z_a, z_b, z_y, lo, hi;
} mct_add;

/* Channels 0 to c_x - 1 of the input become channels c0 to c0 + c_x - 1 of the output. */
typedef struct {
    uint32_t pixels;
    uint16_t c_x, c_y, c0;
    int32_t mult;
    uint8_t shift;
    int8_t z_x, z_y, lo, hi;
} mct_rescale;

typedef struct {
    uint32_t pixels;
    uint16_t c_x, c_y;
    const uint16_t *chan; /* (c_y), each below c_x */
} mct_gather;

/* How an error tensor is written; every operator that makes one holds this. */
typedef struct {
    const uint8_t *mask; /* bits of the tensor, NULL: all 1 */
    const int8_t *skip;  /* error of a skip branch, same shape; NULL: none (always in error_sum) */
    int32_t e_skip;      /* its exponent */
    int32_t e_out;       /* exponent of the tensor written */
    uint32_t key;        /* random key of the instruction (mct_random_key) */
} mct_error;

/* What is counted while one is written. Kernels add to it: start from zeros. */
typedef struct {
    uint32_t saturated; /* elements */
    uint32_t amax;      /* largest |q| so far, 256 once an element saturated */
} mct_error_stats;

typedef struct {
    mct_conv conv;
    const int16_t *r;    /* (c_out), |r| <= 2^f */
    const int32_t *mant; /* (groups) */
    const int8_t *exp;   /* (groups) */
    uint8_t f;
    int32_t e_y; /* exponent of the output's error */
    mct_error error;
    mct_scratch scratch;
} mct_conv2d_dx;

/* Error of either pooling; mant and exp are those of 1 / (kh * kw), of 1 for maximum pooling. */
typedef struct {
    mct_shape x, y;
    mct_window win;
    int8_t exp;
    int32_t mant;
    int32_t e_y; /* exponent of the output's error */
    mct_error error;
} mct_pool_dx;

#define MCT_ERROR_SUM_MAX 4

typedef struct {
    uint32_t pixels;
    uint16_t c;                       /* channels of the sum */
    uint8_t n;                        /* inputs, 1 to 4 */
    uint16_t c_in[MCT_ERROR_SUM_MAX]; /* channels of each input */
    uint16_t c0[MCT_ERROR_SUM_MAX];   /* its first channel read */
    int32_t e_in[MCT_ERROR_SUM_MAX];  /* its exponent */
    mct_error error;
} mct_error_sum;

/* The learning rate as integers (mct_rate_mant, mct_rate_exp): lr = mant * 2^-exp, mant 0 if lr is.
 */
typedef struct {
    uint32_t mant;
    int32_t exp;
} mct_rate;

/* An update of weights or biases: constants an output channel, and what holds for the step. */
typedef struct {
    const int32_t *mant;  /* (c_out) */
    const int8_t *exp;    /* (c_out) */
    const uint8_t *shift; /* (c_out), of the forward pass */
    int32_t reach;        /* S of SPEC-arithmetic, section 4: bounds the bias */
    mct_rate rate;
    int32_t e_y; /* exponent of the output's error */
    uint32_t key;
} mct_update;

typedef struct {
    uint32_t clamped; /* weights whose update met a rail; kernels add to it */
} mct_update_stats;

/*
 * x holds just the trained channels; w is (rows, kh, kw, cols), rows = c_out and cols = x.c /
 * groups. Depthwise: w is (x.c, kh, kw), cols 1, and row i belongs to channel chan[i] of the output
 * (i if chan is NULL).
 */
typedef struct {
    mct_shape x, y;
    mct_window win;
    uint16_t groups;
    uint16_t rows, cols;
    const uint16_t *chan;
    int8_t z_x;
    uint8_t bits; /* of fraction: 0, 4 or 8 */
    mct_update update;
    mct_scratch scratch;
} mct_conv2d_dw;

typedef struct {
    mct_shape y;
    mct_update update;
} mct_conv2d_db;

typedef struct {
    uint32_t features;
    uint16_t classes;
    int8_t z_x;
    float s_x;
} mct_head;

typedef struct {
    uint16_t classes;
    uint16_t label; /* below classes */
} mct_loss;

typedef struct {
    float loss;
    uint16_t predicted; /* the first class with the largest logit */
} mct_loss_result;

typedef struct {
    uint32_t features;
    uint16_t classes;
    const uint8_t *mask; /* NULL: all 1 */
    uint32_t key;
} mct_head_dx;

/* The top error's exponent E, its L_top (Q8), and what was counted. */
typedef struct {
    int32_t e;
    int32_t l_top;
    mct_error_stats stats;
} mct_top_error;

#endif
