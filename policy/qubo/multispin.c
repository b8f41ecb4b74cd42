/* SPDX-License-Identifier: Apache-2.0 */
/* The replicas of multispin.h as a method of annealing. Memory: 36 bytes a site, 8 for each coupling and direction. */
#include "policy/qubo/multispin.h"

#include <errno.h>
#include <math.h>

#include "policy/qubo/anneal.h"
#include "policy/qubo/kernels.h"

#define LOOK_EVERY 32U

typedef struct Replicas {
        AnnealState base;
        const Qubo *q;
        const Kernels *kernels;
        MultiSpin m;
        uint32_t *first, *site; /* site: of a variable */
        MultiSpinLink *link;
        int64_t weight, unit; /* |w| in units */
        uint64_t negative;    /* couplings, from both ends */
        bool has_odd;         /* degrees */
        uint8_t *x;
} Replicas;

static Replicas *replicas_of(AnnealState *s) {
        return (Replicas *) s;
}

/* sum of w = -2 linear: as spins, no fields. */
bool multispin_fits(const Rows *r) {
        int32_t weight = 0;

        for (uint32_t i = 0; i < r->n; i++) {
                size_t degree = r->first[i + 1] - r->first[i];
                int64_t sum = 2 * (int64_t) r->linear[i];

                if (degree > MULTISPIN_DEGREE_MAX ||
                    (degree > 0 && (r->same[i] == 0 || (weight && r->same[i] != weight))))
                        return false;
                for (size_t k = r->first[i]; k < r->first[i + 1]; k++)
                        sum += rows_weight(r, k);
                if (sum != 0)
                        return false;
                weight = degree > 0 ? r->same[i] : weight;
        }
        return r->n <= UINT32_MAX / MULTISPIN_DEGREE_MAX;
}

static void replicas_free(AnnealState *state) {
        Replicas *s = replicas_of(state);

        free(s->m.spin);
        free(s->m.pool[0]);
        free(s->m.pool[1]);
        free(s->first);
        free(s->site);
        free(s->link);
        free(s->x);
        free(s);
}

/* The least colour that no neighbour has yet; sites are numbered colour by colour. */
static void number_sites(Replicas *s, const Rows *r, uint32_t *color) {
        uint32_t count[MULTISPIN_DEGREE_MAX + 2] = {};

        memset(color, 0xff, r->n * sizeof(*color));
        for (uint32_t i = 0; i < r->n; i++) {
                uint32_t taken = 0;

                for (size_t k = r->first[i]; k < r->first[i + 1]; k++)
                        if (color[r->col[k]] != UINT32_MAX)
                                taken |= 1U << color[r->col[k]];
                color[i] = (uint32_t) __builtin_ctz(~taken);
                count[color[i] + 1]++;
        }
        for (unsigned c = 1; c < MULTISPIN_DEGREE_MAX + 2; c++)
                count[c] += count[c - 1];
        for (uint32_t i = 0; i < r->n; i++)
                s->site[i] = count[color[i]]++;
}

static void fill_links(Replicas *s, const Rows *r) {
        for (uint32_t i = 0; i < r->n; i++)
                s->first[s->site[i] + 1] = (uint32_t) (r->first[i + 1] - r->first[i]);
        for (uint32_t i = 0; i < r->n; i++)
                s->first[i + 1] += s->first[i];
        for (uint32_t i = 0; i < r->n; i++) {
                MultiSpinLink *l = s->link + s->first[s->site[i]];

                for (size_t k = r->first[i]; k < r->first[i + 1]; k++, l++)
                        *l = (MultiSpinLink){ .site = s->site[r->col[k]], .equal = rows_weight(r, k) < 0 ? -1 : 0 };
        }
}

static void measure(Replicas *s, const Rows *r) {
        for (uint32_t i = 0; i < r->n; i++) {
                s->weight = r->same[i] != 0 ? r->same[i] : s->weight;
                s->negative += r->positive[i] - r->first[i];
                s->has_odd |= (r->first[i + 1] - r->first[i]) % 2 != 0;
        }
}

/*
 * Of spins, E = offset + sum over i of linear / 2 + sum over couplings of (w + w s s') / 4, and linear = -sum of w / 2: so
 * E = offset + |w| / 2 (negative couplings - satisfied ones). Both are counted from both ends.
 */
static int64_t energy_of(const Replicas *s, uint64_t satisfied) {
        return s->q->offset + s->unit * (s->weight * ((int64_t) s->negative - (int64_t) satisfied) / 4);
}

static int replicas_new(const Qubo *q, const Rows *rows, const Kernels *kernels, uint64_t seed, Limit *l,
                        AnnealState **ret) {
        _cleanup_free_ uint32_t *color = calloc((size_t) q->n + 1, sizeof(*color));
        Replicas *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        *s = (Replicas){
                .base = { .units = q->n, .work = 8, .replicas = MULTISPIN_REPLICAS, .look_every = LOOK_EVERY },
                .q = q,
                .kernels = kernels,
                .unit = rows->unit,
                .first = calloc((size_t) q->n + 1, sizeof(*s->first)),
                .site = calloc((size_t) q->n + 1, sizeof(*s->site)),
                .link = calloc(rows->first[q->n] + 1, sizeof(*s->link)),
                .x = calloc((size_t) q->n + 1, 1),
                .m = { .n = q->n, .spin = aligned_alloc(MULTISPIN_BYTES, ((size_t) q->n + 1) * MULTISPIN_BYTES) },
        };
        for (unsigned i = 0; i < 2; i++)
                s->m.pool[i] = aligned_alloc(MULTISPIN_BYTES, (MULTISPIN_POOL + 1) * MULTISPIN_BYTES);
        if (!color || !s->first || !s->site || !s->link || !s->x || !s->m.spin || !s->m.pool[0] || !s->m.pool[1]) {
                replicas_free(&s->base);
                return -ENOMEM;
        }
        s->m.first = s->first;
        s->m.link = s->link;
        number_sites(s, rows, color);
        fill_links(s, rows);
        measure(s, rows);
        *ret = &s->base;
        return 0;
}

static void replicas_scatter(AnnealState *state, uint64_t seed, uint64_t stream) {
        Replicas *s = replicas_of(state);

        rng_seed(&s->m.rng, seed, stream);
        for (unsigned i = 0; i < ELEMENTSOF(s->m.seed); i++)
                s->m.seed[i] = rng_next(&s->m.rng);
        for (size_t i = 0; i < (size_t) s->m.n * MULTISPIN_BYTES / sizeof(uint64_t); i++)
                ((uint64_t *) s->m.spin)[i] = rng_next(&s->m.rng);
        s->kernels->multispin_fill(&s->m, 0, MULTISPIN_CHANCE / 2);
        s->kernels->multispin_fill(&s->m, 1, MULTISPIN_CHANCE / 2);
}

static void replicas_cool(AnnealState *state, double t) {
        Replicas *s = replicas_of(state);
        double a = t > 0 ? exp(-(double) s->weight / (2 * t)) : 0;

        if (s->has_odd)
                s->kernels->multispin_fill(&s->m, 0, (uint32_t) rint(a * MULTISPIN_CHANCE));
        s->kernels->multispin_fill(&s->m, 1, (uint32_t) rint(a * a * MULTISPIN_CHANCE));
}

static uint32_t replicas_sweep(AnnealState *state, uint32_t from, uint32_t to) {
        Replicas *s = replicas_of(state);

        s->kernels->multispin_sweep(&s->m, from, to);
        return 1;
}

static void replicas_offer(AnnealState *state, Best *best, Limit *l) {
        Replicas *s = replicas_of(state);
        uint64_t satisfied[MULTISPIN_REPLICAS];
        unsigned most = 0;
        int64_t energy;

        s->kernels->multispin_count(&s->m, satisfied);
        for (unsigned k = 1; k < MULTISPIN_REPLICAS; k++)
                if (satisfied[k] > satisfied[most])
                        most = k;
        energy = energy_of(s, satisfied[most]);
        if (energy >= best->energy)
                return;
        for (uint32_t i = 0; i < s->q->n; i++)
                s->x[i] = (((const uint64_t *) s->m.spin)[(size_t) s->site[i] * 4 + most / 64] >> (most % 64)) & 1;
        best_offer(best, l, s->x, energy);
}

const AnnealMethod anneal_multispin = {
        .new = replicas_new,
        .free = replicas_free,
        .scatter = replicas_scatter,
        .cool = replicas_cool,
        .sweep = replicas_sweep,
        .offer = replicas_offer,
};
