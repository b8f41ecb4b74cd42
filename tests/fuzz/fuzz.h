/* SPDX-License-Identifier: Apache-2.0 */
/* What every fuzz entry point needs: its prototype, and a check that also stands in builds without assert(). */
#pragma once

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(condition)                                                                                                \
        do {                                                                                                           \
                if (!(condition)) {                                                                                    \
                        fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                        \
                        abort();                                                                                       \
                }                                                                                                      \
        } while (0)
