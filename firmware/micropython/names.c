/*
 * Names of layers, which an image keeps in its metadata: JSON, compressed. MicroPython's own module
 * unpacks it as it is read, in the 1 KB that the packer's window needs (SPEC-image, section 6).
 */
#include "network.h"

typedef struct {
    mp_obj_t stream;
    size_t at, n;
    uint8_t bytes[64];
} reader;

static mp_obj_t import(qstr name)
{
    return mp_import_name(name, mp_const_none, MP_OBJ_NEW_SMALL_INT(0));
}

static void reader_open(reader *r, const mct_image *image)
{
    const mct_image_header *h = image->header;
    mp_obj_t packed = mp_obj_new_bytes(image->base + h->metadata_offset, h->metadata_bytes);
    mp_obj_t deflate = import(MP_QSTR_deflate);
    mp_obj_t args[2] = {mct_py_call(import(MP_QSTR_io), MP_QSTR_BytesIO, 1, &packed),
                        mp_load_attr(deflate, MP_QSTR_ZLIB)};
    r->stream = mct_py_call(deflate, MP_QSTR_DeflateIO, 2, args);
    r->at = 0;
    r->n = 0;
}

/* The next byte, -1 at the end. */
static int next(reader *r)
{
    if (r->at == r->n) {
        mp_obj_t all = mp_obj_new_bytearray_by_ref(sizeof r->bytes, r->bytes);
        mp_obj_t count = mct_py_call(r->stream, MP_QSTR_readinto, 1, &all);
        r->n = count == mp_const_none ? 0 : (size_t)mp_obj_get_int(count);
        r->at = 0;
        if (r->n == 0 || r->n > sizeof r->bytes)
            return -1;
    }
    return r->bytes[r->at++];
}

/* To behind the key of the list of layers. Inside a JSON string its quotes would be escaped. */
static int find_layers(reader *r)
{
    static const char key[] = "\"layers\":[";
    size_t matched = 0;
    while (matched < sizeof key - 1) {
        int c = next(r);
        if (c < 0)
            return 0;
        matched = c == key[matched] ? matched + 1 : c == key[0];
    }
    return 1;
}

/* Over a string behind its first quote, which is printed if print is not NULL; 0 if it is cut. */
static int string(reader *r, const mp_print_t *print)
{
    int escaped = 0;
    for (;;) {
        int c = next(r);
        char byte = (char)c;
        if (c < 0)
            return 0;
        if (print != NULL)
            print->print_strn(print->data, &byte, 1);
        if (c == '"' && !escaped)
            return 1;
        escaped = c == '\\' && !escaped;
    }
}

int mct_print_layer_name(const mp_print_t *print, const mct_image *image, uint32_t layer)
{
    reader r;
    reader_open(&r, image);
    if (!find_layers(&r))
        return 0;
    for (;;) {
        int c = next(&r);
        if (c < 0 || c == ']')
            return 0;
        if (c != '"')
            continue;
        if (layer-- == 0)
            break;
        if (!string(&r, NULL))
            return 0;
    }
    print->print_strn(print->data, "\"", 1);
    return string(&r, print);
}
