/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto: which solvers, in which order, for how long. Models with one-hot groups have a portfolio of their own
 * (auto-grouped.c). For plain models and permutations the members are listed by what was measured on models of the
 * same size and density (make bench-solver): the first has a share of the time alone, a small model is then given to
 * branch and bound, the others follow from the best point so far, and the rest goes to whoever found it. With a number
 * of sweeps instead of time the shares are of that. Large sparse models are annealed all the time: a member that begins
 * at the point of a short run makes it a little better and would get the rest for that. So is the time not divided
 * where a share of it would go by while a member sets up its rows.
 */
#include <errno.h>

#include "policy/qubo/portfolio.h"

#define MEMBERS_MAX 3U
#define SHARE_FIRST 4U  /* the first member: 1/4 of the time */
#define SHARE_PROOF 8U  /* branch and bound */
#define SHARE_SECOND 8U /* each of the others */
#define STREAMS 4U      /* tasks of the last part, where sweeps are counted */
#define PROOF_MAX_VARIABLES 400U
#define SPARSE 0.08 /* couplings of all pairs */
#define SMALL 300U  /* variables: tabu search is first whatever the density */
#define LARGE 4000U
#define SETUP_ENTRIES 100U /* of rows, that are set up in a microsecond at least */

/* Steps of some nanoseconds: about a second, so that what exact proves soon is proved here too. */
#define DEFAULT_STEPS 200000000U

typedef struct Auto {
        Portfolio o;
        uint64_t sweeps, usec; /* of one of them, all */
        const Solver *members[MEMBERS_MAX];
        unsigned n_members, n_seeds;
} Auto;

static bool is_timed(const Auto *a) {
        return a->usec > 0;
}

static bool is_over(Auto *a) {
        const SolveParams *p = a->o.limit.p;

        return a->o.r->proved || (p->has_target && a->o.best.energy <= p->target) || limit_hit(&a->o.limit);
}

static void choose_members(Auto *a, const Solver *const *list) {
        for (; *list && a->n_members < MEMBERS_MAX; list++)
                if ((*list)->fits(a->o.q))
                        a->members[a->n_members++] = *list;
}

static void choose(Auto *a) {
        static const Solver *const sparse[] = { &solver_sa, &solver_pt, &solver_tabu, NULL }, *const dense[] = {
                &solver_tabu, &solver_sa, NULL
        };
        static const Solver *const large[] = { &solver_sa, NULL };
        static const Solver *const products[] = { &solver_permutation, NULL };
        const Qubo *q = a->o.q;
        double pairs = (double) q->n * (q->n - 1.0);
        bool is_sparse = q->n > SMALL && (double) q->row[q->n] <= SPARSE * pairs;

        if (q->permutation)
                choose_members(a, products);
        if (a->n_members == 0)
                choose_members(a, !is_sparse ? dense : q->n > LARGE ? large : sparse);
}

static PortfolioTask task(Auto *a, const Solver *solver, uint64_t parts) {
        uint64_t seed = a->o.limit.p->seed + a->n_seeds++;

        return (PortfolioTask){ .solver = solver,
                                .seed = seed,
                                .sweeps = a->sweeps > 0 ? MAX(a->sweeps / parts, 1U) : 0,
                                .usec = MAX(a->usec / parts, 1U) };
}

/* One solver on one thread, further seeds of the first member on the others: those are not there where sweeps are counted. */
static int run_one(Auto *a, PortfolioTask t) {
        PortfolioTask tasks[PORTFOLIO_TASKS_MAX] = { t };
        unsigned n = 1, most = is_timed(a) ? MIN(a->o.limit.p->threads, PORTFOLIO_TASKS_MAX) : 1;

        for (; n < most; n++) {
                tasks[n] = task(a, a->members[n % a->n_members], 1);
                tasks[n].usec = t.usec;
        }
        return portfolio_run(&a->o, tasks, n);
}

static int prove(Auto *a) {
        PortfolioTask t = task(a, &solver_exact, SHARE_PROOF);

        if (a->o.q->n > PROOF_MAX_VARIABLES || !solver_exact.fits(a->o.q))
                return 0;
        if (!is_timed(a) && a->sweeps == 0)
                t.sweeps = DEFAULT_STEPS / MAX(exact_steps(a->o.q, 1), 1U) + 1;
        return run_one(a, t);
}

/* All threads on the solver that has found the best point, or where that is none of the members, on the first. */
static int run_rest(Auto *a) {
        PortfolioTask tasks[PORTFOLIO_TASKS_MAX];
        unsigned n = is_timed(a) ? MAX(MIN(a->o.limit.p->threads, PORTFOLIO_TASKS_MAX), 1U) : STREAMS;
        const Solver *best = a->members[0];

        for (unsigned i = 0; i < a->n_members; i++)
                if (a->o.r->solver && streq(a->members[i]->name, a->o.r->solver))
                        best = a->members[i];
        for (unsigned i = 0; i < n; i++) {
                tasks[i] = task(a, best, 2 * STREAMS);
                if (is_timed(a))
                        tasks[i].usec = limit_left(&a->o.limit);
        }
        return portfolio_run(&a->o, tasks, n);
}

static void bound(Auto *a) {
        SolveResult *r = a->o.r;

        if (r->lower_bound == INT64_MIN)
                r->lower_bound = lower_bound_in_time(a->o.q, &a->o.limit);
        r->proved |= r->lower_bound >= a->o.best.energy;
}

/* Whether a share of the time is more than what it takes to set up the rows. */
static bool is_divisible(const Auto *a) {
        return !is_timed(a) || a->usec / SHARE_SECOND >= a->o.q->row[a->o.q->n] / SETUP_ENTRIES;
}

static int search_shares(Auto *a) {
        int r = run_one(a, task(a, a->members[0], SHARE_FIRST));

        if (r >= 0 && !is_over(a))
                r = prove(a);
        for (unsigned i = 1; i < a->n_members && r >= 0 && !is_over(a); i++)
                r = run_one(a, task(a, a->members[i], SHARE_SECOND));
        return r;
}

static int search(Auto *a) {
        bool divisible = is_divisible(a),
             shares = divisible && (!is_timed(a) || a->n_members > 1 || a->o.q->permutation);
        int r = shares ? search_shares(a) : 0;

        if (r >= 0 && is_timed(a) && divisible && !is_over(a)) /* not when the time is over */
                bound(a);
        if (r >= 0 && (!shares || !is_over(a))) /* something has to run */
                r = run_rest(a);
        return r;
}

static int auto_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        Auto a = { .o = { .q = q, .r = ret }, .sweeps = p->sweeps };
        int r;

        if (q->n_groups > 0 && !q->permutation)
                return auto_grouped(q, p, ret);
        limit_init(&a.o.limit, p);
        if (a.o.limit.deadline != UINT64_MAX) {
                a.usec = MAX(limit_left(&a.o.limit), 1U);
                a.sweeps = 0;
        }
        choose(&a);
        r = best_init(&a.o.best, q, &a.o.limit);
        if (r >= 0)
                r = search(&a);
        if (r >= 0)
                r = best_result(&a.o.best, ret);
        if (r >= 0 && ret->lower_bound == INT64_MIN)
                ret->lower_bound = lower_bound_in_time(q, &a.o.limit);
        ret->proved = r >= 0 && ret->lower_bound >= ret->energy;
        best_done(&a.o.best);
        return r;
}

const Solver solver_auto = {
        .name = "auto",
        .help = "A portfolio by size, density and structure, on several threads; proves the optimum where it can",
        .fits = fits_all,
        .knows = MODEL_GROUPS | MODEL_TABLES | MODEL_PERMUTATION,
        .solve = auto_solve,
};
