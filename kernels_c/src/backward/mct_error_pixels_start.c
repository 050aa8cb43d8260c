#include "mct_error_pixels.h"

#if MCT_DSP

static const uint32_t bytes_of_bits[16] = {0x00000000u, 0x000000ffu, 0x0000ff00u, 0x0000ffffu,
                                           0x00ff0000u, 0x00ff00ffu, 0x00ffff00u, 0x00ffffffu,
                                           0xff000000u, 0xff0000ffu, 0xff00ff00u, 0xff00ffffu,
                                           0xffff0000u, 0xffff00ffu, 0xffffff00u, 0xffffffffu};

void mct_error_pixels_start(mct_error_pixels *p, const mct_error *error, uint32_t step, int8_t *e_x,
                            mct_error_stats *stats)
{
    p->golden = 0x9e3779b9u;
    p->first = 0x7feb352du;
    p->second = 0x846ca68bu;
    p->ahead = p->golden * (step / 2);
    p->step = step;
    p->mask = error->mask;
    p->e_x = e_x;
    p->range.max = p->range.min = 0;
    p->bytes = bytes_of_bits;
    p->error = error;
    p->stats = stats;
}

#endif
