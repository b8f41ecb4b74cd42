/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The genetic algorithm on models of all shapes: its points are feasible and its energies those of the model, it
 * finds what small models hide, repeats itself, and respects starts, targets and the stop flag.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/qubo/search.h"
#include "tests/unit/qubo-models.h"

static void check_result(const Qubo *q, const SolveResult *r, int64_t least) {
        assert_true(qubo_feasible(q, r->x));
        assert_true(qubo_energy(q, r->x) == r->energy);
        assert_true(r->energy >= least);
        assert_true(r->lower_bound == INT64_MIN && !r->proved);
        assert_string_equal(r->solver, "genetic");
}

/* Whether the optimum was found. */
static bool solve_small(const Qubo *q, unsigned seed) {
        SolveParams p = { .seed = seed, .sweeps = 60 };
        int64_t least = model_brute_force(q);
        SolveResult r = {};
        bool found;

        assert_int_equal(qubo_solve(q, &solver_genetic, &p, &r), 0);
        check_result(q, &r, least);
        found = r.energy == least;
        solve_result_done(&r);
        return found;
}

static void test_bits_and_groups(void **state) {
        static const RandomShape shapes[] = {
                { .n_max = 10, .n_groups = 0, .size_max = 1, .density = 60, .range = 20 },
                { .n_max = 12, .n_groups = 4, .size_max = 4, .density = 60, .range = 20 },
                { .n_max = 12, .n_groups = 12, .size_max = 1, .density = 50, .range = 5 },
                { .n_max = 10, .n_groups = 3, .size_max = 4, .density = 50, .range = INT32_MAX },
                { .n_max = 9, .n_groups = 2, .size_max = 4, .density = 0, .range = 9 },
                { .n_max = 9, .n_groups = 2, .size_max = 4, .density = 70, .range = 0 },
                { .n_max = 9, .n_groups = 2, .size_max = 4, .density = 70, .range = 3, .equal = true },
                { .n_max = 1, .n_groups = 1, .size_max = 1, .density = 70, .range = 3 },
        };
        unsigned found = 0, models = 0;

        for (size_t k = 0; k < ELEMENTSOF(shapes); k++)
                for (unsigned m = 0; m < 60; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        Rng rng;

                        rng_seed(&rng, 40 + k, m);
                        assert_int_equal(model_random(&rng, &shapes[k], &q), 0);
                        found += solve_small(q, m);
                        models++;
                }
        print_message("found the optimum of %u of %u models\n", found, models);
        assert_true(found * 100 >= models * 98);
}

static void test_tables(void **state) {
        unsigned found = 0, models = 60;

        for (unsigned m = 0; m < models; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *rows = NULL;
                Rng rng;

                rng_seed(&rng, 51, m);
                assert_int_equal(model_tables(&rng, m % 2 ? 30 : INT32_MAX / 64, &q, &rows), 0);
                found += solve_small(q, m);
        }
        assert_true(found * 100 >= models * 95);
}

static void test_permutations(void **state) {
        unsigned found = 0, models = 0;

        for (unsigned m = 0; m < 20; m++)
                for (uint32_t n = 0; n <= 5; n++, models++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        Rng rng;

                        rng_seed(&rng, 61, m * 8 + n);
                        assert_int_equal(model_permutation(&rng, n, m % 3 ? 40 : 30000, m % 2, &q), 0);
                        found += solve_small(q, m);
                }
        print_message("found the optimum of %u of %u permutations\n", found, models);
        assert_true(found * 100 >= models * 95);
}

static void count(void *userdata, int64_t energy) {
        int64_t *told = userdata;

        assert_true(energy < *told);
        *told = energy;
}

static void check_limits(const Qubo *q) {
        int64_t told = INT64_MAX;
        SolveParams p = { .seed = 2, .sweeps = 50, .improved = count, .improved_userdata = &told };
        SolveResult a = {}, b = {};
        atomic_bool stop = true;

        assert_int_equal(qubo_solve(q, &solver_genetic, &p, &a), 0);
        assert_int_equal(a.sweeps, 50);
        assert_int_equal(a.flips, 50 * 98);
        assert_true(told == a.energy);

        told = INT64_MAX;
        assert_int_equal(qubo_solve(q, &solver_genetic, &p, &b), 0);
        assert_true(a.energy == b.energy);
        assert_memory_equal(a.x, b.x, q->n);
        solve_result_done(&b);

        p = (SolveParams){ .seed = 9, .sweeps = 1, .start = a.x };
        assert_int_equal(qubo_solve(q, &solver_genetic, &p, &b), 0);
        assert_true(b.energy <= a.energy);
        solve_result_done(&b);

        p = (SolveParams){ .seed = 2, .sweeps = UINT64_MAX, .has_target = true, .target = a.energy };
        assert_int_equal(qubo_solve(q, &solver_genetic, &p, &b), 0);
        assert_true(b.energy == a.energy && b.sweeps < 50);
        solve_result_done(&b);

        p = (SolveParams){ .seed = 2, .sweeps = UINT64_MAX, .stop = &stop };
        assert_int_equal(qubo_solve(q, &solver_genetic, &p, &b), 0);
        check_result(q, &b, INT64_MIN);
        solve_result_done(&b);
        solve_result_done(&a);
}

static void test_limits(void **state) {
        static const RandomShape bits = { .n_max = 300, .density = 10, .range = 100 };
        const PlacementShape placement = {
                .ranks = 10, .devices = 12, .blocks = 11, .nodes = 4, .random_traffic = true, .noise = 50
        };
        Qubo *models[3] = {};
        Rng rng;

        rng_seed(&rng, 71, 2);
        assert_int_equal(model_random(&rng, &bits, &models[0]), 0);
        assert_int_equal(model_placement(&rng, &placement, &models[1]), 0);
        assert_int_equal(model_permutation(&rng, 14, 50, true, &models[2]), 0);
        for (size_t k = 0; k < ELEMENTSOF(models); k++) {
                check_limits(models[k]);
                qubo_free(models[k]);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_bits_and_groups),
                cmocka_unit_test(test_tables),
                cmocka_unit_test(test_permutations),
                cmocka_unit_test(test_limits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
