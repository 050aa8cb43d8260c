/*
 * What the compiler and the kernels expect of a C library, for native modules, which have none.
 */
#include "api.h"

void *memcpy(void *to, const void *from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);

void *memcpy(void *to, const void *from, size_t n)
{
    return mp_fun_table.memmove_(to, from, n);
}

void *memmove(void *to, const void *from, size_t n)
{
    return mp_fun_table.memmove_(to, from, n);
}

void *memset(void *to, int value, size_t n)
{
    return mp_fun_table.memset_(to, value, n);
}

int memcmp(const void *a, const void *b, size_t n)
{
    const uint8_t *x = a, *y = b;
    for (; n > 0; n--, x++, y++) {
        if (*x != *y)
            return *x - *y;
    }
    return 0;
}
