/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parallel tempering: the books of fields and energies through all moves; cluster moves that keep the sum of energies; the
 * distribution at every temperature against Boltzmann's; and the solver against brute force.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/pt.h"
#include "tests/unit/plain-models.h"

/* One model for each width of fields. */
static const RandomShape widths[] = {
        { .n_max = 40, .density = 10, .range = 5 },
        { .n_max = 40, .density = 30, .range = 200 },
        { .n_max = 40, .density = 30, .range = 1000000 },
        { .n_max = 40, .density = 30, .range = INT32_MAX },
};

static void ladder(PtReplicas *p, double cold, double ratio) {
        double t[PT_TEMPS_MAX];

        for (unsigned k = 0; k < p->temps; k++)
                t[k] = cold * pow(ratio, (double) k / (p->temps - 1));
        pt_set_temperatures(p, t);
}

static void sweep(PtReplicas *p) {
        for (unsigned k = 0; k < p->blocks; k++)
                pt_sweep(p, k, 0, p->q->n);
}

static void round_of(PtReplicas *p, unsigned parity) {
        sweep(p);
        pt_measure(p);
        pt_exchange(p, parity);
}

static int64_t energy_of(const PtReplicas *p, unsigned replica) {
        return p->q->offset + p->energy[replica] * p->rows->unit;
}

static void check_energies(PtReplicas *p) {
        uint8_t x[64];

        pt_measure(p);
        for (unsigned k = 0; k < p->blocks * p->lanes; k++) {
                pt_get(p, k, x);
                assert_true(energy_of(p, k) == qubo_energy(p->q, x));
        }
}

static void test_books(void **state) {
        bool seen[ANNEAL_TYPES] = {};

        for (unsigned m = 0; m < 40; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;
                _cleanup_(pt_done) PtReplicas p = {};
                uint8_t x[64], y[64];
                Rng rng;

                rng_seed(&rng, 3, m);
                assert_int_equal(model_random(&rng, &widths[m % ELEMENTSOF(widths)], &q), 0);
                assert_int_equal(pt_init(&p, q, kernels_best(), m, 1 + m / 4 % 2, NULL), 0);
                seen[p.type] = true;
                sweep(&p);
                check_energies(&p);
                ladder(&p, 1, 1000);
                for (unsigned i = 0; i < 20; i++) {
                        round_of(&p, i);
                        if (i == 10)
                                pt_even_out(&p);
                        for (unsigned k = 0; k < p.temps && p.sets > 1 && q->n > 0; k++)
                                (void) pt_cluster(&p, k);
                        check_energies(&p);
                }
                for (unsigned k = 1; k < p.temps; k++)
                        assert_true(p.t[k] > p.t[k - 1]);
                pt_get(&p, 0, x);
                pt_put(&p, 1, x);
                pt_get(&p, 1, y);
                assert_memory_equal(x, y, q->n);
                check_energies(&p);
        }
        for (unsigned k = 0; k < ANNEAL_TYPES; k++)
                assert_true(seen[k]);
}

/* The two replicas exchange values, and together they are what they were. */
static void test_clusters_keep_the_sum(void **state) {
        unsigned moved = 0;

        for (unsigned m = 0; m < 60; m++) {
                const RandomShape shape = { .n_max = 60, .density = 4, .range = 9 };
                _cleanup_(qubo_freep) Qubo *q = NULL;
                _cleanup_(pt_done) PtReplicas p = {};
                Rng rng;

                rng_seed(&rng, 4, m);
                assert_int_equal(model_random(&rng, &shape, &q), 0);
                assert_int_equal(pt_init(&p, q, kernels_best(), m, 2, NULL), 0);
                sweep(&p);
                ladder(&p, 1, 4);
                for (unsigned k = 0; k < p.temps && q->n > 0; k++) {
                        unsigned a = p.at[0][k], b = p.at[1][k], changed = 0;
                        uint8_t x[60], y[60], u[60], v[60];
                        int64_t sum;

                        pt_measure(&p);
                        sum = p.energy[a] + p.energy[b];
                        pt_get(&p, a, x);
                        pt_get(&p, b, y);
                        moved += pt_cluster(&p, k);
                        pt_measure(&p);
                        assert_true(p.energy[a] + p.energy[b] == sum);
                        pt_get(&p, a, u);
                        pt_get(&p, b, v);
                        for (uint32_t i = 0; i < q->n; i++) {
                                assert_true((u[i] == x[i] && v[i] == y[i]) || (u[i] == y[i] && v[i] == x[i]));
                                changed += u[i] != x[i];
                        }
                        assert_true(2 * changed <= q->n);
                }
        }
        assert_true(moved > 0);
}

/* A chain of three variables, in units of each width of fields. */
static int three_spins(int32_t unit, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int e = qubo_builder_new(3, &b);

        e |= qubo_add_linear(b, 0, -2 * unit) | qubo_add_linear(b, 1, unit + 1) | qubo_add_linear(b, 2, -unit);
        e |= qubo_add_quadratic(b, 0, 1, 3 * unit) | qubo_add_quadratic(b, 1, 2, -2 * unit);
        return e < 0 ? e : qubo_build(b, ret);
}

#define POINTS 8U
#define ROUNDS 15000U

static void check_distribution(const Qubo *q, const PtReplicas *p, double seen[PT_TEMPS_MAX][POINTS]) {
        for (unsigned k = 0; k < p->temps; k++) {
                double want[POINTS], sum = 0;

                for (unsigned i = 0; i < POINTS; i++) {
                        const uint8_t x[3] = { i & 1, i >> 1 & 1, i >> 2 & 1 };

                        want[i] = exp(-(double) qubo_energy(q, x) / (double) p->rows->unit / p->t[k]);
                        sum += want[i];
                }
                for (unsigned i = 0; i < POINTS; i++)
                        assert_true(fabs(seen[k][i] / ROUNDS / p->sets - want[i] / sum) < 0.02);
        }
}

static void sample(PtReplicas *p, unsigned rounds, double seen[PT_TEMPS_MAX][POINTS]) {
        memset(seen, 0, PT_TEMPS_MAX * sizeof(*seen));
        for (unsigned i = 0; i < rounds; i++) {
                round_of(p, i);
                for (unsigned k = 0; k < p->temps && p->sets > 1; k++)
                        (void) pt_cluster(p, k);
                for (unsigned s = 0; s < p->sets; s++)
                        for (unsigned k = 0; k < p->temps; k++) {
                                uint8_t x[3];

                                pt_get(p, p->at[s][k], x);
                                seen[k][x[0] | x[1] << 1 | x[2] << 2]++;
                        }
        }
}

static void test_distribution(void **state) {
        static const int32_t units[] = { 4, 3000, 100000, INT32_MAX / 3 };

        for (unsigned m = 0; m < ELEMENTSOF(units) * 2; m++) {
                int32_t unit = units[m / 2];
                _cleanup_(qubo_freep) Qubo *q = NULL;
                _cleanup_(pt_done) PtReplicas p = {};
                double seen[PT_TEMPS_MAX][POINTS];

                assert_int_equal(three_spins(unit, &q), 0);
                assert_int_equal(pt_init(&p, q, kernels_best(), m, 1 + m % 2, NULL), 0);
                assert_int_equal(p.rows->unit, 1);
                ladder(&p, 0.5 * unit, 6);
                sample(&p, 1000, seen);
                sample(&p, ROUNDS, seen);
                check_distribution(q, &p, seen);
        }
}

static void test_finds_the_optimum(void **state) {
        assert_finds_the_optimum(&solver_pt);
}

static void test_limits(void **state) {
        assert_limits(&solver_pt, 1);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_books),        cmocka_unit_test(test_clusters_keep_the_sum),
                cmocka_unit_test(test_distribution), cmocka_unit_test(test_finds_the_optimum),
                cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
