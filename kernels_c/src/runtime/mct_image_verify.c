#include <stddef.h>

#include "verify.h"

static void view_of(mct_image *view, const void *data)
{
    const mct_image_header *h = data;
    view->base = data;
    view->header = h;
    view->tensors = (const void *)(view->base + h->tensors_offset);
    view->program = (const void *)(view->base + h->program_offset);
    view->constants = view->base + h->constants_offset;
    view->initial = view->base + h->initial_offset;
}

mct_status mct_image_verify(const void *data, uint32_t size, mct_image *view,
                            mct_image_error *error)
{
    error->index = 0;
    error->detail = 0;
    if (data == NULL)
        return MCT_ERR_MAGIC;
    if ((uintptr_t)data % 4 != 0)
        return MCT_ERR_ALIGNMENT;
    MCT_TRY(mct_verify_header(data, size, error));
    view_of(view, data);
    MCT_TRY(mct_verify_tensors(view, error));
    for (uint32_t i = 0; i < view->header->instructions; i++)
        MCT_TRY(mct_verify_instruction(view, i, error));
    MCT_TRY(mct_verify_order(view, error));
    return mct_verify_segments(view, error);
}
