/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is lowered for a solver that knows less: every point of small models, feasible or not, and what a caller of
 * qubo_solve() gets to see. The solvers here look at every point, or at random ones, and know as little as there is.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/lower.h"
#include "policy/qubo/search.h"
#include "tests/unit/qubo-models.h"

/* The next bits, as if they were a binary number. */
static bool next_bits(const Qubo *q, uint8_t *x) {
        for (uint32_t i = 0; i < q->n; i++) {
                x[i] ^= 1;
                if (x[i])
                        return true;
        }
        return false;
}

/* The next point of the model that a solver sees, groups whole if it has any. */
static bool next_point(const Qubo *q, uint8_t *x) {
        return q->n_groups > 0 ? model_next_point(q, x) : next_bits(q, x);
}

static int all_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);
        _cleanup_(best_done) Best best = {};
        Limit l;

        assert_true(!q->permutation && !q->table_of && !q->flow);
        limit_init(&l, p);
        assert_int_equal(best_init(&best, q, &l), 0);
        model_first_point(q, x);
        do {
                best_offer(&best, &l, x, qubo_energy(q, x));
                ret->flips++;
        } while (!l.hit && next_point(q, x));
        ret->proved = !l.hit;
        ret->solver = "all";
        if (ret->proved)
                ret->lower_bound = best.energy;
        return best_result(&best, ret);
}

/* Bits at random, most of them not feasible. */
static int random_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);
        _cleanup_(best_done) Best best = {};
        Limit l;
        Rng rng;

        assert_int_equal(q->n_groups, 0);
        rng_seed(&rng, p->seed, 0);
        limit_init(&l, p);
        assert_int_equal(best_init(&best, q, &l), 0);
        for (uint64_t k = 0; k < p->sweeps && !l.hit; k++) {
                for (uint32_t i = 0; i < q->n; i++)
                        x[i] = rng_below(&rng, 3) == 0;
                best_offer(&best, &l, x, qubo_energy(q, x));
        }
        ret->solver = "random";
        return best_result(&best, ret);
}

static bool fits_any(const Qubo *q) {
        return true;
}

static const Solver plain = { .name = "all", .fits = fits_any, .solve = all_solve };
static const Solver grouped = { .name = "all", .fits = fits_any, .knows = MODEL_GROUPS, .solve = all_solve };
static const Solver careless = { .name = "random", .fits = fits_any, .solve = random_solve };

static const RandomShape shapes[] = {
        { .n_max = 12, .n_groups = 4, .size_max = 4, .density = 70, .range = 30 },
        { .n_max = 12, .n_groups = 12, .size_max = 1, .density = 70, .range = 30 },
        { .n_max = 12, .n_groups = 2, .size_max = 9, .density = 100, .range = 1000 },
        { .n_max = 12, .n_groups = 4, .size_max = 3, .density = 100, .range = -7, .equal = true },
        { .n_max = 12, .n_groups = 4, .size_max = 3, .density = 100, .range = 7, .equal = true },
        { .n_max = 12, .n_groups = 3, .size_max = 5, .density = 0, .range = 0 },
};

#define KINDS (ELEMENTSOF(shapes) + 3)

static int model(unsigned kind, unsigned m, Qubo **ret) {
        _cleanup_(qubo_freep) Qubo *rows = NULL;
        Rng rng;

        rng_seed(&rng, 300 + kind, m);
        if (kind < ELEMENTSOF(shapes))
                return model_random(&rng, &shapes[kind], ret);
        if (kind == ELEMENTSOF(shapes))
                return model_tables(&rng, 40, ret, &rows);
        return model_permutation(&rng, m % 4, m % 3 ? 9 : 0, kind == KINDS - 1, ret);
}

/* Feasible bits have their energy, all others are repaired and then have less. */
static void check_points(const Qubo *q, const Lowered *l) {
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1), *y = calloc((size_t) q->n + 1, 1);

        model_first_point(l->q, x);
        do {
                int64_t before = qubo_energy(l->q, x), after = before;

                memcpy(y, x, q->n);
                assert_int_equal(lower_repair(l, y, &after), 0);
                assert_true(qubo_feasible(q, y));
                assert_int_equal(after, qubo_energy(q, y));
                if (qubo_feasible(q, x))
                        assert_memory_equal(x, y, q->n);
                else
                        assert_true(after < before);
        } while (next_point(l->q, x));
}

static void test_every_point(void **state) {
        static const Solver *const who[] = { &plain, &grouped };

        for (unsigned kind = 0; kind < KINDS; kind++)
                for (unsigned m = 0; m < 60; m++)
                        for (unsigned k = 0; k < ELEMENTSOF(who); k++) {
                                _cleanup_(qubo_freep) Qubo *q = NULL;
                                _cleanup_(lower_done) Lowered l = {};

                                assert_int_equal(model(kind, m, &q), 0);
                                assert_int_equal(lower_model(q, who[k], &(SolveParams){}, &l), 0);
                                assert_int_equal(l.penalties, q->permutation || (who[k] == &plain && q->n_groups > 0));
                                if (!l.q)
                                        continue;
                                assert_true(!l.q->permutation && !l.q->table_of && !l.q->flow);
                                if (l.penalties)
                                        check_points(q, &l);
                        }
}

/* What the caller is told: energies of feasible points, each less than the one before. */
typedef struct Told {
        const Qubo *q;
        int64_t last;
        unsigned n;
} Told;

static bool is_feasible_energy(const Qubo *q, int64_t energy) {
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);

        model_first_point(q, x);
        do
                if (qubo_feasible(q, x) && qubo_energy(q, x) == energy)
                        return true;
        while (model_next_point(q, x));
        return false;
}

static void note(void *userdata, int64_t energy) {
        Told *t = userdata;

        assert_true(energy < t->last);
        assert_true(is_feasible_energy(t->q, energy));
        t->last = energy;
        t->n++;
}

static void test_solved_to_the_optimum(void **state) {
        static const Solver *const who[] = { &plain, &grouped };

        for (unsigned kind = 0; kind < KINDS; kind++)
                for (unsigned m = 0; m < 40; m++)
                        for (unsigned k = 0; k < ELEMENTSOF(who); k++) {
                                _cleanup_(qubo_freep) Qubo *q = NULL;
                                SolveResult r = {};
                                Told told = { .last = INT64_MAX };
                                SolveParams p = { .improved = note, .improved_userdata = &told };
                                int64_t least;

                                assert_int_equal(model(kind, m, &q), 0);
                                told.q = q;
                                least = model_brute_force(q);
                                assert_int_equal(qubo_solve(q, who[k], &p, &r), 0);
                                assert_true(qubo_feasible(q, r.x));
                                assert_int_equal(qubo_energy(q, r.x), r.energy);
                                assert_int_equal(r.energy, least);
                                assert_int_equal(told.last, least);
                                assert_true(r.proved);
                                assert_int_equal(r.lower_bound, least);
                                solve_result_done(&r);
                        }
}

/* However bad the bits that a solver found are, what comes back is feasible and not worse than the start. */
static void test_careless_solver(void **state) {
        for (unsigned kind = 0; kind < KINDS; kind++)
                for (unsigned m = 0; m < 40; m++)
                        for (unsigned sweeps = 1; sweeps < 2000; sweeps *= 8) {
                                _cleanup_(qubo_freep) Qubo *q = NULL;
                                _cleanup_free_ uint8_t *x = NULL;
                                SolveResult r = {};
                                Told told = { .last = INT64_MAX };
                                SolveParams p = {
                                        .seed = m, .sweeps = sweeps, .improved = note, .improved_userdata = &told
                                };

                                assert_int_equal(model(kind, m, &q), 0);
                                if (q->n_groups == 0)
                                        continue;
                                told.q = q;
                                x = calloc((size_t) q->n + 1, 1);
                                for (uint32_t g = 0; g < q->n_groups; g++)
                                        x[q->group_first[g] + (q->permutation ? g : 0)] = 1;
                                p.start = sweeps % 2 ? NULL : x;
                                assert_int_equal(qubo_solve(q, &careless, &p, &r), 0);
                                assert_true(qubo_feasible(q, r.x));
                                assert_int_equal(qubo_energy(q, r.x), r.energy);
                                assert_true(!p.start || r.energy <= qubo_energy(q, x));
                                assert_int_equal(told.last, r.energy);
                                solve_result_done(&r);
                        }
}

static void test_target(void **state) {
        for (unsigned kind = 0; kind < KINDS; kind++)
                for (unsigned m = 0; m < 40; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveResult r = {}, s = {};
                        SolveParams p = { .has_target = true, .target = INT64_MIN };

                        assert_int_equal(model(kind, m, &q), 0);
                        assert_int_equal(qubo_solve(q, &plain, &p, &r), 0);
                        p.target = r.energy + 3;
                        assert_int_equal(qubo_solve(q, &plain, &p, &s), 0);
                        assert_true(s.energy <= p.target && s.flips <= r.flips);
                        solve_result_done(&r);
                        solve_result_done(&s);
                }
}

/* The solvers of the table on permutations, which most of them do not know. */
static void test_table_on_permutations(void **state) {
        for (size_t k = 0; solvers[k]; k++) {
                unsigned found = 0, models = 0;

                for (unsigned m = 0; m < 60; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveResult r = {};
                        Told told = { .last = INT64_MAX };
                        bool exact = streq(solvers[k]->name, "exact");
                        SolveParams p = {
                                .seed = m, .sweeps = exact ? 0 : 300, .improved = note, .improved_userdata = &told
                        };
                        int64_t least;
                        Rng rng;

                        rng_seed(&rng, 400, m);
                        assert_int_equal(model_permutation(&rng, m % 6, 20, m % 4, &q), 0);
                        if (!solvers[k]->fits(q))
                                continue;
                        told.q = q;
                        least = model_brute_force(q);
                        assert_int_equal(qubo_solve(q, solvers[k], &p, &r), 0);
                        assert_true(q->n == 0 || (r.x && qubo_feasible(q, r.x)));
                        assert_int_equal(q->n == 0 ? r.energy : qubo_energy(q, r.x), r.energy);
                        assert_true(r.energy >= least && r.lower_bound <= least);
                        assert_true(!r.proved || r.energy == least);
                        assert_true(!exact || r.proved);
                        found += r.energy == least;
                        models++;
                        solve_result_done(&r);
                }
                if (models > 0)
                        print_message("%s: %u of %u\n", solvers[k]->name, found, models);
        }
}

static void test_too_large(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL, *c = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL, *one = NULL;
        SolveParams p = { .sweeps = 1 };
        SolveResult r = {};
        const uint32_t n = 120;
        int32_t *flow = calloc(n * n, sizeof(*flow)), *distance = calloc(n * n, sizeof(*distance));

        for (uint32_t k = 0; k < n * n; k++)
                flow[k] = distance[k] = 1;
        assert_int_equal(qubo_builder_new(n * n, &b), 0);
        for (uint32_t g = 0; g < n; g++)
                assert_int_equal(qubo_add_group(b, g * n, n), 0);
        assert_int_equal(qubo_set_permutation(b, flow, distance), 0);
        assert_int_equal(qubo_build(b, &q), 0);
        assert_int_equal(qubo_solve(q, &careless, &p, &r), -EFBIG);
        assert_int_equal(qubo_solve(q, &grouped, &p, &r), -EFBIG);
        assert_null(r.x);

        /* one group of very many choices */
        assert_int_equal(qubo_builder_new(20000, &c), 0);
        assert_int_equal(qubo_add_group(c, 0, 20000), 0);
        assert_int_equal(qubo_build(c, &one), 0);
        assert_int_equal(qubo_solve(one, &careless, &p, &r), -EFBIG);
}

/* A permutation that takes long to lower is not lowered once nobody waits: some point comes back, or the start. */
static void test_stopped_while_lowering(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        _cleanup_free_ uint8_t *start = NULL;
        const uint32_t n = 40;
        int32_t *flow = calloc(n * n, sizeof(*flow)), *distance = calloc(n * n, sizeof(*distance));
        atomic_bool stop = true;

        for (uint32_t k = 0; k < n * n; k++) {
                flow[k] = (int32_t) (k % 7);
                distance[k] = (int32_t) (k % 5);
        }
        assert_int_equal(qubo_builder_new(n * n, &b), 0);
        for (uint32_t g = 0; g < n; g++)
                assert_int_equal(qubo_add_group(b, g * n, n), 0);
        assert_int_equal(qubo_set_permutation(b, flow, distance), 0);
        assert_int_equal(qubo_build(b, &q), 0);
        start = calloc(q->n, 1);
        for (uint32_t g = 0; g < n; g++)
                start[g * n + (g + 1) % n] = 1;
        for (unsigned with = 0; with < 2; with++) {
                SolveParams p = { .sweeps = 10, .stop = &stop, .start = with ? start : NULL };
                SolveResult r = {};

                assert_int_equal(qubo_solve(q, &careless, &p, &r), 0);
                assert_true(qubo_feasible(q, r.x));
                assert_int_equal(qubo_energy(q, r.x), r.energy);
                if (with)
                        assert_memory_equal(r.x, start, q->n);
                solve_result_done(&r);
        }
}

static void test_overflow(void **state) {
        static const int32_t sizes[] = { 1 << 20, 1 << 28, 1 << 30, INT32_MAX };

        for (size_t k = 0; k < ELEMENTSOF(sizes); k++)
                for (unsigned permutation = 0; permutation < 2; permutation++) {
                        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveParams p = { .sweeps = 100 };
                        SolveResult r = {};
                        int e;

                        assert_int_equal(qubo_builder_new(4, &b), 0);
                        assert_int_equal(qubo_add_group(b, 0, 2) | qubo_add_group(b, 2, 2), 0);
                        assert_int_equal(qubo_add_quadratic(b, 0, 3, sizes[k]), 0);
                        assert_int_equal(qubo_add_quadratic(b, 1, 2, -sizes[k]), 0);
                        assert_int_equal(qubo_add_linear(b, 1, sizes[k]), 0);
                        if (permutation)
                                assert_int_equal(qubo_set_permutation(b, NULL, NULL), 0);
                        assert_int_equal(qubo_build(b, &q), 0);
                        e = qubo_solve(q, &careless, &p, &r);
                        assert_int_equal(e, k < 2 ? 0 : -EOVERFLOW);
                        assert_true(e < 0 || r.energy == 0);
                        solve_result_done(&r);
                }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_point),
                cmocka_unit_test(test_solved_to_the_optimum),
                cmocka_unit_test(test_careless_solver),
                cmocka_unit_test(test_target),
                cmocka_unit_test(test_table_on_permutations),
                cmocka_unit_test(test_too_large),
                cmocka_unit_test(test_stopped_while_lowering),
                cmocka_unit_test(test_overflow),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
