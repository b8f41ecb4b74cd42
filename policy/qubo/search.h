/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every search shares: the limits of one run (time, stop flag, target), and the best point so far of a solver that
 * works on bits. Solvers that work on items keep an Incumbent instead, see frame.h.
 */
#pragma once

#include "policy/qubo/solver.h"

/* The end of the time a solver may take; it is asked at every few thousand steps. */
typedef struct Limit {
        const SolveParams *p;
        uint64_t deadline; /* UINT64_MAX: none */
        uint64_t work;
        int64_t reported; /* the last energy that limit_improved() passed on; INT64_MAX: none yet */
        bool hit;
} Limit;

void limit_init(Limit *l, const SolveParams *p);
Limit limit_within(const Limit *l, uint64_t usec); /* the same, but at most so long from now */
uint64_t limit_left(const Limit *l);               /* microseconds; UINT64_MAX: no deadline */
bool limit_hit(Limit *l);                          /* asks the clock and the flag */
/* Asks them once enough steps of a few nanoseconds have added up: half a millisecond's. */
bool limit_work(Limit *l, uint64_t steps);
/* A feasible point of this energy has been seen: tells the caller if it is the best so far; the target is a limit. */
void limit_improved(Limit *l, int64_t energy);
void limit_reached(Limit *l, int64_t energy); /* the same, but nobody is told */

typedef struct Best {
        const Qubo *q;
        uint8_t *x;      /* n bits, owned */
        int64_t energy;  /* INT64_MAX: no point yet */
        uint64_t offers; /* of points that have to be repaired */
} Best;

int best_init(Best *b, const Qubo *q, Limit *l); /* with the start of l->p, if there is one */
/* Keeps x if it is better; energy is what the solver's books say of it. Of a lowered model it may be repaired: what is
 * kept then is better than x. */
void best_offer(Best *b, Limit *l, const uint8_t *x, int64_t energy);
/* Gives the bits away, with the energy recomputed; the rest of *ret is left alone. -ECANCELED: no point yet. */
int best_result(Best *b, SolveResult *ret);
void best_done(Best *b);

bool fits_all(const Qubo *q);
int64_t lower_bound_within(const Qubo *q, Limit *l);        /* INT64_MIN: the limit has been hit; l may be NULL */
int64_t lower_bound_in_time(const Qubo *q, const Limit *l); /* the same, and a target that is reached is no limit */
int auto_grouped(const Qubo *q, const SolveParams *p, SolveResult *ret); /* auto, for models with groups */
uint64_t exact_steps(const Qubo *q, uint64_t sweeps);                    /* the work that so many sweeps stand for */
extern const Solver solver_auto, solver_exact, solver_greedy, solver_sa;
extern const Solver solver_onehot;
extern const Solver solver_qaoa;
extern const Solver solver_genetic, solver_permutation;
extern const Solver solver_pt, solver_sqa;
extern const Solver solver_tabu;
