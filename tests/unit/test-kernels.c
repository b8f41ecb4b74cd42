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

static int64_t get(const void *array, unsigned width, size_t i) {
        return width == 1   ? ((const int8_t *) array)[i]
               : width == 2 ? ((const int16_t *) array)[i]
               : width == 4 ? ((const int32_t *) array)[i]
                            : ((const int64_t *) array)[i];
}

static void put(void *array, unsigned width, size_t i, int64_t v) {
        if (width == 1)
                ((int8_t *) array)[i] = (int8_t) v;
        else if (width == 2)
                ((int16_t *) array)[i] = (int16_t) v;
        else if (width == 4)
                ((int32_t *) array)[i] = (int32_t) v;
        else
                ((int64_t *) array)[i] = v;
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
                put(a->field, r->width, i, f->field[i]);
                put(a->spin, r->width, i, f->one[i] ? -1 : 0);
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

                        if (sign * f->field[at] > get(a->threshold, r->width, bits % ANNEAL_DRAWS * a->draw + k))
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
                put(threshold, r->width, i, (int64_t) rng_below(rng, (uint32_t) MIN(r->most, INT32_MAX) + 1));
        rng_seed(&a.rng, rng_next(rng), 0);
        lanes_begin(&f, &a, lanes);
        for (unsigned sweep = 0; sweep < 4; sweep++)
                if (lanes_sweep(&f, &a, a.rng, lanes) != kernels->anneal_lanes[anneal_type(r)](&a, 0, r->n))
                        return "a sweep changed another number of variables";
        for (size_t i = 0; i < (size_t) r->n * lanes; i++)
                if (f.field[i] != get(field, r->width, i) || f.one[i] != (get(spin, r->width, i) != 0))
                        return "fields or spins differ";
        return NULL;
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

static const struct {
        const char *name;
        const char *(*check)(const Kernels *kernels);
} checks[] = {
        { "anneal_lanes", check_anneal_lanes },
};

int main(void) {
        unsigned n = 0;
        bool failed = false;

        for (const Kernels *const *k = kernels_all; *k; k++)
                for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
                        const char *wrong = (*k)->supported() ? checks[i].check(*k) : NULL;

                        printf("%s %u - %s: %s", wrong ? "not ok" : "ok", ++n, (*k)->name, checks[i].name);
                        if (!(*k)->supported())
                                printf(" # SKIP %s: not run, this CPU lacks it", (*k)->name);
                        printf("%s%s\n", wrong ? "\n# " : "", wrong ?: "");
                        failed |= wrong != NULL;
                }
        printf("1..%u\n", n);
        return failed;
}
