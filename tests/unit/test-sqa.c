/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated quantum annealing: every kernel table against a plain loop; the books; the distribution that the walk settles
 * in against the exact one of the Trotter formula (a product of 8 x 8 matrices), from slices that do not see each other
 * to slices in lockstep; and the solver against brute force.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/search.h"
#include "policy/qubo/sqa.h"
#include "tests/unit/plain-models.h"

static int32_t get(const SqaModel *m, const void *array, size_t i) {
        return m->narrow ? ((const int16_t *) array)[i] : ((const int32_t *) array)[i];
}

/* Where a slice of a variable lies. */
static size_t where(const SqaModel *m, uint32_t i, unsigned slice) {
        return (size_t) i * m->slices + (slice % 2) * (m->slices / 2) + slice / 2;
}

/* The state of a walk, without vectors. */
typedef struct Plain {
        SqaModel *m;
        int32_t spin[64][SQA_NARROW_SLICES]; /* by variable and slice: 0 or 1 */
        Rng rng;
} Plain;

static int64_t plain_cost(const Plain *p, uint32_t i, unsigned slice) {
        const SqaWalk *w = &p->m->walk;
        int64_t field = p->m->linear[i];

        for (size_t k = w->row[i]; k < w->row[i + 1]; k++)
                field += (int64_t) get(p->m, w->weight, k) * p->spin[w->col[k]][slice];
        return p->spin[i][slice] ? -field : field;
}

static void plain_sweep(Plain *p) {
        const SqaWalk *w = &p->m->walk;
        unsigned slices = p->m->slices;
        uint64_t bits = 0;

        for (uint32_t i = 0; i < w->n; i++) {
                bits = i % 2 == 0 ? rng_next(&p->rng) : bits >> 32;
                for (unsigned odd = 0; odd < 2; odd++)
                        for (unsigned k = odd; k < slices; k += 2) {
                                int32_t x = p->spin[i][k];
                                int agree = (x == p->spin[i][(k + 1) % slices]) +
                                            (x == p->spin[i][(k + slices - 1) % slices]);
                                int64_t cost = plain_cost(p, i, k) + (int64_t) w->bond * (agree - 1);

                                if (cost <= get(p->m, w->threshold, (bits >> 16 * odd) % SQA_DRAWS + k / 2))
                                        p->spin[i][k] ^= 1;
                        }
        }
}

static void plain_lines(Plain *p) {
        const SqaWalk *w = &p->m->walk;

        for (uint32_t i = 0; i < w->n; i++) {
                int64_t cost = 0;

                for (unsigned k = 0; k < p->m->slices; k++)
                        cost += plain_cost(p, i, k);
                if (cost > get(p->m, w->threshold, rng_next(&p->rng) % SQA_DRAWS))
                        continue;
                for (unsigned k = 0; k < p->m->slices; k++)
                        p->spin[i][k] ^= 1;
        }
}

static void plain_load(Plain *p, SqaModel *m) {
        *p = (Plain){ .m = m, .rng = m->walk.rng };
        for (uint32_t i = 0; i < m->walk.n; i++)
                for (unsigned k = 0; k < m->slices; k++)
                        p->spin[i][k] = -get(m, m->walk.spin, where(m, i, k));
}

static void assert_same(const Plain *p) {
        const SqaModel *m = p->m;

        for (uint32_t i = 0; i < m->walk.n; i++)
                for (unsigned k = 0; k < m->slices; k++) {
                        int64_t cost = plain_cost(p, i, k);

                        assert_int_equal(-get(m, m->walk.spin, where(m, i, k)), p->spin[i][k]);
                        assert_int_equal(get(m, m->walk.field, where(m, i, k)), p->spin[i][k] ? -cost : cost);
                }
}

static void walk_beside_plain(const Kernels *kernels, unsigned m) {
        const RandomShape shape = {
                .n_max = 64, .density = 5 + m % 60, .range = m % 5 == 4 ? INT32_MAX : 1 + m % 70, .equal = m % 3 == 0
        };
        _cleanup_(qubo_freep) Qubo *q = NULL;
        _cleanup_(sqa_model_done) SqaModel walk = {};
        Plain plain;
        Rng rng;

        rng_seed(&rng, 5, m);
        assert_int_equal(model_random(&rng, &shape, &q), 0);
        assert_int_equal(sqa_model_init(&walk, q, kernels, m, 2, NULL), 0);
        assert_true(walk.narrow == (shape.range < 1000) || q->n < 64);
        rng_seed(&walk.walk.rng, m, 0);
        sqa_scatter(&walk);
        sqa_sweep(&walk, 0, q->n);
        plain_load(&plain, &walk);
        assert_same(&plain);
        for (unsigned t = 0; t < 12; t++) {
                sqa_set_temperature(&walk, t == 11 ? 0 : walk.unit / (t + 1));
                sqa_set_bond(&walk, t == 0 ? 0 : sqa_bond(walk.unit / (t + 1), t == 10 ? 1e-12 : 1.0 / t));
                sqa_sweep(&walk, 0, q->n);
                plain_sweep(&plain);
                assert_same(&plain);
                sqa_lines(&walk, 0, q->n);
                plain_lines(&plain);
                assert_same(&plain);
        }
}

static void test_kernels(void **state) {
        for (size_t k = 0; kernels_all[k]; k++) {
                if (!kernels_all[k]->supported()) {
                        print_message("kernels %s: not run, this CPU has no such instructions\n", kernels_all[k]->name);
                        continue;
                }
                print_message("kernels %s\n", kernels_all[k]->name);
                for (unsigned m = 0; m < 120; m++)
                        walk_beside_plain(kernels_all[k], m);
        }
}

static void test_energies_and_slices(void **state) {
        for (unsigned m = 0; m < 60; m++) {
                const RandomShape shape = { .n_max = 40, .density = 40, .range = m % 2 ? 9 : 1 << 20 };
                _cleanup_(qubo_freep) Qubo *q = NULL;
                _cleanup_(sqa_model_done) SqaModel walk = {};
                double energy[SQA_NARROW_SLICES];
                uint8_t x[40];
                Rng rng;

                rng_seed(&rng, 6, m);
                assert_int_equal(model_random(&rng, &shape, &q), 0);
                assert_int_equal(sqa_model_init(&walk, q, kernels_best(), m, 2, NULL), 0);
                assert_true(walk.exact);
                rng_seed(&walk.walk.rng, m, 0);
                sqa_scatter(&walk);
                sqa_sweep(&walk, 0, q->n);
                sqa_set_temperature(&walk, walk.unit);
                sqa_set_bond(&walk, 0);
                sqa_sweep(&walk, 0, q->n);
                sqa_energies(&walk, energy);
                for (unsigned k = 0; k < walk.slices; k++) {
                        sqa_get_slice(&walk, k, x);
                        assert_true(energy[k] == (double) qubo_energy(q, x));
                }
        }
}

/* Three variables: how often each of the eight points stands in a slice. */
#define POINTS 8U
typedef double Matrix[POINTS][POINTS];

static void multiply(Matrix a, Matrix b) {
        Matrix c = {};

        for (unsigned i = 0; i < POINTS; i++)
                for (unsigned j = 0; j < POINTS; j++)
                        for (unsigned k = 0; k < POINTS; k++)
                                c[i][j] += a[i][k] * b[k][j];
        memcpy(a, c, sizeof(c));
}

static void point_of(unsigned p, uint8_t x[static 3]) {
        for (unsigned i = 0; i < 3; i++)
                x[i] = (uint8_t) (p >> i & 1);
}

/* The diagonal of (exp(-E / PT) exp(Gamma sigma^x / PT))^P, whose trace is 1. */
static void exact_distribution(const Qubo *q, unsigned slices, double pt, double field, double ret[static POINTS]) {
        Matrix step, all = {};
        double sum = 0;

        for (unsigned i = 0; i < POINTS; i++) {
                uint8_t x[3];

                point_of(i, x);
                all[i][i] = 1;
                for (unsigned j = 0; j < POINTS; j++)
                        step[i][j] = exp(-(double) qubo_energy(q, x) / pt) *
                                     pow(tanh(field), __builtin_popcount(i ^ j));
        }
        for (unsigned k = 0; k < slices; k++)
                multiply(all, step);
        for (unsigned i = 0; i < POINTS; i++)
                sum += all[i][i];
        for (unsigned i = 0; i < POINTS; i++)
                ret[i] = all[i][i] / sum;
}

static int three_spins(int32_t unit, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int e = qubo_builder_new(3, &b);

        e |= qubo_add_linear(b, 0, -2 * unit) | qubo_add_linear(b, 1, unit) | qubo_add_linear(b, 2, -unit);
        e |= qubo_add_quadratic(b, 0, 1, 3 * unit) | qubo_add_quadratic(b, 1, 2, -2 * unit) |
             qubo_add_quadratic(b, 0, 2, unit);
        return e < 0 ? e : qubo_build(b, ret);
}

static void sample(SqaModel *m, unsigned sweeps, double ret[static POINTS]) {
        memset(ret, 0, POINTS * sizeof(*ret));
        for (unsigned t = 0; t < sweeps; t++) {
                sqa_sweep(m, 0, 3);
                sqa_lines(m, 0, 3);
                for (unsigned k = 0; k < m->slices; k++) {
                        unsigned p = 0;

                        for (unsigned i = 0; i < 3; i++)
                                p |= (unsigned) -get(m, m->walk.spin, where(m, i, k)) << i;
                        ret[p] += 1.0 / ((double) sweeps * m->slices);
                }
        }
}

/* P T in units of the model's coefficients. */
static const struct {
        double pt, field;
} settings[] = { { 2, 1e3 }, { 2, 1 }, { 8, .3 }, { 16, .1 }, { 24, .03 }, { 40, .003 } };

static void test_distribution(void **state) {
        for (unsigned wide = 0; wide < 2; wide++)
                for (size_t k = 0; k < ELEMENTSOF(settings); k++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        _cleanup_(sqa_model_done) SqaModel m = {};
                        double want[POINTS], got[POINTS], unit = wide ? 100000 : 1, pt = settings[k].pt * unit;

                        assert_int_equal(three_spins((int32_t) unit, &q), 0);
                        assert_int_equal(sqa_model_init(&m, q, kernels_best(), 1, 40, NULL), 0);
                        assert_true(m.narrow == !wide);
                        rng_seed(&m.walk.rng, 1, 1);
                        sqa_scatter(&m);
                        sqa_sweep(&m, 0, 3);
                        sqa_set_temperature(&m, pt);
                        sqa_set_bond(&m, sqa_bond(pt, settings[k].field));
                        sample(&m, 2000, got);
                        sample(&m, 400000, got);
                        exact_distribution(q, m.slices, pt, settings[k].field, want);
                        for (unsigned p = 0; p < POINTS; p++)
                                assert_true(fabs(got[p] - want[p]) < 0.005);
                }
}

/* With the field gone all slices are one classical point, and world lines move it at temperature T. */
static void test_no_field_is_classical(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        _cleanup_(sqa_model_done) SqaModel m = {};
        double want[POINTS], got[POINTS], sum = 0, t = 1.5;
        uint8_t x[3] = {};

        assert_int_equal(three_spins(1, &q), 0);
        assert_int_equal(sqa_model_init(&m, q, kernels_best(), 1, 40, NULL), 0);
        rng_seed(&m.walk.rng, 2, 1);
        sqa_scatter(&m);
        sqa_set_temperature(&m, t * m.slices);
        sqa_set_bond(&m, INFINITY);
        sample(&m, 400000, got);
        for (unsigned p = 0; p < POINTS; p++) {
                point_of(p, x);
                want[p] = exp(-(double) qubo_energy(q, x) / t);
                sum += want[p];
        }
        for (unsigned p = 0; p < POINTS; p++)
                assert_true(fabs(got[p] - want[p] / sum) < 0.005);
        for (uint32_t i = 0; i < 3; i++)
                for (unsigned k = 1; k < m.slices; k++)
                        assert_int_equal(get(&m, m.walk.spin, where(&m, i, k)), get(&m, m.walk.spin, where(&m, i, 0)));
}

static void test_finds_the_optimum(void **state) {
        assert_finds_the_optimum(&solver_sqa);
}

static void test_limits(void **state) {
        assert_limits(&solver_sqa, 2);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kernels),           cmocka_unit_test(test_energies_and_slices),
                cmocka_unit_test(test_distribution),      cmocka_unit_test(test_no_field_is_classical),
                cmocka_unit_test(test_finds_the_optimum), cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
