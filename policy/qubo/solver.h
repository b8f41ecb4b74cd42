/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every solver behind one table. A solver is deterministic for (model, seed, sweeps): the clock and the stop flag can
 * only end it early. It returns the best feasible bits it saw with the energy recomputed from the model.
 */
#pragma once

#include <stdatomic.h>

#include "policy/qubo/qubo.h"

typedef struct SolveParams {
        uint64_t seed;
        uint64_t sweeps;                   /* step budget; 0: the solver's default for the size */
        uint64_t budget_usec;              /* time budget by clock(); 0: none */
        uint64_t (*clock)(void *userdata); /* monotonic microseconds, asked by each thread; NULL: no time budget */
        void *userdata;
        const atomic_bool *stop;   /* looked at at least every millisecond; may be NULL */
        const atomic_bool *cancel; /* a second flag, of a portfolio for its members; may be NULL */
        const uint8_t *start; /* n bits, feasible: where to begin, and never worse than this comes back; may be NULL */
        bool has_target;
        int64_t target;   /* done once a point is not above */
        unsigned threads; /* of auto; 0 and 1: the calling thread only. Other solvers use one */
        /* A better point has been seen. Never from two threads at once. May be NULL. */
        void (*improved)(void *improved_userdata, int64_t energy);
        void *improved_userdata;
        const struct Kernels *kernels; /* NULL: the best that the CPU can run */
        const struct Lowered *lowered; /* qubo_solve()'s own: callers leave it NULL, and solvers have no use for it */
} SolveParams;

typedef struct SolveResult {
        uint8_t *x; /* n bits, 0 or 1; owned */
        int64_t energy;
        int64_t lower_bound; /* no feasible point is below; INT64_MIN: unknown */
        bool proved;         /* energy is the optimum */
        uint64_t sweeps;     /* done */
        uint64_t flips;      /* proposed */
        const char *solver;  /* what really ran, static string */
} SolveResult;

void solve_result_done(SolveResult *r);

/* What of a model's structure a solver knows itself. The rest is lowered before and lifted after, see qubo_solve(). */
typedef enum ModelParts {
        MODEL_GROUPS = 1 << 0,
        MODEL_TABLES = 1 << 1,
        MODEL_PERMUTATION = 1 << 2,
} ModelParts;

typedef struct Solver {
        const char *name;
        const char *help;            /* one line, for --help and the manual */
        bool (*fits)(const Qubo *q); /* false: not for this model (its size); of the model as it is, not lowered */
        ModelParts knows;
        int (*solve)(const Qubo *q, const SolveParams *p, SolveResult *ret);
} Solver;

extern const Solver *const solvers[];           /* NULL-terminated; the first is "auto" */
const Solver *solver_by_name(const char *name); /* NULL: no such */
/*
 * The whole of it, whatever the solver knows: energies told and returned are of feasible points of q. Ended before the
 * solver has a point, the start or a first feasible one comes back. -EINVAL: the solver does not fit the model, or the
 * start is not feasible; -EFBIG: lowered for this solver the model would have more than QUBO_EXPAND_MAX entries (64
 * million couplings); -EOVERFLOW: its penalties or rows would leave int32; -ENOMEM.
 */
int qubo_solve(const Qubo *q, const Solver *solver, const SolveParams *p, SolveResult *ret);
/* A bound by local minima over groups and variables, O(couplings): for models the exact solver cannot finish. */
int64_t qubo_lower_bound(const Qubo *q);
