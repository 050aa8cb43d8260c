/* A run in parts: some of the forward pass, and when the backward pass began. Host only. */
#ifndef MCUTRAIN_PART_H
#define MCUTRAIN_PART_H

#include "mct_engine.h"

/*
 * The first `count` instructions of the forward pass on the sample, which is used up. What they
 * made can be read with mct_engine_tensor(). MCT_ERR_SAMPLE if the sample is not complete.
 */
mct_status mcutrain_run_first(mct_engine *engine, uint32_t count);

/* A hook that keeps the clock (ns) at the start of the backward pass. context: a uint32_t. */
void mcutrain_note_backward(void *context, const mct_engine *engine, uint32_t instruction,
                            mct_hook_event event);

uint32_t mcutrain_clock(void);

#endif
