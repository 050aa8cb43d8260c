/* Statuses of the executor as exceptions that name the layer. */
#include <string.h>

#include "network.h"
#include "status_text.h"

#define TEXT_BYTES 240

typedef struct {
    size_t n;
    char bytes[TEXT_BYTES];
} message;

static void append(void *data, const char *text, size_t n)
{
    message *m = data;
    size_t room = TEXT_BYTES - m->n;
    n = n < room ? n : room;
    memcpy(m->bytes + m->n, text, n);
    m->n += n;
}

__attribute__((noreturn)) static void raise(const mp_obj_type_t *type, const message *m)
{
    nlr_raise(mp_obj_new_exception_arg1(type, mp_obj_new_str(m->bytes, m->n)));
    __builtin_unreachable();
}

void mct_network_wrong_size(const char *what, size_t n, size_t expected)
{
    message m = {0};
    const mp_print_t print = {&m, append};
    mp_printf(&print, "%s has %u bytes, this image's has %u", what, (unsigned)n,
              (unsigned)expected);
    raise(&mp_type_ValueError, &m);
}

void mct_network_no_memory(const char *what, size_t n)
{
    message m = {0};
    const mp_print_t print = {&m, append};
    mp_printf(&print, "no %u bytes of heap in one piece for %s", (unsigned)n, what);
    raise(&mp_type_MemoryError, &m);
}

static void print_layer(const mp_print_t *print, const mct_image *image, uint32_t instruction)
{
    uint32_t layer;
    if (image->header == NULL || instruction >= image->header->instructions)
        return;
    layer = image->program[instruction].layer;
    mp_printf(print, ", layer ");
    if (!mct_print_layer_name(print, image, layer))
        mp_printf(print, "number %u", (unsigned)layer);
    mp_printf(print, ", instruction %u", (unsigned)instruction);
}

static const mct_status_text *text_of(mct_status status)
{
    const mct_status_text *t = mct_status_texts;
    while (t->status != status && t->status != 0)
        t++;
    return t;
}

static void print_place(const mp_print_t *print, const mct_network *net, const mct_status_text *t)
{
    const mct_image_error *place = &net->engine.refused;
    if (t->place == MCT_PLACE_INSTRUCTION)
        print_layer(print, &net->engine.image, place->index);
    else if (t->place != MCT_PLACE_NONE)
        mp_printf(print, ", place %u", (unsigned)place->index);
    if (t->place != MCT_PLACE_NONE && place->detail != 0)
        mp_printf(print, ", detail %u", (unsigned)place->detail);
}

void mct_network_check(const mct_network *net, mct_status status, uint32_t instruction)
{
    message m = {0};
    const mp_print_t print = {&m, append};
    const mct_status_text *t;
    if (status == MCT_OK)
        return;
    t = text_of(status);
    mp_printf(&print, "%s (%d)", t->text, (int)status);
    if (status == MCT_ERR_NOT_FINITE) {
        print_layer(&print, &net->engine.image, instruction);
        raise(&mp_type_RuntimeError, &m);
    }
    print_place(&print, net, t);
    raise(&mp_type_ValueError, &m);
}
