/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops, compiled once for each instruction set and chosen at run time. Each kernel-*.inc.h is one family,
 * written once with the compiler's vector types; kernels.inc.h puts them together into a table, and each
 * kernels-ISA.c is that with other compiler flags. All tables give the same results, bit by bit: lanes are counted in
 * replicas, not in register widths, and floating point is never contracted (-ffp-contract=off).
 */
#pragma once

#include "common/macro.h"

#define QAOA_LANES 8U /* of a chunk of amplitudes: so many real parts, then as many imaginary ones; 64 bytes, aligned */

struct AnnealLanes;
struct AnnealDense;
struct MultiSpin;
struct SqaWalk;
struct QapWalk;
struct TabuWalk;

typedef struct Kernels {
        const char *name; /* plain (the compiler's baseline), avx2, avx512; neon is the baseline of aarch64 */
        bool (*supported)(void);
        /* kernel-qaoa.inc.h */
        void (*qaoa_phase)(float *a, const float *energy, size_t chunks, float turns, float factor, bool fresh);
        void (*qaoa_rx)(float *a, size_t stride, unsigned k, size_t chunks, float t);
        void (*qaoa_rx_low)(float *a, unsigned k, size_t chunks, float t);
        void (*qaoa_mix)(float *a, size_t stride, size_t d, size_t chunks, float re, float im);
        void (*qaoa_turn)(float *to, const float *from, size_t row);
        void (*qaoa_turn_back)(float *to, const float *from, size_t row);
        void (*qaoa_gather)(float *tile, const float *a, size_t rows, size_t stride, size_t columns);
        void (*qaoa_scatter)(float *a, const float *tile, size_t rows, size_t stride, size_t columns);
        void (*qaoa_moments)(const float *a, const float *energy, size_t chunks, double ret[static 2]);
        /* kernel-anneal.inc.h, by anneal_type() */
        uint32_t (*anneal_lanes[4])(struct AnnealLanes *a, uint32_t from, uint32_t to);
        void (*anneal_energies[4])(const struct AnnealLanes *a, int64_t *ret);
        void (*anneal_thresholds[4])(void *to, const float *logs, size_t n, float t);
        uint32_t (*anneal_dense[4])(struct AnnealDense *a, uint32_t from, uint32_t to); /* by DenseType */
        /* kernel-multispin.inc.h */
        void (*multispin_sweep)(struct MultiSpin *m, uint32_t from, uint32_t to);
        void (*multispin_fill)(struct MultiSpin *m, unsigned pool, uint32_t chance);
        void (*multispin_count)(const struct MultiSpin *m, uint64_t *ret);
        /* kernel-sqa.inc.h, for lanes of 16 and 32 bits: how many of the variables from..to - 1 changed */
        uint32_t (*sqa_sweep16)(struct SqaWalk *w, uint32_t from, uint32_t to);
        uint32_t (*sqa_sweep32)(struct SqaWalk *w, uint32_t from, uint32_t to);
        uint32_t (*sqa_lines16)(struct SqaWalk *w, uint32_t from, uint32_t to);
        uint32_t (*sqa_lines32)(struct SqaWalk *w, uint32_t from, uint32_t to);
        /* kernel-tabu.inc.h, by TabuType and by bytes of a gain / 4: the best open variable, or TABU_NONE */
        uint32_t (*tabu_dense[6])(struct TabuWalk *w, uint32_t i, uint32_t tenure);
        uint32_t (*tabu_sparse[3])(struct TabuWalk *w, uint32_t i, uint32_t tenure);
        uint32_t (*tabu_look[3])(struct TabuWalk *w);
        uint64_t (*tabu_peak)(const struct TabuWalk *w);
        /* kernel-qap.inc.h, by QapType */
        void (*qap_load[3])(struct QapWalk *w, uint32_t from, uint32_t to);
        void (*qap_step[3])(struct QapWalk *w, uint32_t r, uint32_t s);
} Kernels;

extern const Kernels *const kernels_all[]; /* those that this program was built with, best first, NULL-terminated */
const Kernels *kernels_best(void);         /* the first that this CPU can run */
