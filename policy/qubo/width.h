/* SPDX-License-Identifier: Apache-2.0 */
/* Whole numbers in arrays whose width, 1, 2, 4 or 8 bytes, is chosen by range when the array is made. */
#pragma once

#include "common/macro.h"

static inline int64_t width_get(const void *array, unsigned width, size_t i) {
        return width == 1   ? ((const int8_t *) array)[i]
               : width == 2 ? ((const int16_t *) array)[i]
               : width == 4 ? ((const int32_t *) array)[i]
                            : ((const int64_t *) array)[i];
}

/* v fits, or is taken modulo the width where only differences count. */
static inline void width_put(void *array, unsigned width, size_t i, int64_t v) {
        if (width == 1)
                ((int8_t *) array)[i] = (int8_t) v;
        else if (width == 2)
                ((int16_t *) array)[i] = (int16_t) v;
        else if (width == 4)
                ((int32_t *) array)[i] = (int32_t) v;
        else
                ((int64_t *) array)[i] = v;
}
