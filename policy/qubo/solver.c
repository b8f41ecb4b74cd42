/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of solvers and what each of them does alike: checking the start, watching time and stop flag, handing over
 * a result whose energy is computed anew from the model.
 */
#include "policy/qubo/solver.h"

#include <errno.h>

#include "policy/qubo/frame.h"
#include "policy/qubo/search.h"

/* Steps of a few nanoseconds each: well under the millisecond the stop flag may take. */
#define LIMIT_STEPS 16384
/* A model with so few couplings is solved from rows: those have the strong bound and a matrix. */
#define EXPAND_COUPLINGS 600000

const Solver *const solvers[] = { &solver_auto, &solver_exact, &solver_greedy, &solver_sa, NULL };

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

void limit_init(Limit *l, const SolveParams *p) {
        *l = (Limit){ .p = p, .deadline = UINT64_MAX, .reported = INT64_MAX };
        if (p->clock && p->budget_usec > 0 &&
            __builtin_add_overflow(p->clock(p->userdata), p->budget_usec, &l->deadline))
                l->deadline = UINT64_MAX;
}

Limit limit_within(const Limit *l, uint64_t usec) {
        Limit part = *l;
        uint64_t end;

        if (l->p->clock && !__builtin_add_overflow(l->p->clock(l->p->userdata), usec, &end))
                part.deadline = MIN(part.deadline, end);
        return part;
}

uint64_t limit_left(const Limit *l) {
        uint64_t now;

        if (l->deadline == UINT64_MAX)
                return UINT64_MAX;
        now = l->p->clock(l->p->userdata);
        return now < l->deadline ? l->deadline - now : 0;
}

bool limit_hit(Limit *l) {
        const SolveParams *p = l->p;

        l->work = 0;
        if (!l->hit && p->stop && atomic_load_explicit(p->stop, memory_order_relaxed))
                l->hit = true;
        if (!l->hit && p->cancel && atomic_load_explicit(p->cancel, memory_order_relaxed))
                l->hit = true;
        if (!l->hit && l->deadline != UINT64_MAX && p->clock(p->userdata) >= l->deadline)
                l->hit = true;
        return l->hit;
}

bool limit_work(Limit *l, uint64_t steps) {
        l->work += steps;
        return l->hit || (l->work >= LIMIT_STEPS && limit_hit(l));
}

void limit_improved(Limit *l, int64_t energy) {
        const SolveParams *p = l->p;

        if (energy >= l->reported)
                return;
        l->reported = energy;
        if (p->improved)
                p->improved(p->userdata, energy);
        if (p->has_target && energy <= p->target)
                l->hit = true;
}

int best_init(Best *b, const Qubo *q, Limit *l) {
        *b = (Best){ .q = q, .energy = INT64_MAX, .x = calloc((size_t) q->n + 1, 1) };
        if (!b->x)
                return -ENOMEM;
        if (l->p->start)
                best_offer(b, l, l->p->start, qubo_energy(q, l->p->start));
        return 0;
}

void best_offer(Best *b, Limit *l, const uint8_t *x, int64_t energy) {
        if (energy >= b->energy)
                return;
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

void incumbent_done(Incumbent *b) {
        free(b->held);
        b->held = NULL;
}

bool fits_all(const Qubo *q) {
        return true;
}

int qubo_solve(const Qubo *q, const Solver *solver, const SolveParams *p, SolveResult *ret) {
        SolveResult result = { .lower_bound = INT64_MIN };
        _cleanup_(qubo_freep) Qubo *rows = NULL;
        int r;

        if (!solver->fits(q) || (p->start && !qubo_feasible(q, p->start)))
                return -EINVAL;
        if (q->table_of && (solver == &solver_exact || qubo_couplings(q) <= EXPAND_COUPLINGS)) {
                r = qubo_expand(q, &rows);
                if (r < 0)
                        return r;
                q = rows;
        }
        r = solver->solve(q, p, &result);
        if (r < 0) {
                solve_result_done(&result);
                return r;
        }
        *ret = result;
        return 0;
}

/* Twice the least cost of one choice: its own, and for every neighbour the least it can add, of which half is its. */
static int64_t twice_least(const Qubo *q, uint32_t v) {
        int64_t sum = 2 * (int64_t) q->linear[v];

        for (size_t k = q->row[v]; k < q->row[v + 1];) {
                uint32_t g = q->group_of[q->col[k]], n = 0;
                int32_t least = INT32_MAX;

                if (g == QUBO_NO_GROUP) {
                        sum += MIN(q->val[k], 0);
                        k++;
                        continue;
                }
                for (; k < q->row[v + 1] && q->group_of[q->col[k]] == g; k++, n++)
                        least = MIN(least, q->val[k]);
                sum += n < q->group_size[g] ? MIN(least, 0) : least;
        }
        return sum;
}

/* The least of every row of every table, one after the other. */
static int32_t *table_minima(const Qubo *q, size_t *at) {
        size_t rows = 0, n = 0;
        int32_t *least;

        for (uint32_t t = 0; t < q->n_tables; t++)
                rows += q->tables[t].rows;
        least = malloc((rows + 1) * sizeof(*least));
        for (uint32_t t = 0; least && t < q->n_tables; t++) {
                const QuboTable *table = &q->tables[t];

                at[t] = n;
                for (uint32_t i = 0; i < table->rows; i++) {
                        const int32_t *w = table->w + (size_t) i * table->cols;

                        least[n] = w[0];
                        for (uint32_t j = 1; j < table->cols; j++)
                                least[n] = MIN(least[n], w[j]);
                        n++;
                }
        }
        return least;
}

/* Rows and tables apart: what either adds at least. */
static int64_t lower_bound_tables(const Qubo *q) {
        _cleanup_free_ size_t *at = calloc((size_t) q->n_tables + 1, sizeof(*at));
        _cleanup_free_ int32_t *least = at ? table_minima(q, at) : NULL;
        int64_t twice = 0;

        if (!least)
                return INT64_MIN;
        for (uint32_t i = 0; i < q->n; i++)
                if (q->group_of[i] == QUBO_NO_GROUP)
                        twice += MIN(twice_least(q, i), 0);
        for (uint32_t g = 0; g < q->n_groups; g++) {
                int64_t low = INT64_MAX;

                for (uint32_t i = 0; i < q->group_size[g]; i++) {
                        int64_t sum = twice_least(q, q->group_first[g] + i);

                        for (uint32_t h = 0; h < q->n_groups; h++) {
                                uint32_t t = q->table_of[(size_t) g * q->n_groups + h];

                                sum += t > 0 ? least[at[t - 1] + i] : 0;
                        }
                        low = MIN(low, sum);
                }
                twice += low;
        }
        return q->offset + (twice > 0 ? (twice + 1) / 2 : twice / 2);
}

int64_t qubo_lower_bound(const Qubo *q) {
        int64_t twice = 0;

        if (q->table_of)
                return lower_bound_tables(q);
        for (uint32_t g = 0; g < q->n_groups; g++) {
                int64_t least = INT64_MAX;

                for (uint32_t i = 0; i < q->group_size[g]; i++)
                        least = MIN(least, twice_least(q, q->group_first[g] + i));
                twice += least;
        }
        for (uint32_t i = 0; i < q->n; i++)
                if (q->group_of[i] == QUBO_NO_GROUP)
                        twice += MIN(twice_least(q, i), 0);
        /* Energies are whole: half of an odd bound rounds up. */
        return q->offset + (twice > 0 ? (twice + 1) / 2 : twice / 2);
}
