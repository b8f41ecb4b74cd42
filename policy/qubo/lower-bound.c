/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bound that costs no more than a look at all coefficients: each choice of each group, and each variable without a
 * group, pays its linear term and half of the least that each coupling can come to, whatever the other end does; a group
 * takes its cheapest choice. Of a permutation, choice c of group g pays at least the least scalar product of g's flows
 * with c's distances (the one sorted up, the other down), and the groups' choices are all different: an assignment
 * problem (Gilmore 1962, Lawler 1963), solved here by shortest augmenting paths (Kuhn's method with the potentials of
 * Jonker and Volgenant 1987).
 *
 * Units: costs are kept doubled, so that the halves stay whole. O(couplings), of a permutation O(n_groups^3) too.
 */
#include <errno.h>

#include "policy/qubo/search.h"

static bool is_over(Limit *l, uint64_t steps) {
        return l && limit_work(l, steps);
}

/* Twice the least cost of one choice in rows: its own, and for every neighbour the least it can add, half of it. */
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

/* Adds to cost the least of v's row of every table: the minima of each table's rows once, one table after the other. */
static int add_tables(const Qubo *q, int64_t *cost) {
        size_t rows = 0, n = 0;
        _cleanup_free_ size_t *at = calloc((size_t) q->n_tables + 1, sizeof(*at));
        _cleanup_free_ int32_t *least = NULL;

        for (uint32_t t = 0; t < q->n_tables; t++)
                rows += q->tables[t].rows;
        least = malloc((rows + 1) * sizeof(*least));
        if (!at || !least)
                return -ENOMEM;
        for (uint32_t t = 0; t < q->n_tables; t++) {
                at[t] = n;
                for (uint32_t i = 0; i < q->tables[t].rows; i++, n++) {
                        const int32_t *w = q->tables[t].w + (size_t) i * q->tables[t].cols;

                        least[n] = w[0];
                        for (uint32_t j = 1; j < q->tables[t].cols; j++)
                                least[n] = MIN(least[n], w[j]);
                }
        }
        for (uint32_t g = 0; q->table_of && g < q->n_groups; g++)
                for (uint32_t h = 0; h < q->n_groups; h++) {
                        uint32_t t = q->table_of[(size_t) g * q->n_groups + h];

                        for (uint32_t i = 0; t > 0 && i < q->group_size[g]; i++)
                                cost[q->group_first[g] + i] += least[at[t - 1] + i];
                }
        return 0;
}

static int up_cmp(const void *a, const void *b) {
        return CMP(*(const int32_t *) a, *(const int32_t *) b);
}

/* The rows of a square without its diagonal, each sorted. */
static int32_t *sorted_rows(const int32_t *w, size_t n, Limit *l) {
        int32_t *to = calloc(n * n + 1, sizeof(*to));

        for (size_t i = 0; to && i < n && !is_over(l, 16 * n); i++) {
                memcpy(to + i * n, w + i * n, i * sizeof(*to));
                memcpy(to + i * n + i, w + i * n + i + 1, (n - i - 1) * sizeof(*to));
                qsort(to + i * n, n - 1, sizeof(*to), up_cmp);
        }
        return to;
}

static int add_products(const Qubo *q, Limit *l, int64_t *cost) {
        size_t n = q->n_groups;
        _cleanup_free_ int32_t *flow = NULL, *distance = NULL;

        if (!q->flow || n == 0)
                return 0;
        flow = sorted_rows(q->flow, n, l);
        distance = sorted_rows(q->distance, n, l);
        if (!flow || !distance)
                return -ENOMEM;
        for (size_t g = 0; g < n && !is_over(l, n * n / 2); g++)
                for (size_t c = 0; c < n; c++)
                        for (size_t k = 0; k + 1 < n; k++)
                                cost[g * n + c] += 2 * (int64_t) flow[g * n + k] * distance[c * n + n - 2 - k];
        return 0;
}

typedef struct Assignment {
        size_t n;
        const int64_t *cost; /* n x n */
        int64_t *row, *col;  /* potentials */
        int64_t *slack;      /* by column: the least reduced cost from a row of the tree */
        size_t *row_of;      /* by column; n: free */
        size_t *from;        /* by column: the one before on the path */
        bool *done;
} Assignment;

/* Brings row i in by the shortest augmenting path; column n stands for the beginning. */
static void assign_row(Assignment *a, size_t i, Limit *l) {
        size_t n = a->n, at = n;

        a->row_of[n] = i;
        for (size_t c = 0; c <= n; c++) {
                a->slack[c] = INT64_MAX;
                a->done[c] = false;
        }
        do {
                size_t next = n, r = a->row_of[at];
                int64_t least = INT64_MAX;

                a->done[at] = true;
                for (size_t c = 0; c < n; c++) {
                        int64_t reduced = a->cost[r * n + c] - a->row[r] - a->col[c];

                        if (a->done[c])
                                continue;
                        if (reduced < a->slack[c]) {
                                a->slack[c] = reduced;
                                a->from[c] = at;
                        }
                        if (a->slack[c] < least) {
                                least = a->slack[c];
                                next = c;
                        }
                }
                for (size_t c = 0; c <= n; c++)
                        if (a->done[c]) {
                                a->row[a->row_of[c]] += least;
                                a->col[c] -= c < n ? least : 0;
                        } else if (c < n)
                                a->slack[c] -= least;
                at = next;
                if (is_over(l, 2 * n))
                        return;
        } while (a->row_of[at] != n);
        for (; at != n; at = a->from[at])
                a->row_of[at] = a->row_of[a->from[at]];
}

static int assignment_sum(const int64_t *cost, size_t n, Limit *l, int64_t *ret) {
        _cleanup_free_ int64_t *row = calloc(n + 1, sizeof(*row)), *col = calloc(n + 1, sizeof(*col)),
                               *slack = calloc(n + 1, sizeof(*slack));
        _cleanup_free_ size_t *row_of = calloc(n + 1, sizeof(*row_of)), *from = calloc(n + 1, sizeof(*from));
        _cleanup_free_ bool *done = calloc(n + 1, sizeof(*done));
        Assignment a = { .n = n,
                         .cost = cost,
                         .row = row,
                         .col = col,
                         .slack = slack,
                         .row_of = row_of,
                         .from = from,
                         .done = done };

        if (!row || !col || !slack || !row_of || !from || !done)
                return -ENOMEM;
        for (size_t c = 0; c < n; c++)
                row_of[c] = n;
        for (size_t i = 0; i < n && !is_over(l, 0); i++)
                assign_row(&a, i, l);
        /* Potentials that no reduced cost is negative with: their sum is a bound, whatever the matching. */
        for (size_t i = 0; i < n; i++)
                *ret += row[i] + col[i];
        return 0;
}

int64_t lower_bound_within(const Qubo *q, Limit *l) {
        _cleanup_free_ int64_t *cost = calloc((size_t) q->n + 1, sizeof(*cost));
        int64_t twice = 0;

        if (!cost)
                return INT64_MIN;
        for (uint32_t v = 0; v < q->n && !is_over(l, q->row[v + 1] - q->row[v]); v++) {
                cost[v] = twice_least(q, v);
                twice += q->group_of[v] == QUBO_NO_GROUP ? MIN(cost[v], 0) : 0;
        }
        if (add_tables(q, cost) < 0 || add_products(q, l, cost) < 0)
                return INT64_MIN;
        for (uint32_t g = 0; !q->permutation && g < q->n_groups; g++) {
                int64_t least = INT64_MAX;

                for (uint32_t i = 0; i < q->group_size[g]; i++)
                        least = MIN(least, cost[q->group_first[g] + i]);
                twice += least;
        }
        if (q->permutation && assignment_sum(cost, q->n_groups, l, &twice) < 0)
                return INT64_MIN;
        if (l && l->hit)
                return INT64_MIN;
        /* Energies are whole: half of an odd bound rounds up. */
        return q->offset + (twice > 0 ? (twice + 1) / 2 : twice / 2);
}

int64_t qubo_lower_bound(const Qubo *q) {
        return lower_bound_within(q, NULL);
}

int64_t lower_bound_in_time(const Qubo *q, const Limit *l) {
        Limit again = *l;

        again.hit = false; /* maybe by the target, which is no end of the time */
        return limit_hit(&again) ? INT64_MIN : lower_bound_within(q, &again);
}
