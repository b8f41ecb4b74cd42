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

#include "policy/qubo/frame.h"
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

/* How many of the small models a solver finds the optimum of, at least, in per cent. */
typedef struct Grade {
        const char *name;
        uint64_t sweeps;
        unsigned percent;
} Grade;

static const Grade grades[] = {
        { "auto", 200, 100 }, { "exact", 0, 100 }, { "greedy", 1, 50 }, { "sa", 200, 99 }, { NULL, 100, 90 },
};

static const Grade *grade_of(const char *name) {
        const Grade *g = grades;

        while (g->name && !streq(g->name, name))
                g++;
        return g;
}

/* Penalties for a solver that knows no groups may be too large; then that is said. */
static bool may_overflow(const Solver *solver, const Qubo *q, const RandomShape *s) {
        return q->n_groups > 0 && !(solver->knows & MODEL_GROUPS) && (s->range < -100 || s->range > 100000000);
}

static void solve_small(const Solver *solver, const RandomShape *s, unsigned k, unsigned m, unsigned *models,
                        unsigned *found) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        SolveParams p = { .seed = m, .sweeps = grade_of(solver->name)->sweeps };
        SolveResult r = {};
        int64_t least;
        Rng rng;
        int e;

        rng_seed(&rng, k, m);
        assert_int_equal(model_random(&rng, s, &q), 0);
        if (!solver->fits(q))
                return;
        least = model_brute_force(q);
        e = qubo_solve(q, solver, &p, &r);
        if (e == -EOVERFLOW && may_overflow(solver, q, s))
                return;
        assert_int_equal(e, 0);
        check_result(q, &r, least);
        *found += r.energy == least;
        ++*models;
        solve_result_done(&r);
}

static void test_small_models(void **state) {
        for (size_t i = 0; solvers[i]; i++) {
                const Grade *g = grade_of(solvers[i]->name);
                unsigned models = 0, found = 0;

                for (unsigned k = 0; k < ELEMENTSOF(shapes); k++)
                        for (unsigned m = 0; m < (g->name ? MODELS_PER_SHAPE : MODELS_PER_SHAPE / 4); m++)
                                solve_small(solvers[i], &shapes[k], k, m, &models, &found);
                print_message("%s found the optimum of %u of %u models\n", solvers[i]->name, found, models);
                assert_true(found * 100 >= models * g->percent);
        }
}

/* Placement-like models, small enough for brute force: hard conflicts, exchanges, joint moves, the strong bound. */
static const PlacementShape placements[] = {
        { .ranks = 3, .devices = 3, .blocks = 3, .nodes = 3, .random_traffic = true, .noise = 30 },
        { .ranks = 4, .devices = 4, .blocks = 4, .nodes = 2, .tp = 2, .pp = 2 },
        { .ranks = 4,
          .devices = 4,
          .blocks = 3,
          .nodes = 2,
          .tp = 4,
          .pp = 1,
          .noise = 40 }, /* blocks do not suffice */
        { .ranks = 3, .devices = 5, .blocks = 4, .nodes = 2, .random_traffic = true, .noise = 5 },
        { .ranks = 6, .devices = 6, .blocks = 0, .nodes = 3, .random_traffic = true },
        { .ranks = 5, .devices = 7, .blocks = 0, .nodes = 4, .random_traffic = true, .noise = 400 },
        { .ranks = 6, .devices = 4, .blocks = 0, .nodes = 2, .random_traffic = true, .noise = 9 }, /* must share */
        { .ranks = 2, .devices = 2, .blocks = 20, .nodes = 2, .tp = 2, .pp = 1, .noise = 1 },
        { .ranks = 1, .devices = 8, .blocks = 16, .nodes = 4, .tp = 1, .pp = 1, .noise = 9 },
};

#define MODELS_PER_PLACEMENT 12

static void solve_placements(const char *name, bool exactly) {
        unsigned found = 0, models = 0;

        for (size_t k = 0; k < ELEMENTSOF(placements); k++)
                for (unsigned m = 0; m < MODELS_PER_PLACEMENT; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveParams p = { .seed = m, .sweeps = exactly ? 0 : 1000 };
                        SolveResult r = {};
                        int64_t least;
                        Rng rng;

                        rng_seed(&rng, 100 + k, m);
                        assert_int_equal(model_placement(&rng, &placements[k], &q), 0);
                        least = model_brute_force(q);
                        assert_int_equal(qubo_solve(q, solver_by_name(name), &p, &r), 0);
                        check_result(q, &r, least);
                        if (exactly)
                                assert_true(r.proved);
                        found += r.energy == least;
                        models++;
                        solve_result_done(&r);
                }
        if (!exactly)
                print_message("%s found the optimum of %u of %u placements\n", name, found, models);
        assert_true(!exactly || found == models);
        assert_true(streq(name, "greedy") || found * 100 >= models * 98);
}

static void test_exact_placements(void **state) {
        solve_placements("exact", true);
}

static void test_auto_placements(void **state) {
        solve_placements("auto", true);
}

static void test_sa_placements(void **state) {
        solve_placements("sa", false);
}

static void test_greedy_placements(void **state) {
        solve_placements("greedy", false);
}

/* Fields that need 64 bits, and models too large for a matrix, take other paths through the same steps. */
static void test_wide_and_large(void **state) {
        static const RandomShape wide[] = {
                { .n_max = 60, .n_groups = 8, .size_max = 8, .density = 100, .range = INT32_MAX },
                { .n_max = 60, .n_groups = 0, .size_max = 1, .density = 50, .range = INT32_MAX },
                { .n_max = 2600, .n_groups = 300, .size_max = 12, .density = 1, .range = 100 },
                { .n_max = 2600, .n_groups = 0, .size_max = 1, .density = 1, .range = INT32_MAX },
        };

        for (size_t k = 0; k < ELEMENTSOF(wide); k++)
                for (unsigned m = 0; m < 4; m++)
                        for (size_t i = 0; solvers[i]; i++) {
                                _cleanup_(qubo_freep) Qubo *q = NULL;
                                SolveParams p = { .seed = m, .sweeps = 40 };
                                SolveResult r = {};
                                Rng rng;
                                int e;

                                rng_seed(&rng, 200 + k, m);
                                assert_int_equal(model_random(&rng, &wide[k], &q), 0);
                                if (!solvers[i]->fits(q))
                                        continue;
                                e = qubo_solve(q, solvers[i], &p, &r);
                                /* penalties for groups of such coefficients do not fit */
                                if (e == -EOVERFLOW && k == 0 && !(solvers[i]->knows & MODEL_GROUPS))
                                        continue;
                                assert_int_equal(e, 0);
                                check_result(q, &r, MAX(r.lower_bound, qubo_lower_bound(q)));
                                solve_result_done(&r);
                        }
}

static int middle_model(Qubo **ret) {
        const PlacementShape shape = {
                .ranks = 10, .devices = 12, .blocks = 11, .nodes = 4, .random_traffic = true, .noise = 50
        };
        Rng rng;

        rng_seed(&rng, 3, 0);
        return model_placement(&rng, &shape, ret);
}

static void test_same_seed_same_result(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;

        assert_int_equal(middle_model(&q), 0);
        for (size_t i = 0; solvers[i]; i++)
                for (uint64_t sweeps = 3; sweeps < 400 && solvers[i]->fits(q); sweeps *= 11) {
                        SolveParams p = { .seed = 42, .sweeps = sweeps };
                        SolveResult a = {}, b = {};

                        assert_int_equal(qubo_solve(q, solvers[i], &p, &a), 0);
                        assert_int_equal(qubo_solve(q, solvers[i], &p, &b), 0);
                        assert_memory_equal(a.x, b.x, q->n);
                        assert_true(a.energy == b.energy && a.lower_bound == b.lower_bound && a.flips == b.flips);
                        solve_result_done(&a);
                        solve_result_done(&b);
                }
}

/* A clock that runs by being asked: time passes, but never outside of the test's control. */
static uint64_t ticking_clock(void *userdata) {
        uint64_t *now = userdata;

        return *now += 10;
}

static void test_stop_flag_and_budget(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        atomic_bool stop = true;

        assert_int_equal(middle_model(&q), 0);
        for (size_t i = 0; solvers[i]; i++) {
                uint64_t now = 0;
                SolveParams stopped = { .seed = 1, .sweeps = UINT64_MAX, .stop = &stop };
                SolveParams timed = { .seed = 1, .budget_usec = 5000, .clock = ticking_clock, .userdata = &now };
                SolveResult r = {};

                if (!solvers[i]->fits(q))
                        continue;
                assert_int_equal(qubo_solve(q, solvers[i], &stopped, &r), 0);
                check_result(q, &r, r.lower_bound);
                solve_result_done(&r);
                r = (SolveResult){};
                assert_int_equal(qubo_solve(q, solvers[i], &timed, &r), 0);
                check_result(q, &r, r.lower_bound);
                assert_true(now < 10000);
                solve_result_done(&r);
        }
}

/* However little time: what comes back is never worse than the start, even if that is the optimum. */
static void test_start_is_honoured(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        SolveParams p = { .seed = 1, .sweeps = 1000 };
        SolveResult good = {};

        assert_int_equal(middle_model(&q), 0);
        assert_int_equal(qubo_solve(q, solver_by_name("sa"), &p, &good), 0);
        for (size_t i = 0; solvers[i]; i++) {
                atomic_bool stop = true;
                SolveParams from = { .seed = 9, .sweeps = 1, .start = good.x, .stop = &stop };
                SolveResult r = {};

                if (!solvers[i]->fits(q))
                        continue;
                assert_int_equal(qubo_solve(q, solvers[i], &from, &r), 0);
                assert_true(r.energy <= good.energy);
                solve_result_done(&r);
        }
        solve_result_done(&good);
}

static void test_infeasible_start_is_refused(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        _cleanup_free_ uint8_t *x = NULL;

        assert_int_equal(middle_model(&q), 0);
        x = calloc(q->n, 1);
        for (size_t i = 0; solvers[i]; i++) {
                SolveParams p = { .seed = 9, .sweeps = 1, .start = x };
                SolveResult r = {};

                assert_int_equal(qubo_solve(q, solvers[i], &p, &r), -EINVAL);
                assert_null(r.x);
        }
}

static void test_table(void **state) {
        assert_string_equal(solvers[0]->name, "auto");
        for (size_t i = 0; solvers[i]; i++) {
                assert_ptr_equal(solver_by_name(solvers[i]->name), solvers[i]);
                assert_true(strlen(solvers[i]->help) > 0);
        }
        assert_null(solver_by_name("annealer"));
}

/* Fields and energies kept step by step over tables are those of the rows, through moves, exchanges and joint moves. */
static void test_tables_keep_the_books(void **state) {
        Rng rng;

        for (unsigned m = 0; m < 400; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *rows = NULL;
                _cleanup_(frame_freep) Frame *f = NULL, *g = NULL;
                _cleanup_(state_freep) State *s = NULL, *t = NULL;
                SolveParams p = {};
                Limit l;

                rng_seed(&rng, 29, m);
                assert_int_equal(model_tables(&rng, m % 2 ? 30 : INT32_MAX / 64, &q, &rows), 0);
                limit_init(&l, &p);
                assert_int_equal(frame_new(q, &l, &f), 0);
                assert_int_equal(frame_new(rows, &l, &g), 0);
                assert_int_equal(state_new(f, &s), 0);
                assert_int_equal(state_new(g, &t), 0);
                for (unsigned step = 0; step < 60; step++) {
                        uint32_t a = rng_below(&rng, f->n_items), b = rng_below(&rng, f->n_items);
                        uint32_t to = f->first[a] + rng_below(&rng, f->size[a]);
                        Change c[2] = { { a, to }, { b, f->first[b] + rng_below(&rng, f->size[b]) } };

                        if (step % 2 == 0 || a == b) {
                                state_move(s, a, to);
                                state_move(t, a, to);
                        } else {
                                int64_t d = state_delta(s, c, 2);

                                assert_int_equal(d, state_delta(t, c, 2));
                                if (!f->optional[a] && !f->optional[b])
                                        assert_int_equal(d, state_exchange_delta(s, c));
                                state_apply(s, c, 2, d);
                                state_apply(t, c, 2, d);
                        }
                        assert_int_equal(s->energy, t->energy);
                        for (uint32_t v = 0; v < q->n; v++) {
                                assert_int_equal(state_field(s, v), state_field(t, v));
                                assert_int_equal(frame_row_coupling(f, v, to), frame_row_coupling(g, v, to));
                        }
                        for (uint32_t i = 0; s->field64 && i < f->n_items; i++) {
                                const int64_t *field = state_fields(s, i);

                                for (uint32_t v = 0; v < f->size[i]; v++)
                                        assert_int_equal(field[v], state_field(t, f->first[i] + v));
                        }
                }
        }
}

static void test_tables_are_solved(void **state) {
        unsigned found = 0, models = 400;
        Rng rng;

        for (unsigned m = 0; m < models; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *rows = NULL;
                _cleanup_(frame_freep) Frame *f = NULL;
                _cleanup_(incumbent_done) Incumbent best = {};
                SolveResult r = { .lower_bound = INT64_MIN }, e = {};
                SolveParams p = { .seed = m, .sweeps = 100 };
                uint64_t runs = 0;
                int64_t least;
                Limit l;

                rng_seed(&rng, 31, m);
                assert_int_equal(model_tables(&rng, 1000, &q, &rows), 0);
                least = model_brute_force(rows);
                limit_init(&l, &p);
                assert_int_equal(frame_new(q, &l, &f), 0);
                assert_int_equal(incumbent_init(&best, f, NULL), 0);
                assert_int_equal(sa_search(f, &l, m, 100, &runs, &best, &r), 0);
                assert_int_equal(incumbent_result(&best, f, &r), 0);
                assert_int_equal(qubo_energy(rows, r.x), r.energy);
                assert_true(r.energy >= least);
                found += r.energy == least;
                for (size_t k = 0; solvers[k]; k++) {
                        p.sweeps = solvers[k] == &solver_exact ? 0 : 30;
                        if (!solvers[k]->fits(q))
                                continue;
                        assert_int_equal(qubo_solve(q, solvers[k], &p, &e), 0);
                        e.solver = "";
                        check_result(rows, &e, least);
                        assert_true(solvers[k] != &solver_exact || e.proved);
                        solve_result_done(&e);
                }
                solve_result_done(&r);
        }
        print_message("sa found the optimum of %u of %u models with tables\n", found, models);
        assert_true(found * 100 >= models * 98);
}

/* Each look at this clock takes so long that setting up does not come to an end. */
static uint64_t slow_clock(void *userdata) {
        uint64_t *now = userdata;

        return *now += 200;
}

#define FEW_LOOKS 24U

static void check_interrupted(const Qubo *q, const Solver *solver, const uint8_t *start) {
        for (uint64_t budget = 1; budget <= 1000; budget *= 10) {
                uint64_t now = 0;
                SolveParams p = {
                        .seed = 1, .budget_usec = budget, .clock = slow_clock, .userdata = &now, .start = start
                };
                SolveResult r = {};

                assert_int_equal(qubo_solve(q, solver, &p, &r), 0);
                assert_true(qubo_feasible(q, r.x));
                assert_int_equal(r.energy, qubo_energy(q, r.x));
                assert_true(!start || r.energy <= qubo_energy(q, start));
                assert_non_null(r.solver);
                if (now > 200 * FEW_LOOKS + budget)
                        fail_msg("%s looked at the clock %llu times after %llu us", solver->name,
                                 (unsigned long long) now / 200, (unsigned long long) budget);
                solve_result_done(&r);
        }
}

static Qubo *large_model(uint32_t n, uint32_t group, Rng *rng) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        Qubo *q = NULL;

        assert_int_equal(qubo_builder_new(n, &b), 0);
        for (uint32_t v = 0; group > 0 && v + group <= n; v += group)
                assert_int_equal(qubo_add_group(b, v, group), 0);
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = 0; j < i; j++)
                        assert_int_equal(qubo_add_quadratic(b, i, j, (int64_t) rng_below(rng, 2001) - 1000), 0);
        assert_int_equal(qubo_build(b, &q), 0);
        return q;
}

static void test_set_up_is_interrupted(void **state) {
        static const uint32_t groups[] = { 0, 10 };
        uint8_t start[600] = {};
        Rng rng;

        rng_seed(&rng, 77, 0);
        for (size_t i = 0; i < ELEMENTSOF(groups); i++) {
                _cleanup_(qubo_freep) Qubo *q = large_model(sizeof(start), groups[i], &rng);

                for (uint32_t v = 1; groups[i] > 0 && v < sizeof(start); v += groups[i])
                        start[v] = 1;
                for (size_t k = 0; solvers[k]; k++)
                        if (solvers[k]->fits(q)) {
                                check_interrupted(q, solvers[k], NULL);
                                check_interrupted(q, solvers[k], start);
                        }
        }
}

static void test_permutation_is_interrupted(void **state) {
        const uint32_t n = 60;
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        int32_t *m[2];
        Rng rng;

        rng_seed(&rng, 78, 0);
        assert_int_equal(qubo_builder_new(n * n, &b), 0);
        for (uint32_t g = 0; g < n; g++)
                assert_int_equal(qubo_add_group(b, g * n, n), 0);
        for (unsigned k = 0; k < 2; k++) {
                m[k] = (int32_t *) calloc((size_t) n * n, sizeof(*m[k]));
                assert_non_null(m[k]);
                for (uint32_t i = 0; i < n * n; i++)
                        m[k][i] = (int32_t) rng_below(&rng, 1000);
        }
        assert_int_equal(qubo_set_permutation(b, m[0], m[1]), 0);
        assert_int_equal(qubo_build(b, &q), 0);
        for (size_t k = 0; solvers[k]; k++)
                if (solvers[k]->fits(q))
                        check_interrupted(q, solvers[k], NULL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_small_models),
                cmocka_unit_test(test_exact_placements),
                cmocka_unit_test(test_auto_placements),
                cmocka_unit_test(test_sa_placements),
                cmocka_unit_test(test_greedy_placements),
                cmocka_unit_test(test_wide_and_large),
                cmocka_unit_test(test_same_seed_same_result),
                cmocka_unit_test(test_stop_flag_and_budget),
                cmocka_unit_test(test_start_is_honoured),
                cmocka_unit_test(test_infeasible_start_is_refused),
                cmocka_unit_test(test_table),
                cmocka_unit_test(test_tables_keep_the_books),
                cmocka_unit_test(test_tables_are_solved),
                cmocka_unit_test(test_set_up_is_interrupted),
                cmocka_unit_test(test_permutation_is_interrupted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
