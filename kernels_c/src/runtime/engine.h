/* The executor's parts. Private. */
#ifndef MCT_ENGINE_PRIVATE_H
#define MCT_ENGINE_PRIVATE_H

#include "mct_engine.h"
#include "mct_simd.h"
#include "runtime.h"

/* Runs one instruction of a verified image. */
typedef mct_status (*mct_handler)(mct_engine *e, const mct_image_instruction *in);

extern const mct_handler mct_handlers[MCT_OPS];

/* Instructions first to end - 1, with the hook around each. */
mct_status mct_run(mct_engine *e, uint32_t first, uint32_t end);

static inline void mct_call_hook(const mct_engine *e, uint32_t instruction, mct_hook_event event)
{
    if (e->hook != NULL)
        e->hook(e->hook_context, e, instruction, event);
}

/* Instruction i is about to run. */
static inline void mct_begin(const mct_engine *e, uint32_t i)
{
#if MCT_SIMD
    mct_simd_packed = e->packed != NULL ? &e->packed[i] : NULL;
#endif
    mct_call_hook(e, i, MCT_HOOK_BEFORE);
}

/* ---- operators that make their output row by row ---- */

typedef void (*mct_row_handler)(mct_engine *e, const mct_image_instruction *in, uint32_t oy);

typedef struct {
    mct_row_handler run; /* NULL: not such an operator */
    uint8_t inputs;      /* maps it reads by rows */
    uint8_t windowed;    /* parameters start with a window; else row y needs row y */
    uint8_t x[2], y;     /* their slots */
} mct_row_op;

extern const mct_row_op mct_row_ops[MCT_OPS];

void mct_row_conv2d(mct_engine *e, const mct_image_instruction *in, uint32_t oy);
void mct_row_add(mct_engine *e, const mct_image_instruction *in, uint32_t oy);
void mct_row_avgpool(mct_engine *e, const mct_image_instruction *in, uint32_t oy);
void mct_row_maxpool(mct_engine *e, const mct_image_instruction *in, uint32_t oy);
void mct_row_rescale(mct_engine *e, const mct_image_instruction *in, uint32_t oy);
void mct_row_gather(mct_engine *e, const mct_image_instruction *in, uint32_t oy);
void mct_row_absent(mct_engine *e, const mct_image_instruction *in, uint32_t oy);

/* Output rows oy to oy + rows - 1 of a convolution. */
void mct_make_conv2d(mct_engine *e, const mct_image_instruction *in, uint32_t oy, uint32_t rows);

/* All rows of one of them; convolutions make them in one go. */
mct_status mct_run_conv2d(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_rows(mct_engine *e, const mct_image_instruction *in);

/* ---- segments ---- */

/* Whether the first instruction is a segment that takes the input row by row. */
int mct_streams_input(const mct_image *image);

void mct_segment_begin(mct_engine *e, uint32_t index);

/* As far as `input_rows` rows of the input allow; 1 at the end. */
int mct_segment_advance(mct_engine *e, uint32_t index, uint32_t input_rows);

/* Runs the segment (what streams the input has run already); returns how many members follow. */
uint32_t mct_run_segment(mct_engine *e, uint32_t index);

/* ---- whole operators ---- */

mct_status mct_run_head(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_loss(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_head_dx(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_head_dw(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_conv2d_dx(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_avgpool_dx(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_maxpool_dx(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_error_sum(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_conv2d_dw(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_conv2d_db(mct_engine *e, const mct_image_instruction *in);
mct_status mct_run_absent(mct_engine *e, const mct_image_instruction *in);
int mct_kernel_absent(void);

/* The tensor in a slot, NULL where it is absent; const ones may lie in the image. */
static inline const void *mct_operand(const mct_engine *e, const mct_image_tensor *t)
{
    if (t != NULL && t->space == MCT_SPACE_ARENA)
        return e->arena + t->offset;
    return mct_kept(&e->image, e->state, t);
}

static inline const void *mct_in(const mct_engine *e, const mct_image_instruction *in,
                                 uint32_t slot)
{
    return mct_operand(e, mct_slot(&e->image, in, slot));
}

/* A tensor that is written: in the arena or the state, as the verifier made sure. */
static inline void *mct_out(const mct_engine *e, const mct_image_instruction *in, uint32_t slot)
{
    const mct_image_tensor *t = mct_slot(&e->image, in, slot);
    if (t == NULL)
        return NULL;
    return (t->space == MCT_SPACE_ARENA ? e->arena : e->state) + t->offset;
}

/* Scratch memory of an instruction; none where the slot is empty. */
static inline mct_scratch mct_scratch_of(const mct_engine *e, const mct_image_instruction *in,
                                         uint32_t slot)
{
    const mct_image_tensor *t = mct_slot(&e->image, in, slot);
    mct_scratch scratch = {mct_out(e, in, slot), t == NULL ? 0 : t->bytes};
    return scratch;
}

/* State tensors that the header names. */
static inline uint32_t *mct_rng(const mct_engine *e)
{
    return (void *)(e->state + e->image.tensors[e->image.header->rng].offset);
}

/* The random key of the instruction that was given this id. */
uint32_t mct_key(const mct_engine *e, int32_t id);

int32_t mct_exponent_of(const mct_engine *e, const mct_image_tensor *error);
void mct_set_exponent(mct_engine *e, const mct_image_tensor *error, int32_t exponent);

/*
 * Whether an error and that of a skip branch (NULL: none) are 0 everywhere; counts if so. All that
 * follows from them is 0, too: this branch of the backward pass ends.
 */
int mct_no_error(mct_engine *e, const mct_image_tensor *e_y, const mct_image_tensor *skip);

/*
 * What an operator that writes e_x needs: mask and key; an exponent from the predictor, not below
 * the floor (mct_exponent_floor, INT32_MIN for none).
 */
mct_error mct_begin_error(const mct_engine *e, const mct_image_tensor *e_x,
                          const mct_image_tensor *mask, int32_t id, int32_t floor);

/* Once e_x is written: keeps its exponent, moves its predictor, counts. */
void mct_end_error(mct_engine *e, const mct_image_tensor *e_x, int32_t exponent,
                   const mct_error_stats *stats);

#endif
