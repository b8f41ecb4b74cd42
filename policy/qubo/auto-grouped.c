/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The portfolio of models with one-hot groups: a few sweeps of annealing and a glance at the bounds, which is all that small
 * or easy models need. Then, with a clock: annealing and tabu search by turns, branch and bound from their result (longer only where a short
 * try has shown that the tree is within reach), and turns again; or where there are more threads, these at the same
 * time. Without a clock: annealing, branch and bound, annealing, on one thread and limited to an amount of work that
 * follows from sweeps and size only, so that the result depends on nothing else.
 */
#include <errno.h>

#include "policy/qubo/frame.h"
#include "policy/qubo/portfolio.h"

#define PROOF_MAX_VARIABLES 4096U
#define EARLY_SWEEPS 8U /* many models of a placement's size are solved by then, and proved at the root */
#define EARLY_STEPS 4000000U
#define FIRST_SWEEPS 200U
#define TURN_SWEEPS 400U /* of annealing, */
#define TURN_TABU 8U     /* and such a part of it of tabu search */
#define TURN_MOST 100000U
#define SHARE_FIRST 4U /* of the time: annealing and tabu search */
#define SHARE_PROBE 8U /* branch and bound, to see how far it gets */
#define SHARE_PROOF 2U /* branch and bound, if it got far enough */

/* Steps of some nanoseconds: about a second, so that what exact proves soon is proved here too. */
#define DEFAULT_STEPS 200000000U

typedef struct Auto {
        const Frame *f;
        Limit limit;
        uint64_t seed, runs, turn;
        Incumbent best;
        SolveResult *r;
} Auto;

/* Beyond this a search proves nothing in any time there is, and setting it up takes long. */
static bool worth_a_proof(const Qubo *q) {
        return q->n <= PROOF_MAX_VARIABLES && !q->table_of;
}

static int anneal(Auto *a, Limit *l, uint64_t sweeps) {
        int64_t before = a->best.energy;
        int r = sa_search(a->f, l, a->seed, sweeps, &a->runs, &a->best, a->r);

        if (a->best.energy < before || !a->r->solver)
                a->r->solver = "sa";
        return r;
}

static int prove(Auto *a, Limit *probe, Limit *whole, uint64_t max_steps, bool glance) {
        int64_t before = a->best.energy;
        int r = exact_search(a->f, probe, whole, max_steps, glance, &a->best, a->r);

        if (a->best.energy < before || a->r->proved)
                a->r->solver = "exact";
        return r;
}

/* A few sweeps and a look at the bounds: that is all that small models need. */
static int begin(Auto *a, uint64_t sweeps, uint64_t steps) {
        int r = anneal(a, &a->limit, sweeps);

        if (r >= 0 && worth_a_proof(a->f->q) && !limit_hit(&a->limit))
                r = prove(a, NULL, &a->limit, MIN(steps, EARLY_STEPS), true);
        return r;
}

static bool goes_on(Auto *a) {
        limit_reached(&a->limit, a->best.energy); /* maybe within a limit of its own */
        return !a->r->proved && !limit_hit(&a->limit);
}

/* By counts alone. */
static int solve_counted(Auto *a, uint64_t sweeps) {
        const Qubo *q = a->f->q;
        uint64_t all = sweeps > 0 ? sweeps : sa_default_sweeps(q), first = MIN(all, FIRST_SWEEPS);
        uint64_t early = worth_a_proof(q) ? MIN(first, EARLY_SWEEPS) : first;
        uint64_t steps = sweeps > 0 ? exact_steps(q, sweeps) : DEFAULT_STEPS;
        int r = begin(a, early, steps);

        if (r >= 0 && goes_on(a) && first > early)
                r = anneal(a, &a->limit, first - early);
        if (r >= 0 && goes_on(a) && worth_a_proof(q))
                r = prove(a, NULL, &a->limit, steps, false);
        if (r >= 0 && goes_on(a) && all > first)
                r = anneal(a, &a->limit, all - first);
        return r;
}

static int tabu(Auto *a, Limit *l, uint64_t sweeps) {
        int64_t before = a->best.energy;
        int r = onehot_search(a->f, l, a->seed, a->runs++, sweeps, &a->best, a->r);

        if (a->best.energy < before)
                a->r->solver = "onehot";
        return r;
}

/* Annealing and tabu search by turns, each turn twice as long: which of the two is better depends on the model. */
static int take_turns(Auto *a, Limit *l) {
        int r = 0;

        for (; r >= 0 && goes_on(a) && !limit_hit(l); a->turn = MIN(a->turn * 2, TURN_MOST)) {
                r = anneal(a, l, a->turn);
                if (r >= 0 && goes_on(a) && !limit_hit(l))
                        r = tabu(a, l, a->turn / TURN_TABU);
        }
        return r;
}

static int solve_in_turn(Auto *a, uint64_t left) {
        Limit part = limit_within(&a->limit, left / SHARE_FIRST), proof;
        int r = take_turns(a, &part);

        if (r >= 0 && goes_on(a) && worth_a_proof(a->f->q)) {
                part = limit_within(&a->limit, left / SHARE_PROBE);
                proof = limit_within(&a->limit, left / SHARE_PROOF);
                r = prove(a, &part, &proof, 0, false);
        }
        return r >= 0 ? take_turns(a, &a->limit) : r;
}

/* The same at once: tabu search on every other thread, branch and bound on one. */
static int solve_at_once(Auto *a) {
        const Qubo *q = a->f->q;
        PortfolioTask tasks[PORTFOLIO_TASKS_MAX] = {};
        unsigned n = MIN(a->limit.p->threads, PORTFOLIO_TASKS_MAX);
        _cleanup_(solve_result_done) SolveResult now = {};
        Portfolio o = { .q = q, .limit = a->limit, .r = a->r };
        int r = incumbent_result(&a->best, a->f, &now);

        for (unsigned i = 0; i < n; i++)
                tasks[i] = (PortfolioTask){ .solver = i % 2 == 0                   ? &solver_onehot
                                                      : i == 1 && worth_a_proof(q) ? &solver_exact
                                                                                   : &solver_sa,
                                            .seed = a->seed + i,
                                            .usec = limit_left(&a->limit) };
        if (r >= 0)
                r = best_init(&o.best, q, &o.limit);
        if (r >= 0) {
                best_offer(&o.best, &o.limit, now.x, now.energy);
                r = portfolio_run(&o, tasks, n);
        }
        if (r >= 0) {
                incumbent_done(&a->best);
                r = incumbent_init(&a->best, a->f, o.best.x);
        }
        best_done(&o.best);
        return r;
}

static int solve_timed(Auto *a) {
        uint64_t left = limit_left(&a->limit);
        int r = begin(a, EARLY_SWEEPS, EARLY_STEPS);

        if (r < 0 || !goes_on(a))
                return r;
        if (a->r->lower_bound == INT64_MIN) /* not when the time is over */
                a->r->lower_bound = lower_bound_in_time(a->f->q, &a->limit);
        return a->limit.p->threads > 1 ? solve_at_once(a) : solve_in_turn(a, left);
}

int auto_grouped(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(frame_freep) Frame *f = NULL;
        Auto a = { .seed = p->seed, .turn = TURN_SWEEPS, .r = ret };
        int r;

        limit_init(&a.limit, p);
        r = frame_new(q, &a.limit, &f);
        if (r < 0)
                return r;
        a.f = f;
        r = incumbent_init(&a.best, f, p->start);
        if (r >= 0)
                r = p->sweeps > 0 || a.limit.deadline == UINT64_MAX ? solve_counted(&a, p->sweeps) : solve_timed(&a);
        if (r >= 0)
                r = incumbent_result(&a.best, f, ret);
        if (ret->lower_bound == INT64_MIN)
                ret->lower_bound = lower_bound_in_time(q, &a.limit);
        ret->proved = r >= 0 && ret->lower_bound >= ret->energy;
        incumbent_done(&a.best);
        return r;
}
