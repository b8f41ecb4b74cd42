/* SPDX-License-Identifier: Apache-2.0 */
#define KERNELS kernels_avx2
#define KERNELS_NAME "avx2"
#include "policy/qubo/kernels.inc.h"

static bool supported(void) {
        return __builtin_cpu_supports("avx2");
}
