/* SPDX-License-Identifier: Apache-2.0 */
#define KERNELS kernels_avx512
#define KERNELS_NAME "avx512"
#include "policy/qubo/kernels.inc.h"

static bool supported(void) {
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
