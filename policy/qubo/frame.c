/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structure of a model: items, kin, seats, partners. Two groups are kin when they contend for the same things, so
 * that the couplings between equal choices (same place in groups of equal size, else the one strongest coupling of a
 * row) stand out above the rest: ranks that must not share a device, blocks that must not overlap. Such groups are
 * locked by their penalties against single moves, and an exchange is the move that keeps both satisfied. All of this
 * is only a guess at good moves: every proposal is priced by the model itself.
 */
#include "policy/qubo/frame.h"

#include <errno.h>

/* A row's largest coupling names its seat when it is this many times the mean of the row. */
#define SEAT_CONTRAST 4

static int items_init(Frame *f) {
        const Qubo *q = f->q;
        uint32_t k = 0, singles = 0;

        for (uint32_t i = 0; i < q->n; i++)
                singles += q->group_of[i] == QUBO_NO_GROUP;
        f->n_items = q->n_groups + singles;
        f->first = calloc((size_t) f->n_items + 1, sizeof(*f->first));
        f->size = calloc((size_t) f->n_items + 1, sizeof(*f->size));
        f->optional = calloc((size_t) f->n_items + 1, sizeof(*f->optional));
        f->item_of = calloc((size_t) q->n + 1, sizeof(*f->item_of));
        f->partner = calloc((size_t) f->n_items + 1, sizeof(*f->partner));
        f->kin_first = calloc((size_t) f->n_items + 1, sizeof(*f->kin_first));
        if (!f->first || !f->size || !f->optional || !f->item_of || !f->partner || !f->kin_first)
                return -ENOMEM;
        /* Items in the order of their variables: the items of a row then come in order too. */
        for (uint32_t i = 0; i < q->n; k++) {
                uint32_t g = q->group_of[i];

                f->first[k] = i;
                f->size[k] = g == QUBO_NO_GROUP ? 1 : q->group_size[g];
                f->optional[k] = g == QUBO_NO_GROUP;
                f->partner[k] = ITEM_NOTHING;
                for (uint32_t end = i + f->size[k]; i < end; i++)
                        f->item_of[i] = k;
        }
        return 0;
}

static int dense_init(Frame *f) {
        const Qubo *q = f->q;

        if ((size_t) q->n * q->n > FRAME_DENSE_MAX)
                return 0;
        f->dense = calloc((size_t) q->n * q->n + 1, sizeof(*f->dense));
        if (!f->dense)
                return -ENOMEM;
        for (uint32_t i = 0; i < q->n; i++)
                for (size_t k = q->row[i]; k < q->row[i + 1]; k++)
                        f->dense[(size_t) i * q->n + q->col[k]] = q->val[k];
        return 0;
}

int32_t frame_coupling(const Frame *f, uint32_t u, uint32_t v) {
        const Qubo *q = f->q;
        size_t low, high;

        if (f->dense)
                return f->dense[(size_t) u * q->n + v];
        low = q->row[u];
        high = q->row[u + 1];
        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (q->col[mid] < v)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < q->row[u + 1] && q->col[low] == v ? q->val[low] : 0;
}

/* One item against one neighbour: what their couplings look like. */
typedef struct Relation {
        int64_t sum, diagonal;
        int32_t low, high;
        uint32_t entries, seats;
        bool kin;
} Relation;

static bool is_group(const Frame *f, uint32_t item) {
        return !f->optional[item] && f->size[item] >= 2;
}

static size_t segment_end(const Frame *f, size_t k, size_t row_end, uint32_t b) {
        uint32_t end = f->first[b] + f->size[b];

        while (k < row_end && f->q->col[k] < end)
                k++;
        return k;
}

/* In a small group the largest can be at most size times the mean. */
static double contrast(uint32_t size) {
        return MIN((double) SEAT_CONTRAST, 0.75 * size);
}

/* The seat of u in b by its couplings in [k, end), or by place. */
static uint16_t find_seat(const Frame *f, uint32_t u, uint32_t b, size_t k, size_t end) {
        const Qubo *q = f->q;
        uint32_t a = f->item_of[u], place = u - f->first[a], best = SEAT_NONE;
        bool equal = f->size[a] == f->size[b];
        int64_t sum = 0;
        int32_t high = 0;

        for (; k < end; k++) {
                uint32_t m = q->col[k] - f->first[b];

                sum += q->val[k];
                if (q->val[k] > high || (q->val[k] == high && high > 0 && equal && m == place)) {
                        high = q->val[k];
                        best = m;
                }
        }
        if (high > 0 && (double) high * f->size[b] >= contrast(f->size[b]) * (double) sum)
                return (uint16_t) best;
        return equal ? (uint16_t) place : SEAT_NONE;
}

static void relation_add(const Frame *f, Relation *rel, uint32_t u, uint32_t b, size_t k, size_t end) {
        const Qubo *q = f->q;
        uint32_t a = f->item_of[u], place = u - f->first[a];
        uint16_t seat = find_seat(f, u, b, k, end);

        for (; k < end; k++) {
                if (rel->entries == 0)
                        rel->low = rel->high = q->val[k];
                rel->low = MIN(rel->low, q->val[k]);
                rel->high = MAX(rel->high, q->val[k]);
                rel->sum += q->val[k];
                rel->entries++;
                if (q->col[k] - f->first[b] == place)
                        rel->diagonal += q->val[k];
                if (seat != SEAT_NONE && q->col[k] == f->first[b] + seat)
                        rel->seats++;
        }
}

static bool relation_is_kin(const Frame *f, const Relation *rel, uint32_t a, uint32_t b) {
        if (f->size[a] == f->size[b])
                return rel->high > 0 && (double) rel->diagonal * f->size[a] > (double) rel->sum;
        return rel->high > 0 && rel->seats > 0 && rel->seats >= f->size[a] / 2 &&
               (double) rel->high * f->size[a] * f->size[b] >= contrast(f->size[b]) * (double) rel->sum;
}

typedef struct Scan {
        Relation *rel; /* by item */
        uint32_t *touched;
        uint32_t n_touched;
        uint32_t *class; /* union of groups of equal size that are kin by their diagonal */
} Scan;

static uint32_t class_root(uint32_t *class, uint32_t a) {
        while (class[a] != a)
                a = class[a] = class[class[a]];
        return a;
}

/* Fills rel for all groups b coupled to a. */
static void scan_item(const Frame *f, Scan *s, uint32_t a) {
        const Qubo *q = f->q;

        for (uint32_t t = 0; t < s->n_touched; t++)
                s->rel[s->touched[t]] = (Relation) {};
        s->n_touched = 0;
        for (uint32_t u = f->first[a]; u < f->first[a] + f->size[a]; u++)
                for (size_t k = q->row[u], end; k < q->row[u + 1]; k = end) {
                        uint32_t b = f->item_of[q->col[k]];

                        end = segment_end(f, k, q->row[u + 1], b);
                        if (!is_group(f, b))
                                continue;
                        if (s->rel[b].entries == 0)
                                s->touched[s->n_touched++] = b;
                        relation_add(f, &s->rel[b], u, b, k, end);
                }
        for (uint32_t t = 0; t < s->n_touched; t++) {
                uint32_t b = s->touched[t];
                Relation *rel = &s->rel[b];

                if ((size_t) rel->entries < (size_t) f->size[a] * f->size[b]) {
                        rel->low = MIN(rel->low, 0);
                        rel->high = MAX(rel->high, 0);
                }
                rel->kin = relation_is_kin(f, rel, a, b);
        }
}

static int add_kin(Frame *f, size_t *allocated, size_t n, uint32_t b) {
        if (n == *allocated) {
                size_t want = MAX(*allocated * 2, (size_t) 64);
                uint32_t *p = reallocarray(f->kin, want, sizeof(*p));

                if (!p)
                        return -ENOMEM;
                f->kin = p;
                *allocated = want;
        }
        f->kin[n] = b;
        return 0;
}

static int relate(Frame *f, Scan *s) {
        size_t allocated = 0, n = 0;
        int r;

        for (uint32_t a = 0; a < f->n_items; a++) {
                if (!is_group(f, a))
                        continue;
                scan_item(f, s, a);
                for (uint32_t t = 0; t < s->n_touched; t++)
                        if (s->rel[s->touched[t]].kin && f->size[a] == f->size[s->touched[t]])
                                s->class[class_root(s->class, a)] = class_root(s->class, s->touched[t]);
        }
        for (uint32_t a = 0; a < f->n_items; a++) {
                int64_t widest = 0;

                f->kin_first[a] = n;
                if (!is_group(f, a))
                        continue;
                scan_item(f, s, a);
                for (uint32_t t = 0; t < s->n_touched; t++) {
                        uint32_t b = s->touched[t];
                        const Relation *rel = &s->rel[b];

                        if (rel->kin || class_root(s->class, a) == class_root(s->class, b)) {
                                r = add_kin(f, &allocated, n, b);
                                if (r < 0)
                                        return r;
                                n++;
                        } else if ((int64_t) rel->high - rel->low > widest) {
                                widest = (int64_t) rel->high - rel->low;
                                f->partner[a] = b;
                        }
                }
        }
        f->kin_first[f->n_items] = n;
        return 0;
}

static int relations_init(Frame *f) {
        _cleanup_free_ Relation *rel = calloc((size_t) f->n_items + 1, sizeof(*rel));
        _cleanup_free_ uint32_t *touched = calloc((size_t) f->n_items + 1, sizeof(*touched));
        _cleanup_free_ uint32_t *class = calloc((size_t) f->n_items + 1, sizeof(*class));
        Scan s = { .rel = rel, .touched = touched, .class = class };

        if (!rel || !touched || !class)
                return -ENOMEM;
        for (uint32_t a = 0; a < f->n_items; a++)
                class[a] = a;
        return relate(f, &s);
}

static int seats_init(Frame *f) {
        const Qubo *q = f->q;

        if (f->kin_first[f->n_items] == 0 || (size_t) q->n * f->n_items > FRAME_SEATS_MAX)
                return 0;
        f->seat = malloc((size_t) q->n * f->n_items * sizeof(*f->seat));
        if (!f->seat)
                return -ENOMEM;
        memset(f->seat, 0xff, (size_t) q->n * f->n_items * sizeof(*f->seat));
        for (uint32_t u = 0; u < q->n; u++)
                for (size_t k = q->row[u], end; k < q->row[u + 1]; k = end) {
                        uint32_t b = f->item_of[q->col[k]];

                        end = segment_end(f, k, q->row[u + 1], b);
                        if (is_group(f, b) && f->size[b] < SEAT_NONE)
                                f->seat[(size_t) u * f->n_items + b] = find_seat(f, u, b, k, end);
                }
        return 0;
}

uint32_t frame_seat(const Frame *f, uint32_t u, uint32_t b) {
        uint32_t a = f->item_of[u];
        uint16_t seat = f->seat ? f->seat[(size_t) u * f->n_items + b] : SEAT_NONE;

        if (seat != SEAT_NONE)
                return f->first[b] + seat;
        return f->size[a] == f->size[b] ? f->first[b] + (u - f->first[a]) : ITEM_NOTHING;
}

int frame_new(const Qubo *q, Frame **ret) {
        _cleanup_(frame_freep) Frame *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return -ENOMEM;
        f->q = q;
        r = items_init(f);
        if (r >= 0)
                r = dense_init(f);
        if (r >= 0)
                r = relations_init(f);
        if (r >= 0)
                r = seats_init(f);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(f);
        return 0;
}

Frame *frame_free(Frame *f) {
        if (!f)
                return NULL;
        free(f->first);
        free(f->size);
        free(f->item_of);
        free(f->optional);
        free(f->dense);
        free(f->kin_first);
        free(f->kin);
        free(f->seat);
        free(f->partner);
        free(f);
        return NULL;
}
