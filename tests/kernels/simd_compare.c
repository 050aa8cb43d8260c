/*
 * Holds the kernels for a vector unit against plain C, on random shapes and data:
 *
 *     simd_compare UNIT ROUNDS
 *
 * For processors on which the tests in Python do not run. Exit code 1, and what differs, on a
 * difference; 2 if the unit is not there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mct_arith.h"
#include "mct_kernels.h"
#include "mct_simd.h"

#define MAX_MAP   (14 * 14 * 48)
#define MAX_KERNEL (48 * 49 * 48)

static uint32_t state = 1;

static uint32_t any(void)
{
    state = state * 1664525u + 1013904223u;
    return mct_mix32(state);
}

static int32_t between(int32_t low, int32_t high)
{
    return low + (int32_t)(any() % (uint32_t)(high - low + 1));
}

static void fill(void *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)to)[i] = (uint8_t)(between(0, 7) ? any() : any() % 2 ? 127 : 128);
}

/* Everything that a kernel may write, once by plain C and once by the vector unit. */
typedef struct {
    int8_t y[MAX_MAP], w[MAX_KERNEL];
    uint8_t mask[MAX_MAP / 8 + 1], frac[MAX_KERNEL];
    int32_t bias[64];
    mct_error_stats errors;
    mct_update_stats updates;
} result;

static result before, plain, vector;
static int8_t x[MAX_MAP], e_y[MAX_MAP], skip[MAX_MAP], weights[2][MAX_KERNEL];
static uint8_t mask_in[MAX_MAP / 8 + 1], shift[64];
static int32_t mult[64], mant[64];
static int16_t factor[64];
static int8_t exponent[64];
static uint16_t perm[64];
static uint8_t room[2 * 48 * (49 * 48 + 4)] __attribute__((aligned(64)));

static mct_conv conv_of(int depthwise)
{
    mct_conv conv;
    int32_t kh = between(1, 7), kw = between(1, 7), pb, pr;
    memset(&conv, 0, sizeof conv);
    conv.win = (mct_window){(uint8_t)kh,           (uint8_t)kw,
                            (uint8_t)between(1, 2), (uint8_t)between(1, 2),
                            (uint8_t)between(0, kh - 1), (uint8_t)between(0, kw - 1)};
    pb = between(0, kh - 1);
    pr = between(0, kw - 1);
    conv.x.h = (uint16_t)between(kh, 14);
    conv.x.w = (uint16_t)between(kw, 14);
    conv.x.c = (uint16_t)between(depthwise ? 2 : 1, 48);
    conv.y.h = (uint16_t)((conv.x.h + conv.win.pt + pb - kh) / conv.win.sh + 1);
    conv.y.w = (uint16_t)((conv.x.w + conv.win.pl + pr - kw) / conv.win.sw + 1);
    conv.y.h = conv.y.h < 14 ? conv.y.h : 14;
    conv.y.w = conv.y.w < 14 ? conv.y.w : 14;
    conv.y.c = depthwise ? conv.x.c : (uint16_t)between(1, 48);
    conv.groups = depthwise ? conv.x.c : 1;
    conv.trained = any() % 2 ? 0 : (uint16_t)between(0, conv.x.c);
    conv.w_trained = conv.trained ? weights[0] : NULL;
    conv.w_frozen = conv.trained < conv.x.c ? weights[1] : NULL;
    for (uint32_t i = 0; i < conv.x.c; i++)
        perm[i] = (uint16_t)((i * 7u + 3u) % conv.x.c);
    if (conv.trained != 0 && conv.trained < conv.x.c && conv.x.c % 7 != 0)
        conv.perm = perm;
    else
        conv.trained = conv.trained == conv.x.c ? conv.trained : 0;
    if (conv.trained == 0) {
        conv.w_trained = NULL;
        conv.w_frozen = weights[1];
    }
    return conv;
}

static mct_error error_of(void)
{
    mct_error e = {any() % 4 ? mask_in : NULL, any() % 2 ? skip : NULL, between(-60, 20),
                   between(-14, -8), any()};
    return e;
}

static void forward(result *r, const mct_conv *conv, uint32_t seed)
{
    mct_rows rows = {x, (uint32_t)conv->x.w * conv->x.c, conv->x.h};
    mct_conv2d p = {.conv = *conv, .bias = before.bias, .mult = mult, .shift = shift};
    p.z_x = (int8_t)seed;
    p.z_y = (int8_t)(seed >> 8);
    p.lo = seed & 1 ? -100 : -128;
    p.hi = seed & 1 ? 90 : 127;
    mct_conv2d_rows_s8(&p, &rows, 0, conv->y.h, r->y, seed & 2 ? r->mask : NULL);
}

static void backward(result *r, const mct_conv *conv, const mct_error *error)
{
    mct_conv2d_dx p = {.conv = *conv, .r = factor, .mant = mant, .exp = exponent, .f = 8,
                       .e_y = -12, .error = *error};
    mct_conv2d_dx_s8(&p, e_y, r->y, &r->errors);
}

static void update(result *r, const mct_conv *conv, int bits, uint32_t key)
{
    int depthwise = conv->groups > 1, some = depthwise && conv->perm != NULL;
    mct_conv2d_dw p = {.x = conv->x, .y = conv->y, .win = conv->win, .groups = conv->groups,
                       .rows = some ? conv->trained : conv->y.c, .chan = some ? perm : NULL,
                       .cols = depthwise ? 1 : conv->x.c, .z_x = (int8_t)key,
                       .bits = (uint8_t)bits};
    p.x.c = some ? conv->trained : conv->x.c;
    p.update = (mct_update){mant, exponent, shift, 1 << 20, {1u << 30, 38}, -12, key};
    mct_conv2d_dw_s8(&p, e_y, x, r->w, bits ? r->frac : NULL, r->bias, &r->updates);
    mct_conv2d_db_s8(&(mct_conv2d_db){conv->y, p.update}, e_y, r->bias);
}

static void others(result *r, const mct_conv *conv, const mct_error *error, uint32_t seed)
{
    mct_add add = {(uint32_t)conv->x.h * conv->x.w * conv->x.c, 1 << 19, 3 << 18, 20,
                   (int8_t)seed, 3, -7, seed & 4 ? -90 : -128, 127};
    mct_pool_dx pool = {conv->x, conv->x, conv->win, 30, 1 << 30, -14, *error};
    mct_error_sum sum = {.pixels = (uint32_t)conv->x.h * conv->x.w, .c = conv->x.c, .n = 1,
                         .c_in = {conv->x.c}, .e_in = {-12}, .error = *error};
    const int8_t *inputs[MCT_ERROR_SUM_MAX] = {e_y, NULL, NULL, NULL};
    sum.error.skip = NULL;
    pool.y = (mct_shape){conv->y.h, conv->y.w, conv->x.c};
    if (seed % 3 == 0)
        mct_add_s8(&add, x, skip, r->y, r->mask, 0);
    else if (seed % 3 == 1)
        mct_avgpool_dx_s8(&pool, e_y, r->y, &r->errors);
    else
        mct_error_sum_s8(&sum, inputs, r->y, &r->errors);
}

static void run(result *r, const mct_conv *conv, const mct_error *error, int what, uint32_t seed)
{
    *r = before;
    if (what == 0)
        forward(r, conv, seed);
    else if (what == 1)
        backward(r, conv, error);
    else if (what == 2)
        update(r, conv, (int)(seed % 3 * 4), seed);
    else
        others(r, conv, error, seed);
}

static void other_weights(void)
{
    for (size_t i = 0; i < sizeof weights[0]; i++)
        weights[0][i] = (int8_t)~weights[0][i];
}

/* By the vector unit. In every other round frozen weights are kept from a call with other trained
 * ones. */
static void run_vector(const mct_conv *conv, const mct_error *error, int what, uint32_t seed)
{
    mct_packed kept = {room, sizeof room, 0};
    if (what < 2 && any() % 2) {
        mct_simd_packed = &kept;
        other_weights();
        run(&vector, conv, error, what, seed);
        other_weights();
    }
    run(&vector, conv, error, what, seed);
    mct_simd_packed = NULL;
}

static void new_data(void)
{
    fill(x, sizeof x);
    fill(e_y, sizeof e_y);
    fill(skip, sizeof skip);
    fill(weights, sizeof weights);
    fill(mask_in, sizeof mask_in);
    memset(&before, 0, sizeof before);
    fill(before.y, sizeof before.y);
    fill(before.w, sizeof before.w);
    for (size_t i = 0; i < sizeof before.w; i++) /* trained weights are never -128 */
        before.w[i] = before.w[i] == -128 ? -127 : before.w[i];
    fill(before.frac, sizeof before.frac);
    fill(before.mask, sizeof before.mask);
    for (uint32_t i = 0; i < 64; i++) {
        before.bias[i] = between(-(1 << 18), 1 << 18);
        mult[i] = between(1 << 14, 1 << 26);
        mant[i] = between(0, 9) ? between(1 << 30, INT32_MAX) : 0;
        exponent[i] = (int8_t)between(30, 40);
        shift[i] = any() % 8 ? 0 : (uint8_t)between(1, 5);
        factor[i] = (int16_t)between(0, 256);
    }
}

int main(int argc, char **argv)
{
    long rounds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (rounds <= 0 || !mct_simd_select(argv[1]))
        return 2;
    for (long i = 0; i < rounds; i++) {
        int what = (int)(i % 5 == 4 ? 0 : i % 5); /* 0 twice: dense and depthwise */
        mct_conv conv;
        mct_error error;
        uint32_t seed = any();
        if (i % 16 == 0)
            new_data();
        conv = conv_of(any() % 2);
        error = error_of();
        mct_simd_select("none");
        run(&plain, &conv, &error, what, seed);
        mct_simd_select(argv[1]);
        run_vector(&conv, &error, what, seed);
        if (memcmp(&plain, &vector, sizeof plain) != 0) {
            printf("round %ld, kernel %d: x (%d, %d, %d), y (%d, %d, %d), kernel (%d, %d)\n", i,
                   what, conv.x.h, conv.x.w, conv.x.c, conv.y.h, conv.y.w, conv.y.c, conv.win.kh,
                   conv.win.kw);
            return 1;
        }
    }
    return 0;
}
