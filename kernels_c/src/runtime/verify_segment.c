/*
 * Segments. Members run interleaved, so what one of them writes shares no byte with anything that
 * another touches, but for the maps that they pass on, and rings that take turns in the same bytes.
 * The order is walked with the rows counted: a row that is read was made before and, in a ring, not
 * written over, neither by its own ring nor by another one; in the end all are made.
 */
#include <string.h>

#include "engine.h"
#include "mct_window.h"
#include "verify.h"

typedef struct {
    const mct_image *image;
    const mct_image_instruction *first; /* of the members */
    uint32_t members;
    uint16_t done[MCT_MAX_MEMBERS]; /* rows made by each */
    uint16_t lost[MCT_MAX_MEMBERS]; /* of them, from the first on, written over by other rings */
    uint32_t input_rows;            /* rows of the network's input that came */
} segment;

static const mct_image_tensor *map_of(const segment *s, uint32_t member, uint32_t slot)
{
    return mct_slot(s->image, &s->first[member], slot);
}

static const mct_row_op *op_of(const segment *s, uint32_t member)
{
    return &mct_row_ops[s->first[member].op];
}

static uint32_t members_of(const mct_image *image, uint32_t index)
{
    return (uint32_t)image->program[index].params[MCT_SEGMENT_P_MEMBERS];
}

uint32_t mct_segment_of(const mct_image *image, uint32_t index)
{
    for (uint32_t back = 1; back <= MCT_MAX_MEMBERS && back <= index; back++) {
        if (image->program[index - back].op == MCT_OP_SEGMENT)
            return members_of(image, index - back) >= back ? index - back : MCT_NONE;
    }
    return MCT_NONE;
}

/* The segment by itself: its members are known operators that follow it in the same pass. */
mct_status mct_check_segment(mct_check *c)
{
    const mct_image *image = c->image;
    uint32_t index = (uint32_t)(c->in - image->program), members, end;
    const mct_image_tensor *input = &image->tensors[image->header->inputs[0]];
    int alone = image->header->inputs[1] == MCT_NONE;
    MCT_TRY(mct_check_param(c, MCT_SEGMENT_P_MEMBERS, 1, MCT_MAX_MEMBERS));
    members = members_of(image, index);
    MCT_TRY(mct_check_shape(c, MCT_SEGMENT_ROWS, 1, 1, members + 1));
    MCT_TRY(mct_check_param(c, MCT_SEGMENT_P_INPUT_ROWS, 0, index == 0 && alone ? input->h : 0));
    end = index < image->header->forward ? image->header->forward : image->header->instructions;
    MCT_TRY(mct_require(c, index + members < end, MCT_ERR_ORDER, 0));
    for (uint32_t i = index + 1; i <= index + members; i++) {
        uint32_t op = image->program[i].op;
        MCT_TRY(mct_require(c, op < MCT_OPS && mct_row_ops[op].run, MCT_ERR_ORDER, i - index));
    }
    return MCT_OK;
}

/* Rows [first, end) of a map that exist when the segment stands as it does. */
static mct_taps rows_there(const segment *s, const mct_image_tensor *t)
{
    const mct_image_tensor *input = &s->image->tensors[s->image->header->inputs[0]];
    int32_t held = (int32_t)mct_rows_held(t), made = INT32_MAX;
    mct_taps there = {0, t->h};
    for (uint32_t m = 0; m < s->members; m++) {
        if (map_of(s, m, op_of(s, m)->y) != t)
            continue;
        if (s->done[m] < made)
            made = s->done[m];
        if (s->lost[m] > there.first)
            there.first = s->lost[m];
    }
    if (s->input_rows != MCT_NONE && input == t)
        made = (int32_t)s->input_rows;
    if (made == INT32_MAX) /* made before the segment: whole, or it is not there */
        there.end = mct_is_ring(t) ? 0 : t->h;
    else
        there.end = made;
    if (there.end - held > there.first)
        there.first = there.end - held;
    return there;
}

/* The next row of a member: it takes the bytes of rings that lie where its own one does. */
static void make_row(segment *s, uint32_t member)
{
    const mct_image_tensor *y = map_of(s, member, op_of(s, member)->y);
    s->done[member]++;
    for (uint32_t m = 0; m < s->members; m++) {
        const mct_image_tensor *other = map_of(s, m, op_of(s, m)->y);
        if (other != y && mct_overlap(other, y))
            s->lost[m] = s->done[m];
    }
}

static int row_can_run(const segment *s, uint32_t member)
{
    const mct_row_op *op = op_of(s, member);
    const int32_t *p = s->first[member].params;
    int32_t oy = s->done[member];
    if (oy >= map_of(s, member, op->y)->h)
        return 0;
    for (uint32_t k = 0; k < op->inputs; k++) {
        const mct_image_tensor *t = map_of(s, member, op->x[k]);
        mct_taps there = rows_there(s, t), need = {oy, oy + 1};
        if (op->windowed) {
            mct_taps inside = mct_taps_inside(oy * p[2] - p[4], p[0], t->h);
            need.first = oy * p[2] - p[4] + inside.first;
            need.end = oy * p[2] - p[4] + inside.end;
        }
        if (need.first < need.end && (need.first < there.first || need.end > there.end))
            return 0;
    }
    return 1;
}

static int all_made(const segment *s, uint32_t input_rows)
{
    for (uint32_t m = 0; m < s->members; m++) {
        if (s->done[m] != map_of(s, m, op_of(s, m)->y)->h)
            return 0;
    }
    return input_rows == 0 || s->input_rows == s->image->tensors[s->image->header->inputs[0]].h;
}

static mct_status walk(segment *s, const mct_image_instruction *in, mct_image_error *error)
{
    const uint8_t *order = mct_kept(s->image, NULL, mct_slot(s->image, in, MCT_SEGMENT_ORDER));
    uint32_t steps = mct_slot(s->image, in, MCT_SEGMENT_ORDER)->bytes;
    uint32_t input_rows = (uint32_t)in->params[MCT_SEGMENT_P_INPUT_ROWS];
    s->input_rows = input_rows == 0 ? MCT_NONE : 0;
    for (uint32_t i = 0; i < steps; i++) {
        error->detail = i;
        if (order[i] == MCT_INPUT_ROW) {
            if (s->input_rows >= input_rows)
                return MCT_ERR_SEGMENT;
            s->input_rows++;
        } else {
            if (order[i] >= s->members || !row_can_run(s, order[i]))
                return MCT_ERR_SEGMENT;
            make_row(s, order[i]);
        }
    }
    error->detail = steps;
    return all_made(s, input_rows) ? MCT_OK : MCT_ERR_SEGMENT;
}

/* What member m writes in a slot, against all that another instruction touches. */
static int disjoint(const segment *s, const mct_image_tensor *written,
                    const mct_image_instruction *other)
{
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
        const mct_image_tensor *t = mct_slot(s->image, other, slot);
        int turns = t != NULL && mct_is_ring(t) && mct_is_ring(written);
        if (t != NULL && t != written && mct_overlap(written, t) && !turns)
            return 0;
    }
    return 1;
}

/* The segment's own counters count as a member's operand: instruction -1 is the segment. */
static mct_status check_memory(const segment *s, mct_image_error *error)
{
    const mct_image_tensor *input = &s->image->tensors[s->image->header->inputs[0]];
    for (uint32_t m = 0; m <= s->members; m++) {
        const mct_image_instruction *in = s->first + m - 1;
        for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
            const mct_image_tensor *t = mct_slot(s->image, in, slot);
            if (t == NULL || !(mct_slot_rules[in->op][slot].flags & MCT_SLOT_WRITTEN))
                continue;
            error->detail = slot;
            if (s->input_rows != MCT_NONE && mct_overlap(t, input))
                return MCT_ERR_OVERLAP;
            for (uint32_t other = 0; other <= s->members; other++) {
                if (other != m && !disjoint(s, t, s->first + other - 1))
                    return MCT_ERR_OVERLAP;
            }
        }
    }
    return MCT_OK;
}

mct_status mct_verify_segments(const mct_image *image, mct_image_error *error)
{
    for (uint32_t i = 0; i < image->header->instructions; i++) {
        const mct_image_instruction *in = &image->program[i];
        segment s;
        if (in->op != MCT_OP_SEGMENT)
            continue;
        memset(&s, 0, sizeof s);
        s.image = image;
        s.first = in + 1;
        s.members = members_of(image, i);
        error->index = i;
        MCT_TRY(walk(&s, in, error));
        MCT_TRY(check_memory(&s, error));
    }
    error->index = 0;
    error->detail = 0;
    return MCT_OK;
}
