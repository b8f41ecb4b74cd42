/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of solvers and what each of them does alike: checking the start, watching time and stop flag, handing over
 * a result whose energy is computed anew from the model.
 */
#include "policy/qubo/solver.h"

#include <errno.h>

#include "policy/qubo/frame.h"
#include "policy/qubo/lower.h"
#include "policy/qubo/search.h"

/* Repairs of offered points are so many each time their number has doubled. */
#define REPAIRS 32

const Solver *const solvers[] = { &solver_auto,        &solver_exact,   &solver_greedy, &solver_sa,
                                  &solver_onehot,      &solver_pt,      &solver_sqa,    &solver_tabu,
                                  &solver_permutation, &solver_genetic, &solver_qaoa,   NULL };

const Solver *solver_by_name(const char *name) {
        for (size_t i = 0; solvers[i]; i++)
                if (streq(solvers[i]->name, name))
                        return solvers[i];
        return NULL;
}

void solve_result_done(SolveResult *r) {
        free(r->x);
        r->x = NULL;
}

int best_init(Best *b, const Qubo *q, Limit *l) {
        *b = (Best){ .q = q, .energy = INT64_MAX, .x = calloc((size_t) q->n + 1, 1) };
        if (!b->x)
                return -ENOMEM;
        if (l->p->start)
                best_offer(b, l, l->p->start, qubo_energy(q, l->p->start));
        return 0;
}

/* Whether an offer that may have to be repaired is looked at now. */
static bool is_looked_at(Best *b) {
        uint64_t n = ++b->offers;

        while (n > REPAIRS && n % 2 == 0)
                n /= 2;
        return n <= REPAIRS;
}

/* With penalties instead of structure: the point itself or what it is repaired to; not told if it is left as it is. */
static void best_offer_lowered(Best *b, Limit *l, const uint8_t *x, int64_t energy) {
        const Lowered *lowered = l->p->lowered;
        bool feasible = qubo_feasible(lowered->of, x);

        b->energy = energy;
        memcpy(b->x, x, b->q->n);
        if (!feasible && is_looked_at(b))
                feasible = lower_repair(lowered, b->x, &b->energy) >= 0;
        if (feasible)
                limit_improved(l, b->energy);
        else
                limit_reached(l, b->energy);
}

void best_offer(Best *b, Limit *l, const uint8_t *x, int64_t energy) {
        if (energy >= b->energy)
                return;
        if (l->p->lowered) {
                best_offer_lowered(b, l, x, energy);
                return;
        }
        b->energy = energy;
        memcpy(b->x, x, b->q->n);
        limit_improved(l, energy);
}

int best_result(Best *b, SolveResult *ret) {
        if (b->energy == INT64_MAX)
                return -ECANCELED;
        free(ret->x);
        ret->x = TAKE_PTR(b->x);
        ret->energy = qubo_energy(b->q, ret->x);
        assert(ret->energy == b->energy); /* the books kept step by step are the model's */
        return 0;
}

void best_done(Best *b) {
        free(b->x);
        b->x = NULL;
}

int incumbent_init(Incumbent *b, const Frame *f, const uint8_t *x) {
        *b = (Incumbent){ .energy = INT64_MAX, .held = calloc((size_t) f->n_items + 1, sizeof(*b->held)) };
        if (!b->held)
                return -ENOMEM;
        if (!x)
                return 0;
        for (uint32_t a = 0; a < f->n_items; a++) {
                b->held[a] = ITEM_NOTHING;
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++)
                        if (x[v])
                                b->held[a] = v;
        }
        b->energy = qubo_energy(f->q, x);
        return 0;
}

int incumbent_result(const Incumbent *b, const Frame *f, SolveResult *ret) {
        uint8_t *x = calloc((size_t) f->q->n + 1, 1);

        if (!x)
                return -ENOMEM;
        for (uint32_t a = 0; a < f->n_items; a++)
                if (b->held[a] != ITEM_NOTHING)
                        x[b->held[a]] = 1;
        assert(qubo_feasible(f->q, x));
        free(ret->x);
        ret->x = x;
        ret->energy = qubo_energy(f->q, x);
        assert(ret->energy == b->energy); /* the books kept step by step are the model's */
        return 0;
}

/* Of a permutation that became groups, groups may share a choice. */
static bool is_feasible(const Lowered *l, const Frame *f, const uint32_t *held) {
        _cleanup_free_ uint8_t *x = calloc((size_t) f->q->n + 1, 1);

        for (uint32_t a = 0; x && a < f->n_items; a++)
                if (held[a] != ITEM_NOTHING)
                        x[held[a]] = 1;
        return x && qubo_feasible(l->of, x);
}

void incumbent_improved(const Incumbent *b, const Frame *f, Limit *l) {
        if (!l->p->lowered || is_feasible(l->p->lowered, f, b->held))
                limit_improved(l, b->energy);
        else
                limit_reached(l, b->energy);
}

void incumbent_done(Incumbent *b) {
        free(b->held);
        b->held = NULL;
}

bool fits_all(const Qubo *q) {
        return true;
}

/* What the caller of a solver on a lowered model has been told. */
typedef struct Watch {
        const SolveParams *p;
        int64_t told;
} Watch;

static void watch_improved(void *userdata, int64_t energy) {
        Watch *w = userdata;

        w->told = energy;
        if (w->p->improved)
                w->p->improved(w->p->improved_userdata, energy);
}

static int solve_lowered(const Lowered *l, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        Watch w = { .p = p, .told = INT64_MAX };
        SolveParams inner = *p;
        Limit limit;
        int r;

        limit_init(&limit, p);
        inner.lowered = l;
        inner.improved = watch_improved;
        inner.improved_userdata = &w;
        r = solver->solve(l->q, &inner, ret);
        if (r < 0)
                return r;
        r = lower_repair(l, ret->x, &ret->energy);
        if (r < 0)
                return r;
        assert(ret->energy == qubo_energy(l->of, ret->x)); /* feasible: the same in both */
        if (ret->lower_bound != INT64_MIN)
                ret->lower_bound = MAX(ret->lower_bound, lower_bound_in_time(l->of, &limit));
        ret->proved |= ret->lower_bound >= ret->energy;
        if (ret->energy < w.told && p->improved)
                p->improved(p->improved_userdata, ret->energy);
        return 0;
}

static int solve_direct(const Qubo *q, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        SolveParams inner = *p;

        inner.lowered = NULL; /* not the lowering of another model, for a solver that a solver runs */
        return solver->solve(q, &inner, ret);
}

/* The start itself where there was no time for more, or without one some feasible point. */
static int solve_not(const Qubo *q, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        solve_result_done(ret);
        ret->x = calloc((size_t) q->n + 1, 1);
        if (!ret->x)
                return -ENOMEM;
        if (p->start)
                memcpy(ret->x, p->start, q->n);
        for (uint32_t g = 0; !p->start && g < q->n_groups; g++)
                ret->x[q->group_first[g] + (q->permutation ? g : 0)] = 1;
        ret->energy = qubo_energy(q, ret->x);
        ret->solver = solver->name;
        if (p->improved)
                p->improved(p->improved_userdata, ret->energy);
        return 0;
}

/* Lowering has taken its part of the time. */
static uint64_t budget_left(const SolveParams *p, uint64_t begin) {
        uint64_t used = p->clock && p->budget_usec > 0 ? p->clock(p->userdata) - begin : 0;

        return used < p->budget_usec ? p->budget_usec - used : MIN(p->budget_usec, UINT64_C(1));
}

static int solve(const Qubo *q, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        _cleanup_(lower_done) Lowered lowered = {};
        uint64_t begin = p->clock && p->budget_usec > 0 ? p->clock(p->userdata) : 0;
        SolveParams inner = *p;
        int r = lower_model(q, solver, p, &lowered);

        if (r >= 0) {
                inner.budget_usec = budget_left(p, begin);
                r = lowered.penalties ? solve_lowered(&lowered, solver, &inner, ret)
                                      : solve_direct(lowered.q ? lowered.q : q, solver, &inner, ret);
        }
        return r == -ECANCELED ? solve_not(q, solver, p, ret) : r;
}

int qubo_solve(const Qubo *q, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        SolveResult result = { .lower_bound = INT64_MIN };
        int r;

        if (!solver->fits(q) || (p->start && !qubo_feasible(q, p->start)))
                return -EINVAL;
        r = solve(q, solver, p, &result);
        if (r < 0) {
                solve_result_done(&result);
                return r;
        }
        *ret = result;
        return 0;
}
