/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solver tabu: one-flip tabu search (tabu.h) from random points and from points between good ones (relink.c). A variable
 * that flipped stays closed for n / 100 + 1..10 steps (Glover, Lu, Hao 2010, section 2.2) unless its flip would be the
 * best that this search has seen. A sweep is one step, in which all n moves are looked at.
 *
 * Memory: that of tabu.h and n bytes for each elite point.
 */
#include <errno.h>

#include "policy/qubo/tabu.h"

#define TENURE_SPREAD 10U
#define DEFAULT_WORK UINT64_C(100000000) /* in the units of limit_work(): about a second */
#define STEP_WORK 24U                    /* of a step, beside what n costs */

static int keep(Tabu *t, uint8_t *x, int64_t *energy) {
        memcpy(x, t->w.x, t->w.n);
        *energy = t->w.energy;
        best_offer(&t->best, &t->limit, x, *energy);
        return 0;
}

/* A new start is kept when the walk leaves it upwards, not on the way down. */
int tabu_improve(Tabu *t, uint64_t patience, uint8_t *x, int64_t *ret_energy) {
        TabuWalk *w = &t->w;
        uint64_t since = 0;
        uint32_t i;
        int r;

        tabu_open_all(t);
        *ret_energy = INT64_MAX;
        w->aspired = w->energy;
        i = tabu_look(t);
        while (since < patience && !tabu_over(t)) {
                uint32_t random;

                if (w->cost >= 0 && w->energy < *ret_energy)
                        keep(t, x, ret_energy);
                random = tabu_random(w);
                if (i == TABU_NONE)
                        i = rng_scale(random, w->n);
                r = tabu_step(t, i, t->tenure + 1 + (random >> 16) % TENURE_SPREAD, &i);
                if (r < 0)
                        return r;
                since++;
                if (w->energy < w->aspired) {
                        w->aspired = w->energy;
                        since = 0;
                }
        }
        if (w->energy < *ret_energy)
                keep(t, x, ret_energy);
        return 0;
}

static int tabu_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(tabu_done) Tabu t = {};
        uint64_t sweeps = p->sweeps;
        int r;

        if (sweeps == 0)
                sweeps = p->clock && p->budget_usec > 0 ? UINT64_MAX : DEFAULT_WORK / (q->n / 24 + STEP_WORK);
        r = tabu_init(&t, q, p, sweeps);
        if (r < 0)
                return r;
        if (q->n > 0 && !tabu_over(&t)) {
                r = relink_search(&t, p->seed);
                if (r < 0)
                        return r;
        }
        ret->sweeps = t.steps;
        ret->flips = t.steps * q->n;
        ret->solver = "tabu";
        return best_result(&t.best, ret);
}

const Solver solver_tabu = {
        .name = "tabu",
        .help = "Tabu search by single flips, with path relinking between the best points found",
        .fits = fits_all,
        .solve = tabu_solve,
};
