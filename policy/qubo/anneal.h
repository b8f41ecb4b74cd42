/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated annealing of plain models (no groups), by single flips. The states that the kernels of kernel-anneal.inc.h work
 * on come in two forms; energies are in the units of the rows.
 *
 * Lanes: independent replicas side by side, ANNEAL_VECTOR bytes of fields a variable and as much for spins, so as many
 * replicas as fields of Rows.width fit into that: 32 of int8 down to 4 of int64. For sparse models.
 *
 * Dense: one replica, variables side by side, rows of weights written out. A vector of variables is offered flips at once;
 * after each that flips its whole row is added to the fields, and the rest of the vector is looked at again, so that what
 * happens is a sequential sweep. For models where a replica in lanes would touch most fields one by one.
 *
 * A flip of cost d passes when d <= -T ln(u) (Metropolis), with the right sides in a table of ANNEAL_DRAWS quantiles in no
 * order, rounded down: costs are integers, so nothing is lost. A visit takes one window of the table, a threshold for each
 * lane. With `draw` 1 windows overlap, and all lanes share one temperature; with `draw` the number of lanes the table has a
 * window of its own for each draw: lanes can have temperatures of their own (parallel tempering).
 */
#pragma once

#include "policy/qubo/rng.h"
#include "policy/qubo/rows.h"
#include "policy/qubo/search.h"

#define ANNEAL_VECTOR 32U
#define ANNEAL_LANES_MAX 32U
#define ANNEAL_DRAWS 1024U
#define ANNEAL_TYPES 4U

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

/* Of dense states: fields int16, int32, int32, int64 with weights of int16, int16, int32, int32. */
typedef enum DenseType {
        DENSE_16_16,
        DENSE_32_16,
        DENSE_32_32,
        DENSE_64_32,
} DenseType;

typedef struct AnnealDense {
        size_t stride; /* variables of a row: whole vectors; those beyond the model's never flip */
        void *field, *spin;
        const void *weight;    /* stride x stride */
        const void *threshold; /* ANNEAL_DRAWS + lanes, of the type of fields */
        int64_t energy;
        Rng rng;
} AnnealDense;

/* One way to anneal a model, and its state: what is here comes first in it. */
typedef struct AnnealState {
        uint32_t units; /* a sweep offers flips to units 0, 1, ...: variables or vectors of them */
        uint32_t work;  /* of a unit, in steps of a few nanoseconds */
        uint32_t replicas;
        uint32_t look_every; /* energies of replicas cost so many sweeps that they are looked at no more often */
} AnnealState;

typedef struct AnnealMethod {
        int (*new)(const Qubo *q, const Rows *rows, const struct Kernels *kernels, uint64_t seed, Limit *l,
                   AnnealState **ret);
        void (*free)(AnnealState *s);
        void (*scatter)(AnnealState *s, uint64_t seed, uint64_t stream); /* all zero, but the next sweep is of coins */
        void (*cool)(AnnealState *s, double t);                          /* in units; 0: only what improves passes */
        uint32_t (*sweep)(AnnealState *s, uint32_t from, uint32_t to);   /* 0: nothing has passed */
        void (*offer)(AnnealState *s, Best *best, Limit *l);             /* the best replica, if it is better */
} AnnealMethod;

extern const AnnealMethod anneal_by_lanes, anneal_dense, anneal_multispin;
size_t anneal_dense_size(const Rows *r, unsigned *ret_lanes); /* bytes of its weights; variables in a vector */

float *anneal_logs(uint64_t seed); /* ANNEAL_DRAWS values of -ln(u) in no order; from malloc, or NULL */
/* NULL: the fastest for the model; anneal_multispin is for models that multispin_fits() only. */
int anneal_by(const AnnealMethod *method, const Qubo *q, const SolveParams *p, SolveResult *ret);
int anneal_solve(const Qubo *q, const SolveParams *p, SolveResult *ret);
