/* SPDX-License-Identifier: Apache-2.0 */
/* A plain model solved by way of the structure that was recognised in it. */
#include <errno.h>

#include "policy/qubo/recognise.h"

/* What the caller of both solvers has been told. */
typedef struct Watch {
        const SolveParams *p;
        int64_t told;
} Watch;

static void watch_improved(void *userdata, int64_t energy) {
        Watch *w = userdata;

        if (energy < w->told && w->p->improved)
                w->p->improved(w->p->improved_userdata, energy);
        w->told = MIN(w->told, energy);
}

/* The best so far, in the plain model's bits. */
typedef struct Point {
        const Qubo *plain;
        uint8_t *x;
        int64_t energy; /* INT64_MAX: none yet */
} Point;

static void take(Point *to, const uint8_t *x) {
        int64_t energy = qubo_energy(to->plain, x);

        if (energy >= to->energy)
                return;
        to->energy = energy;
        memmove(to->x, x, to->plain->n);
}

static void add_up(SolveResult *ret, const SolveResult *r, bool bounds) {
        ret->sweeps += r->sweeps;
        ret->flips += r->flips;
        ret->solver = r->solver;
        if (!bounds)
                return;
        ret->lower_bound = MAX(ret->lower_bound, r->lower_bound);
        ret->proved |= r->proved;
}

static int solve_structured(const Recognised *r, const Solver *solver, SolveParams p, Point *best, SolveResult *ret) {
        _cleanup_free_ uint8_t *start = calloc((size_t) r->q->n + 1, 1), *x = calloc((size_t) r->q->n + 1, 1);
        SolveResult result = {};
        int e;

        if (!start || !x)
                return -ENOMEM;
        if (p.start) {
                recognised_from_plain(r, p.start, start);
                p.start = qubo_feasible(r->q, start) ? start : NULL;
        }
        e = qubo_solve(r->q, solver, &p, &result);
        if (e < 0)
                return e;
        recognised_to_plain(r, result.x, x);
        take(best, x);
        add_up(ret, &result, r->exact);
        solve_result_done(&result);
        return 0;
}

static int solve_plain(const Solver *solver, SolveParams p, Point *best, SolveResult *ret) {
        SolveResult result = {};
        int e;

        p.start = best->energy == INT64_MAX ? NULL : best->x;
        e = qubo_solve(best->plain, solver, &p, &result);
        if (e < 0)
                return e;
        take(best, result.x);
        add_up(ret, &result, true);
        solve_result_done(&result);
        return 0;
}

static uint64_t half(uint64_t n) {
        return n > 0 ? MAX(n / 2, UINT64_C(1)) : 0;
}

static int solve_both(const Recognised *r, const Solver *solver, SolveParams *p, Point *best, SolveResult *ret) {
        uint64_t budget = p->budget_usec, begin = p->clock ? p->clock(p->userdata) : 0;
        int e, f = 0;

        p->sweeps = r->exact ? p->sweeps : half(p->sweeps);
        p->budget_usec = r->exact ? budget : half(budget);
        e = solve_structured(r, solver, *p, best, ret);
        /* Stopped too early, or too large for this solver: it may do better without. */
        if (e < 0 && e != -ECANCELED && e != -EFBIG && e != -EOVERFLOW && e != -EINVAL)
                return e;
        if (e >= 0 && (r->exact || (p->has_target && best->energy <= p->target)))
                return 0;
        if (p->clock && budget > 0) {
                uint64_t used = p->clock(p->userdata) - begin;

                p->budget_usec = used < budget ? budget - used : 1;
        }
        f = solver->fits(best->plain) ? solve_plain(solver, *p, best, ret) : -EINVAL;
        return e < 0 ? f : 0;
}

int recognised_solve(const Qubo *plain, const Recognised *r, const Solver *solver, const SolveParams *p,
                     SolveResult *ret) {
        _cleanup_free_ uint8_t *x = calloc((size_t) plain->n + 1, 1);
        Point best = { .plain = plain, .x = x, .energy = INT64_MAX };
        SolveResult result = { .lower_bound = INT64_MIN };
        Watch w = { .p = p, .told = INT64_MAX };
        SolveParams inner = *p;
        int e;

        if (!x)
                return -ENOMEM;
        if (p->start)
                take(&best, p->start);
        inner.improved = watch_improved;
        inner.improved_userdata = &w;
        e = solve_both(r, solver, &inner, &best, &result);
        if (e < 0)
                return e;
        if (best.energy < w.told)
                watch_improved(&w, best.energy);
        result.x = TAKE_PTR(x);
        result.energy = best.energy;
        result.proved |= result.lower_bound >= result.energy;
        *ret = result;
        return 0;
}
