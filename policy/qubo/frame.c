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
                f->widest = MAX(f->widest, f->size[k]);
                for (uint32_t end = i + f->size[k]; i < end; i++)
                        f->item_of[i] = k;
        }
        return 0;
}

static int dense_init(Frame *f, Limit *l) {
        const Qubo *q = f->q;

        f->stride = ((size_t) q->n + FRAME_LANES - 1) / FRAME_LANES * FRAME_LANES;
        if (f->stride * f->stride > FRAME_DENSE_MAX || q->table_of)
                return 0;
        f->dense = calloc(q->n * f->stride + 1, sizeof(*f->dense));
        if (!f->dense)
                return -ENOMEM;
        for (uint32_t i = 0; i < q->n; i++) {
                for (size_t k = q->row[i]; k < q->row[i + 1]; k++)
                        f->dense[i * f->stride + q->col[k]] = q->val[k];
                if (limit_work(l, q->row[i + 1] - q->row[i]))
                        return -ECANCELED;
        }
        return 0;
}

/* Wrong once the limit is hit. */
static bool fields_are_narrow(const Qubo *q, Limit *l) {
        if (q->table_of)
                return false;
        for (uint32_t i = 0; i < q->n; i++) {
                int64_t most = llabs(q->linear[i]);

                for (size_t k = q->row[i]; k < q->row[i + 1]; k++)
                        most += llabs(q->val[k]);
                if (most > INT32_MAX / 2 || limit_work(l, q->row[i + 1] - q->row[i]))
                        return false;
        }
        return true;
}

/* For groups in models too large for a matrix. */
static int segments_init(Frame *f, Limit *l) {
        const Qubo *q = f->q;
        size_t width = (size_t) f->n_items + 1;

        if (f->dense || q->table_of || q->n_groups < 2 || q->n * width > FRAME_SEATS_MAX || q->row[q->n] > UINT32_MAX)
                return 0;
        f->segment = malloc(q->n * width * sizeof(*f->segment));
        if (!f->segment)
                return -ENOMEM;
        for (uint32_t u = 0; u < q->n; u++) {
                uint32_t *segment = f->segment + u * width, b = 0;

                for (size_t k = q->row[u]; k < q->row[u + 1]; k++)
                        while (b <= f->item_of[q->col[k]])
                                segment[b++] = (uint32_t) k;
                while (b < width)
                        segment[b++] = (uint32_t) q->row[u + 1];
                if (limit_work(l, width + q->row[u + 1] - q->row[u]))
                        return -ECANCELED;
        }
        return 0;
}

int32_t frame_row_coupling(const Frame *f, uint32_t u, uint32_t v) {
        const Qubo *q = f->q;
        size_t low = q->row[u], high = q->row[u + 1];
        int32_t w = 0;

        if (q->table_of && q->group_of[v] != QUBO_NO_GROUP) {
                const int32_t *table = qubo_table_row(q, u, q->group_of[v]);

                w = table ? table[v - q->group_first[q->group_of[v]]] : 0;
        }
        if (f->segment) {
                const uint32_t *segment = f->segment + u * ((size_t) f->n_items + 1) + f->item_of[v];
                uint32_t b = f->item_of[v];

                low = segment[0];
                high = segment[1];
                if (high - low == f->size[b])
                        return q->val[low + (v - f->first[b])];
        }
        low = qubo_row_find(q, low, high, v);
        return low < high && q->col[low] == v ? w + q->val[low] : w;
}

/* What the couplings of one item to a neighbour look like. */
typedef struct Relation {
        uint32_t a, b;
        double sum, diagonal; /* diagonal: of equal places */
        int32_t low, high;
        uint32_t entries, seats; /* seats: variables of a that have one in b by contrast */
        bool kin;
} Relation;

typedef struct Relations {
        Relation *list;
        size_t n, allocated;
        uint32_t *at;    /* by item b: 1 + index of the relation of the present a, 0: none yet */
        uint32_t *class; /* union of groups of equal size that are kin */
} Relations;

static bool is_group(const Frame *f, uint32_t item) {
        return !f->optional[item] && f->size[item] >= 2;
}

/* One row's couplings to item b, from entry k on: adds them to rel, remembers the seat; returns the entry behind. */
static size_t relation_add(Frame *f, Relation *rel, uint32_t u, size_t k) {
        const Qubo *q = f->q;
        uint32_t first = f->first[rel->b], size = f->size[rel->b], place = u - f->first[rel->a], best = SEAT_NONE;
        size_t row_end = q->row[u + 1], start = k;
        int32_t low = 0, high = 0;
        int64_t sum = 0, same = 0;

        for (; k < row_end && q->col[k] < first + size; k++) {
                uint32_t m = q->col[k] - first;
                int32_t w = q->val[k];

                sum += w;
                low = MIN(low, w);
                same = m == place ? w : same;
                if (w > high) {
                        high = w;
                        best = m;
                }
        }
        if (same == high && high > 0)
                best = place;
        rel->sum += (double) sum;
        rel->diagonal += (double) same;
        rel->low = MIN(rel->low, low);
        rel->high = MAX(rel->high, high);
        rel->entries += (uint32_t) (k - start);
        if (high > 0 && size < SEAT_NONE && (double) high * size >= frame_contrast(size) * (double) sum) {
                rel->seats++;
                if (f->seat)
                        f->seat[(size_t) u * f->n_items + rel->b] = (uint16_t) best;
        }
        return k;
}

static bool relation_is_kin(const Frame *f, const Relation *rel) {
        uint32_t size_a = f->size[rel->a], size_b = f->size[rel->b];

        if (rel->high <= 0)
                return false;
        if (size_a == size_b)
                return rel->diagonal * size_a > rel->sum;
        return rel->seats > 0 && rel->seats >= size_a / 2 &&
               (double) rel->high * size_a * size_b >= frame_contrast(size_b) * rel->sum;
}

static int relation_get(Relations *all, uint32_t a, uint32_t b, Relation **ret) {
        if (all->at[b] == 0) {
                if (all->n == all->allocated) {
                        size_t want = MAX(all->allocated * 2, (size_t) 64);
                        Relation *p = want < UINT32_MAX ? reallocarray(all->list, want, sizeof(*p)) : NULL;

                        if (!p)
                                return -ENOMEM;
                        all->list = p;
                        all->allocated = want;
                }
                all->list[all->n++] = (Relation){ .a = a, .b = b };
                all->at[b] = (uint32_t) all->n;
        }
        *ret = &all->list[all->at[b] - 1];
        return 0;
}

/* All relations of item a, appended to the list. */
static int relate_item(Frame *f, Relations *all, uint32_t a) {
        const Qubo *q = f->q;
        size_t from = all->n;
        Relation *rel;
        int r;

        for (uint32_t u = f->first[a]; u < f->first[a] + f->size[a]; u++)
                for (size_t k = q->row[u]; k < q->row[u + 1];) {
                        uint32_t b = f->item_of[q->col[k]];

                        if (!is_group(f, b)) {
                                k++;
                                continue;
                        }
                        r = relation_get(all, a, b, &rel);
                        if (r < 0)
                                return r;
                        k = relation_add(f, rel, u, k);
                }
        for (size_t i = from; i < all->n; i++) {
                all->list[i].kin = relation_is_kin(f, &all->list[i]);
                all->at[all->list[i].b] = 0;
        }
        return 0;
}

static uint32_t class_root(uint32_t *class, uint32_t a) {
        while (class[a] != a)
                a = class[a] = class[class[a]];
        return a;
}

/* Kin are also all coupled groups of equal size that a chain of kin connects. */
static int list_kin(Frame *f, Relations *all) {
        size_t n = 0, i = 0;

        for (size_t k = 0; k < all->n; k++)
                if (all->list[k].kin && f->size[all->list[k].a] == f->size[all->list[k].b])
                        all->class[class_root(all->class, all->list[k].a)] = class_root(all->class, all->list[k].b);
        f->kin = calloc(all->n + 1, sizeof(*f->kin));
        if (!f->kin)
                return -ENOMEM;
        for (uint32_t a = 0; a < f->n_items; a++) {
                int64_t widest = 0;

                f->kin_first[a] = n;
                for (; i < all->n && all->list[i].a == a; i++) {
                        const Relation *rel = &all->list[i];

                        if (rel->kin || class_root(all->class, a) == class_root(all->class, rel->b))
                                f->kin[n++] = rel->b;
                        else if ((int64_t) rel->high - rel->low > widest) {
                                widest = (int64_t) rel->high - rel->low;
                                f->partner[a] = rel->b;
                        }
                }
        }
        f->kin_first[f->n_items] = n;
        return 0;
}

static int relations_init(Frame *f, Limit *l) {
        _cleanup_free_ uint32_t *at = calloc((size_t) f->n_items + 1, sizeof(*at));
        _cleanup_free_ uint32_t *class = calloc((size_t) f->n_items + 1, sizeof(*class));
        Relations all = { .at = at, .class = class };
        size_t seats = (size_t) f->q->n * f->n_items;
        int r = 0;

        if (!at || !class)
                return -ENOMEM;
        if (f->q->n_groups >= 2 && seats <= FRAME_SEATS_MAX) {
                f->seat = malloc(seats * sizeof(*f->seat));
                if (!f->seat)
                        return -ENOMEM;
                memset(f->seat, 0xff, seats * sizeof(*f->seat));
        }
        for (uint32_t a = 0; a < f->n_items && r >= 0; a++) {
                uint32_t end = f->first[a] + f->size[a];

                class[a] = a;
                if (is_group(f, a) && !limit_work(l, f->q->row[end] - f->q->row[f->first[a]]))
                        r = relate_item(f, &all, a);
        }
        if (r >= 0)
                r = list_kin(f, &all);
        free(all.list);
        return r;
}

int frame_of_items(const Qubo *q, Frame **ret) {
        _cleanup_(frame_freep) Frame *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return -ENOMEM;
        f->q = q;
        r = items_init(f);
        if (r >= 0)
                *ret = TAKE_PTR(f);
        return r;
}

int frame_new(const Qubo *q, Limit *l, Frame **ret) {
        _cleanup_(frame_freep) Frame *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return -ENOMEM;
        f->q = q;
        f->row_mean = q->table_of ? q->n : (uint32_t) MIN(q->row[q->n] / MAX(q->n, 1U), (size_t) UINT32_MAX);
        f->narrow = fields_are_narrow(q, l);
        r = l->hit ? -ECANCELED : items_init(f);
        if (r >= 0 && q->table_of)
                r = frame_tables_kinds(f);
        if (r >= 0)
                r = dense_init(f, l);
        if (r >= 0)
                r = segments_init(f, l);
        if (r >= 0)
                r = q->table_of ? frame_tables_kin(f, l) : relations_init(f, l);
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
        free(f->segment);
        free(f->kin_first);
        free(f->kin);
        free(f->seat);
        free(f->partner);
        for (uint32_t t = 0; f->table_seat && t < f->q->n_tables; t++)
                free(f->table_seat[t]);
        free(f->table_seat);
        free(f->kind);
        free(f->kind_first);
        free(f->usual);
        free(f->unusual_first);
        free(f->unusual);
        free(f);
        return NULL;
}
