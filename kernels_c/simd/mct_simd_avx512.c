/* Compiled with the flags of host/mcutrain/engine/build.py for this file. */
#if defined(__x86_64__)

#include "mct_v64_avx512.h"

#include "mct_simd_kernels.h"

const mct_simd mct_simd_avx512 = MCT_SIMD_TABLE("avx512");

#else
typedef int mct_no_avx512;
#endif
