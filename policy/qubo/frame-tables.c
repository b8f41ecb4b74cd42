/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds, kin, seats and partners (see frame.h, frame.c) of a model whose groups are coupled by tables. A table is looked at once,
 * however many pairs of groups share it. Groups that are twins are no kin: those whose choices cost the same alone and
 * beside every third group, so that an exchange would change nothing (500 ranks without a difference).
 */
#include <errno.h>

#include "policy/qubo/frame.h"

typedef struct Pattern { /* what a table looks like */
        double sum, diagonal;
        int64_t range; /* largest less least */
        uint32_t seats;
        bool is_kin;
} Pattern;

typedef struct Sight { /* working memory; everything by item unless said otherwise */
        Frame *f;
        Pattern *patterns; /* by table */
        uint64_t *sum;     /* of what it is coupled to, for twins */
        uint32_t *class;   /* union of groups of equal size that are kin */
        bool *has_rows;
        uint32_t *mark; /* 1 + the item whose rows couple to this one */
        size_t n_kin, allocated;
} Sight;

/* Items without a group are a kind of their own, which nothing is shared with. */
static void number_kinds(Frame *f) {
        const Qubo *q = f->q;

        for (uint32_t a = 0; a < f->n_items; a++) {
                uint32_t g = q->group_of[f->first[a]], b = 0;

                for (; b < a; b++) {
                        uint32_t h = q->group_of[f->first[b]];

                        if (f->optional[a] == f->optional[b] && f->size[a] == f->size[b] &&
                            (f->optional[a] || q->group_kind[g] == q->group_kind[h]))
                                break;
                }
                f->kind[a] = b < a ? f->kind[b] : f->n_kinds++;
                f->kind_first[f->kind[a] + 1] = f->size[a];
        }
        for (uint32_t k = 0; k < f->n_kinds; k++)
                f->kind_first[k + 1] += f->kind_first[k];
}

/* By majority vote (Boyer and Moore): if most pairs have one table, that is left over. */
static int find_usual(Frame *f) {
        size_t n = f->n_kinds;
        _cleanup_free_ uint32_t *votes = calloc(n * n + 1, sizeof(*votes));

        f->usual = calloc(n * n + 1, sizeof(*f->usual));
        if (!votes || !f->usual)
                return -ENOMEM;
        for (uint32_t a = 0; a < f->n_items; a++)
                for (uint32_t b = 0; b < f->n_items; b++) {
                        size_t at = f->kind[a] * n + f->kind[b];
                        uint32_t t = frame_table(f, a, b);

                        if (a == b)
                                continue;
                        if (votes[at] == 0)
                                f->usual[at] = t;
                        votes[at] += f->usual[at] == t ? 1 : (uint32_t) -1;
                }
        return 0;
}

static int list_unusual(Frame *f) {
        size_t n = 0, allocated = 0;

        for (uint32_t a = 0; a < f->n_items; a++) {
                f->unusual_first[a] = n;
                for (uint32_t b = 0; b < f->n_items; b++) {
                        uint32_t t = frame_table(f, a, b),
                                 usual = f->usual[(size_t) f->kind[a] * f->n_kinds + f->kind[b]];

                        if (a == b || t == usual)
                                continue;
                        if (n == allocated) {
                                size_t want = MAX(2 * allocated, (size_t) 256);
                                Unusual *grown = reallocarray(f->unusual, want, sizeof(*grown));

                                if (!grown)
                                        return -ENOMEM;
                                f->unusual = grown;
                                allocated = want;
                        }
                        f->unusual[n++] = (Unusual){ .item = b, .table = t, .usual = usual };
                }
        }
        f->unusual_first[f->n_items] = n;
        return 0;
}

int frame_tables_kinds(Frame *f) {
        size_t n = (size_t) f->n_items + 1;
        int r;

        f->kind = calloc(n, sizeof(*f->kind));
        f->kind_first = calloc(n + 1, sizeof(*f->kind_first));
        f->unusual_first = calloc(n, sizeof(*f->unusual_first));
        if (!f->kind || !f->kind_first || !f->unusual_first)
                return -ENOMEM;
        number_kinds(f);
        r = find_usual(f);
        return r < 0 ? r : list_unusual(f);
}

int64_t frame_table_exchange(const Frame *f, uint32_t u, uint32_t v, uint32_t to_u, uint32_t to_v) {
        const Qubo *q = f->q;
        uint32_t g = q->group_of[u], h = q->group_of[v], t = q->table_of[(size_t) g * q->n_groups + h];
        int64_t d = 0;

        if (q->row[u] < q->row[u + 1] || q->row[to_u] < q->row[to_u + 1])
                return (int64_t) frame_row_coupling(f, to_u, to_v) - frame_row_coupling(f, to_u, v) -
                       frame_row_coupling(f, u, to_v) + frame_row_coupling(f, u, v);
        if (t > 0) {
                const int32_t *now = qubo_table_row(q, u, h) - q->group_first[h],
                              *then = qubo_table_row(q, to_u, h) - q->group_first[h];

                d = (int64_t) then[to_v] - then[v] - now[to_v] + now[v];
        }
        return d;
}

static void look_at(Sight *s, uint32_t t) {
        const QuboTable *table = &s->f->q->tables[t];
        Pattern *p = &s->patterns[t];
        int32_t low = 0, high = 0;

        for (uint32_t i = 0; i < table->rows; i++) {
                const int32_t *w = table->w + (size_t) i * table->cols;
                uint32_t best = SEAT_NONE;
                int64_t sum = 0;
                int32_t most = 0;

                for (uint32_t j = 0; j < table->cols; j++) {
                        sum += w[j];
                        low = MIN(low, w[j]);
                        if (w[j] > most) {
                                most = w[j];
                                best = j;
                        }
                }
                if (i < table->cols && w[i] == most && most > 0)
                        best = i;
                high = MAX(high, most);
                p->sum += (double) sum;
                p->diagonal += i < table->cols ? w[i] : 0;
                if (most > 0 && table->cols < SEAT_NONE &&
                    (double) most * table->cols >= frame_contrast(table->cols) * (double) sum) {
                        p->seats++;
                        s->f->table_seat[t][i] = (uint16_t) best;
                }
        }
        p->range = (int64_t) high - low;
        if (high > 0 && table->rows == table->cols)
                p->is_kin = p->diagonal * table->rows > p->sum;
        else if (high > 0)
                p->is_kin = p->seats > 0 && p->seats >= table->rows / 2 &&
                            (double) high * table->rows * table->cols >= frame_contrast(table->cols) * p->sum;
}

static bool is_group(const Frame *f, uint32_t item) {
        return !f->optional[item] && f->size[item] >= 2;
}

static uint64_t mix(uint64_t x) {
        x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
        return x ^ (x >> 31);
}

static uint64_t coupling_hash(uint32_t item, uint32_t table) {
        return mix(((uint64_t) item << 32 | table) + UINT64_C(0x9e3779b97f4a7c15));
}

static uint32_t class_root(uint32_t *class, uint32_t a) {
        while (class[a] != a)
                a = class[a] = class[class[a]];
        return a;
}

/* Sums of hashes: without the coupling of the two to each other, those of twins are equal. */
static void sum_couplings(Sight *s) {
        const Frame *f = s->f;
        const Qubo *q = f->q;

        for (uint32_t a = 0; a < f->n_items; a++) {
                uint32_t end = f->first[a] + f->size[a];

                s->class[a] = a;
                s->has_rows[a] = q->row[end] > q->row[f->first[a]];
                for (uint32_t v = f->first[a]; v < end; v++)
                        s->sum[a] += mix((uint64_t) q->linear[v] + ((uint64_t) (v - f->first[a]) << 40));
                for (uint32_t b = 0; b < f->n_items; b++) {
                        uint32_t t = frame_table(f, a, b);

                        s->sum[a] += t > 0 ? coupling_hash(b, t) : 0;
                        if (t > 0 && s->patterns[t - 1].is_kin && f->size[a] == f->size[b] && is_group(f, a))
                                s->class[class_root(s->class, a)] = class_root(s->class, b);
                }
        }
}

static bool are_twins(const Sight *s, uint32_t a, uint32_t b, uint32_t table) {
        return s->f->size[a] == s->f->size[b] && !s->has_rows[a] && !s->has_rows[b] &&
               frame_table(s->f, b, a) == table &&
               s->sum[a] - coupling_hash(b, table) == s->sum[b] - coupling_hash(a, table);
}

static int kin_add(Sight *s, uint32_t b) {
        Frame *f = s->f;

        if (s->n_kin == s->allocated) {
                size_t want = MAX(2 * s->allocated, (size_t) 256);
                uint32_t *grown = reallocarray(f->kin, want, sizeof(*f->kin));

                if (!grown)
                        return -ENOMEM;
                f->kin = grown;
                s->allocated = want;
        }
        f->kin[s->n_kin++] = b;
        return 0;
}

/* Marks the groups that a's rows add a cost with: they contend for the same thing where the tables do not tell. */
static void mark_neighbours(Sight *s, uint32_t a) {
        const Frame *f = s->f;
        const Qubo *q = f->q;

        for (size_t k = q->row[f->first[a]]; k < q->row[f->first[a] + f->size[a]]; k++)
                if (q->val[k] > 0)
                        s->mark[f->item_of[q->col[k]]] = a + 1;
}

static int relate(Sight *s, uint32_t a) {
        Frame *f = s->f;
        int64_t widest = 0;

        mark_neighbours(s, a);
        for (uint32_t b = 0; b < f->n_items; b++) {
                uint32_t t = b == a ? 0 : frame_table(f, a, b);
                bool is_kin = t > 0 &&
                              (s->patterns[t - 1].is_kin || class_root(s->class, a) == class_root(s->class, b));

                if (b == a || !is_group(f, b))
                        continue;
                if (is_kin || s->mark[b] == a + 1) {
                        int r = t > 0 && are_twins(s, a, b, t) ? 0 : kin_add(s, b);

                        if (r < 0)
                                return r;
                } else if (t > 0 && s->patterns[t - 1].range > widest) {
                        widest = s->patterns[t - 1].range;
                        f->partner[a] = b;
                }
        }
        return 0;
}

static int make_seats(Frame *f) {
        const Qubo *q = f->q;

        f->table_seat = calloc((size_t) q->n_tables + 1, sizeof(*f->table_seat));
        for (uint32_t t = 0; f->table_seat && t < q->n_tables; t++) {
                size_t size = ((size_t) q->tables[t].rows + 1) * sizeof(**f->table_seat);

                f->table_seat[t] = malloc(size);
                if (!f->table_seat[t])
                        return -ENOMEM;
                memset(f->table_seat[t], 0xff, size);
        }
        return f->table_seat ? 0 : -ENOMEM;
}

static int tables_kin(Sight *s, Limit *l) {
        Frame *f = s->f;
        int r = make_seats(f);

        if (r < 0 || !s->patterns || !s->sum || !s->class || !s->has_rows || !s->mark || !f->kin)
                return -ENOMEM;
        for (uint32_t t = 0; t < f->q->n_tables; t++)
                look_at(s, t);
        sum_couplings(s);
        for (uint32_t a = 0; a < f->n_items && r >= 0; a++) {
                f->kin_first[a] = s->n_kin;
                if (is_group(f, a) && !limit_work(l, f->n_items))
                        r = relate(s, a);
        }
        f->kin_first[f->n_items] = s->n_kin;
        return r;
}

int frame_tables_kin(Frame *f, Limit *l) {
        size_t n = (size_t) f->n_items + 1;
        _cleanup_free_ Pattern *patterns = calloc((size_t) f->q->n_tables + 1, sizeof(*patterns));
        _cleanup_free_ uint64_t *sum = calloc(n, sizeof(*sum));
        _cleanup_free_ uint32_t *class = calloc(n, sizeof(*class)), *mark = calloc(n, sizeof(*mark));
        _cleanup_free_ bool *has_rows = calloc(n, sizeof(*has_rows));
        Sight s = {
                .f = f,
                .patterns = patterns,
                .sum = sum,
                .class = class,
                .has_rows = has_rows,
                .mark = mark,
        };

        f->kin = calloc(1, sizeof(*f->kin));
        return tables_kin(&s, l);
}
