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

/*
 * How many rows from oy on a member makes at a time: as many as the order lists one behind the
 * other and memory has in a row. Their input is there when the first one's turn comes, for nothing
 * runs in between, and they do not lie in it.
 */
static uint32_t rows_at_once(const mct_engine *e, const mct_image_instruction *in, uint32_t oy,
                             const uint8_t *order, uint32_t left)
{
    uint32_t held, n = 1;
    if (in->op != MCT_OP_CONV2D)
        return 1;
    held = mct_rows_held(mct_slot(&e->image, in, MCT_CONV2D_Y));
    while (n < left && order[n] == order[0] && (oy + n) % held != 0)
        n++;
    return n;
}

static void run_rows(mct_engine *e, uint32_t index, uint32_t oy, uint32_t n)
{
    const mct_image_instruction *in = &e->image.program[index];
    mct_begin(e, index);
    if (n == 1)
        mct_row_ops[in->op].run(e, in, oy);
    else
        mct_make_conv2d(e, in, oy, n);
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
    for (uint32_t n; e->order_at < steps; e->order_at += n) {
        uint32_t member = order[e->order_at];
        n = 1;
        if (member == MCT_INPUT_ROW) {
            if (rows[members] == input_rows)
                return 0;
            rows[members]++;
        } else {
            const mct_image_instruction *maker = in + 1 + member;
            n = rows_at_once(e, maker, rows[member], order + e->order_at, steps - e->order_at);
            run_rows(e, index + 1 + member, rows[member], n);
            rows[member] = (uint16_t)(rows[member] + n);
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
