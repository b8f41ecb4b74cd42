/* SPDX-License-Identifier: Apache-2.0 */
/* Several threads: the same result for a number of sweeps however many there are; clock, target and flags end all of them. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <cmocka.h>

#include "policy/qubo/portfolio.h"
#include "tests/unit/qubo-models.h"

static Qubo *plain_model(uint32_t n, unsigned density, uint64_t seed) {
        QuboBuilder *b = NULL;
        Qubo *q = NULL;
        Rng rng;

        rng_seed(&rng, seed, 0);
        assert_int_equal(qubo_builder_new(n, &b), 0);
        for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(qubo_add_linear(b, i, (int64_t) rng_below(&rng, 101) - 50), 0);
                for (uint32_t j = 0; j < i; j++)
                        if (rng_below(&rng, 100) < density)
                                assert_int_equal(qubo_add_quadratic(b, i, j, (int64_t) rng_below(&rng, 101) - 50), 0);
        }
        assert_int_equal(qubo_build(b, &q), 0);
        qubo_builder_free(b);
        return q;
}

static void assert_same(const Qubo *q, const SolveResult *a, const SolveResult *b) {
        assert_true(a->energy == b->energy && a->sweeps == b->sweeps && a->flips == b->flips);
        assert_true(a->lower_bound == b->lower_bound && a->proved == b->proved);
        assert_string_equal(a->solver, b->solver);
        assert_memory_equal(a->x, b->x, q->n);
}

static void test_threads_change_nothing(void **state) {
        static const unsigned threads[] = { 1, 2, 3, 64 };

        for (unsigned m = 0; m < 6; m++) {
                _cleanup_(qubo_freep) Qubo *q = plain_model(30 + 100 * m, m % 2 ? 100 : 5, m);
                SolveResult first = {}, r = {};

                for (size_t k = 0; k < ELEMENTSOF(threads); k++) {
                        SolveParams p = { .seed = 7, .sweeps = 100, .threads = threads[k] };

                        assert_int_equal(qubo_solve(q, solver_by_name("auto"), &p, k == 0 ? &first : &r), 0);
                        if (k > 0)
                                assert_same(q, &first, &r);
                        solve_result_done(&r);
                }
                solve_result_done(&first);
        }
}

static uint64_t now_usec(void *userdata) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

typedef struct Trace {
        unsigned n;
        int64_t last;
        atomic_int inside;
        bool overlaps, not_better;
} Trace;

static void improved(void *userdata, int64_t energy) {
        Trace *t = userdata;

        if (atomic_fetch_add(&t->inside, 1) != 0)
                t->overlaps = true;
        t->not_better |= t->n > 0 && energy >= t->last;
        t->last = energy;
        t->n++;
        atomic_fetch_sub(&t->inside, 1);
}

/* The target ends a run of ten minutes at once; every point is told once, better than the last, and one at a time. */
static void test_target_ends_all(void **state) {
        _cleanup_(qubo_freep) Qubo *q = plain_model(600, 100, 1);
        SolveParams quick = { .seed = 1, .sweeps = 20 }, p;
        SolveResult r = {};
        Trace t = {};

        assert_int_equal(qubo_solve(q, solver_by_name("auto"), &quick, &r), 0);
        p = (SolveParams){ .seed = 1, .budget_usec = 600000000, .clock = now_usec, .threads = 8 };
        p.has_target = true;
        p.target = r.energy;
        p.improved = improved;
        p.improved_userdata = &t;
        solve_result_done(&r);
        assert_int_equal(qubo_solve(q, solver_by_name("auto"), &p, &r), 0);
        assert_true(r.energy <= p.target);
        assert_true(t.n > 0 && t.last == r.energy);
        assert_false(t.overlaps);
        assert_false(t.not_better);
        solve_result_done(&r);
}

static void test_stop_is_set_already(void **state) {
        _cleanup_(qubo_freep) Qubo *q = plain_model(600, 100, 2);
        atomic_bool stop = true;
        SolveParams p = { .budget_usec = 600000000, .clock = now_usec, .threads = 64, .stop = &stop };
        SolveResult r = {};
        int e = qubo_solve(q, solver_by_name("auto"), &p, &r);

        assert_true(e == -ECANCELED || e == 0);
        if (e == 0)
                assert_true(qubo_energy(q, r.x) == r.energy);
        solve_result_done(&r);
}

static void test_a_thousandth_of_a_second(void **state) {
        _cleanup_(qubo_freep) Qubo *q = plain_model(2000, 2, 3);
        SolveParams p = { .budget_usec = 1000, .clock = now_usec, .threads = 2 };
        SolveResult r = {};

        assert_int_equal(qubo_solve(q, solver_by_name("auto"), &p, &r), 0);
        assert_true(qubo_energy(q, r.x) == r.energy);
        solve_result_done(&r);
}

static uint64_t ticks(void *userdata) {
        uint64_t *t = userdata;

        return *t += 5;
}

/* A large sparse model is annealed all the time: tempering and tabu search, that begin at its points, do not get the rest. */
static void test_large_sparse_is_annealed(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        QuboBuilder *b = NULL;
        SolveResult r = {};
        uint64_t t = 0;
        SolveParams p = { .seed = 1, .budget_usec = 16000, .clock = ticks, .userdata = &t, .threads = 1 };
        Rng rng;

        rng_seed(&rng, 5, 0);
        assert_int_equal(qubo_builder_new(6000, &b), 0);
        for (unsigned k = 0; k < 60000; k++) {
                uint32_t i = rng_below(&rng, 6000), j = rng_below(&rng, 6000);

                if (i != j)
                        assert_int_equal(qubo_add_quadratic(b, i, j, rng_below(&rng, 2) ? 1 : -1), 0);
        }
        assert_int_equal(qubo_build(b, &q), 0);
        qubo_builder_free(b);
        assert_int_equal(qubo_solve(q, solver_by_name("auto"), &p, &r), 0);
        assert_string_equal(r.solver, "sa");
        assert_true(qubo_energy(q, r.x) == r.energy && r.energy < 0 && r.lower_bound <= r.energy);
        solve_result_done(&r);
}

static void test_never_worse_than_the_start(void **state) {
        _cleanup_(qubo_freep) Qubo *q = plain_model(300, 30, 4);
        SolveParams p = { .sweeps = 400 };
        SolveResult good = {}, r = {};

        assert_int_equal(qubo_solve(q, solver_by_name("auto"), &p, &good), 0);
        p = (SolveParams){ .seed = 99, .sweeps = 1, .start = good.x, .threads = 4 };
        assert_int_equal(qubo_solve(q, solver_by_name("auto"), &p, &r), 0);
        assert_true(r.energy <= good.energy);
        solve_result_done(&good);
        solve_result_done(&r);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_threads_change_nothing),     cmocka_unit_test(test_target_ends_all),
                cmocka_unit_test(test_stop_is_set_already),        cmocka_unit_test(test_a_thousandth_of_a_second),
                cmocka_unit_test(test_never_worse_than_the_start), cmocka_unit_test(test_large_sparse_is_annealed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
