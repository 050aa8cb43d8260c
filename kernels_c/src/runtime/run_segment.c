/*
 * A segment: its members make rows in the order that the image lists, so that a map which only they
 * read is a ring of a few rows. Where the first segment takes the network's input row by row, it
 * runs as far as the rows that have arrived allow.
 */
#include <string.h>

#include "engine.h"

int mct_streams_input(const mct_image *image)
{
    const mct_image_instruction *first = &image->program[0];
    return first->op == MCT_OP_SEGMENT && first->params[MCT_SEGMENT_P_INPUT_ROWS] != 0;
}

static void run_row(mct_engine *e, uint32_t index, uint32_t oy)
{
    const mct_image_instruction *in = &e->image.program[index];
    mct_call_hook(e, index, MCT_HOOK_BEFORE);
    mct_row_ops[in->op].run(e, in, oy);
    mct_call_hook(e, index, MCT_HOOK_AFTER);
}

void mct_segment_begin(mct_engine *e, uint32_t index)
{
    const mct_image_instruction *in = &e->image.program[index];
    uint16_t *rows = mct_out(e, in, MCT_SEGMENT_ROWS);
    memset(rows, 0, mct_slot(&e->image, in, MCT_SEGMENT_ROWS)->bytes);
    e->order_at = 0;
}

int mct_segment_advance(mct_engine *e, uint32_t index, uint32_t input_rows)
{
    const mct_image_instruction *in = &e->image.program[index];
    const uint8_t *order = mct_in(e, in, MCT_SEGMENT_ORDER);
    uint32_t steps = mct_slot(&e->image, in, MCT_SEGMENT_ORDER)->bytes;
    uint32_t members = (uint32_t)in->params[MCT_SEGMENT_P_MEMBERS];
    uint16_t *rows = mct_out(e, in, MCT_SEGMENT_ROWS);
    for (; e->order_at < steps; e->order_at++) {
        uint32_t member = order[e->order_at];
        if (member == MCT_INPUT_ROW) {
            if (rows[members] == input_rows)
                return 0;
            rows[members]++;
        } else {
            run_row(e, index + 1 + member, rows[member]++);
        }
    }
    return 1;
}

uint32_t mct_run_segment(mct_engine *e, uint32_t index)
{
    uint32_t members = (uint32_t)e->image.program[index].params[MCT_SEGMENT_P_MEMBERS];
    if (index != 0 || !mct_streams_input(&e->image)) {
        mct_segment_begin(e, index);
        mct_segment_advance(e, index, 0);
    }
    for (uint32_t i = index + 1; i <= index + members; i++)
        mct_call_hook(e, i, MCT_HOOK_DONE);
    return members;
}
