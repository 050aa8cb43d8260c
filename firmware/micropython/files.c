/*
 * Images and states in files, by way of MicroPython's own file objects.
 *
 * A state file has four little-endian words (magic, CRC-32 in the image's header, bytes of the
 * state, CRC-32 of the state), then the state.
 */
#include "mct_bytes.h"
#include "mct_crc32.h"
#include "methods.h"
#include "network.h"
#include "py/mperrno.h"

#define MAGIC        0x5354434du /* "MCTS" */
#define HEADER_BYTES 16u

static mp_obj_t open_file(mp_obj_t path, qstr mode)
{
    mp_obj_t builtins = mp_import_name(MP_QSTR_builtins, mp_const_none, MP_OBJ_NEW_SMALL_INT(0));
    mp_obj_t args[2] = {path, MP_OBJ_NEW_QSTR(mode)};
    return mct_py_call(builtins, MP_QSTR_open, 2, args);
}

/* Up to n bytes into memory; returns how many there were. */
static size_t read_into(mp_obj_t file, uint8_t *to, size_t n)
{
    size_t got = 0;
    while (got < n) {
        mp_obj_t rest = mp_obj_new_bytearray_by_ref(n - got, to + got);
        mp_obj_t count = mct_py_call(file, MP_QSTR_readinto, 1, &rest);
        size_t read = count == mp_const_none ? 0 : (size_t)mp_obj_get_int(count);
        if (read == 0 || read > n - got)
            break;
        got += read;
    }
    return got;
}

static size_t size_of(mp_obj_t file)
{
    mp_obj_t end[2] = {MP_OBJ_NEW_SMALL_INT(0), MP_OBJ_NEW_SMALL_INT(2)};
    mp_obj_t size = mct_py_call(file, MP_QSTR_seek, 2, end);
    mct_py_call(file, MP_QSTR_seek, 1, end);
    return (size_t)mp_obj_get_int(size);
}

mp_obj_t mct_file_read(mp_obj_t path)
{
    mp_obj_t file = open_file(path, MP_QSTR_rb);
    size_t n = size_of(file);
    uint8_t *bytes = mct_py_malloc_maybe(n + (n == 0));
    size_t got;
    if (bytes == NULL)
        mct_network_no_memory("the image", n);
    got = read_into(file, bytes, n);
    mct_py_call(file, MP_QSTR_close, 0, NULL);
    if (got != n)
        mct_network_wrong_size("what was read of the image", got, n);
    return mp_obj_new_bytearray_by_ref(n, bytes);
}

static void write_part(mp_obj_t file, const void *from, size_t n)
{
    mp_obj_t part = mp_obj_new_bytearray_by_ref(n, (void *)from);
    mp_obj_t written = mct_py_call(file, MP_QSTR_write, 1, &part);
    if (written == mp_const_none || (size_t)mp_obj_get_int(written) != n) {
        mct_py_call(file, MP_QSTR_close, 0, NULL);
        mp_raise_OSError(MP_ENOSPC);
    }
}

void mct_file_save(const mct_network *net, mp_obj_t path)
{
    uint8_t header[HEADER_BYTES];
    uint32_t n;
    const uint8_t *state = mct_engine_state(&net->engine, &n);
    mp_obj_t file = open_file(path, MP_QSTR_wb);
    mct_put_u32(header, MAGIC);
    mct_put_u32(header + 4, net->engine.image.header->crc);
    mct_put_u32(header + 8, n);
    mct_put_u32(header + 12, mct_crc32(0, state, n));
    write_part(file, header, HEADER_BYTES);
    write_part(file, state, n);
    mct_py_call(file, MP_QSTR_close, 0, NULL);
}

/* Raises ValueError unless the header is that of a state of this image. */
static void check_header(const mct_network *net, const uint8_t *header, size_t got, uint32_t n)
{
    if (got != HEADER_BYTES || mct_get_u32(header) != MAGIC)
        mp_raise_ValueError(MP_ERROR_TEXT("this is not a file with a saved state"));
    if (mct_get_u32(header + 4) != net->engine.image.header->crc || mct_get_u32(header + 8) != n)
        mp_raise_ValueError(MP_ERROR_TEXT("the saved state is one of another image"));
}

void mct_file_restore(mct_network *net, mp_obj_t path)
{
    uint8_t header[HEADER_BYTES];
    uint32_t n;
    uint8_t *state = mct_engine_state(&net->engine, &n);
    mp_obj_t file = open_file(path, MP_QSTR_rb);
    check_header(net, header, read_into(file, header, HEADER_BYTES), n);
    net->logits_valid = 0;
    net->torn = 1; /* the file object may raise */
    mct_engine_restart(&net->engine);
    if (read_into(file, state, n) != n || mct_crc32(0, state, n) != mct_get_u32(header + 12))
        mp_raise_ValueError(MP_ERROR_TEXT("the saved state is damaged: its CRC does not match"));
    mct_py_call(file, MP_QSTR_close, 0, NULL);
    net->torn = 0;
    mct_network_check(net, mct_engine_check_state(&net->engine), 0);
}
