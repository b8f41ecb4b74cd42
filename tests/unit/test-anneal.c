/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Annealing of plain models by each of its methods: beside branch and bound on small models of all shapes and widths, the
 * same with every instruction set, and within its limits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/anneal.h"
#include "policy/qubo/kernels.h"
#include "policy/qubo/multispin.h"
#include "tests/unit/qubo-models.h"

static const RandomShape shapes[] = {
        { .n_max = 1, .density = 100, .range = 5 },
        { .n_max = 14, .density = 100, .range = 0 },
        { .n_max = 14, .density = 30, .range = 1 },
        { .n_max = 14, .density = 100, .range = 100 },
        { .n_max = 14, .density = 60, .range = 3000 },
        { .n_max = 14, .density = 60, .range = 1000000 },
        { .n_max = 14, .density = 100, .range = INT32_MAX },
        { .n_max = 14, .density = 50, .range = INT32_MAX, .equal = true },
        { .n_max = 14, .density = 50, .range = -7, .equal = true },
};

/* Couplings of one size and either sign, no field as spins: a maximum cut. */
static Qubo *cut_model(Rng *r, uint32_t n, unsigned degree, int32_t w) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_free_ unsigned *used = calloc((size_t) n + 1, sizeof(*used));
        _cleanup_free_ bool *joined = calloc((size_t) n * n + 1, sizeof(*joined));
        Qubo *q = NULL;

        assert_int_equal(qubo_builder_new(n, &b), 0);
        assert_int_equal(qubo_add_offset(b, rng_below(r, 100)), 0);
        for (unsigned k = 0; n > 1 && k < 4 * n; k++) {
                uint32_t i = rng_below(r, n), j = rng_below(r, n);
                int32_t v = rng_below(r, 2) ? w : -w;

                if (i == j || used[i] == degree || used[j] == degree || joined[i * n + j])
                        continue;
                joined[i * n + j] = joined[j * n + i] = true;
                used[i]++;
                used[j]++;
                assert_int_equal(qubo_add_linear(b, i, -v), 0);
                assert_int_equal(qubo_add_linear(b, j, -v), 0);
                assert_int_equal(qubo_add_quadratic(b, i, j, 2 * v), 0);
        }
        assert_int_equal(qubo_build(b, &q), 0);
        return q;
}

static int64_t optimum(const Qubo *q) {
        int64_t least = INT64_MAX;
        uint8_t x[32] = {};

        for (uint32_t point = 0; point < UINT32_C(1) << q->n; point++) {
                for (uint32_t i = 0; i < q->n; i++)
                        x[i] = point >> i & 1;
                least = MIN(least, qubo_energy(q, x));
        }
        return least;
}

static void solve(const AnnealMethod *method, const Qubo *q, const SolveParams *p, SolveResult *r) {
        *r = (SolveResult){ .lower_bound = INT64_MIN };
        assert_int_equal(anneal_by(method, q, p, r), 0);
        assert_true(r->energy == qubo_energy(q, r->x));
}

static void check_small(const AnnealMethod *method, const Qubo *q, unsigned *found) {
        SolveParams p = { .seed = q->n, .sweeps = 300 };
        int64_t least = optimum(q);
        SolveResult r;

        solve(method, q, &p, &r);
        assert_true(r.energy >= least);
        *found += r.energy == least;
        if (q->n > 0)
                assert_true(r.sweeps >= 300 && r.flips >= 300 * (uint64_t) q->n);
        solve_result_done(&r);
}

static void test_finds_the_optimum_of_small_models(void **state) {
        static const AnnealMethod *const methods[] = { &anneal_by_lanes, &anneal_dense, NULL };

        for (size_t k = 0; k < ELEMENTSOF(methods); k++) {
                unsigned found = 0, models = 0;

                for (size_t s = 0; s < ELEMENTSOF(shapes); s++)
                        for (unsigned seed = 0; seed < 40; seed++, models++) {
                                _cleanup_(qubo_freep) Qubo *q = NULL;
                                Rng rng;

                                rng_seed(&rng, seed, s);
                                assert_int_equal(model_random(&rng, &shapes[s], &q), 0);
                                check_small(methods[k], q, &found);
                        }
                print_message("%u of %u\n", found, models);
                assert_true(found * 100 >= models * 99);
        }
}

static void test_multispin_finds_the_optimum(void **state) {
        unsigned found = 0, models = 0;

        for (unsigned seed = 0; seed < 200; seed++, models++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;
                _cleanup_(rows_freep) Rows *rows = NULL;
                Rng rng;

                rng_seed(&rng, seed, 0);
                q = cut_model(&rng, seed % 15, 1 + seed % MULTISPIN_DEGREE_MAX, seed % 3 == 0 ? 1 : 1000);
                assert_int_equal(rows_new(q, &rows), 0);
                assert_true(multispin_fits(rows));
                check_small(&anneal_multispin, q, &found);
        }
        print_message("%u of %u\n", found, models);
        assert_true(found * 100 >= models * 99);
}

/* A field, a weight of another size, a neighbour too many: each keeps a model out. */
static void test_multispin_refuses(void **state) {
        for (unsigned what = 0; what < 4; what++) {
                _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
                _cleanup_(qubo_freep) Qubo *q = NULL;
                _cleanup_(rows_freep) Rows *rows = NULL;
                unsigned leaves = MULTISPIN_DEGREE_MAX + (what == 3);

                assert_int_equal(qubo_builder_new(10, &b), 0);
                for (uint32_t j = 1; j <= leaves; j++) {
                        int64_t w = what == 2 && j == 1 ? 2 : 1;

                        assert_int_equal(qubo_add_linear(b, 0, -w), 0);
                        assert_int_equal(qubo_add_linear(b, j, -w), 0);
                        assert_int_equal(qubo_add_quadratic(b, 0, j, 2 * w), 0);
                }
                if (what == 1)
                        assert_int_equal(qubo_add_linear(b, 9, 1), 0);
                assert_int_equal(qubo_build(b, &q), 0);
                assert_int_equal(rows_new(q, &rows), 0);
                assert_int_equal(multispin_fits(rows), what == 0);
        }
}

static void test_rows(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        _cleanup_(rows_freep) Rows *r = NULL;

        assert_int_equal(qubo_builder_new(4, &b), 0);
        assert_int_equal(qubo_add_linear(b, 0, -60), 0);
        assert_int_equal(qubo_add_quadratic(b, 0, 1, 30), 0);
        assert_int_equal(qubo_add_quadratic(b, 0, 2, -30), 0);
        assert_int_equal(qubo_add_quadratic(b, 1, 2, 90), 0);
        assert_int_equal(qubo_build(b, &q), 0);
        assert_int_equal(rows_new(q, &r), 0);
        assert_true(r->unit == 30 && r->most == 4 && r->width == 1 && r->narrow);
        assert_int_equal(r->linear[0], -2);
        assert_true(r->same[0] == 1 && r->same[1] == 0 && r->same[3] == 0);
        assert_true(r->positive[0] == 1 && rows_weight(r, 0) == -1 && r->col[0] == 2 && rows_weight(r, 1) == 1);
        assert_true(r->first[3] == 6 && r->first[4] == 6);
}

/* Kernels differ in nothing but speed. */
static void test_same_with_every_instruction_set(void **state) {
        for (unsigned seed = 0; seed < 24; seed++) {
                const RandomShape shape = { .n_max = 200, .density = seed % 4 * 20, .range = 1 << (seed % 6 * 5) };
                _cleanup_(qubo_freep) Qubo *q = NULL;
                SolveResult first = {};
                Rng rng;

                rng_seed(&rng, seed, 7);
                if (seed % 4 == 0)
                        q = cut_model(&rng, 150, 4, 1);
                else
                        assert_int_equal(model_random(&rng, &shape, &q), 0);
                for (size_t k = 0; kernels_all[k]; k++) {
                        SolveParams p = { .seed = seed, .sweeps = 60, .kernels = kernels_all[k] };
                        SolveResult r;

                        if (!kernels_all[k]->supported()) {
                                if (seed == 0)
                                        print_message("%s: not run, this CPU lacks it\n", kernels_all[k]->name);
                                continue;
                        }
                        solve(NULL, q, &p, &r);
                        if (!first.x)
                                first = r;
                        else {
                                assert_memory_equal(r.x, first.x, q->n);
                                assert_true(r.sweeps == first.sweeps && r.flips == first.flips);
                                solve_result_done(&r);
                        }
                }
                solve_result_done(&first);
        }
}

static void test_limits(void **state) {
        static const atomic_bool stop = true;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        _cleanup_free_ uint8_t *start = NULL;
        SolveParams p = { .seed = 1, .sweeps = 2000, .has_target = true };
        SolveResult r, again;
        Rng rng;

        rng_seed(&rng, 5, 5);
        q = cut_model(&rng, 300, 5, 1);
        p.target = q->offset - 100;
        solve(NULL, q, &p, &r);
        assert_true(r.energy <= p.target && r.sweeps < 2000);
        p.has_target = false;
        p.start = start = TAKE_PTR(r.x);
        p.stop = &stop;
        solve(NULL, q, &p, &again);
        assert_true(again.energy <= r.energy && again.sweeps == 0);
        solve_result_done(&again);
        p.sweeps = 1;
        p.stop = NULL;
        solve(NULL, q, &p, &again);
        assert_true(again.energy <= r.energy && again.sweeps >= 1);
        solve_result_done(&again);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_finds_the_optimum_of_small_models),
                cmocka_unit_test(test_multispin_finds_the_optimum),
                cmocka_unit_test(test_multispin_refuses),
                cmocka_unit_test(test_same_with_every_instruction_set),
                cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
