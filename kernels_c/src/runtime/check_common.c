#include "verify.h"

enum { EXP_MAX = 96, MANT_MIN = 1 << 30 };

mct_status mct_check_param(mct_check *c, uint32_t param, int32_t lo, int32_t hi)
{
    int32_t v = c->in->params[param];
    return mct_require(c, v >= lo && v <= hi, MCT_ERR_PARAMETER, param);
}

static int mant_ok(int32_t mant)
{
    return mant == 0 || mant >= MANT_MIN;
}

mct_status mct_check_mant_exp(mct_check *c, uint32_t mant, uint32_t exp)
{
    MCT_TRY(mct_require(c, mant_ok(c->in->params[mant]), MCT_ERR_PARAMETER, mant));
    return mct_check_param(c, exp, -EXP_MAX, EXP_MAX);
}

mct_status mct_check_clamp(mct_check *c, uint32_t lo, uint32_t hi)
{
    MCT_TRY(mct_check_param(c, lo, -128, 127));
    return mct_check_param(c, hi, c->in->params[lo], 127);
}

mct_status mct_check_count(mct_check *c, uint32_t slot, uint64_t count)
{
    const mct_image_tensor *t = c->t[slot];
    return mct_require(c, t == NULL || mct_count(t) == count, MCT_ERR_SHAPE, slot);
}

mct_status mct_check_shape(mct_check *c, uint32_t slot, uint64_t h, uint64_t w, uint64_t channels)
{
    const mct_image_tensor *t = c->t[slot];
    int ok = t == NULL || (t->h == h && t->w == w && t->c == channels);
    return mct_require(c, ok, MCT_ERR_SHAPE, slot);
}

mct_status mct_check_like(mct_check *c, uint32_t slot, uint32_t other)
{
    const mct_image_tensor *t = c->t[other];
    return mct_check_shape(c, slot, t->h, t->w, t->c);
}

/*
 * One axis: y = floor((x + before + after - kernel) / stride) + 1 for some padding `after` below
 * the kernel. That is: one more window would not start in what the input and `before` hold, and
 * the last one starts inside the input.
 */
static int axis_ok(int64_t x, int64_t y, int64_t kernel, int64_t stride, int64_t before)
{
    return x + before - kernel < y * stride && (y - 1) * stride - before <= x - 1;
}

mct_status mct_check_window(mct_check *c, uint32_t x, uint32_t y)
{
    const int32_t *p = c->in->params;
    const mct_image_tensor *in = c->t[x], *out = c->t[y];
    for (uint32_t i = 0; i < 4; i++)
        MCT_TRY(mct_check_param(c, i, 1, 255));
    MCT_TRY(mct_check_param(c, 4, 0, p[0] - 1));
    MCT_TRY(mct_check_param(c, 5, 0, p[1] - 1));
    MCT_TRY(mct_require(c, axis_ok(in->h, out->h, p[0], p[2], p[4]), MCT_ERR_SHAPE, y));
    return mct_require(c, axis_ok(in->w, out->w, p[1], p[3], p[5]), MCT_ERR_SHAPE, y);
}

/* ---- tables: each loop stops at the first bad value ---- */

#define TABLE(type, condition)                                                                     \
    do {                                                                                           \
        const type *table = mct_kept(c->image, NULL, c->t[slot]);                                  \
        MCT_TRY(mct_check_count(c, slot, count));                                                  \
        for (uint64_t i = 0; table != NULL && i < count; i++) {                                    \
            type v = table[i];                                                                     \
            MCT_TRY(mct_require(c, condition, MCT_ERR_TABLE, slot));                               \
        }                                                                                          \
        return MCT_OK;                                                                             \
    } while (0)

mct_status mct_check_u8_table(mct_check *c, uint32_t slot, uint64_t count, uint8_t max)
{
    TABLE(uint8_t, v <= max);
}

mct_status mct_check_u16_table(mct_check *c, uint32_t slot, uint64_t count, uint32_t limit)
{
    TABLE(uint16_t, v < limit);
}

mct_status mct_check_r_table(mct_check *c, uint32_t slot, uint64_t count, int32_t max)
{
    TABLE(int16_t, v >= 0 && v <= max);
}

mct_status mct_check_exp_table(mct_check *c, uint32_t slot, uint64_t count)
{
    TABLE(int8_t, v >= -EXP_MAX && v <= EXP_MAX);
}

mct_status mct_check_mant_table(mct_check *c, uint32_t slot, uint64_t count)
{
    TABLE(int32_t, mant_ok(v));
}

mct_status mct_check_positive_table(mct_check *c, uint32_t slot, uint64_t count)
{
    TABLE(int32_t, v >= 0);
}

/* Every value below count appears: found with a bitmap of a part of the values at a time. */
mct_status mct_check_permutation(mct_check *c, uint32_t slot, uint32_t count)
{
    enum { PART = 1024 };
    const uint16_t *table = mct_kept(c->image, NULL, c->t[slot]);
    MCT_TRY(mct_check_count(c, slot, count));
    for (uint32_t start = 0; table != NULL && start < count; start += PART) {
        uint32_t seen[PART / 32] = {0};
        for (uint32_t i = 0; i < count; i++) {
            uint32_t v = table[i] - start; /* below start: wraps to a large value */
            if (v < PART)
                seen[v >> 5] |= 1u << (v & 31u);
        }
        for (uint32_t v = 0; v < PART && start + v < count; v++)
            MCT_TRY(mct_require(c, (seen[v >> 5] >> (v & 31u)) & 1, MCT_ERR_TABLE, slot));
    }
    return MCT_OK;
}
