/* SPDX-License-Identifier: Apache-2.0 */
#define KERNELS kernels_plain
#ifdef __aarch64__
#define KERNELS_NAME "neon"
#else
#define KERNELS_NAME "plain"
#endif
#include "policy/qubo/kernels.inc.h"

static bool supported(void) {
        return true;
}
