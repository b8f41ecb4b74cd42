/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A point and its fields. With d the difference of the indicator vectors of what an item holds after and before, a
 * change of several items costs sum field * d + sum over pairs d_a W d_b; making it adds W d to the fields: whole rows
 * where there is a matrix and the rows are not nearly empty, else the entries of the rows. Sums over whole rows wrap
 * (unsigned lanes), the fields they end in are in range.
 */
#include "policy/qubo/frame.h"

#include <errno.h>

typedef uint32_t Lanes __attribute__((vector_size(4 * FRAME_LANES), aligned(4), may_alias));

int state_new(const Frame *f, State **ret) {
        _cleanup_(state_freep) State *s = calloc(1, sizeof(*s));
        _cleanup_free_ uint32_t *held = calloc((size_t) f->n_items + 1, sizeof(*held));

        if (!s || !held)
                return -ENOMEM;
        s->f = f;
        s->held = calloc((size_t) f->n_items + 1, sizeof(*s->held));
        s->answer = calloc((size_t) f->widest + 1, sizeof(*s->answer));
        if (f->narrow)
                s->field32 = calloc(f->stride + 1, sizeof(*s->field32));
        else
                s->field64 = calloc(f->stride + 1, sizeof(*s->field64));
        if (f->q->table_of)
                s->shared = calloc((size_t) f->kind_first[f->n_kinds] + 1, sizeof(*s->shared));
        if (!s->held || !s->answer || (!s->field32 && !s->field64) || (f->q->table_of && !s->shared))
                return -ENOMEM;
        for (uint32_t a = 0; a < f->n_items; a++)
                held[a] = f->optional[a] ? ITEM_NOTHING : f->first[a];
        state_load(s, held);
        *ret = TAKE_PTR(s);
        return 0;
}

State *state_free(State *s) {
        if (!s)
                return NULL;
        free(s->held);
        free(s->field32);
        free(s->field64);
        free(s->shared);
        free(s->answer);
        free(s);
        return NULL;
}

static const int32_t *table_row(const Frame *f, uint32_t table, uint32_t item, uint32_t v) {
        const QuboTable *t = &f->q->tables[table - 1];

        return t->w + (size_t) (v - f->first[item]) * t->cols;
}

typedef int32_t Narrow __attribute__((vector_size(32), aligned(4), may_alias));
typedef int64_t Wide __attribute__((vector_size(64), aligned(8), may_alias));

/* field += then - now. */
static void add_difference(int64_t *field, const int32_t *now, const int32_t *then, uint32_t n) {
        uint32_t i = 0;

        for (; i + 8 <= n; i += 8)
                *(Wide *) (field + i) += __builtin_convertvector(*(const Narrow *) (then + i), Wide) -
                                         __builtin_convertvector(*(const Narrow *) (now + i), Wide);
        for (; i < n; i++)
                field[i] += (int64_t) then[i] - now[i];
}

static void add_table_row(int64_t *field, const int32_t *row, uint32_t n, int64_t sign) {
        for (uint32_t i = 0; i < n; i++)
                field[i] += sign * row[i];
}

/* What the tables make of v being held by an item. */
static void add_tables(State *s, uint32_t item, uint32_t v) {
        const Frame *f = s->f;
        const uint32_t *usual = f->usual + (size_t) f->kind[item] * f->n_kinds;

        for (uint32_t k = 0; k < f->n_kinds; k++)
                if (usual[k])
                        add_table_row(s->shared + f->kind_first[k], table_row(f, usual[k], item, v),
                                      f->kind_first[k + 1] - f->kind_first[k], 1);
        for (size_t k = f->unusual_first[item]; k < f->unusual_first[item + 1]; k++) {
                const Unusual *u = f->unusual + k;
                int64_t *field = s->field64 + f->first[u->item];

                if (u->table)
                        add_table_row(field, table_row(f, u->table, item, v), f->size[u->item], 1);
                if (u->usual)
                        add_table_row(field, table_row(f, u->usual, item, v), f->size[u->item], -1);
        }
}

static void replace_tables(State *s, uint32_t item, uint32_t from, uint32_t to) {
        const Frame *f = s->f;
        const uint32_t *usual = f->usual + (size_t) f->kind[item] * f->n_kinds;

        for (uint32_t k = 0; k < f->n_kinds; k++)
                if (usual[k])
                        add_difference(s->shared + f->kind_first[k], table_row(f, usual[k], item, from),
                                       table_row(f, usual[k], item, to), f->kind_first[k + 1] - f->kind_first[k]);
        for (size_t k = f->unusual_first[item]; k < f->unusual_first[item + 1]; k++) {
                const Unusual *u = f->unusual + k;
                int64_t *field = s->field64 + f->first[u->item];

                if (u->table)
                        add_difference(field, table_row(f, u->table, item, from), table_row(f, u->table, item, to),
                                       f->size[u->item]);
                if (u->usual)
                        add_difference(field, table_row(f, u->usual, item, to), table_row(f, u->usual, item, from),
                                       f->size[u->item]);
        }
}

/* A kind's fields count every group of it, also the one whose field it is: that is taken off here. */
int64_t state_shared_field(const State *s, uint32_t v) {
        const Frame *f = s->f;
        uint32_t a = f->item_of[v], k = f->kind[a], t = f->usual[(size_t) k * f->n_kinds + k], i = v - f->first[a];
        int64_t field = s->field64[v];

        if (f->optional[a])
                return field;
        field += s->shared[f->kind_first[k] + i];
        return t ? field - table_row(f, t, a, s->held[a])[i] : field;
}

const int64_t *state_fields(State *s, uint32_t a) {
        const Frame *f = s->f;
        uint32_t k = f->kind ? f->kind[a] : 0, t, n = f->size[a];
        const int64_t *own = s->field64 + f->first[a], *shared;

        if (!s->shared || f->optional[a])
                return own;
        shared = s->shared + f->kind_first[k];
        t = f->usual[(size_t) k * f->n_kinds + k];
        for (uint32_t i = 0; i < n; i++)
                s->answer[i] = own[i] + shared[i];
        if (t)
                add_table_row(s->answer, table_row(f, t, a, s->held[a]), n, -1);
        return s->answer;
}

static void add_row(State *s, uint32_t v, int32_t sign) {
        const Qubo *q = s->f->q;

        if (s->field32)
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++)
                        s->field32[q->col[k]] += sign * q->val[k];
        else
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++)
                        s->field64[q->col[k]] += (int64_t) sign * q->val[k];
}

void state_load(State *s, const uint32_t *held) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        int64_t twice = 0;

        for (uint32_t i = 0; i < q->n; i++)
                if (s->field32)
                        s->field32[i] = q->linear[i];
                else
                        s->field64[i] = q->linear[i];
        if (s->shared)
                memset(s->shared, 0, f->kind_first[f->n_kinds] * sizeof(*s->shared));
        memmove(s->held, held, f->n_items * sizeof(*held));
        for (uint32_t a = 0; a < f->n_items; a++)
                if (held[a] != ITEM_NOTHING) {
                        add_row(s, held[a], 1);
                        if (s->shared && !f->optional[a])
                                add_tables(s, a, held[a]);
                }
        for (uint32_t a = 0; a < f->n_items; a++)
                if (held[a] != ITEM_NOTHING)
                        twice += state_field(s, held[a]) + q->linear[held[a]];
        s->energy = q->offset + twice / 2;
}

/* Adds sign * couplings of u with the choices of item b to their costs. */
static void add_answer(State *s, uint32_t u, uint32_t b, int32_t sign) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        uint32_t first = f->first[b];
        size_t low = q->row[u], high = q->row[u + 1];

        if (f->dense) {
                for (uint32_t i = 0; i < f->size[b]; i++)
                        s->answer[i] += (int64_t) sign * f->dense[u * f->stride + first + i];
                return;
        }
        if (f->segment)
                low = high = f->segment[u * ((size_t) f->n_items + 1) + b];
        low = qubo_row_find(q, low, high, first);
        for (; low < q->row[u + 1] && q->col[low] < first + f->size[b]; low++)
                s->answer[q->col[low] - first] += (int64_t) sign * q->val[low];
        if (q->table_of && !f->optional[b]) {
                const int32_t *w = qubo_table_row(q, u, q->group_of[first]);

                for (uint32_t i = 0; w && i < f->size[b]; i++)
                        s->answer[i] += (int64_t) sign * w[i];
        }
}

int64_t state_joint_delta(State *s, uint32_t a, uint32_t to, Change ret[static 2]) {
        const Frame *f = s->f;
        uint32_t p = f->partner[a], best = 0;

        for (uint32_t i = 0; i < f->size[p]; i++)
                s->answer[i] = state_field(s, f->first[p] + i);
        add_answer(s, s->held[a], p, -1);
        add_answer(s, to, p, 1);
        for (uint32_t i = 1; i < f->size[p]; i++)
                if (s->answer[i] < s->answer[best])
                        best = i;
        ret[0] = (Change){ .item = a, .to = to };
        ret[1] = (Change){ .item = p, .to = f->first[p] + best };
        return state_field(s, to) - state_field(s, s->held[a]) + s->answer[best] - s->answer[s->held[p] - f->first[p]];
}

static inline int64_t coupling_of(const Frame *f, uint32_t u, uint32_t v) {
        return u == ITEM_NOTHING || v == ITEM_NOTHING ? 0 : frame_coupling(f, u, v);
}

int64_t state_delta(const State *s, const Change *c, unsigned n) {
        const Frame *f = s->f;
        int64_t d = 0;

        for (unsigned i = 0; i < n; i++) {
                uint32_t old = s->held[c[i].item];

                d += state_field(s, c[i].to) - state_field(s, old);
                for (unsigned j = 0; j < i; j++) {
                        uint32_t to = c[j].to, was = s->held[c[j].item];

                        d += coupling_of(f, c[i].to, to) - coupling_of(f, c[i].to, was) - coupling_of(f, old, to) +
                             coupling_of(f, old, was);
                }
        }
        return d;
}

/* Whether the entries of two rows are so few that going through them costs less than whole rows. */
static bool rows_are_short(const Frame *f, uint32_t u, uint32_t v) {
        const size_t *row = f->q->row;

        return !f->dense || (row[u + 1] - row[u] + row[v + 1] - row[v]) * 4 < f->q->n;
}

static void replace(State *s, uint32_t from, uint32_t to) {
        const Frame *f = s->f;
        const int32_t *a, *b;

        if (rows_are_short(f, from, to)) {
                add_row(s, from, -1);
                add_row(s, to, 1);
                if (s->shared)
                        replace_tables(s, f->item_of[from], from, to);
                return;
        }
        a = f->dense + from * f->stride;
        b = f->dense + to * f->stride;
        if (!s->field32) {
                add_difference(s->field64, a, b, f->q->n);
                return;
        }
        for (size_t i = 0; i < f->stride; i += FRAME_LANES)
                *(Lanes *) (s->field32 + i) += *(const Lanes *) (b + i) - *(const Lanes *) (a + i);
}

/* Two replacements in one pass over the fields. */
static void replace_two(State *s, uint32_t from1, uint32_t to1, uint32_t from2, uint32_t to2) {
        const Frame *f = s->f;
        const int32_t *a, *b, *c, *d;

        if (!s->field32 || rows_are_short(f, from1, to1) || rows_are_short(f, from2, to2)) {
                replace(s, from1, to1);
                replace(s, from2, to2);
                return;
        }
        a = f->dense + from1 * f->stride;
        b = f->dense + to1 * f->stride;
        c = f->dense + from2 * f->stride;
        d = f->dense + to2 * f->stride;
        for (size_t i = 0; i < f->stride; i += FRAME_LANES)
                *(Lanes *) (s->field32 + i) += (*(const Lanes *) (b + i) - *(const Lanes *) (a + i)) +
                                               (*(const Lanes *) (d + i) - *(const Lanes *) (c + i));
}

void state_move(State *s, uint32_t item, uint32_t to) {
        uint32_t old = s->held[item];

        if (old == to)
                return;
        s->energy += state_field(s, to) - state_field(s, old);
        s->held[item] = to;
        if (old == ITEM_NOTHING)
                add_row(s, to, 1);
        else if (to == ITEM_NOTHING)
                add_row(s, old, -1);
        else
                replace(s, old, to);
}

void state_apply(State *s, const Change *c, unsigned n, int64_t delta) {
        int64_t energy = s->energy + delta;
        unsigned i = 0;

        for (; i + 1 < n; i += 2) {
                uint32_t u = s->held[c[i].item], v = s->held[c[i + 1].item];

                if (u == ITEM_NOTHING || v == ITEM_NOTHING || c[i].to == ITEM_NOTHING || c[i + 1].to == ITEM_NOTHING) {
                        state_move(s, c[i].item, c[i].to);
                        state_move(s, c[i + 1].item, c[i + 1].to);
                        continue;
                }
                s->held[c[i].item] = c[i].to;
                s->held[c[i + 1].item] = c[i + 1].to;
                replace_two(s, u, c[i].to, v, c[i + 1].to);
        }
        if (i < n)
                state_move(s, c[i].item, c[i].to);
        s->energy = energy;
}

static bool descend_moves(State *s, Limit *l, uint64_t *flips) {
        const Frame *f = s->f;
        bool better = false;

        for (uint32_t a = 0; a < f->n_items && !limit_work(l, f->size[a]); a++) {
                uint32_t old = s->held[a], best = old;
                int64_t least = state_field(s, old);

                if (f->optional[a] && least > 0) {
                        best = ITEM_NOTHING;
                        least = 0;
                }
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++)
                        if (state_field(s, v) < least) {
                                least = state_field(s, v);
                                best = v;
                        }
                *flips += f->size[a];
                if (best != old) {
                        (void) limit_work(l, f->row_mean);
                        state_move(s, a, best);
                        better = true;
                }
        }
        return better;
}

static bool descend_exchanges(State *s, Limit *l, uint64_t *flips) {
        const Frame *f = s->f;
        bool better = false;
        Change c[2];
        int64_t d;

        for (uint32_t a = 0; a < f->n_items && !limit_work(l, f->kin_first[a + 1] - f->kin_first[a]); a++)
                for (size_t k = f->kin_first[a]; k < f->kin_first[a + 1]; k++) {
                        if (f->kin[k] < a || !state_exchange(s, a, f->kin[k], c))
                                continue;
                        ++*flips;
                        d = state_exchange_delta(s, c);
                        if (d < 0) {
                                state_apply(s, c, 2, d);
                                better = true;
                        }
                }
        return better;
}

static bool descend_joint_moves(State *s, Limit *l, uint64_t *flips) {
        const Frame *f = s->f;
        bool better = false;
        Change c[2];

        for (uint32_t a = 0; a < f->n_items; a++) {
                uint32_t p = f->partner[a];

                if (p == ITEM_NOTHING)
                        continue;
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a] && !limit_work(l, f->size[p]); v++) {
                        int64_t d;

                        if (v == s->held[a])
                                continue;
                        ++*flips;
                        d = state_joint_delta(s, a, v, c);
                        if (d < 0) {
                                state_apply(s, c, 2, d);
                                better = true;
                        }
                }
        }
        return better;
}

void state_descend_moves(State *s, Limit *l, uint64_t *flips) {
        while (!l->hit && (descend_moves(s, l, flips) || descend_joint_moves(s, l, flips)))
                ;
}

void state_descend(State *s, Limit *l, uint64_t *flips) {
        do
                while (!l->hit && descend_moves(s, l, flips))
                        ;
        while (!l->hit && (descend_exchanges(s, l, flips) || descend_joint_moves(s, l, flips)));
}
