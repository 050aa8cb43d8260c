/*
 * What the linker puts in the place of an operation that a firmware for one image does not have
 * (host/mcutrain/boards/baked.py). The verifier refuses it, so that nothing ever runs it.
 */
#include "engine.h"
#include "verify.h"

mct_status mct_check_absent(mct_check *c)
{
    return mct_require(c, 0, MCT_ERR_OP, c->in->op);
}

mct_status mct_run_absent(mct_engine *e, const mct_image_instruction *in)
{
    (void)e;
    (void)in;
    return MCT_ERR_OP;
}

void mct_row_absent(mct_engine *e, const mct_image_instruction *in, uint32_t oy)
{
    (void)e;
    (void)in;
    (void)oy;
}

/* In the place of a kernel that no layer of the image is for: it does nothing and says so. */
int mct_kernel_absent(void)
{
    return 0;
}
