/* The methods of mcutrain.Network. Private to the module. */
#ifndef MCT_MICROPYTHON_METHODS_H
#define MCT_MICROPYTHON_METHODS_H

#include "api.h"

mp_obj_t mct_network_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw,
                              const mp_obj_t *args);

extern const mp_obj_fun_builtin_fixed_t mct_network_write_obj;
extern const mp_obj_fun_builtin_var_t mct_network_train_obj;
extern const mp_obj_fun_builtin_fixed_t mct_network_predict_obj;
extern const mp_obj_fun_builtin_fixed_t mct_network_logits_obj;
extern const mp_obj_fun_builtin_var_t mct_network_reset_obj;
extern const mp_obj_fun_builtin_fixed_t mct_network_state_obj;
extern const mp_obj_fun_builtin_fixed_t mct_network_set_state_obj;
extern const mp_obj_fun_builtin_fixed_t mct_network_save_obj;
extern const mp_obj_fun_builtin_fixed_t mct_network_restore_obj;
extern const mp_obj_fun_builtin_fixed_t mct_network_stats_obj;

#endif
