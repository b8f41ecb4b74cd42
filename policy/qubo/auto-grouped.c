/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The portfolio of models with one-hot groups: a short annealing, then branch and bound from its result, which proves small models outright, then
 * annealing again with what is left. Branch and bound gets its longer share only where a short one has shown that the
 * tree is within reach. Without a clock the search is limited to an amount of work that follows from sweeps and size
 * only, so that the result depends on nothing else.
 */
#include <errno.h>

#include "policy/qubo/frame.h"

#define PROOF_MAX_VARIABLES 4096U
#define EARLY_SWEEPS 8U /* many models of a placement's size are solved by then, and proved at the root */
#define EARLY_STEPS 4000000U
#define FIRST_SWEEPS 200U
#define SHARE_FIRST 4U /* of the time: annealing, at most */
#define SHARE_PROBE 8U /* branch and bound, to see how far it gets */
#define SHARE_PROOF 2U /* branch and bound, if it got far enough */

/* Steps of some nanoseconds: about a second, so that what exact proves soon is proved here too. */
#define DEFAULT_STEPS 200000000U

typedef struct Auto {
        const Frame *f;
        Limit limit;
        uint64_t seed, runs;
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

static int solve_timed(Auto *a) {
        uint64_t left = limit_left(&a->limit);
        Limit first, probe, proof;
        int r = begin(a, EARLY_SWEEPS, EARLY_STEPS);

        if (r >= 0 && goes_on(a)) {
                first = limit_within(&a->limit, left / SHARE_FIRST);
                r = anneal(a, &first, 0);
        }
        if (r >= 0 && goes_on(a) && worth_a_proof(a->f->q)) {
                probe = limit_within(&a->limit, left / SHARE_PROBE);
                proof = limit_within(&a->limit, left / SHARE_PROOF);
                r = prove(a, &probe, &proof, 0, false);
        }
        if (r >= 0 && goes_on(a))
                r = anneal(a, &a->limit, 0);
        return r;
}

int auto_grouped(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(frame_freep) Frame *f = NULL;
        Auto a = { .seed = p->seed, .r = ret };
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
        if (ret->lower_bound == INT64_MIN && !(p->stop && atomic_load_explicit(p->stop, memory_order_relaxed)))
                ret->lower_bound = qubo_lower_bound(q);
        ret->proved = r >= 0 && ret->lower_bound >= ret->energy;
        incumbent_done(&a.best);
        return r;
}
