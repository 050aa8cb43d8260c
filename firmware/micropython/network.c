/* The methods of mcutrain.Network that run or read a network. */
#include <string.h>

#include "methods.h"
#include "network.h"

mct_network *mct_network_of(mp_obj_t object)
{
    mct_network *net = MP_OBJ_TO_PTR(object);
    mp_buffer_info_t now;
    mp_get_buffer_raise(net->image, &now, MP_BUFFER_READ);
    if (now.buf != net->image_at || now.len != net->image_bytes)
        mp_raise_msg(&mp_type_RuntimeError,
                     MP_ERROR_TEXT("the image's buffer was resized after it was opened"));
    if (net->torn) {
        mct_engine_reset(&net->engine);
        net->torn = 0;
    }
    return net;
}

/* The executor verified the image before it asks for memory. */
static void allocate(mct_network *net)
{
    size_t bytes = (size_t)mct_image_block_bytes(&net->engine.image);
    net->block = mct_py_malloc_maybe(bytes);
    if (net->block == NULL)
        mct_network_no_memory("state and arena", bytes);
}

/* Network(image): the path of an image file, or a buffer that must not change from then on. */
mp_obj_t mct_network_make_new(const mp_obj_type_t *type, size_t n_args, size_t n_kw,
                              const mp_obj_t *args)
{
    mct_network *net;
    mp_buffer_info_t bytes;
    mct_status status;
    mp_arg_check_num(n_args, n_kw, 1, 1, false);
    net = mp_obj_malloc(mct_network, type);
    memset((uint8_t *)net + sizeof net->base, 0, sizeof *net - sizeof net->base);
    net->image = mp_obj_get_type(args[0]) == &mp_type_str ? mct_file_read(args[0]) : args[0];
    mp_get_buffer_raise(net->image, &bytes, MP_BUFFER_READ);
    net->image_at = bytes.buf;
    net->image_bytes = bytes.len;
    status = mct_engine_open(&net->engine, bytes.buf, (uint32_t)bytes.len, NULL, 0);
    if (status != MCT_ERR_MEMORY)
        mct_network_check(net, status, 0);
    allocate(net);
    status = mct_engine_open(&net->engine, bytes.buf, (uint32_t)bytes.len, net->block,
                             (uint32_t)mct_image_block_bytes(&net->engine.image));
    mct_network_check(net, status, 0);
    return MP_OBJ_FROM_PTR(net);
}

static void note(void *context, const mct_engine *engine, uint32_t instruction,
                 mct_hook_event event)
{
    (void)engine;
    (void)event;
    *(uint32_t *)context = instruction;
}

/* The engine's hook, set anew for each call: no pointer into it outlives a call. */
static void watch(mct_network *net)
{
    net->instruction = 0;
    net->engine.hook = note;
    net->engine.hook_context = &net->instruction;
}

/* None: the pieces that came by write() are the sample. */
static void put_sample(mct_network *net, mp_obj_t sample)
{
    uint32_t expected = mct_engine_sample_bytes(&net->engine);
    mp_buffer_info_t bytes;
    net->logits_valid = 0;
    watch(net);
    if (sample == mp_const_none)
        return;
    mp_get_buffer_raise(sample, &bytes, MP_BUFFER_READ);
    if (bytes.len != expected)
        mct_network_wrong_size("the sample", bytes.len, expected);
    mct_engine_restart(&net->engine);
    mct_network_check(net, mct_engine_write(&net->engine, bytes.buf, expected), 0);
}

/* A sample whose run failed is used up all the same. */
static void finish(mct_network *net, mct_status status)
{
    if (status != MCT_OK)
        mct_engine_restart(&net->engine);
    mct_network_check(net, status, net->instruction);
}

static uint32_t label_of(mp_obj_t object)
{
    mp_int_t label = mp_obj_get_int(object);
    return label < 0 || label > UINT16_MAX ? UINT32_MAX : (uint32_t)label;
}

/* write(data): the next bytes of a sample, used as they come where the image streams its input. */
static mp_obj_t network_write(mp_obj_t self, mp_obj_t data)
{
    mct_network *net = mct_network_of(self);
    mp_buffer_info_t bytes;
    mp_get_buffer_raise(data, &bytes, MP_BUFFER_READ);
    net->logits_valid = 0;
    watch(net);
    mct_network_check(net, mct_engine_write(&net->engine, bytes.buf, (uint32_t)bytes.len), 0);
    return mp_const_none;
}
MP_DEFINE_CONST_FUN_OBJ_2(mct_network_write_obj, network_write);

/* train(sample, label, lr, lr_head=lr) -> (loss, predicted, saturated, clamped): one step. */
static mp_obj_t network_train(size_t n_args, const mp_obj_t *args)
{
    mct_network *net = mct_network_of(args[0]);
    uint32_t label = label_of(args[2]);
    float lr = mct_py_get_float(args[3]);
    float lr_head = n_args > 4 ? mct_py_get_float(args[4]) : lr;
    mct_step_result result;
    mp_obj_t found[4];
    float loss;
    put_sample(net, args[1]);
    finish(net, mct_engine_train(&net->engine, label, lr, lr_head, &result));
    net->saturated += result.saturated;
    net->clamped += result.clamped;
    memcpy(&loss, &result.loss_bits, sizeof loss);
    found[0] = mct_py_float(&loss);
    found[1] = mp_obj_new_int_from_uint(result.predicted);
    found[2] = mp_obj_new_int_from_uint(result.saturated);
    found[3] = mp_obj_new_int_from_uint(result.clamped);
    return mp_obj_new_tuple(4, found);
}
MP_DEFINE_CONST_FUN_OBJ_VAR_BETWEEN(mct_network_train_obj, 4, 5, network_train);

/* predict(sample) -> class */
static mp_obj_t network_predict(mp_obj_t self, mp_obj_t sample)
{
    mct_network *net = mct_network_of(self);
    uint32_t predicted;
    put_sample(net, sample);
    finish(net, mct_engine_forward(&net->engine, &predicted));
    net->evals++;
    net->logits_valid = 1;
    return mp_obj_new_int_from_uint(predicted);
}
MP_DEFINE_CONST_FUN_OBJ_2(mct_network_predict_obj, network_predict);

/* logits() -> list of float, of the last predict() */
static mp_obj_t network_logits(mp_obj_t self)
{
    mct_network *net = mct_network_of(self);
    const float *logits = mct_engine_logits(&net->engine);
    mp_obj_t list = mp_obj_new_list(0, NULL);
    if (!net->logits_valid)
        mp_raise_msg(&mp_type_RuntimeError, MP_ERROR_TEXT("no logits: call predict() first"));
    for (uint32_t i = 0; i < net->engine.image.header->classes; i++)
        mp_obj_list_append(list, mct_py_float(&logits[i]));
    return list;
}
MP_DEFINE_CONST_FUN_OBJ_1(mct_network_logits_obj, network_logits);
