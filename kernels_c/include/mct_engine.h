/*
 * The executor: runs a verified image in one block of the caller's memory (state, then arena).
 *
 * Open, write a sample, then forward (evaluation) or train (one step). A sample may come in pieces;
 * where the image streams its input, rows are used as they arrive and never kept. What an image
 * keeps between steps is its state; everything else in the block may be overwritten by each run,
 * the sample included: write one before every run.
 */
#ifndef MCT_ENGINE_H
#define MCT_ENGINE_H

#include <stdint.h>

#include "mct_image.h"
#include "mct_status.h"
#include "mct_types.h"

typedef struct mct_engine mct_engine;

/*
 * Around each run of an instruction (a row of it, in a segment), and once when it is done; for the
 * members of a segment that is at the segment's end.
 */
typedef enum { MCT_HOOK_BEFORE, MCT_HOOK_AFTER, MCT_HOOK_DONE } mct_hook_event;

/* May read, must not write. */
typedef void (*mct_engine_hook)(void *context, const mct_engine *engine, uint32_t instruction,
                                mct_hook_event event);

/* Treat as opaque but for image, refused, hook, hook_context and learnt. */
struct mct_engine {
    mct_image image;
    mct_image_error refused; /* place of the last refusal by open or check_state */
    mct_engine_hook hook;    /* may be NULL */
    void *hook_context;
#if MCT_SIMD
    struct mct_packed *packed; /* one an instruction (mct_simd.h), or NULL */
#endif
    float learnt; /* a sample with a smaller loss changes nothing; 0 (after open): all train */
    uint8_t *state;
    uint8_t *arena;
    uint32_t received; /* bytes of the next sample */
    uint32_t order_at; /* in the order of the segment that runs */
    /* of the step that runs */
    uint32_t label;
    float lr_head;
    mct_rate rate;
    int32_t l_top;
    mct_loss_result loss;
    uint32_t saturated;
    uint32_t clamped;
    uint32_t skipped;
};

typedef struct {
    uint32_t loss_bits; /* binary32 */
    uint32_t predicted; /* before the update */
    uint32_t saturated; /* error elements that met a rail */
    uint32_t clamped;   /* weights that met a rail */
    uint32_t skipped;   /* instructions of the backward pass that had nothing to do */
    uint32_t step;      /* steps done since the state was made, this one included */
} mct_step_result;

/*
 * Verifies the image (which must stay where it is) and puts its initial state into the block.
 * memory: 4-byte aligned, at least mct_image_block_bytes(); the arena is not cleared.
 */
mct_status mct_engine_open(mct_engine *engine, const void *image, uint32_t size, void *memory,
                           uint32_t bytes);

/* Back to the initial state of the image. */
void mct_engine_reset(mct_engine *engine);

/* Bytes of a sample: all inputs, one after the other. */
uint32_t mct_engine_sample_bytes(const mct_engine *engine);

/* The next n bytes of a sample. MCT_ERR_SAMPLE, with nothing written, if that is too many. */
mct_status mct_engine_write(mct_engine *engine, const uint8_t *data, uint32_t n);

/* Forgets what was written of a sample. */
void mct_engine_restart(mct_engine *engine);

/* Logits of the last run (classes); valid until the next one, after train no longer. */
const float *mct_engine_logits(const mct_engine *engine);

/* The forward pass of the sample, which is used up. MCT_ERR_SAMPLE if it is not complete. */
mct_status mct_engine_forward(mct_engine *engine, uint32_t *predicted);

/*
 * One step on the sample, which is used up. label below the classes, rates and engine->learnt
 * finite and >= 0. On an error the state is what it was before the step.
 */
mct_status mct_engine_train(mct_engine *engine, uint32_t label, float lr, float lr_head,
                            mct_step_result *result);

/*
 * The state, to read (pull) or to overwrite as a whole (push). After a push, mct_engine_check_state
 * must be called; where it refuses what was written it puts the initial state in its place.
 */
uint8_t *mct_engine_state(const mct_engine *engine, uint32_t *bytes);
mct_status mct_engine_check_state(mct_engine *engine);

/* Address of a tensor of the image. */
const uint8_t *mct_engine_tensor(const mct_engine *engine, uint32_t tensor);

/*
 * CRC-32 over the bytes of the tensors that an instruction writes, in slot order; for hooks. Spare
 * bits of a last byte count as 0. Of a concatenation it covers parts that are not written yet.
 */
uint32_t mct_engine_trace_crc(const mct_engine *engine, uint32_t instruction, uint32_t crc);

/*
 * For debugging, of an image packed with canaries, from a hook: bytes beside a tensor that nobody
 * may write. BEFORE puts them around what the instruction is the first to touch; AFTER returns a
 * tensor beside which something was written, else MCT_NONE.
 */
uint32_t mct_canaries(const mct_engine *engine, uint32_t instruction, mct_hook_event event);

#endif
