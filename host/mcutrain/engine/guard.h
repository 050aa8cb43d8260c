#ifndef MCUTRAIN_GUARD_H
#define MCUTRAIN_GUARD_H

#include <stddef.h>

/* Forbids (on = 1) or allows again (0) any access to these bytes. Returns whether it can. */
int mcutrain_guard(void *start, size_t bytes, int on);

#endif
