/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solver permutation: tabu walks from a population of good assignments (permutation.h, permutation-elite.c). A sweep is
 * one exchange made, in which all n (n - 1) / 2 are looked at. Everything random follows from the seed.
 */
#include <errno.h>

#include "policy/qubo/permutation.h"

#define DEFAULT_WORK UINT64_C(60000000) /* in the units of limit_work(): about a second */

static bool permutation_fits(const Qubo *q) {
        return q->permutation;
}

/* The only assignment there is, if there is no pair to exchange; and where there was no time for anything else. */
static void offer_first(Permutation *t) {
        for (uint32_t i = 0; i < t->w.n; i++)
                t->bits[(size_t) i * t->w.n + i] = 1;
        best_offer(&t->best, &t->limit, t->bits, qubo_energy(t->q, t->bits));
}

static int permutation_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(permutation_done) Permutation t = {};
        uint64_t sweeps = p->sweeps, n = q->n_groups;
        int r;

        r = permutation_init(&t, q, p, UINT64_MAX);
        if (r < 0)
                return r;
        if (sweeps == 0)
                sweeps = p->clock && p->budget_usec > 0 ? UINT64_MAX : DEFAULT_WORK / t.step_work + 1;
        t.max_steps = sweeps;
        if (t.best.energy == INT64_MAX)
                offer_first(&t);
        if (n > 1 && !permutation_over(&t)) {
                r = permutation_search(&t, p->seed);
                if (r < 0)
                        return r;
        }
        ret->sweeps = t.steps;
        ret->flips = t.steps * (n * (n - 1) / 2);
        ret->solver = "permutation";
        ret->proved = n <= 1;
        r = best_result(&t.best, ret);
        if (r >= 0 && n <= 1)
                ret->lower_bound = ret->energy;
        return r;
}

const Solver solver_permutation = {
        .name = "permutation",
        .help = "Tabu walks by exchanges from crossed good assignments; for models with a permutation only",
        .fits = permutation_fits,
        .knows = MODEL_GROUPS | MODEL_TABLES | MODEL_PERMUTATION,
        .solve = permutation_solve,
};
