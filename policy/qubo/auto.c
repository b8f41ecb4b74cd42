/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of a solver: annealing always, then branch and bound from its result with what is left of the budget. A
 * small model gets its proof that way, a large one a bound. Without a clock the search is limited to a number of nodes
 * that follows from sweeps and size only, so that the result depends on nothing else.
 */
#include <errno.h>

#include "policy/qubo/frame.h"

/* Variables times nodes, about: a node costs some nanoseconds per variable, so this is some tenths of a second. */
#define DEFAULT_WORK 50000000U

static uint64_t node_limit(const Qubo *q, const SolveParams *p) {
        if (p->sweeps > 0)
                return p->sweeps;
        if (p->clock && p->budget_usec > 0)
                return 0;
        return 1 + DEFAULT_WORK / (q->n + 1);
}

/* A timed annealing must leave time for the proof. */
static SolveParams annealing_params(const SolveParams *p) {
        SolveParams a = *p;

        if (p->clock && p->budget_usec > 0)
                a.budget_usec = MAX(p->budget_usec / 2, 1U);
        return a;
}

static int auto_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(frame_freep) Frame *f = NULL;
        _cleanup_free_ uint32_t *held = NULL;
        SolveParams a = annealing_params(p);
        int64_t annealed;
        uint64_t nodes = 0;
        Limit l;
        int r;

        limit_init(&l, p);
        r = solver_sa.solve(q, &a, ret);
        if (r < 0 || !solver_exact.fits(q) || limit_hit(&l))
                return r;
        r = frame_new(q, &f);
        if (r < 0)
                return r;
        held = calloc((size_t) f->n_items + 1, sizeof(*held));
        if (!held)
                return -ENOMEM;
        held_from_bits(f, ret->x, held);
        annealed = ret->energy;
        r = exact_search(f, &l, node_limit(q, p), held, &ret->energy, &ret->lower_bound, &nodes);
        if (r < 0)
                return r;
        ret->flips += nodes * q->n;
        ret->proved = ret->lower_bound == ret->energy;
        if (ret->proved || ret->energy < annealed)
                ret->solver = "exact";
        return result_fill(f, held, ret);
}

static bool fits_all(const Qubo *q) {
        return true;
}

const Solver solver_auto = {
        .name = "auto",
        .help = "Annealing, then a proof of optimality or a bound with what is left of the budget",
        .fits = fits_all,
        .solve = auto_solve,
};
