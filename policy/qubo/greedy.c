/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The baseline: one item after the other takes its cheapest choice given those before it, the most strongly coupled
 * item first; then descent over moves and exchanges.
 */
#include <errno.h>

#include "policy/qubo/frame.h"

typedef struct Strength {
        uint32_t item;
        uint64_t sum;
} Strength;

static int strength_cmp(const void *a, const void *b) {
        const Strength *x = a, *y = b;

        return x->sum != y->sum ? CMP(y->sum, x->sum) : CMP(x->item, y->item);
}

static Strength *order_items(const Frame *f) {
        const Qubo *q = f->q;
        Strength *order = calloc((size_t) f->n_items + 1, sizeof(*order));

        if (!order)
                return NULL;
        for (uint32_t a = 0; a < f->n_items; a++) {
                order[a].item = a;
                for (size_t k = q->row[f->first[a]]; k < q->row[f->first[a] + f->size[a]]; k++)
                        order[a].sum += (uint64_t) llabs(q->val[k]);
                for (uint32_t b = 0; q->table_of && b < f->n_items; b++) {
                        uint32_t t = frame_table(f, a, b);

                        order[a].sum += t > 0 ? q->tables[t - 1].size : 0;
                }
        }
        qsort(order, f->n_items, sizeof(*order), strength_cmp);
        return order;
}

static uint32_t cheapest(const Frame *f, const int64_t *field, uint32_t a) {
        uint32_t best = f->optional[a] ? ITEM_NOTHING : f->first[a];
        int64_t least = f->optional[a] ? 0 : field[f->first[a]];

        for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++)
                if (field[v] < least) {
                        least = field[v];
                        best = v;
                }
        return best;
}

int greedy_construct(const Frame *f, Limit *l, uint32_t *held) {
        const Qubo *q = f->q;
        _cleanup_free_ Strength *order = order_items(f);
        _cleanup_free_ int64_t *field = calloc((size_t) q->n + 1, sizeof(*field));

        if (!order || !field)
                return -ENOMEM;
        for (uint32_t i = 0; i < q->n; i++)
                field[i] = q->linear[i];
        for (uint32_t t = 0; t < f->n_items; t++) {
                uint32_t v = cheapest(f, field, order[t].item);

                held[order[t].item] = v;
                if (v == ITEM_NOTHING)
                        continue;
                qubo_add_couplings(q, v, 1, field);
                if (limit_work(l, q->row[v + 1] - q->row[v]))
                        return -ECANCELED;
        }
        return 0;
}

static int greedy_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(frame_freep) Frame *f = NULL;
        _cleanup_(state_freep) State *s = NULL;
        _cleanup_(incumbent_done) Incumbent best = {};
        Limit l;
        int r;

        limit_init(&l, p);
        r = frame_new(q, &l, &f);
        if (r >= 0)
                r = state_new(f, &s);
        if (r >= 0)
                r = incumbent_init(&best, f, p->start);
        if (r >= 0)
                r = greedy_construct(f, &l, s->held);
        if (r < 0)
                return r;
        state_load(s, s->held);
        state_descend(s, &l, &ret->flips);
        if (best.energy <= s->energy) {
                state_load(s, best.held);
                state_descend(s, &l, &ret->flips);
        }
        best.energy = s->energy;
        memcpy(best.held, s->held, f->n_items * sizeof(*s->held));
        ret->sweeps = 1;
        ret->solver = "greedy";
        return incumbent_result(&best, f, ret);
}

const Solver solver_greedy = {
        .name = "greedy",
        .help = "Cheapest choice one after the other, then descent: a baseline",
        .fits = fits_all,
        .knows = MODEL_GROUPS | MODEL_TABLES,
        .solve = greedy_solve,
};
