/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recognised permutation without what it does not need: couplings within columns, and where all others are flow times
 * distance, the rows too. What couples choice c of group g with choice d of group h is s(g, h) D(c, d) then, with a
 * symmetric D: the first pair of groups that is coupled gives D, divided by its greatest common divisor, so that s is
 * whole for every other pair if it is a multiple at all (Gauss's lemma). Flow is s / 2 both ways if all are even, as of a
 * symmetric problem, else s one way.
 */
#include <errno.h>

#include "policy/qubo/recognise-internal.h"

static void drop_columns(Qubo *q) {
        size_t n = 0, from = 0;

        for (uint32_t v = 0; v < q->n; v++) {
                size_t end = q->row[v + 1];

                for (size_t k = from; k < end; k++)
                        if (q->col[k] % q->n_groups != v % q->n_groups) {
                                q->col[n] = q->col[k];
                                q->val[n++] = q->val[k];
                        }
                from = end;
                q->row[v + 1] = n;
        }
}

static int32_t divisor(int32_t a, int32_t b) {
        while (b) {
                int32_t t = a % b;

                a = b;
                b = t;
        }
        return abs(a);
}

typedef struct Product {
        int32_t *flow, *distance;
} Product;

static void product_done(Product *p) {
        free(p->flow);
        free(p->distance);
}

/* From the first group that is coupled to any, against the first such. The number of entries; 0: there are none. */
static size_t take_distance(const Qubo *q, int32_t *distance) {
        uint32_t n = q->n_groups, v = 0, g, h;
        size_t entries = 0;
        int32_t d = 0;

        while (v < q->n && q->row[v] == q->row[v + 1])
                v++;
        if (v == q->n)
                return 0;
        g = v / n;
        h = q->group_of[q->col[q->row[v]]];
        for (uint32_t c = 0; c < n; c++)
                for (size_t k = q->row[g * n + c]; k < q->row[g * n + c + 1]; k++)
                        if (q->group_of[q->col[k]] == h) {
                                distance[(size_t) c * n + q->col[k] % n] = q->val[k];
                                d = divisor(q->val[k], d);
                                entries++;
                        }
        for (size_t i = 0; i < (size_t) n * n; i++)
                distance[i] /= d;
        return entries;
}

static bool is_symmetric(const int32_t *w, size_t n) {
        for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < i; j++)
                        if (w[i * n + j] != w[j * n + i])
                                return false;
        return true;
}

/* Flow by ordered pairs of groups, both the same; false: something is no product. */
static bool take_flow(const Qubo *q, const int32_t *distance, size_t entries, int32_t *flow) {
        uint32_t n = q->n_groups;
        size_t pairs = 0;

        for (uint32_t v = 0; v < q->n; v++)
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++) {
                        int32_t d = distance[(size_t) (v % n) * n + q->col[k] % n];
                        int32_t *f = &flow[(size_t) (v / n) * n + q->col[k] / n];

                        if (d == 0 || q->val[k] % d != 0 || (*f != 0 && *f != q->val[k] / d))
                                return false;
                        pairs += *f == 0;
                        *f = q->val[k] / d;
                }
        /* Each pair has an entry wherever there is a distance, and no others. */
        return q->row[q->n] == pairs * entries;
}

static void share_flow(int32_t *flow, size_t n) {
        bool even = true;

        for (size_t i = 0; i < n * n; i++)
                even &= flow[i] % 2 == 0;
        for (size_t g = 0; g < n; g++)
                for (size_t h = 0; h < n; h++)
                        flow[g * n + h] = even ? flow[g * n + h] / 2 : g < h ? flow[g * n + h] : 0;
}

/* What the builder asks of products: no cost can leave a quarter of int64. */
static bool product_fits(const Product *p, size_t n) {
        uint64_t sum = 0, most = 0, all;

        for (size_t k = 0; k < n * n; k++) {
                sum += (uint64_t) labs(p->flow[k]);
                most = MAX(most, (uint64_t) labs(p->distance[k]));
        }
        return !__builtin_mul_overflow(sum, most, &all) && all <= INT64_MAX / 8;
}

static int find_product(Qubo *q) {
        size_t n = q->n_groups, entries;
        _cleanup_(product_done) Product p = {};

        p.flow = calloc(n * n + 1, sizeof(*p.flow));
        p.distance = calloc(n * n + 1, sizeof(*p.distance));
        if (!p.flow || !p.distance)
                return -ENOMEM;
        entries = take_distance(q, p.distance);
        if (entries == 0 || !is_symmetric(p.distance, n) || !take_flow(q, p.distance, entries, p.flow))
                return 0;
        share_flow(p.flow, n);
        if (!product_fits(&p, n))
                return 0;
        q->flow = TAKE_PTR(p.flow);
        q->distance = TAKE_PTR(p.distance);
        memset(q->row, 0, ((size_t) q->n + 1) * sizeof(*q->row));
        return 0;
}

int trial_finish(Trial *t) {
        if (!t->q->permutation)
                return 0;
        drop_columns(t->q);
        return find_product(t->q);
}
