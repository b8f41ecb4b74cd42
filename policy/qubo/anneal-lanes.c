/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lanes of anneal.h as a method: 64 bytes a variable, and the rows. A random point comes from a sweep over zeros with
 * thresholds that are above or below every cost with even chances.
 */
#include <errno.h>

#include "policy/qubo/anneal.h"
#include "policy/qubo/kernels.h"
#include "policy/qubo/width.h"

typedef struct Lanes {
        AnnealState base;
        const Qubo *q;
        const Kernels *kernels;
        AnnealLanes a;
        unsigned type, lanes;
        void *threshold;
        float *logs;
        uint8_t *x;
} Lanes;

static Lanes *lanes_of(AnnealState *s) {
        return (Lanes *) s;
}

static void lanes_free(AnnealState *state) {
        Lanes *s = lanes_of(state);

        free(s->a.field);
        free(s->a.spin);
        free(s->threshold);
        free(s->logs);
        free(s->x);
        free(s);
}

static int lanes_new(const Qubo *q, const Rows *rows, const Kernels *kernels, uint64_t seed, Limit *l,
                     AnnealState **ret) {
        Lanes *s = calloc(1, sizeof(*s));
        size_t bytes = ((size_t) q->n + 1) * ANNEAL_VECTOR;

        if (!s)
                return -ENOMEM;
        s->base = (AnnealState){
                .units = q->n,
                .work = (uint32_t) (4 + (q->n > 0 ? rows->first[q->n] / q->n : 0) / 4),
                .replicas = anneal_lanes(rows),
                .look_every = 1,
        };
        s->q = q;
        s->kernels = kernels;
        s->type = anneal_type(rows);
        s->lanes = anneal_lanes(rows);
        s->threshold = calloc(ANNEAL_DRAWS + s->lanes, rows->width);
        s->logs = anneal_logs(seed);
        s->x = calloc((size_t) q->n + 1, 1);
        s->a = (AnnealLanes){
                .rows = rows,
                .field = aligned_alloc(ANNEAL_VECTOR, bytes),
                .spin = aligned_alloc(ANNEAL_VECTOR, bytes),
                .threshold = s->threshold,
                .draw = 1,
        };
        if (!s->a.field || !s->a.spin || !s->threshold || !s->logs || !s->x) {
                lanes_free(&s->base);
                return -ENOMEM;
        }
        *ret = &s->base;
        return 0;
}

static void lanes_cool(AnnealState *state, double t) {
        Lanes *s = lanes_of(state);
        size_t n = ANNEAL_DRAWS + s->lanes;

        if (t > 0)
                s->kernels->anneal_thresholds[s->type](s->threshold, s->logs, n, (float) t);
        else
                memset(s->threshold, 0xff, n * s->a.rows->width); /* -1 */
}

static uint32_t lanes_sweep(AnnealState *state, uint32_t from, uint32_t to) {
        Lanes *s = lanes_of(state);

        return s->kernels->anneal_lanes[s->type](&s->a, from, to);
}

static void lanes_scatter(AnnealState *state, uint64_t seed, uint64_t stream) {
        Lanes *s = lanes_of(state);
        const Rows *r = s->a.rows;
        int64_t most = r->most;

        rng_seed(&s->a.rng, seed, stream);
        memset(s->a.spin, 0, (size_t) r->n * ANNEAL_VECTOR);
        for (uint32_t i = 0; i < r->n; i++)
                for (unsigned k = 0; k < s->lanes; k++)
                        width_put(s->a.field, 1U << s->type, (size_t) i * s->lanes + k, r->linear[i]);
        for (unsigned i = 0; i < ANNEAL_DRAWS; i += 64)
                for (uint64_t bits = rng_next(&s->a.rng), k = 0; k < 64; k++, bits >>= 1)
                        width_put(s->threshold, 1U << s->type, i + k, bits & 1 ? most : -most - 1);
        for (unsigned k = 0; k < s->lanes; k++)
                width_put(s->threshold, 1U << s->type, ANNEAL_DRAWS + k, rng_next(&s->a.rng) >> 63 ? most : -most - 1);
}

static bool is_one(const Lanes *s, uint32_t i, unsigned lane) {
        size_t width = s->a.rows->width;

        return ((const uint8_t *) s->a.spin)[((size_t) i * s->lanes + lane) * width] != 0;
}

static void lanes_offer(AnnealState *state, Best *best, Limit *l) {
        Lanes *s = lanes_of(state);
        int64_t sum[ANNEAL_LANES_MAX], energy;
        unsigned least = 0;

        s->kernels->anneal_energies[s->type](&s->a, sum);
        for (unsigned k = 1; k < s->lanes; k++)
                if (sum[k] < sum[least])
                        least = k;
        energy = s->q->offset + sum[least] / 2 * s->a.rows->unit;
        if (energy >= best->energy)
                return;
        for (uint32_t i = 0; i < s->q->n; i++)
                s->x[i] = is_one(s, i, least);
        best_offer(best, l, s->x, energy);
}

const AnnealMethod anneal_by_lanes = {
        .new = lanes_new,
        .free = lanes_free,
        .scatter = lanes_scatter,
        .cool = lanes_cool,
        .sweep = lanes_sweep,
        .offer = lanes_offer,
};
