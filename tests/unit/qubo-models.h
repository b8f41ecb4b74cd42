/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Models to try solvers on: small random ones of every shape, with brute force beside them, and placement-like ones
 * (ranks with a device group and a block group each: traffic times link cost between devices, a large price for sharing
 * a device or a block, distance between a rank's own device and block).
 */
#pragma once

#include "policy/qubo/qubo.h"
#include "policy/qubo/rng.h"

typedef struct RandomShape {
        uint32_t n_max;    /* variables */
        uint32_t n_groups; /* at most */
        uint32_t size_max; /* of a group */
        uint32_t density;  /* per cent of pairs coupled */
        int32_t range;     /* coefficients in -range..range; 0: all zero */
        bool equal;        /* every coefficient is range */
} RandomShape;

static inline int64_t model_coefficient(Rng *r, const RandomShape *s) {
        if (s->equal)
                return s->range;
        return (int64_t) (rng_next(r) % (2 * (uint64_t) s->range + 1)) - s->range;
}

/* Groups with gaps between them, so that ungrouped variables stand anywhere. */
static inline int model_random(Rng *r, const RandomShape *s, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t n = rng_below(r, s->n_max + 1), at = 0;

        if (qubo_builder_new(n, &b) < 0)
                return -1;
        for (uint32_t g = 0; g < s->n_groups && at < n; g++) {
                uint32_t size = 1 + rng_below(r, MIN(s->size_max, n - at));

                if (qubo_add_group(b, at, size) < 0)
                        return -1;
                at += size + (rng_below(r, 3) == 0 ? rng_below(r, 3) : 0);
        }
        if (qubo_add_offset(b, model_coefficient(r, s)) < 0)
                return -1;
        for (uint32_t i = 0; i < n; i++) {
                if (qubo_add_linear(b, i, model_coefficient(r, s)) < 0)
                        return -1;
                for (uint32_t j = i + 1; j < n; j++)
                        if (rng_below(r, 100) < s->density && qubo_add_quadratic(b, j, i, model_coefficient(r, s)) < 0)
                                return -1;
        }
        return qubo_build(b, ret);
}

/* A model of groups coupled by shared tables, with entries in rows on top and ungrouped variables behind; and the same
 * written out. Group kinds are a hint that is wrong at times. */
static inline int model_tables(Rng *r, int32_t range, Qubo **ret, Qubo **ret_rows) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL, *rows = NULL;
        uint32_t n_groups = 2 + rng_below(r, 3), n_tables = 1 + rng_below(r, 3), n, table[3],
                 size = 2 + rng_below(r, 2);
        int32_t *cells[3];
        const RandomShape any = { .range = range };
        int e;

        n = n_groups * size + rng_below(r, 3);
        e = qubo_builder_new(n, &b) | qubo_builder_new(n, &rows);
        for (uint32_t g = 0; g < n_groups; g++) {
                uint32_t first = (n_groups - 1 - g) * size; /* not in the order of the variables */

                e |= qubo_add_group(b, first, size) | qubo_add_group(rows, first, size) |
                     qubo_set_kind(b, g, rng_below(r, 2));
        }
        for (uint32_t t = 0; t < n_tables; t++) {
                cells[t] = (int32_t *) calloc(size * size, sizeof(int32_t));
                for (uint32_t i = 0; i < size; i++)
                        for (uint32_t j = 0; j < size; j++)
                                cells[t][i * size + j] = t == 0 && j < i ? cells[t][j * size + i]
                                                                         : (int32_t) model_coefficient(r, &any);
                e |= qubo_add_table(b, size, size, cells[t], &table[t]);
        }
        for (uint32_t g = 0; g < n_groups; g++)
                for (uint32_t h = 0; h < g; h++) {
                        uint32_t t = rng_below(r, n_tables + 1);

                        if (t == n_tables)
                                continue;
                        e |= qubo_join(b, g, h, table[t]);
                        for (uint32_t i = 0; i < size; i++)
                                for (uint32_t j = 0; j < size; j++)
                                        e |= qubo_add_quadratic(rows, (n_groups - 1 - g) * size + i,
                                                                (n_groups - 1 - h) * size + j, cells[t][i * size + j]);
                }
        for (uint32_t i = 0; i < n; i++) {
                int64_t w = model_coefficient(r, &any);

                e |= qubo_add_linear(b, i, w) | qubo_add_linear(rows, i, w);
                for (uint32_t j = 0; j < i; j++) {
                        w = rng_below(r, 4) == 0 ? model_coefficient(r, &any) : 0;
                        e |= qubo_add_quadratic(b, i, j, w) | qubo_add_quadratic(rows, i, j, w);
                }
        }
        if (e < 0)
                return e;
        e = qubo_build(b, ret);
        return e < 0 ? e : qubo_build(rows, ret_rows);
}

/* A quadratic assignment, flows and distances of any sign and not symmetric, with costs in rows and linear terms beside
 * them; products: whether it has flows at all. */
static inline int model_permutation(Rng *r, uint32_t n, int32_t range, bool products, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        const RandomShape any = { .range = range };
        int32_t *flow = NULL, *distance = NULL;
        int e = qubo_builder_new(n * n, &b);

        if (products) {
                flow = (int32_t *) calloc((size_t) n * n + 1, sizeof(*flow));
                distance = (int32_t *) calloc((size_t) n * n + 1, sizeof(*distance));
        }
        for (uint32_t g = 0; g < n; g++)
                e |= qubo_add_group(b, g * n, n);
        for (uint32_t k = 0; products && k < n * n; k++) {
                flow[k] = rng_below(r, 3) == 0 ? 0 : (int32_t) model_coefficient(r, &any);
                distance[k] = (int32_t) model_coefficient(r, &any);
        }
        for (uint32_t v = 0; v < n * n; v++) {
                e |= qubo_add_linear(b, v, model_coefficient(r, &any));
                for (uint32_t u = 0; u < v; u++)
                        if (!products || rng_below(r, 5) == 0)
                                e |= qubo_add_quadratic(b, u, v, model_coefficient(r, &any));
        }
        e |= qubo_set_permutation(b, flow, distance);
        return e < 0 ? e : qubo_build(b, ret);
}

/* The next point with one bit in each group, in the order of an odometer over groups and ungrouped variables; false: it was the last. */
static inline bool model_next_point(const Qubo *q, uint8_t *x) {
        for (uint32_t i = 0; i < q->n;) {
                uint32_t g = q->group_of[i], size = g == QUBO_NO_GROUP ? 1 : q->group_size[g], at = 0;

                if (g == QUBO_NO_GROUP) {
                        x[i] ^= 1;
                        if (x[i])
                                return true;
                } else {
                        while (!x[i + at])
                                at++;
                        x[i + at] = 0;
                        x[i + (at + 1) % size] = 1;
                        if (at + 1 < size)
                                return true;
                }
                i += size;
        }
        return false;
}

static inline void model_first_point(const Qubo *q, uint8_t *x) {
        memset(x, 0, q->n);
        for (uint32_t g = 0; g < q->n_groups; g++)
                x[q->group_first[g]] = 1;
}

/* The least energy of all feasible points of a small model. */
static inline int64_t model_brute_force(const Qubo *q) {
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);
        int64_t least = INT64_MAX;

        model_first_point(q, x);
        do
                if (!q->permutation || qubo_feasible(q, x))
                        least = MIN(least, qubo_energy(q, x));
        while (model_next_point(q, x));
        return least;
}

typedef struct PlacementShape {
        uint32_t ranks, devices, blocks; /* blocks 0: no block groups */
        uint32_t nodes;      /* devices and blocks are spread evenly over them; the first half is socket 0 */
        uint32_t tp, pp;     /* traffic: tp ranks in a row talk to each other, pp stages to the next */
        uint32_t noise;      /* 0: all equal; else each unary cost gets 0..noise */
        bool random_traffic; /* instead: every pair with one half chance, 1..9 */
} PlacementShape;

#define PLACEMENT_PENALTY 200000

static inline int64_t placement_link(const PlacementShape *s, uint32_t nodes_of, uint32_t a, uint32_t b) {
        uint32_t na = a * s->nodes / nodes_of, nb = b * s->nodes / nodes_of;

        return na == nb ? 10 : na / ((s->nodes + 1) / 2) == nb / ((s->nodes + 1) / 2) ? 14 : 30;
}

static inline int64_t placement_traffic(Rng *r, const PlacementShape *s, uint32_t a, uint32_t b) {
        if (s->random_traffic)
                return rng_below(r, 2) ? 1 + rng_below(r, 9) : 0;
        if (a / s->tp == b / s->tp)
                return 100;
        return s->pp > 1 && b == a + s->tp ? 11 : 0;
}

static inline uint32_t placement_device(const PlacementShape *s, uint32_t rank, uint32_t k) {
        return rank * (s->devices + s->blocks) + k;
}

static inline uint32_t placement_block(const PlacementShape *s, uint32_t rank, uint32_t k) {
        return placement_device(s, rank, s->devices) + k;
}

static inline int placement_pair(Rng *r, const PlacementShape *s, QuboBuilder *b, uint32_t i, uint32_t j) {
        int64_t traffic = placement_traffic(r, s, i, j);
        int e = 0;

        for (uint32_t k = 0; k < s->devices; k++)
                for (uint32_t m = 0; m < s->devices; m++)
                        e |= qubo_add_quadratic(b, placement_device(s, i, k), placement_device(s, j, m),
                                                k == m ? PLACEMENT_PENALTY
                                                       : traffic * placement_link(s, s->devices, k, m));
        for (uint32_t k = 0; k < s->blocks; k++)
                e |= qubo_add_quadratic(b, placement_block(s, i, k), placement_block(s, j, k), PLACEMENT_PENALTY);
        return e;
}

static inline int placement_rank(Rng *r, const PlacementShape *s, QuboBuilder *b, uint32_t i) {
        int e = qubo_add_group(b, placement_device(s, i, 0), s->devices);

        if (s->blocks > 0)
                e |= qubo_add_group(b, placement_block(s, i, 0), s->blocks);
        for (uint32_t k = 0; k < s->devices + s->blocks && s->noise > 0; k++)
                e |= qubo_add_linear(b, placement_device(s, i, k), rng_below(r, s->noise + 1));
        for (uint32_t k = 0; k < s->devices; k++)
                for (uint32_t m = 0; m < s->blocks; m++) {
                        /* the node of block m stands where a device of that node would */
                        uint32_t near = m * s->devices / s->blocks;

                        e |= qubo_add_quadratic(b, placement_device(s, i, k), placement_block(s, i, m),
                                                25 * (placement_link(s, s->devices, k, near) - 10));
                }
        return e;
}

static inline int model_placement(Rng *r, const PlacementShape *s, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int e = qubo_builder_new(s->ranks * (s->devices + s->blocks), &b);

        for (uint32_t i = 0; i < s->ranks && e >= 0; i++) {
                e |= placement_rank(r, s, b, i);
                for (uint32_t j = i + 1; j < s->ranks && e >= 0; j++)
                        e |= placement_pair(r, s, b, i, j);
        }
        return e < 0 ? e : qubo_build(b, ret);
}
