/* SPDX-License-Identifier: Apache-2.0 */
/* One table of kernels; included by each kernels-ISA.c, which defines KERNELS (its name) and KERNELS_NAME. */
#include "policy/qubo/kernels.h"

static bool supported(void);

extern const Kernels KERNELS;

const Kernels KERNELS = {
        .name = KERNELS_NAME,
        .supported = supported,
};
