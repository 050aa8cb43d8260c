/* The module `mcutrain` and its class, for either kind of module. */
#include "methods.h"

/* What both kinds of module make their table of. */
#define MCT_NETWORK_METHODS(METHOD)                                                                \
    METHOD(MP_QSTR_write, mct_network_write_obj)                                                   \
    METHOD(MP_QSTR_train, mct_network_train_obj)                                                   \
    METHOD(MP_QSTR_predict, mct_network_predict_obj)                                               \
    METHOD(MP_QSTR_logits, mct_network_logits_obj)                                                 \
    METHOD(MP_QSTR_reset, mct_network_reset_obj)                                                   \
    METHOD(MP_QSTR_state, mct_network_state_obj)                                                   \
    METHOD(MP_QSTR_set_state, mct_network_set_state_obj)                                           \
    METHOD(MP_QSTR_save, mct_network_save_obj)                                                     \
    METHOD(MP_QSTR_restore, mct_network_restore_obj)                                               \
    METHOD(MP_QSTR_stats, mct_network_stats_obj)

#define MCT_NETWORK_METHOD_COUNT 10

#if MICROPY_ENABLE_DYNRUNTIME

/* Filled in at import; a native module's variables cannot be static. */
extern mp_obj_full_type_t mct_network_type;
extern mp_map_elem_t mct_network_methods[MCT_NETWORK_METHOD_COUNT];
mp_obj_full_type_t mct_network_type;
mp_map_elem_t mct_network_methods[MCT_NETWORK_METHOD_COUNT];
static MP_DEFINE_CONST_DICT(network_dict, mct_network_methods);

mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args);

mp_obj_t mpy_init(mp_obj_fun_bc_t *self, size_t n_args, size_t n_kw, mp_obj_t *args)
{
    mp_map_elem_t *at = mct_network_methods;
    MP_DYNRUNTIME_INIT_ENTRY;
    /* Better now than in place of another error, which needs it (names.c). */
    (void)mp_import_name(MP_QSTR_deflate, mp_const_none, MP_OBJ_NEW_SMALL_INT(0));
    (void)n_args;
    (void)n_kw;
    (void)args;
#define METHOD(name, function)                                                                     \
    at->key = MP_OBJ_NEW_QSTR(name);                                                               \
    at++->value = MP_OBJ_FROM_PTR(&function);
    MCT_NETWORK_METHODS(METHOD);
    mct_network_type.base.type = &mp_type_type;
    mct_network_type.flags = MP_TYPE_FLAG_NONE;
    mct_network_type.name = MP_QSTR_Network;
    MP_OBJ_TYPE_SET_SLOT(&mct_network_type, make_new, mct_network_make_new, 0);
    MP_OBJ_TYPE_SET_SLOT(&mct_network_type, locals_dict, (void *)&network_dict, 1);
    mp_store_global(MP_QSTR_Network, MP_OBJ_FROM_PTR(&mct_network_type));
    MP_DYNRUNTIME_INIT_EXIT;
}

#else

#define METHOD(name, function) {MP_ROM_QSTR(name), MP_ROM_PTR(&function)},
static const mp_rom_map_elem_t network_methods[] = {MCT_NETWORK_METHODS(METHOD)};
static MP_DEFINE_CONST_DICT(network_dict, network_methods);

static MP_DEFINE_CONST_OBJ_TYPE(network_type, MP_QSTR_Network, MP_TYPE_FLAG_NONE, make_new,
                                mct_network_make_new, locals_dict, &network_dict);

static const mp_rom_map_elem_t module_names[] = {
    {MP_ROM_QSTR(MP_QSTR___name__), MP_ROM_QSTR(MP_QSTR_mcutrain)},
    {MP_ROM_QSTR(MP_QSTR_Network), MP_ROM_PTR(&network_type)},
};
static MP_DEFINE_CONST_DICT(module_dict, module_names);

extern const mp_obj_module_t mct_module;
const mp_obj_module_t mct_module = {
    .base = {&mp_type_module},
    .globals = (mp_obj_dict_t *)&module_dict,
};

MP_REGISTER_MODULE(MP_QSTR_mcutrain, mct_module);

#endif
