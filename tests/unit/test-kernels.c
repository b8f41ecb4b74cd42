/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops in every instruction set against plain loops written here, bit by bit. Prints TAP by itself and needs
 * nothing but policy/qubo, so that tests/cross-neon.sh can build it for another machine. A family of kernels is one
 * function of checks[] and is called for each table; it tells what is wrong, or NULL.
 */
#include <math.h>
#include <stdio.h>

#include "policy/qubo/anneal.h"
#include "policy/qubo/kernels.h"
#include "policy/qubo/multispin.h"
#include "policy/qubo/width.h"
#include "tests/unit/qubo-models.h"

/* Scales of coefficients that need fields of 1, 2, 4 and 8 bytes. */
static const int32_t ranges[] = { 3, 300, 300000, 2000000000 };

/* A model without groups of up to 70 variables; equal: all couplings have one absolute value. */
static Qubo *any_model(Rng *r, int32_t range, bool equal) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t n = rng_below(r, 70), density = rng_below(r, 100);
        Qubo *q = NULL;

        if (qubo_builder_new(n, &b) < 0)
                return NULL;
        for (uint32_t i = 0; i < n; i++) {
                const RandomShape s = { .range = range };

                if (qubo_add_linear(b, i, model_coefficient(r, &s)) < 0)
                        return NULL;
                for (uint32_t j = 0; j < i; j++)
                        if (rng_below(r, 100) < density && qubo_add_quadratic(b, i, j,
                                                                              !equal ? model_coefficient(r, &s)
                                                                              : rng_below(r, 2) ? range
                                                                                                : -range) < 0)
                                return NULL;
        }
        return qubo_build(b, &q) < 0 ? NULL : q;
}

typedef struct LanesRef {
        int64_t field[70 * ANNEAL_LANES_MAX];
        bool one[70 * ANNEAL_LANES_MAX];
} LanesRef;

static void lanes_begin(LanesRef *f, AnnealLanes *a, unsigned lanes) {
        const Rows *r = a->rows;

        for (uint32_t i = 0; i < r->n; i++)
                for (unsigned k = 0; k < lanes; k++) {
                        f->field[i * lanes + k] = r->linear[i];
                        f->one[i * lanes + k] = rng_below(&a->rng, 2);
                }
        for (uint32_t i = 0; i < r->n; i++)
                for (size_t e = r->first[i]; e < r->first[i + 1]; e++)
                        for (unsigned k = 0; k < lanes; k++)
                                if (f->one[i * lanes + k])
                                        f->field[r->col[e] * lanes + k] += rows_weight(r, e);
        for (size_t i = 0; i < (size_t) r->n * lanes; i++) {
                width_put(a->field, r->width, i, f->field[i]);
                width_put(a->spin, r->width, i, f->one[i] ? -1 : 0);
        }
}

static uint32_t lanes_sweep(LanesRef *f, const AnnealLanes *a, Rng rng, unsigned lanes) {
        const Rows *r = a->rows;
        uint64_t bits = 0;
        uint32_t changed = 0;

        for (uint32_t i = 0; i < r->n; i++) {
                bool any = false;

                bits = i % 4 == 0 ? rng_next(&rng) : bits >> 16;
                for (unsigned k = 0; k < lanes; k++) {
                        size_t at = (size_t) i * lanes + k;
                        int64_t sign = f->one[at] ? -1 : 1;

                        if (sign * f->field[at] > width_get(a->threshold, r->width, bits % ANNEAL_DRAWS * a->draw + k))
                                continue;
                        f->one[at] = !f->one[at];
                        for (size_t e = r->first[i]; e < r->first[i + 1]; e++)
                                f->field[r->col[e] * lanes + k] += sign * rows_weight(r, e);
                        any = true;
                }
                changed += any;
        }
        return changed;
}

static const char *lanes_energies(const LanesRef *f, const AnnealLanes *a, const Kernels *kernels, unsigned lanes) {
        int64_t sum[ANNEAL_LANES_MAX];

        kernels->anneal_energies[anneal_type(a->rows)](a, sum);
        for (unsigned k = 0; k < lanes; k++) {
                for (uint32_t i = 0; i < a->rows->n; i++)
                        if (f->one[i * lanes + k])
                                sum[k] -= a->rows->linear[i] + f->field[i * lanes + k];
                if (sum[k] != 0)
                        return "energies differ";
        }
        return NULL;
}

static const char *check_lanes_of(const Kernels *kernels, const Rows *r, Rng *rng) {
        static LanesRef f;
        unsigned lanes = anneal_lanes(r);
        size_t bytes = ((size_t) r->n + 1) * ANNEAL_VECTOR, draws = (size_t) (ANNEAL_DRAWS + 1) * lanes;
        _cleanup_free_ void *field = aligned_alloc(ANNEAL_VECTOR, bytes), *spin = aligned_alloc(ANNEAL_VECTOR, bytes),
                            *threshold = calloc(draws, r->width);
        AnnealLanes a = {
                .rows = r, .field = field, .spin = spin, .threshold = threshold, .draw = rng_below(rng, 2) ? 1 : lanes
        };

        for (size_t i = 0; i < draws; i++)
                width_put(threshold, r->width, i, (int64_t) rng_below(rng, (uint32_t) MIN(r->most, INT32_MAX) + 1));
        rng_seed(&a.rng, rng_next(rng), 0);
        lanes_begin(&f, &a, lanes);
        for (unsigned sweep = 0; sweep < 4; sweep++)
                if (lanes_sweep(&f, &a, a.rng, lanes) != kernels->anneal_lanes[anneal_type(r)](&a, 0, r->n))
                        return "a sweep changed another number of variables";
        for (size_t i = 0; i < (size_t) r->n * lanes; i++)
                if (f.field[i] != width_get(field, r->width, i) || f.one[i] != (width_get(spin, r->width, i) != 0))
                        return "fields or spins differ";
        return lanes_energies(&f, &a, kernels, lanes);
}

static const char *check_anneal_lanes(const Kernels *kernels) {
        const char *wrong = NULL;
        unsigned widths = 0;
        Rng rng;

        rng_seed(&rng, 1, 0);
        for (unsigned round = 0; round < 200 && !wrong; round++) {
                _cleanup_(qubo_freep) Qubo *q = any_model(&rng, ranges[round % 4], round / 4 % 2);
                _cleanup_(rows_freep) Rows *r = NULL;

                if (!q || rows_new(q, &r) < 0)
                        return "no model";
                widths |= r->width;
                wrong = check_lanes_of(kernels, r, &rng);
        }
        return wrong ?: widths != 15 ? "not every width was tried" : NULL;
}

static const char *check_anneal_thresholds(const Kernels *kernels) {
        static const int64_t largest[] = { 126, 32766, INT32_MAX, INT64_MAX };
        int64_t to[100];
        float logs[100];
        Rng rng;

        rng_seed(&rng, 2, 0);
        for (unsigned i = 0; i < 100; i++)
                logs[i] = (float) rng_below(&rng, 1000000) / 100000;
        for (unsigned type = 0; type < 4; type++)
                for (double t = 1e-3; t < 1e25; t *= 7) {
                        kernels->anneal_thresholds[type](to, logs, 100, (float) t);
                        for (unsigned i = 0; i < 100; i++) {
                                float v = logs[i] * (float) t;
                                int64_t is = width_get(to, 1U << type, i);

                                if (is < 0 || is > largest[type] || (float) is > v ||
                                    (v < (float) largest[type] * 0.99F && is != (int64_t) v))
                                        return "a threshold is not the value rounded down and cut off";
                        }
                }
        return NULL;
}

typedef struct DenseRef {
        int64_t field[128], weight[128][128], energy;
        bool one[128];
} DenseRef;

static uint32_t dense_sweep(DenseRef *f, const AnnealDense *a, uint32_t n, unsigned width) {
        unsigned lanes = ANNEAL_VECTOR / width;
        uint32_t flipped = 0;
        uint64_t bits = 0;
        Rng rng = a->rng;

        for (uint32_t i = 0; i < a->stride; i++) {
                int64_t cost = f->one[i] ? -f->field[i] : f->field[i];

                if (i % lanes == 0)
                        bits = i / lanes % 4 == 0 ? rng_next(&rng) : bits >> 16;
                if (i >= n || cost > width_get(a->threshold, width, bits % ANNEAL_DRAWS + i % lanes))
                        continue;
                f->energy += cost;
                flipped++;
                for (uint32_t j = 0; j < n; j++)
                        f->field[j] += f->one[i] ? -f->weight[i][j] : f->weight[i][j];
                f->one[i] = !f->one[i];
        }
        return flipped;
}

static const char *check_dense_of(const Kernels *kernels, DenseType type, Rng *rng) {
        static const unsigned widths[] = { 2, 4, 4, 8 }, weights[] = { 2, 2, 4, 4 };
        static const int32_t range[] = { 200, 30000, 20000000, 2000000000 };
        static DenseRef f;
        unsigned width = widths[type], lanes = ANNEAL_VECTOR / width;
        uint32_t n = rng_below(rng, 100);
        size_t stride = (n + lanes - 1) / lanes * lanes;
        _cleanup_free_ void *field = aligned_alloc(32, 128 * 8), *spin = aligned_alloc(32, 128 * 8),
                            *weight = aligned_alloc(32, 128 * 128 * 4),
                            *threshold = calloc(ANNEAL_DRAWS + lanes, width);
        AnnealDense a = { .stride = stride, .field = field, .spin = spin, .weight = weight, .threshold = threshold };

        memset(&f, 0, sizeof(f));
        memset(spin, 0, 128 * 8);
        memset(weight, 0, 128 * 128 * 4);
        rng_seed(&a.rng, rng_next(rng), 0);
        for (size_t i = 0; i < stride; i++) {
                f.field[i] = (int64_t) rng_below(rng, 2 * (uint32_t) range[type]) - range[type];
                width_put(field, width, i, i < n ? f.field[i] : INT64_MAX >> (64 - 8 * width));
                for (uint32_t j = 0; j < i && i < n; j++) {
                        f.weight[i][j] = f.weight[j][i] = (int64_t) rng_below(rng, 2 * (uint32_t) range[type]) -
                                                          range[type];
                        width_put(weight, weights[type], i * stride + j, f.weight[i][j]);
                        width_put(weight, weights[type], j * stride + i, f.weight[i][j]);
                }
        }
        for (size_t i = 0; i < ANNEAL_DRAWS + lanes; i++)
                width_put(threshold, width, i, rng_below(rng, (uint32_t) range[type]) - range[type] / 2);
        for (unsigned sweep = 0; sweep < 4; sweep++)
                if (dense_sweep(&f, &a, n, width) != kernels->anneal_dense[type](&a, 0, (uint32_t) (stride / lanes)))
                        return "a sweep flipped another number of variables";
        for (uint32_t i = 0; i < n; i++)
                if (f.field[i] != width_get(field, width, i) || f.one[i] != (width_get(spin, width, i) != 0))
                        return "fields or spins differ";
        return f.energy == a.energy ? NULL : "energies differ";
}

static const char *check_anneal_dense(const Kernels *kernels) {
        const char *wrong = NULL;
        Rng rng;

        rng_seed(&rng, 3, 0);
        for (unsigned round = 0; round < 200 && !wrong; round++)
                wrong = check_dense_of(kernels, (DenseType) (round % 4), &rng);
        return wrong;
}

#define SPINS_MAX 100U

static bool spin_bit(const void *vectors, size_t offset, unsigned k) {
        return ((const uint8_t *) vectors)[offset + k / 8] >> (k % 8) & 1;
}

/* Draws in the order of the kernel: sites of four couplings have half of a number each, others their own. */
static void spins_sweep(bool one[static SPINS_MAX][MULTISPIN_REPLICAS], const MultiSpin *m) {
        Rng rng = m->rng;
        uint64_t spare = 0;

        for (uint32_t i = 0; i < m->n; i++) {
                unsigned degree = m->first[i + 1] - m->first[i];
                uint64_t bits = degree == 4 && spare != 0 ? spare : rng_next(&rng);
                if (degree == 4)
                        spare = spare != 0 ? 0 : bits >> 32;
                for (unsigned k = 0; k < MULTISPIN_REPLICAS; k++) {
                        unsigned satisfied = 0, level = degree / 2 + 1;
                        uint64_t left = bits;
                        bool pass = true;

                        for (uint32_t j = m->first[i]; j < m->first[i + 1]; j++)
                                satisfied += (one[i][k] ^ one[m->link[j].site][k]) != (m->link[j].equal != 0);
                        for (unsigned odd = degree % 2; level <= degree; level++, left >>= 16, odd = 0)
                                pass = pass &&
                                       (satisfied < level ||
                                        spin_bit(m->pool[odd ? 0 : 1], left % (MULTISPIN_POOL * MULTISPIN_BYTES), k));
                        one[i][k] ^= pass;
                }
        }
}

static const char *check_spins_of(const Kernels *kernels, uint64_t seed) {
        static bool one[SPINS_MAX][MULTISPIN_REPLICAS];
        uint64_t satisfied[MULTISPIN_REPLICAS];
        uint32_t first[SPINS_MAX + 1] = {}, n;
        MultiSpinLink link[SPINS_MAX * MULTISPIN_DEGREE_MAX];
        _cleanup_free_ void *spin = aligned_alloc(32, SPINS_MAX * MULTISPIN_BYTES),
                            *a = aligned_alloc(32, (MULTISPIN_POOL + 1) * MULTISPIN_BYTES),
                            *b = aligned_alloc(32, (MULTISPIN_POOL + 1) * MULTISPIN_BYTES);
        MultiSpin m = { .first = first, .link = link, .spin = spin, .pool = { a, b } };

        rng_seed(&m.rng, seed, 0);
        m.n = n = 8 + rng_below(&m.rng, SPINS_MAX - 8);
        for (uint32_t i = 0; i < n; i++) {
                unsigned degree = rng_below(&m.rng, 3) == 0 ? rng_below(&m.rng, MULTISPIN_DEGREE_MAX + 1) : 4;

                first[i + 1] = first[i] + degree;
                for (uint32_t j = first[i]; j < first[i + 1]; j++) /* another site */
                        link[j] = (MultiSpinLink){ .site = (i + 1 + rng_below(&m.rng, n - 1)) % n,
                                                   .equal = -(int32_t) rng_below(&m.rng, 2) };
        }
        for (unsigned i = 0; i < ELEMENTSOF(m.seed); i++)
                m.seed[i] = rng_next(&m.rng);
        for (size_t i = 0; i < (size_t) n * MULTISPIN_BYTES; i++)
                ((uint8_t *) spin)[i] = (uint8_t) rng_next(&m.rng);
        for (uint32_t i = 0; i < n; i++)
                for (unsigned k = 0; k < MULTISPIN_REPLICAS; k++)
                        one[i][k] = spin_bit(spin, (size_t) i * MULTISPIN_BYTES, k);
        for (unsigned sweep = 0; sweep < 3; sweep++) {
                kernels->multispin_fill(&m, 0, MULTISPIN_CHANCE / 3 * sweep);
                kernels->multispin_fill(&m, 1, MULTISPIN_CHANCE / 5 * sweep);
                spins_sweep(one, &m);
                kernels->multispin_sweep(&m, 0, n);
        }
        for (uint32_t i = 0; i < n; i++)
                for (unsigned k = 0; k < MULTISPIN_REPLICAS; k++)
                        if (one[i][k] != spin_bit(spin, (size_t) i * MULTISPIN_BYTES, k))
                                return "a bit differs";
        kernels->multispin_count(&m, satisfied);
        for (unsigned k = 0; k < MULTISPIN_REPLICAS; k++) {
                for (uint32_t i = 0; i < n; i++)
                        for (uint32_t j = first[i]; j < first[i + 1]; j++)
                                satisfied[k] -= (one[i][k] ^ one[link[j].site][k]) != (link[j].equal != 0);
                if (satisfied[k] != 0)
                        return "satisfied couplings are miscounted";
        }
        return NULL;
}

/* Bits of a pool: the same in all tables, and as many as the chance says, within six standard deviations. */
static const char *check_pool(const Kernels *kernels) {
        enum { BITS = (MULTISPIN_POOL + 1) * MULTISPIN_BYTES * 8 };
        static const uint32_t chances[] = { 0, 1, 100, MULTISPIN_CHANCE / 3, MULTISPIN_CHANCE / 2, 65535, 65536 };
        static const Kernels *const *all = kernels_all;
        _cleanup_free_ uint64_t *to = aligned_alloc(32, BITS / 8), *other = aligned_alloc(32, BITS / 8);
        const Kernels *plain = NULL;

        for (size_t k = 0; all[k]; k++)
                plain = all[k];
        for (size_t c = 0; c < ELEMENTSOF(chances); c++) {
                MultiSpin m = { .pool = { to, to }, .seed = { 1, 2, 3, 4, 5, 6, 7, 8 + c } }, n = m;
                double p = chances[c] / (double) MULTISPIN_CHANCE, set = 0;

                n.pool[1] = other;
                kernels->multispin_fill(&m, 1, chances[c]);
                plain->multispin_fill(&n, 1, chances[c]);
                if (memcmp(to, other, BITS / 8) != 0 || memcmp(m.seed, n.seed, sizeof(m.seed)) != 0)
                        return "pools differ";
                for (size_t i = 0; i < BITS / 64; i++)
                        set += __builtin_popcountll(to[i]);
                if (fabs(set - BITS * p) > 6 * sqrt(BITS * p * (1 - p)))
                        return "a pool has not as many ones as its chance says";
        }
        return NULL;
}

static const char *check_multispin(const Kernels *kernels) {
        const char *wrong = check_pool(kernels);

        for (uint64_t seed = 0; seed < 60 && !wrong; seed++)
                wrong = check_spins_of(kernels, seed);
        return wrong;
}

static const struct {
        const char *name;
        const char *(*check)(const Kernels *kernels);
} checks[] = {
        { "anneal_lanes, anneal_energies", check_anneal_lanes },
        { "anneal_thresholds", check_anneal_thresholds },
        { "anneal_dense", check_anneal_dense },
        { "multispin", check_multispin },
};

int main(void) {
        unsigned n = 0;
        bool failed = false;

        for (const Kernels *const *k = kernels_all; *k; k++)
                for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
                        const char *wrong = (*k)->supported() ? checks[i].check(*k) : NULL;

                        printf("%s %u - %s: %s", wrong ? "not ok" : "ok", ++n, (*k)->name, checks[i].name);
                        if (!(*k)->supported())
                                printf(" # SKIP %s: compiled, not run: this CPU lacks it", (*k)->name);
                        printf("%s%s\n", wrong ? "\n# " : "", wrong ?: "");
                        failed |= wrong != NULL;
                }
        printf("1..%u\n", n);
        return failed;
}
