/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every solver against brute force on thousands of small random models of all shapes, and what the table promises:
 * determinism, stop flag, start, refusals.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/solver.h"
#include "tests/unit/qubo-models.h"

static const RandomShape shapes[] = {
        { .n_max = 1, .n_groups = 1, .size_max = 1, .density = 100, .range = 5 },
        { .n_max = 10, .n_groups = 0, .size_max = 1, .density = 60, .range = 9 },
        { .n_max = 14, .n_groups = 0, .size_max = 1, .density = 100, .range = 1 },
        { .n_max = 14, .n_groups = 5, .size_max = 4, .density = 70, .range = 20 },
        { .n_max = 14, .n_groups = 14, .size_max = 1, .density = 50, .range = 20 },
        { .n_max = 14, .n_groups = 7, .size_max = 3, .density = 100, .range = 2 },
        { .n_max = 14, .n_groups = 2, .size_max = 9, .density = 100, .range = 1000000 },
        { .n_max = 14, .n_groups = 4, .size_max = 3, .density = 20, .range = INT32_MAX },
        { .n_max = 12, .n_groups = 4, .size_max = 3, .density = 100, .range = INT32_MAX, .equal = true },
        { .n_max = 12, .n_groups = 4, .size_max = 3, .density = 100, .range = -7, .equal = true },
        { .n_max = 14, .n_groups = 4, .size_max = 4, .density = 0, .range = 9 },
        { .n_max = 14, .n_groups = 4, .size_max = 4, .density = 100, .range = 0 },
};

#define MODELS_PER_SHAPE 300

static void check_result(const Qubo *q, const SolveResult *r, int64_t least) {
        assert_true(q->n == 0 || r->x);
        for (uint32_t i = 0; i < q->n; i++)
                assert_true(r->x[i] <= 1);
        assert_true(qubo_feasible(q, r->x));
        assert_true(qubo_energy(q, r->x) == r->energy);
        assert_true(r->energy >= least);
        assert_non_null(r->solver);
        assert_true(r->lower_bound <= least);
        if (r->proved)
                assert_true(r->energy == least && r->lower_bound == least);
}

static unsigned solve_all(const Solver *solver, unsigned *ret_models) {
        unsigned found = 0;

        *ret_models = 0;
        for (size_t k = 0; k < ELEMENTSOF(shapes); k++)
                for (unsigned m = 0; m < MODELS_PER_SHAPE; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveParams p = { .seed = m, .sweeps = streq(solver->name, "exact") ? 0 : 200 };
                        SolveResult r = {};
                        int64_t least;
                        Rng rng;

                        rng_seed(&rng, k, m);
                        assert_int_equal(model_random(&rng, &shapes[k], &q), 0);
                        least = model_brute_force(q, NULL);
                        assert_true(solver->fits(q));
                        assert_int_equal(qubo_solve(q, solver, &p, &r), 0);
                        check_result(q, &r, least);
                        found += r.energy == least;
                        ++*ret_models;
                        solve_result_done(&r);
                }
        return found;
}

static void test_exact_is_exact(void **state) {
        unsigned models, found = solve_all(solver_by_name("exact"), &models);

        assert_int_equal(found, models);
}

static void test_auto_is_exact_when_small(void **state) {
        unsigned models, found = solve_all(solver_by_name("auto"), &models);

        assert_int_equal(found, models);
}

static void test_sa_finds_nearly_all(void **state) {
        unsigned models, found = solve_all(solver_by_name("sa"), &models);

        print_message("sa found the optimum of %u of %u models\n", found, models);
        assert_true(found * 100 >= models * 99);
}

static void test_greedy_is_sound(void **state) {
        unsigned models, found = solve_all(solver_by_name("greedy"), &models);

        print_message("greedy found the optimum of %u of %u models\n", found, models);
        assert_true(found * 2 >= models);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_exact_is_exact),
                cmocka_unit_test(test_auto_is_exact_when_small),
                cmocka_unit_test(test_sa_finds_nearly_all),
                cmocka_unit_test(test_greedy_is_sound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
