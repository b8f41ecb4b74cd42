/* SPDX-License-Identifier: Apache-2.0 */
/* The dense state of anneal.h as a method. Memory: 2 or 4 bytes for each pair of variables. */
#include <errno.h>

#include "policy/qubo/anneal.h"
#include "policy/qubo/kernels.h"
#include "policy/qubo/width.h"

typedef struct Dense {
        AnnealState base;
        const Qubo *q;
        const Kernels *kernels;
        const Rows *rows;
        AnnealDense a;
        DenseType type;
        unsigned width, lanes; /* of fields */
        void *weight, *threshold;
        float *logs;
        uint8_t *x;
} Dense;

static Dense *dense_of(AnnealState *s) {
        return (Dense *) s;
}

static void dense_free(AnnealState *state) {
        Dense *s = dense_of(state);

        free(s->a.field);
        free(s->a.spin);
        free(s->weight);
        free(s->threshold);
        free(s->logs);
        free(s->x);
        free(s);
}

static bool fits_int16(const Rows *r) {
        for (size_t k = 0; !r->narrow && k < r->first[r->n]; k++)
                if (rows_weight(r, k) > INT16_MAX || rows_weight(r, k) < INT16_MIN)
                        return false;
        return true;
}

/* The largest value is for variables that are none. */
static DenseType type_of(const Rows *r) {
        if (r->most < INT16_MAX)
                return DENSE_16_16;
        if (r->most < INT32_MAX)
                return fits_int16(r) ? DENSE_32_16 : DENSE_32_32;
        return DENSE_64_32;
}

static bool has_narrow_weights(DenseType t) {
        return t == DENSE_16_16 || t == DENSE_32_16;
}

size_t anneal_dense_size(const Rows *r, unsigned *ret_lanes) {
        DenseType t = type_of(r);
        size_t lanes = ANNEAL_VECTOR / (t == DENSE_16_16 ? 2 : t == DENSE_64_32 ? 8 : 4);
        size_t stride = ((size_t) r->n + lanes - 1) / lanes * lanes;

        *ret_lanes = (unsigned) lanes;
        return stride * stride * (has_narrow_weights(t) ? sizeof(int16_t) : sizeof(int32_t));
}

static void fill_weights(Dense *s, Limit *l) {
        const Rows *r = s->rows;
        void *weight = (uint8_t *) s->weight + (-(uintptr_t) s->weight) % ANNEAL_VECTOR;

        s->a.weight = weight;
        for (uint32_t i = 0; i < r->n && !limit_work(l, s->a.stride / 8 + r->first[i + 1] - r->first[i]); i++)
                for (size_t k = r->first[i]; k < r->first[i + 1]; k++) {
                        size_t at = i * s->a.stride + r->col[k];

                        if (has_narrow_weights(s->type))
                                ((int16_t *) weight)[at] = (int16_t) rows_weight(r, k);
                        else
                                ((int32_t *) weight)[at] = rows_weight(r, k);
                }
}

static int dense_new(const Qubo *q, const Rows *rows, const Kernels *kernels, uint64_t seed, Limit *l,
                     AnnealState **ret) {
        Dense *s = calloc(1, sizeof(*s));
        size_t bytes;

        if (!s)
                return -ENOMEM;
        s->q = q;
        s->kernels = kernels;
        s->rows = rows;
        s->type = type_of(rows);
        bytes = anneal_dense_size(rows, &s->lanes);
        s->width = ANNEAL_VECTOR / s->lanes;
        s->a.stride = ((size_t) q->n + s->lanes - 1) / s->lanes * s->lanes;
        s->base = (AnnealState){
                .units = (uint32_t) (s->a.stride / s->lanes),
                .work = (uint32_t) (4 + s->a.stride / 8),
                .replicas = 1,
                .look_every = 1,
        };
        s->weight = calloc(bytes + ANNEAL_VECTOR, 1); /* pages come as they are filled */
        s->a.field = aligned_alloc(ANNEAL_VECTOR, (s->a.stride + s->lanes) * s->width);
        s->a.spin = aligned_alloc(ANNEAL_VECTOR, (s->a.stride + s->lanes) * s->width);
        s->threshold = calloc(ANNEAL_DRAWS + s->lanes, s->width);
        s->logs = anneal_logs(seed);
        s->x = calloc((size_t) q->n + 1, 1);
        if (!s->weight || !s->a.field || !s->a.spin || !s->threshold || !s->logs || !s->x) {
                dense_free(&s->base);
                return -ENOMEM;
        }
        s->a.threshold = s->threshold;
        fill_weights(s, l);
        *ret = &s->base;
        return 0;
}

static int64_t largest(const Dense *s) {
        return s->width == 2 ? INT16_MAX : s->width == 4 ? INT32_MAX : INT64_MAX;
}

static void dense_cool(AnnealState *state, double t) {
        Dense *s = dense_of(state);
        size_t n = ANNEAL_DRAWS + s->lanes;

        if (t > 0)
                s->kernels->anneal_thresholds[s->width == 2   ? 1
                                              : s->width == 4 ? 2
                                                              : 3](s->threshold, s->logs, n, (float) t);
        else
                memset(s->threshold, 0xff, n * s->width); /* -1 */
}

static uint32_t dense_sweep(AnnealState *state, uint32_t from, uint32_t to) {
        Dense *s = dense_of(state);

        return s->kernels->anneal_dense[s->type](&s->a, from, to);
}

static void dense_scatter(AnnealState *state, uint64_t seed, uint64_t stream) {
        Dense *s = dense_of(state);
        uint64_t bits = 0;

        rng_seed(&s->a.rng, seed, stream);
        memset(s->a.spin, 0, s->a.stride * s->width);
        for (size_t i = 0; i < s->a.stride; i++)
                width_put(s->a.field, s->width, i, i < s->q->n ? s->rows->linear[i] : largest(s));
        s->a.energy = 0;
        for (size_t i = 0; i < ANNEAL_DRAWS + s->lanes; i++) {
                bits = i % 64 == 0 ? rng_next(&s->a.rng) : bits >> 1;
                width_put(s->threshold, s->width, i, bits & 1 ? s->rows->most : -s->rows->most - 1);
        }
}

static void dense_offer(AnnealState *state, Best *best, Limit *l) {
        Dense *s = dense_of(state);
        int64_t energy = s->q->offset + s->a.energy * s->rows->unit;

        if (energy >= best->energy)
                return;
        for (uint32_t i = 0; i < s->q->n; i++)
                s->x[i] = ((const uint8_t *) s->a.spin)[(size_t) i * s->width] != 0;
        best_offer(best, l, s->x, energy);
}

const AnnealMethod anneal_dense = {
        .new = dense_new,
        .free = dense_free,
        .scatter = dense_scatter,
        .cool = dense_cool,
        .sweep = dense_sweep,
        .offer = dense_offer,
};
