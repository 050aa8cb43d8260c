/* Every AArch64 has it: no flags of its own. */
#if defined(__aarch64__)

#include "mct_v64_neon.h"

#include "mct_simd_kernels.h"

const mct_simd mct_simd_neon = MCT_SIMD_TABLE("neon");

#else
typedef int mct_no_neon;
#endif
