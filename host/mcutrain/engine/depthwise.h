/* Depthwise convolutions of float maps, for the fp32 shadow (mcutrain.shadow). Host only. */
#ifndef MCUTRAIN_DEPTHWISE_H
#define MCUTRAIN_DEPTHWISE_H

#include <stdint.h>

/* Maps are (C, H, W), weights (C, kh, kw); a tap outside of the input contributes nothing. */
typedef struct {
    int32_t channels;
    int32_t h, w;   /* of the input */
    int32_t kh, kw; /* kernel */
    int32_t sh, sw; /* stride */
    int32_t pt, pl; /* padding at the top and at the left */
    int32_t ho, wo; /* of the output */
} mcutrain_windows;

/* Floats that each of the functions needs as scratch memory. */
uint32_t mcutrain_depthwise_scratch(const mcutrain_windows *p);

/* y = sum over taps of w * x. */
void mcutrain_depthwise(const mcutrain_windows *p, float *scratch, const float *x, const float *w,
                        float *y);

/* Its transpose: error of the input from that of the output. */
void mcutrain_depthwise_dx(const mcutrain_windows *p, float *scratch, const float *g,
                           const float *w, float *gx);

/* Gradient of the weight. */
void mcutrain_depthwise_dw(const mcutrain_windows *p, float *scratch, const float *x,
                           const float *g, float *gw);

#endif
