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
#define EARLY_STEPS 1000000U
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

static int prove(Auto *a, Limit *probe, Limit *whole, uint64_t max_steps) {
        int64_t before = a->best.energy;
        int r = exact_search(a->f, probe, whole, max_steps, &a->best, a->r);

        if (a->best.energy < before || a->r->proved)
                a->r->solver = "exact";
        return r;
}

/* By counts alone. */
static int solve_counted(Auto *a, uint64_t sweeps) {
        const Qubo *q = a->f->q;
        uint64_t all = sweeps > 0 ? sweeps : sa_default_sweeps(q), early = MIN(all, EARLY_SWEEPS);
        uint64_t first = MIN(all, FIRST_SWEEPS), steps = sweeps > 0 ? exact_steps(q, sweeps) : DEFAULT_STEPS;
        int r;

        r = anneal(a, &a->limit, early);
        if (r >= 0 && worth_a_proof(q) && !limit_hit(&a->limit))
                r = prove(a, NULL, &a->limit, MIN(steps, EARLY_STEPS));
        if (r >= 0 && !a->r->proved && first > early && !limit_hit(&a->limit))
                r = anneal(a, &a->limit, first - early);
        if (r >= 0 && !a->r->proved && worth_a_proof(q) && !limit_hit(&a->limit))
                r = prove(a, NULL, &a->limit, steps);
        if (r >= 0 && !a->r->proved && all > first && !limit_hit(&a->limit))
                r = anneal(a, &a->limit, all - first);
        return r;
}

static int solve_timed(Auto *a) {
        uint64_t left = limit_left(&a->limit);
        Limit first = limit_within(&a->limit, left / SHARE_FIRST), probe, proof;
        int r;

        r = anneal(a, &first, FIRST_SWEEPS);
        if (r >= 0 && worth_a_proof(a->f->q) && !limit_hit(&a->limit)) {
                probe = limit_within(&a->limit, left / SHARE_PROBE);
                proof = limit_within(&a->limit, left / SHARE_PROOF);
                r = prove(a, &probe, &proof, 0);
        }
        if (r >= 0 && !a->r->proved && !limit_hit(&a->limit))
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
