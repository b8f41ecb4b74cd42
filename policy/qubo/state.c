/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A point and its fields. With d the difference of the indicator vectors of what an item holds after and before, a
 * change of several items costs sum field * d + sum over pairs d_a W d_b; making it adds W d to the fields: whole rows
 * where the model is small enough for a matrix and the rows are not nearly empty, else the entries of the rows.
 */
#include "policy/qubo/frame.h"

#include <errno.h>

int state_new(const Frame *f, State **ret) {
        _cleanup_(state_freep) State *s = calloc(1, sizeof(*s));
        _cleanup_free_ uint32_t *held = calloc((size_t) f->n_items + 1, sizeof(*held));

        if (!s || !held)
                return -ENOMEM;
        s->f = f;
        s->held = calloc((size_t) f->n_items + 1, sizeof(*s->held));
        s->field = calloc((size_t) f->q->n + 1, sizeof(*s->field));
        if (!s->held || !s->field)
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
        free(s->field);
        free(s);
        return NULL;
}

static void add_row(State *s, uint32_t v, int64_t sign) {
        const Qubo *q = s->f->q;

        for (size_t k = q->row[v]; k < q->row[v + 1]; k++)
                s->field[q->col[k]] += sign * q->val[k];
}

void state_load(State *s, const uint32_t *held) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        int64_t twice = 0;

        for (uint32_t i = 0; i < q->n; i++)
                s->field[i] = q->linear[i];
        memcpy(s->held, held, f->n_items * sizeof(*held));
        for (uint32_t a = 0; a < f->n_items; a++)
                if (held[a] != ITEM_NOTHING)
                        add_row(s, held[a], 1);
        for (uint32_t a = 0; a < f->n_items; a++)
                if (held[a] != ITEM_NOTHING)
                        twice += s->field[held[a]] + q->linear[held[a]];
        s->energy = q->offset + twice / 2;
}

void state_copy(State *s, const State *from) {
        memcpy(s->held, from->held, s->f->n_items * sizeof(*s->held));
        memcpy(s->field, from->field, s->f->q->n * sizeof(*s->field));
        s->energy = from->energy;
}

static inline int64_t field_of(const State *s, uint32_t v) {
        return v == ITEM_NOTHING ? 0 : s->field[v];
}

static inline int64_t coupling_of(const Frame *f, uint32_t u, uint32_t v) {
        return u == ITEM_NOTHING || v == ITEM_NOTHING ? 0 : frame_coupling(f, u, v);
}

int64_t state_delta(const State *s, const Change *c, unsigned n) {
        const Frame *f = s->f;
        int64_t d = 0;

        for (unsigned i = 0; i < n; i++) {
                uint32_t old = s->held[c[i].item];

                d += field_of(s, c[i].to) - field_of(s, old);
                for (unsigned j = 0; j < i; j++) {
                        uint32_t to = c[j].to, was = s->held[c[j].item];

                        d += coupling_of(f, c[i].to, to) - coupling_of(f, c[i].to, was) - coupling_of(f, old, to) +
                             coupling_of(f, old, was);
                }
        }
        return d;
}

static void exchange_rows(State *s, uint32_t from, uint32_t to) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        const int32_t *a, *b;

        if (!f->dense || (q->row[from + 1] - q->row[from] + q->row[to + 1] - q->row[to]) * 2 < q->n) {
                add_row(s, from, -1);
                add_row(s, to, 1);
                return;
        }
        a = f->dense + (size_t) from * q->n;
        b = f->dense + (size_t) to * q->n;
        for (uint32_t i = 0; i < q->n; i++)
                s->field[i] += (int64_t) b[i] - a[i];
}

void state_move(State *s, uint32_t item, uint32_t to) {
        uint32_t old = s->held[item];

        if (old == to)
                return;
        s->energy += field_of(s, to) - field_of(s, old);
        s->held[item] = to;
        if (old == ITEM_NOTHING)
                add_row(s, to, 1);
        else if (to == ITEM_NOTHING)
                add_row(s, old, -1);
        else
                exchange_rows(s, old, to);
}

void state_apply(State *s, const Change *c, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                state_move(s, c[i].item, c[i].to);
}

bool state_exchange(const State *s, uint32_t a, uint32_t b, Change ret[static 2]) {
        uint32_t u = s->held[a], v = s->held[b];

        ret[0] = (Change) { .item = a, .to = frame_seat(s->f, v, a) };
        ret[1] = (Change) { .item = b, .to = frame_seat(s->f, u, b) };
        return ret[0].to != ITEM_NOTHING && ret[1].to != ITEM_NOTHING && (ret[0].to != u || ret[1].to != v);
}

static bool descend_moves(State *s, uint64_t *flips) {
        const Frame *f = s->f;
        bool better = false;

        for (uint32_t a = 0; a < f->n_items; a++) {
                uint32_t old = s->held[a], best = old;
                int64_t least = field_of(s, old);

                if (f->optional[a] && least > 0) {
                        best = ITEM_NOTHING;
                        least = 0;
                }
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++)
                        if (s->field[v] < least) {
                                least = s->field[v];
                                best = v;
                        }
                *flips += f->size[a];
                if (best != old) {
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

        for (uint32_t a = 0; a < f->n_items && !limit_work(l, f->kin_first[a + 1] - f->kin_first[a]); a++)
                for (size_t k = f->kin_first[a]; k < f->kin_first[a + 1]; k++) {
                        if (f->kin[k] < a || !state_exchange(s, a, f->kin[k], c))
                                continue;
                        ++*flips;
                        if (state_delta(s, c, 2) < 0) {
                                state_apply(s, c, 2);
                                better = true;
                        }
                }
        return better;
}

void state_descend(State *s, Limit *l, uint64_t *flips) {
        do
                while (!limit_work(l, s->f->q->n) && descend_moves(s, flips))
                        ;
        while (!l->hit && descend_exchanges(s, l, flips));
}
