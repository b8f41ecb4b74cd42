/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops, compiled once for each instruction set and chosen at run time. Each kernel-*.inc.h is one family,
 * written once with the compiler's vector types; kernels.inc.h puts them together into a table, and each
 * kernels-ISA.c is that with other compiler flags. All tables give the same results, bit by bit: lanes are counted in
 * replicas, not in register widths, and floating point is never contracted (-ffp-contract=off).
 */
#pragma once

#include "common/macro.h"

typedef struct Kernels {
        const char *name; /* plain (the compiler's baseline), avx2, avx512; neon is the baseline of aarch64 */
        bool (*supported)(void);
} Kernels;

extern const Kernels *const kernels_all[]; /* those that this program was built with, best first, NULL-terminated */
const Kernels *kernels_best(void);         /* the first that this CPU can run */
