/* The methods of mcutrain.Network about its state and its figures. */
#include <string.h>

#include "methods.h"
#include "network.h"

static uint32_t *random_state(const mct_network *net)
{
    const mct_image *image = &net->engine.image;
    return (uint32_t *)mct_engine_tensor(&net->engine, image->header->rng);
}

/* reset(seed=the image's): back to the initial state. */
static mp_obj_t network_reset(size_t n_args, const mp_obj_t *args)
{
    mct_network *net = mct_network_of(args[0]);
    uint32_t seed = n_args > 1 ? (uint32_t)mp_obj_get_int_truncated(args[1]) : 0;
    net->logits_valid = 0;
    mct_engine_restart(&net->engine);
    mct_engine_reset(&net->engine);
    if (n_args > 1)
        random_state(net)[0] = seed;
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mct_network_reset_obj, 1, 2, network_reset);

/* state() -> bytes: a copy of all that is kept between steps. */
static mp_obj_t network_state(mp_obj_t self)
{
    uint32_t n;
    const uint8_t *state = mct_engine_state(&mct_network_of(self)->engine, &n);
    return mp_obj_new_bytes(state, n);
}
MP_DEFINE_CONST_FUN_OBJ_1(mct_network_state_obj, network_state);

/* set_state(data); where it is refused, the network is at its initial state. */
static mp_obj_t network_set_state(mp_obj_t self, mp_obj_t data)
{
    mct_network *net = mct_network_of(self);
    mp_buffer_info_t bytes;
    uint32_t n;
    uint8_t *state = mct_engine_state(&net->engine, &n);
    mp_get_buffer_raise(data, &bytes, MP_BUFFER_READ);
    if (bytes.len != n)
        mct_network_wrong_size("the state", bytes.len, n);
    net->logits_valid = 0;
    mct_engine_restart(&net->engine);
    memcpy(state, bytes.buf, n);
    mct_network_check(net, mct_engine_check_state(&net->engine), 0);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(mct_network_set_state_obj, network_set_state);

/* save(path), restore(path) */
static mp_obj_t network_save(mp_obj_t self, mp_obj_t path)
{
    mct_file_save(mct_network_of(self), path);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(mct_network_save_obj, network_save);

static mp_obj_t network_restore(mp_obj_t self, mp_obj_t path)
{
    mct_file_restore(mct_network_of(self), path);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(mct_network_restore_obj, network_restore);

static void put(mp_obj_t dict, qstr key, uint32_t value)
{
    mp_obj_dict_store(dict, MP_OBJ_NEW_QSTR(key), mp_obj_new_int_from_uint(value));
}

/* (height, width, channels, scale, zero point) of each input */
static mp_obj_t inputs(const mct_image *image)
{
    mp_obj_t list = mp_obj_new_list(0, NULL);
    for (uint32_t k = 0; k < MCT_MAX_INPUTS && image->header->inputs[k] != MCT_NONE; k++) {
        const mct_image_tensor *t = &image->tensors[image->header->inputs[k]];
        mp_obj_t row[5] = {mp_obj_new_int_from_uint(t->h), mp_obj_new_int_from_uint(t->w),
                           mp_obj_new_int_from_uint(t->c), mct_py_float(&t->scale),
                           mp_obj_new_int(t->zero_point)};
        mp_obj_list_append(list, mp_obj_new_tuple(5, row));
    }
    return list;
}

/* stats() -> dict */
static mp_obj_t network_stats(mp_obj_t self)
{
    mct_network *net = mct_network_of(self);
    const mct_image_header *h = net->engine.image.header;
    mp_obj_t dict = mp_obj_new_dict(12);
    put(dict, MP_QSTR_image_bytes, h->image_bytes);
    put(dict, MP_QSTR_state_bytes, h->state_bytes);
    put(dict, MP_QSTR_arena_bytes, h->arena_bytes);
    put(dict, MP_QSTR_sample_bytes, mct_engine_sample_bytes(&net->engine));
    put(dict, MP_QSTR_classes, h->classes);
    put(dict, MP_QSTR_instructions, h->instructions);
    put(dict, MP_QSTR_seed, random_state(net)[0]);
    put(dict, MP_QSTR_steps, random_state(net)[1]);
    put(dict, MP_QSTR_evals, net->evals);
    put(dict, MP_QSTR_saturated, net->saturated);
    put(dict, MP_QSTR_clamped, net->clamped);
    mp_obj_dict_store(dict, MP_OBJ_NEW_QSTR(MP_QSTR_inputs), inputs(&net->engine.image));
    return dict;
}
MP_DEFINE_CONST_FUN_OBJ_1(mct_network_stats_obj, network_stats);
