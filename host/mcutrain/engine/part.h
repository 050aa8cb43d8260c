/* Part of a forward pass. Host only. */
#ifndef MCUTRAIN_PART_H
#define MCUTRAIN_PART_H

#include "mct_engine.h"

/*
 * The first `count` instructions of the forward pass on the sample, which is used up. What they
 * made can be read with mct_engine_tensor(). MCT_ERR_SAMPLE if the sample is not complete.
 */
mct_status mcutrain_run_first(mct_engine *engine, uint32_t count);

#endif
