/*
 * A tensor's canaries lie before and behind its bytes, where the compiler left room for them. They
 * are put there before the first instruction that touches the tensor, and looked at after each one
 * until the last. A segment counts as one instruction, for its members take turns. Rings that take
 * turns in the same bytes have no canary where a longer one lies.
 */
#include <string.h>

#include "engine.h"
#include "verify.h"

#define PATTERN 0xc5u

typedef struct {
    uint32_t start, end; /* in the arena */
} zone;

static uint32_t turn_of(const mct_image *image, uint32_t index)
{
    uint32_t segment = mct_segment_of(image, index);
    return segment == MCT_NONE ? index : segment;
}

static int touches(const mct_image_instruction *in, uint32_t tensor)
{
    for (uint32_t slot = 0; slot < MCT_MAX_SLOTS; slot++) {
        if (in->tensors[slot] == tensor)
            return 1;
    }
    return 0;
}

/* Whether an instruction of [first, end) touches it. */
static int touched(const mct_image *image, uint32_t tensor, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        if (touches(&image->program[i], tensor))
            return 1;
    }
    return 0;
}

/* Whether a tensor is in use in the turn of instructions [first, end). */
static int in_use(const mct_image *image, uint32_t tensor, uint32_t first, uint32_t end)
{
    return touched(image, tensor, 0, end) &&
           touched(image, tensor, first, image->header->instructions);
}

static uint32_t turn_end(const mct_image *image, uint32_t turn)
{
    const mct_image_instruction *in = &image->program[turn];
    int segment = in->op == MCT_OP_SEGMENT;
    return turn + 1 + (segment ? (uint32_t)in->params[MCT_SEGMENT_P_MEMBERS] : 0);
}

/* Whether nothing that is in use in the turn lies there. */
static int is_free(const mct_image *image, zone z, uint32_t turn, uint32_t end)
{
    for (uint32_t i = 0; i < image->header->tensors; i++) {
        const mct_image_tensor *t = &image->tensors[i];
        int there =
            t->space == MCT_SPACE_ARENA && t->offset < z.end && z.start < t->offset + t->bytes;
        if (there && in_use(image, i, turn, end))
            return 0;
    }
    return z.end <= image->header->arena_bytes;
}

static int is_intact(const mct_engine *e, zone z)
{
    for (uint32_t at = z.start; at < z.end; at++) {
        if (e->arena[at] != PATTERN)
            return 0;
    }
    return 1;
}

/* The canaries of one tensor; 0: something was written there. */
static int guard(const mct_engine *e, uint32_t tensor, uint32_t turn, uint32_t end,
                 mct_hook_event event)
{
    const mct_image_tensor *t = &e->image.tensors[tensor];
    uint32_t behind = t->offset + t->bytes;
    const zone zones[2] = {{t->offset - MCT_CANARY_BYTES, t->offset},
                           {behind, behind + MCT_CANARY_BYTES}};
    int begins = event == MCT_HOOK_BEFORE && !touched(&e->image, tensor, 0, turn);
    for (uint32_t k = 0; k < 2; k++) {
        if (!is_free(&e->image, zones[k], turn, end))
            continue;
        if (begins)
            memset(e->arena + zones[k].start, PATTERN, MCT_CANARY_BYTES);
        if (event == MCT_HOOK_AFTER && !is_intact(e, zones[k]))
            return 0;
    }
    return 1;
}

uint32_t mct_canaries(const mct_engine *e, uint32_t instruction, mct_hook_event event)
{
    const mct_image *image = &e->image;
    uint32_t turn = turn_of(image, instruction), end = turn_end(image, turn);
    for (uint32_t i = 0; i < image->header->tensors && event != MCT_HOOK_DONE; i++) {
        const mct_image_tensor *t = &image->tensors[i];
        int has_some = t->space == MCT_SPACE_ARENA && t->offset >= MCT_CANARY_BYTES;
        if (has_some && in_use(image, i, turn, end) && !guard(e, i, turn, end, event))
            return i;
    }
    return MCT_NONE;
}
