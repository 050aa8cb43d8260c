/*
 * MicroPython's C API as both kinds of module see it: a native module (.mpy), which reaches the
 * interpreter through a table of functions, and a user C module, which is linked with it.
 *
 * No float crosses a call: a native module for Cortex-M3 passes floats in other registers than a
 * firmware with an FPU, and both load the same file. They go through memory (mct_py_float).
 */
#ifndef MCT_MICROPYTHON_API_H
#define MCT_MICROPYTHON_API_H

#if MICROPY_ENABLE_DYNRUNTIME
#include "py/dynruntime.h"
#define mp_type_MemoryError    (*(mp_obj_type_t *)(mp_load_global(MP_QSTR_MemoryError)))
#define mct_py_malloc_maybe(n) m_realloc_maybe(NULL, (n), false)
#else
#include "py/binary.h"
#include "py/builtin.h"
#include "py/runtime.h"
#define mct_py_malloc_maybe(n) m_malloc_maybe(n)
#if !MICROPY_PY_BUILTINS_FLOAT || !MICROPY_PY_DEFLATE
#error "mcutrain needs a MicroPython with float and the module deflate"
#endif
#endif

static inline mp_obj_t mct_py_float(const float *value)
{
    return mp_binary_get_val_array('f', (void *)value, 0);
}

static inline float mct_py_get_float(mp_obj_t object)
{
    float value;
    mp_binary_set_val_array('f', &value, 0, object);
    return value;
}

/* object.method(*args) */
static inline mp_obj_t mct_py_call(mp_obj_t object, qstr method, size_t n, const mp_obj_t *args)
{
    return mp_call_function_n_kw(mp_load_attr(object, method), n, 0, args);
}

#endif
