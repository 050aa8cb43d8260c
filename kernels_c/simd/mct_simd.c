/* Which vector unit is used. The choice holds for the process: it is made before the first run. */
#include "mct_simd.h"

#include <stddef.h>
#include <string.h>

const mct_simd *mct_simd_active;
__thread mct_packed *mct_simd_packed;

typedef struct {
    const mct_simd *kernels;
    int present;
} variant;

int mct_simd_select(const char *name)
{
#if defined(__x86_64__)
    const variant variants[] = {{&mct_simd_avx512, __builtin_cpu_supports("avx512vnni") &&
                                                       __builtin_cpu_supports("avx512bw") &&
                                                       __builtin_cpu_supports("avx512vl")},
                                {&mct_simd_avx2, __builtin_cpu_supports("avx2")},
                                {NULL, 1}};
#elif defined(__aarch64__)
    const variant variants[] = {{&mct_simd_neon, 1}, {NULL, 1}};
#else
    const variant variants[] = {{NULL, 1}};
#endif
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        const mct_simd *k = variants[i].kernels;
        if (!variants[i].present)
            continue;
        if (strcmp(name, "auto") == 0 || strcmp(name, k != NULL ? k->name : "none") == 0) {
            mct_simd_active = k;
            return 1;
        }
    }
    return 0;
}

const char *mct_simd_name(void)
{
    return mct_simd_active != NULL ? mct_simd_active->name : "none";
}
