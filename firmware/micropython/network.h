/* A network on MicroPython's heap. Private to the module. */
#ifndef MCT_MICROPYTHON_NETWORK_H
#define MCT_MICROPYTHON_NETWORK_H

#include "api.h"
#include "mct_engine.h"

/* The garbage collector finds image and block by these pointers to their starts. */
typedef struct {
    mp_obj_base_t base;
    mp_obj_t image; /* the object whose bytes these are */
    const void *image_at;
    size_t image_bytes;
    void *block; /* state and arena */
    mct_engine engine;
    uint32_t instruction; /* that ran last */
    uint32_t logits_valid;
    uint32_t torn; /* a file ended or failed while it was read into the state */
    uint32_t evals;
    uint32_t saturated, clamped;
} mct_network;

/* The network in an argument; raises if its image was moved or cut meanwhile. */
mct_network *mct_network_of(mp_obj_t object);

/* Raises what a status other than MCT_OK means; `instruction` ran last. */
void mct_network_check(const mct_network *net, mct_status status, uint32_t instruction);

/* Raises ValueError: `what` has n bytes, and should have `expected`. */
__attribute__((noreturn)) void mct_network_wrong_size(const char *what, size_t n, size_t expected);

/* Raises MemoryError: the heap has no n bytes in one piece for `what`. */
__attribute__((noreturn)) void mct_network_no_memory(const char *what, size_t n);

/* Prints a layer's name in quotes, as the image's metadata has it; 0 if it is not there. */
int mct_print_layer_name(const mp_print_t *print, const mct_image *image, uint32_t layer);

/* The bytes of a file, as a bytearray that starts at a multiple of 4. */
mp_obj_t mct_file_read(mp_obj_t path);

void mct_file_save(const mct_network *net, mp_obj_t path);

/* On an error the state is the one before if the file is of another kind, else the initial one. */
void mct_file_restore(mct_network *net, mp_obj_t path);

#endif
