/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/qubo/kernels.h"

extern const Kernels kernels_plain, kernels_avx2, kernels_avx512;

const Kernels *const kernels_all[] = {
#ifdef __x86_64__
        &kernels_avx512,
        &kernels_avx2,
#endif
        &kernels_plain,
        NULL,
};

const Kernels *kernels_best(void) {
        const Kernels *const *k = kernels_all;

        while (!(*k)->supported())
                k++;
        return *k;
}
