/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of group pairs and the products of a permutation written out as rows, one row after the other in order of its
 * columns, for those who know rows only. Memory: 8 bytes for each entry, of at most QUBO_EXPAND_MAX, and while it runs
 * nothing but a transposed distance matrix.
 */
#include <errno.h>

#include "policy/qubo/qubo.h"

typedef struct Expansion {
        const Qubo *q;
        QuboExpand what;
        Qubo *to;
        size_t n;         /* entries so far */
        uint32_t *order;  /* groups by their first variable */
        int32_t *turned;  /* distance, transposed */
        int64_t farthest; /* the largest of all distances, by size */
} Expansion;

/* Of ordered pairs of groups that a product couples. */
static size_t product_pairs(const Qubo *q) {
        size_t n = q->n_groups, pairs = 0;

        for (size_t g = 0; q->flow && g < n; g++)
                for (size_t h = 0; h < n; h++)
                        pairs += g != h && (q->flow[g * n + h] != 0 || q->flow[h * n + g] != 0);
        return pairs;
}

size_t qubo_couplings(const Qubo *q) {
        size_t n = q->row[q->n], choices = q->n_groups;

        for (uint32_t g = 0; q->table_of && g < q->n_groups; g++)
                for (uint32_t h = 0; h < q->n_groups; h++)
                        if (q->table_of[(size_t) g * q->n_groups + h] != 0)
                                n += (size_t) q->group_size[g] * q->group_size[h];
        return n + product_pairs(q) * (choices * choices - choices);
}

static size_t most_entries(const Qubo *q, QuboExpand what) {
        size_t n = qubo_couplings(q), choices = q->n_groups;

        return n + (what.conflicts ? choices * choices * (choices - 1) : 0);
}

static int first_cmp(const void *a, const void *b, void *userdata) {
        const Qubo *q = userdata;

        return CMP(q->group_first[*(const uint32_t *) a], q->group_first[*(const uint32_t *) b]);
}

static int put(Expansion *e, uint32_t col, int64_t w) {
        if (w < -INT32_MAX || w > INT32_MAX)
                return -EOVERFLOW;
        e->to->col[e->n] = col;
        e->to->val[e->n] = (int32_t) w;
        e->n += w != 0;
        return 0;
}

/* One row: its entries and those of its tables, merged in order of the columns. */
static int expand_row(Expansion *e, uint32_t v) {
        const Qubo *q = e->q;
        size_t k = q->row[v], end = q->row[v + 1];
        int r = 0;

        for (uint32_t x = 0; q->table_of && x < q->n_groups && r >= 0; x++) {
                uint32_t h = e->order[x], first = q->group_first[h];
                const int32_t *w = qubo_table_row(q, v, h);

                for (; k < end && q->col[k] < first && r >= 0; k++)
                        r = put(e, q->col[k], q->val[k]);
                for (uint32_t i = 0; w && i < q->group_size[h] && r >= 0; i++) {
                        bool both = k < end && q->col[k] == first + i;

                        r = put(e, first + i, (int64_t) w[i] + (both ? q->val[k] : 0));
                        k += both;
                }
        }
        for (; k < end && r >= 0; k++)
                r = put(e, q->col[k], q->val[k]);
        return r;
}

/* Products alone, of choices from..end, none of which leaves int32. */
static void put_products(Expansion *e, uint32_t first, uint32_t from, uint32_t end, int32_t f, int32_t b,
                         const int32_t *there, const int32_t *back) {
        uint32_t *col = e->to->col;
        int32_t *val = e->to->val;
        size_t n = e->n;

        for (uint32_t d = from; d < end; d++) {
                int32_t w = f * there[d] + b * back[d];

                col[n] = first + d;
                val[n] = w;
                n += w != 0;
        }
        e->n = n;
}

/* What choice v of a permutation costs with the choices of group h; *k moves over the row's entries of h. */
static int expand_against(Expansion *e, uint32_t v, uint32_t h, size_t *k) {
        const Qubo *q = e->q;
        uint32_t n = q->n_groups, g = v / n, c = v % n, first = h * n;
        const int32_t *w = qubo_table_row(q, v, h), *there = NULL, *back = NULL;
        int64_t f = 0, b = 0;
        bool alone = e->turned && !w && (*k == q->row[v + 1] || q->col[*k] >= first + n);
        int r = 0;

        if (e->turned) {
                there = q->distance + (size_t) c * n;
                back = e->turned + (size_t) c * n;
                f = q->flow[(size_t) g * n + h];
                b = q->flow[(size_t) h * n + g];
        }
        if (alone && (llabs(f) + llabs(b)) * e->farthest <= INT32_MAX) {
                put_products(e, first, 0, c, (int32_t) f, (int32_t) b, there, back);
                e->to->col[e->n] = first + c;
                e->to->val[e->n] = 0;
                e->n += e->what.conflicts;
                put_products(e, first, c + 1, n, (int32_t) f, (int32_t) b, there, back);
                return 0;
        }
        for (uint32_t d = 0; d < n && r >= 0; d++) {
                bool entry = *k < q->row[v + 1] && q->col[*k] == first + d;
                int64_t sum = (w ? w[d] : 0) + (entry ? q->val[*k] : 0);

                *k += entry;
                if (d != c)
                        r = put(e, first + d, sum + (e->turned ? f * there[d] + b * back[d] : 0));
                else if (e->what.conflicts) {
                        r = put(e, first + d, 0);
                        e->n++;
                }
        }
        return r;
}

static int expand_choice(Expansion *e, uint32_t v) {
        const Qubo *q = e->q;
        size_t k = q->row[v];
        int r = 0;

        for (uint32_t h = 0; h < q->n_groups && r >= 0; h++)
                if (h != v / q->n_groups) /* within a group there are no entries */
                        r = expand_against(e, v, h, &k);
        return r;
}

static int copy(const void *from, size_t n, size_t size, void *ret) {
        void *p = calloc(n + 1, size);

        if (!p)
                return -ENOMEM;
        if (n > 0)
                memcpy(p, from, n * size);
        *(void **) ret = p;
        return 0;
}

static int copy_structure(const Qubo *q, QuboExpand what, Qubo *to) {
        size_t square = (size_t) q->n_groups * q->n_groups;

        to->n = q->n;
        to->offset = q->offset;
        to->n_groups = q->n_groups;
        to->permutation = q->permutation;
        if (copy(q->linear, q->n, sizeof(*q->linear), &to->linear) < 0 ||
            copy(q->group_first, q->n_groups, sizeof(*q->group_first), &to->group_first) < 0 ||
            copy(q->group_size, q->n_groups, sizeof(*q->group_size), &to->group_size) < 0 ||
            copy(q->group_kind, q->n_groups, sizeof(*q->group_kind), &to->group_kind) < 0 ||
            copy(q->group_of, q->n, sizeof(*q->group_of), &to->group_of) < 0)
                return -ENOMEM;
        if (!q->flow || what.products)
                return 0;
        if (copy(q->flow, square, sizeof(*q->flow), &to->flow) < 0 ||
            copy(q->distance, square, sizeof(*q->distance), &to->distance) < 0)
                return -ENOMEM;
        return 0;
}

static int turn_distance(Expansion *e) {
        const Qubo *q = e->q;
        size_t n = q->n_groups;

        if (!q->flow || !e->what.products)
                return 0;
        e->turned = calloc(n * n + 1, sizeof(*e->turned));
        if (!e->turned)
                return -ENOMEM;
        for (size_t c = 0; c < n; c++)
                for (size_t d = 0; d < n; d++) {
                        e->turned[d * n + c] = q->distance[c * n + d];
                        e->farthest = MAX(e->farthest, llabs(q->distance[c * n + d]));
                }
        return 0;
}

static int expand_rows(Expansion *e) {
        const Qubo *q = e->q;
        bool choices = e->turned || e->what.conflicts;
        size_t most = most_entries(q, e->what);
        int r = 0;

        if (most > QUBO_EXPAND_MAX)
                return -EFBIG;
        e->to->row = calloc((size_t) q->n + 1, sizeof(*e->to->row));
        e->to->col = malloc((most + 1) * sizeof(*e->to->col)); /* one to spare: a zero is written and overwritten */
        e->to->val = malloc((most + 1) * sizeof(*e->to->val));
        if (!e->to->row || !e->to->col || !e->to->val)
                return -ENOMEM;
        for (uint32_t v = 0; v < q->n && r == 0; v++) {
                r = choices ? expand_choice(e, v) : expand_row(e, v);
                e->to->row[v + 1] = e->n;
                r = r < 0 ? r : qubo_check(e->what.watch);
        }
        return r;
}

int qubo_expand_some(const Qubo *q, QuboExpand what, Qubo **ret) {
        _cleanup_(qubo_freep) Qubo *to = calloc(1, sizeof(*to));
        _cleanup_free_ uint32_t *order = calloc((size_t) q->n_groups + 1, sizeof(*order));
        Expansion e = { .q = q, .what = what, .to = to, .order = order };
        int r;

        if (!to || !order)
                return -ENOMEM;
        for (uint32_t g = 0; g < q->n_groups; g++)
                order[g] = g;
        qsort_r(order, q->n_groups, sizeof(*order), first_cmp, (void *) q);
        r = copy_structure(q, what, to);
        if (r >= 0)
                r = turn_distance(&e);
        if (r >= 0)
                r = expand_rows(&e);
        free(e.turned);
        if (r >= 0)
                r = qubo_check_sum(to);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(to);
        return 0;
}

int qubo_expand(const Qubo *q, Qubo **ret) {
        return qubo_expand_some(q, (QuboExpand){ .products = true }, ret);
}

int qubo_check_sum(const Qubo *q) {
        uint64_t sum = q->offset < 0 ? -(uint64_t) q->offset : (uint64_t) q->offset, pairs = 0;

        for (uint32_t i = 0; i < q->n && sum <= INT64_MAX / 4; i++)
                sum += (uint64_t) labs(q->linear[i]);
        for (size_t k = 0; k < q->row[q->n]; k++)
                pairs += (uint64_t) labs(q->val[k]);
        return sum > INT64_MAX / 4 || pairs / 2 > INT64_MAX / 4 - sum ? -EOVERFLOW : 0;
}
