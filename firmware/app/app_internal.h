/* What the files of the app share. */
#ifndef MCT_APP_INTERNAL_H
#define MCT_APP_INTERNAL_H

#include "mct_app.h"
#include "mct_bytes.h"

/*
 * Carries out a request. n: payload bytes, checked where the size is fixed. response: room for
 * MCT_WIRE_MAX_PAYLOAD bytes. Returns the bytes of the response; an error is the return value of
 * mct_app_fail().
 */
typedef uint32_t (*mct_app_handler)(mct_app *app, const uint8_t *request, uint32_t n,
                                    uint8_t *response);

/*
 * Session, seq and response of the last STEP, should its response get lost. They lie at the end of
 * tx, which the responses that may come between do not reach: to DATA, and to READ of this.
 */
#define MCT_APP_RESULT_BYTES   (4u + MCT_WIRE_STEP_RSP_BYTES)
#define MCT_APP_RESULT_AT(app) ((app)->tx + sizeof(app)->tx - MCT_APP_RESULT_BYTES)

/* Makes the response an error response. */
uint32_t mct_app_fail(mct_app *app, uint32_t code, uint32_t a, uint32_t b);

/* The same for a status of the executor, with the place that it has refused. */
uint32_t mct_app_fail_refused(mct_app *app, uint32_t code, mct_status status);

/* 0 if an image is open and its state is whole, else the error. */
uint32_t mct_app_check_ready(mct_app *app);

/* Fills the pool with the paint, but for the state and an image in SRAM. */
void mct_app_paint(mct_app *app, uint32_t from);

/* Bytes of the pool up to the last one that lost its paint, and an image in SRAM. */
uint32_t mct_app_pool_used(const mct_app *app);

/* The same as planned: state, arena and an image in SRAM; 0 if none is open. */
uint32_t mct_app_pool_planned(const mct_app *app);

/* The two words of the generator's state: seed, steps. NULL if no image is open. */
uint8_t *mct_app_random_state(const mct_app *app);

/* Takes n bytes of a sample that belong at offset, the first ones at 0; may compute. */
void mct_app_put_sample(mct_app *app, uint32_t offset, const uint8_t *data, uint32_t n);

/* Opens the image of the flash partition, if there is a saved state of it, with that state. */
void mct_app_resume(mct_app *app);

/* Opens an image at an address; the pool's top is set. 0, or the error. */
uint32_t mct_app_open_at(mct_app *app, const uint8_t *image, uint32_t size);

/* Forgets what a run or a transfer has left: the state is another now. */
void mct_app_state_changed(mct_app *app);

/* What a request for another rate asks for, once its response is out. */
void mct_app_switch_speed(mct_app *app, const uint8_t *request);

/* Handlers; the requests are described in SPEC-wire. */
uint32_t mct_app_hello(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_image_begin(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_image_open(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_image_info(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_data(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_sample_memory(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_step(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_eval(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_read(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_reset(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_stats(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_reboot(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_save(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_load(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);
uint32_t mct_app_speed(mct_app *app, const uint8_t *request, uint32_t n, uint8_t *response);

#endif
