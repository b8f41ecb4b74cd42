/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states that the kernels of kernel-anneal.inc.h work on. Lanes: independent replicas of a plain model side by side,
 * ANNEAL_VECTOR bytes of fields a variable and as much for spins, so as many replicas as fields of Rows.width fit into that:
 * 32 of int8 down to 4 of int64. Energies are in the units of the rows.
 *
 * A flip of cost d passes when d <= -T ln(u) (Metropolis), with the right sides in a table of ANNEAL_DRAWS quantiles,
 * rounded down: costs are integers, so nothing is lost. A visit takes one window of the table, a threshold for each lane.
 * With `draw` 1 windows overlap, and all lanes share one temperature; with `draw` the number of lanes the table has a
 * window of its own for each draw: lanes can have temperatures of their own (parallel tempering).
 */
#pragma once

#include "policy/qubo/rng.h"
#include "policy/qubo/rows.h"

#define ANNEAL_VECTOR 32U
#define ANNEAL_LANES_MAX 32U
#define ANNEAL_DRAWS 4096U

typedef struct AnnealLanes {
        const Rows *rows;
        void *field;           /* n vectors of Rows.width: linear + couplings to the ones of the lane */
        void *spin;            /* n vectors: -1 for a one, else 0 */
        const void *threshold; /* of the type; draw 1: ANNEAL_DRAWS + lanes values, the last those of the beginning */
        uint32_t draw;         /* 1 or the number of lanes */
        Rng rng;
} AnnealLanes;

static inline unsigned anneal_lanes(const Rows *r) {
        return ANNEAL_VECTOR / r->width;
}

/* Of tables by width: 0 for int8 to 3 for int64. */
static inline unsigned anneal_type(const Rows *r) {
        return r->width == 1 ? 0 : r->width == 2 ? 1 : r->width == 4 ? 2 : 3;
}
