/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups and permutations found again in plain models whose variables are shuffled, with brute force as the judge of
 * what is said to be exact; and models that have none.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/recognise.h"
#include "tests/unit/qubo-models.h"

/* The same model with variable v at place to[v]. Plain ones only. */
static void shuffle(Rng *r, const Qubo *q, uint32_t *to, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int e = qubo_builder_new(q->n, &b);

        assert_int_equal(q->n_groups, 0);
        for (uint32_t v = 0; v < q->n; v++)
                to[v] = v;
        for (uint32_t v = q->n; v > 1; v--) {
                uint32_t u = rng_below(r, v), t = to[u];

                to[u] = to[v - 1];
                to[v - 1] = t;
        }
        e |= qubo_add_offset(b, q->offset);
        for (uint32_t v = 0; v < q->n; v++) {
                e |= qubo_add_linear(b, to[v], q->linear[v]);
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++)
                        if (q->col[k] > v)
                                e |= qubo_add_quadratic(b, to[v], to[q->col[k]], q->val[k]);
        }
        assert_int_equal(e, 0);
        assert_int_equal(qubo_build(b, ret), 0);
}

static void random_point(Rng *r, const Qubo *q, uint8_t *x) {
        uint32_t n = q->n_groups;
        _cleanup_free_ uint32_t *column = calloc((size_t) n + 1, sizeof(*column));

        for (uint32_t v = 0; v < q->n; v++)
                x[v] = q->group_of[v] == QUBO_NO_GROUP ? (uint8_t) rng_below(r, 2) : 0;
        for (uint32_t g = 0; g < n; g++) {
                uint32_t other = rng_below(r, g + 1);

                column[g] = column[other];
                column[other] = g;
        }
        for (uint32_t g = 0; g < n; g++)
                x[q->group_first[g] + (q->permutation ? column[g] : rng_below(r, q->group_size[g]))] = 1;
}

/* Whatever was recognised: variables are a permutation, and feasible points have the same value in both. */
static void check_equivalent(Rng *r, const Qubo *plain, const Recognised *found) {
        _cleanup_free_ uint8_t *x = calloc((size_t) plain->n + 1, 1), *y = calloc((size_t) plain->n + 1, 1);

        assert_int_equal(found->q->n, plain->n);
        for (uint32_t v = 0; v < plain->n; v++) {
                assert_true(found->old_of[v] < plain->n && !y[found->old_of[v]]);
                y[found->old_of[v]] = 1;
        }
        for (unsigned k = 0; k < 50; k++) {
                random_point(r, found->q, x);
                assert_true(qubo_feasible(found->q, x));
                recognised_to_plain(found, x, y);
                assert_int_equal(qubo_energy(found->q, x), qubo_energy(plain, y));
                memset(x, 2, plain->n);
                recognised_from_plain(found, y, x);
                assert_true(qubo_feasible(found->q, x));
        }
}

/* Each group of the model is one of those found; to: where its variables are in the plain one. */
static bool has_groups(const Qubo *q, const uint32_t *to, const Recognised *found) {
        _cleanup_free_ uint32_t *new_of = calloc((size_t) q->n + 1, sizeof(*new_of));

        for (uint32_t v = 0; v < q->n; v++)
                new_of[found->old_of[v]] = v;
        for (uint32_t g = 0; g < q->n_groups; g++) {
                uint32_t first = q->group_first[g], h = found->q->group_of[new_of[to[first]]];

                if (h == QUBO_NO_GROUP || found->q->group_size[h] != q->group_size[g])
                        return false;
                for (uint32_t v = first; v < first + q->group_size[g]; v++)
                        if (found->q->group_of[new_of[to[v]]] != h)
                                return false;
        }
        return true;
}

typedef struct GroupShape {
        uint32_t n_groups, size_min, size_max, singles, density;
        int32_t range;
        bool positive;
} GroupShape;

static void model_groups(Rng *r, const GroupShape *s, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t sizes[64], n = s->singles, at = 0;
        const RandomShape any = { .range = s->range };
        int e;

        for (uint32_t g = 0; g < s->n_groups; g++)
                n += sizes[g] = s->size_min + rng_below(r, s->size_max - s->size_min + 1);
        e = qubo_builder_new(n, &b);
        for (uint32_t g = 0; g < s->n_groups; at += sizes[g++])
                e |= qubo_add_group(b, at, sizes[g]);
        for (uint32_t v = 0; v < n; v++) {
                e |= qubo_add_linear(b, v, model_coefficient(r, &any));
                for (uint32_t u = 0; u < v; u++) {
                        int64_t w = rng_below(r, 100) < s->density ? model_coefficient(r, &any) : 0;

                        e |= qubo_add_quadratic(b, u, v, s->positive ? llabs(w) : w);
                }
        }
        assert_int_equal(e, 0);
        assert_int_equal(qubo_build(b, ret), 0);
}

static const GroupShape shapes[] = {
        { .n_groups = 6, .size_min = 3, .size_max = 7, .density = 60, .range = 30 },
        { .n_groups = 12, .size_min = 4, .size_max = 4, .density = 100, .range = 9, .positive = true },
        { .n_groups = 20, .size_min = 3, .size_max = 12, .singles = 20, .density = 30, .range = 1000 },
        { .n_groups = 5, .size_min = 3, .size_max = 9, .density = 0, .range = 1000 },
        { .n_groups = 3, .size_min = 8, .size_max = 8, .density = 100, .range = 1 },
        { .n_groups = 1, .size_min = 5, .size_max = 20, .density = 100, .range = 7 },
        { .n_groups = 16, .size_min = 2, .size_max = 2, .density = 40, .range = 50, .positive = true },
};

static void test_found_again(void **state) {
        for (size_t i = 0; i < ELEMENTSOF(shapes); i++)
                for (unsigned m = 0; m < 40; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL, *penalty = NULL, *plain = NULL;
                        _cleanup_(recognised_freep) Recognised *found = NULL;
                        _cleanup_free_ uint32_t *to = NULL;
                        Rng rng;

                        rng_seed(&rng, 500 + i, m);
                        model_groups(&rng, &shapes[i], &q);
                        to = calloc((size_t) q->n + 1, sizeof(*to));
                        assert_int_equal(qubo_to_penalty(q, 0, &penalty, NULL), 0);
                        shuffle(&rng, penalty, to, &plain);
                        assert_int_equal(qubo_recognise(plain, &found), 0);
                        if (!found || !has_groups(q, to, found) || !found->exact)
                                fail_msg("shape %zu, model %u: %s", i, m, found ? "other groups" : "nothing");
                        check_equivalent(&rng, plain, found);
                }
}

/* Larger penalties than need be, and smaller ones, which may not be said to be exact if they are not. */
static void test_given_penalties(void **state) {
        static const GroupShape small = {
                .n_groups = 3, .size_min = 3, .size_max = 4, .singles = 1, .density = 70, .range = 9
        };
        unsigned exact = 0, found_again = 0, models = 0;

        for (unsigned m = 0; m < 300; m++)
                for (int64_t p = 1; p < 2000; p *= 3) {
                        _cleanup_(qubo_freep) Qubo *q = NULL, *penalty = NULL, *plain = NULL;
                        _cleanup_(recognised_freep) Recognised *found = NULL;
                        uint32_t to[16];
                        Rng rng;

                        rng_seed(&rng, 600, m);
                        model_groups(&rng, &small, &q);
                        assert_int_equal(qubo_to_penalty(q, p, &penalty, NULL), 0);
                        shuffle(&rng, penalty, to, &plain);
                        assert_int_equal(qubo_recognise(plain, &found), 0);
                        models++;
                        if (!found)
                                continue;
                        found_again++;
                        exact += found->exact;
                        check_equivalent(&rng, plain, found);
                        if (found->exact)
                                assert_int_equal(model_brute_force(found->q), model_brute_force(plain));
                        assert_true(p < 1000 || (found->exact && has_groups(q, to, found)));
                }
        print_message("%u of %u recognised, %u exact\n", found_again, models, exact);
}

static const RandomShape without[] = {
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 60, .range = 9 },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 100, .range = 1 },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 30, .range = 2 },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 20, .range = 1000 },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 100, .range = 3, .equal = true },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 100, .range = -3, .equal = true },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 50, .range = 3, .equal = true },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 100, .range = INT32_MAX, .equal = true },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 50, .range = INT32_MAX },
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 50, .range = 0 },
};

/* What small random models happen to have may be found, but never wrongly. */
static void test_never_wrongly(void **state) {
        unsigned found_some = 0, exact = 0, models = 0;

        for (size_t i = 0; i < ELEMENTSOF(without); i++)
                for (unsigned m = 0; m < 500; m++) {
                        _cleanup_(qubo_freep) Qubo *plain = NULL;
                        _cleanup_(recognised_freep) Recognised *found = NULL;
                        Rng rng;

                        rng_seed(&rng, 700 + i, m);
                        assert_int_equal(model_random(&rng, &without[i], &plain), 0);
                        assert_int_equal(qubo_recognise(plain, &found), 0);
                        models++;
                        if (!found)
                                continue;
                        found_some++;
                        exact += found->exact;
                        check_equivalent(&rng, plain, found);
                        if (found->exact)
                                assert_int_equal(model_brute_force(found->q), model_brute_force(plain));
                }
        print_message("of %u models without groups, %u have some, %u exact\n", models, found_some, exact);
}

static void test_large_random_models_have_none(void **state) {
        static const RandomShape large[] = {
                { .n_max = 300, .n_groups = 0, .size_max = 1, .density = 100, .range = 100 },
                { .n_max = 300, .n_groups = 0, .size_max = 1, .density = 10, .range = 100 },
                { .n_max = 300, .n_groups = 0, .size_max = 1, .density = 50, .range = 1 },
                { .n_max = 300, .n_groups = 0, .size_max = 1, .density = 6, .range = 1 },
                { .n_max = 300, .n_groups = 0, .size_max = 1, .density = 20, .range = INT32_MAX },
        };

        for (size_t i = 0; i < ELEMENTSOF(large); i++)
                for (unsigned m = 0; m < 10; m++) {
                        _cleanup_(qubo_freep) Qubo *plain = NULL;
                        _cleanup_(recognised_freep) Recognised *found = NULL;
                        Rng rng;

                        rng_seed(&rng, 800 + i, m);
                        assert_int_equal(model_random(&rng, &large[i], &plain), 0);
                        if (plain->n < 60)
                                continue;
                        assert_int_equal(qubo_recognise(plain, &found), 0);
                        assert_null(found);
                }
}

/* sum over rows and columns of p (1 - sum x)^2, beside products. */
static void square_penalties(uint32_t n, int64_t p, QuboBuilder *b) {
        int e = 0;

        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = 0; j < n; j++) {
                        e |= qubo_add_linear(b, i * n + j, -2 * p);
                        for (uint32_t k = 0; k < j; k++)
                                e |= qubo_add_quadratic(b, i * n + j, i * n + k, 2 * p) |
                                     qubo_add_quadratic(b, j * n + i, k * n + i, 2 * p);
                }
        assert_int_equal(e | qubo_add_offset(b, 2 * p * n), 0);
}

static void assignment(Rng *r, uint32_t n, int64_t p, bool linear, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int32_t flow[8][8], distance[8][8];
        int e = qubo_builder_new(n * n, &b);

        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = 0; j < i; j++) {
                        flow[i][j] = flow[j][i] = (int32_t) rng_below(r, 5);
                        distance[i][j] = distance[j][i] = 1 + (int32_t) rng_below(r, 9);
                }
        square_penalties(n, p, b);
        for (uint32_t i = 0; i < n * n; i++) {
                e |= qubo_add_linear(b, i, linear ? rng_below(r, 20) : 0);
                for (uint32_t j = 0; j < i; j++)
                        if (i / n != j / n && i % n != j % n)
                                e |= qubo_add_quadratic(b, i, j, 2 * flow[i / n][j / n] * distance[i % n][j % n]);
        }
        assert_int_equal(e, 0);
        assert_int_equal(qubo_build(b, ret), 0);
}

/* Rows and columns of one value: a permutation, its flows and distances apart again. */
static void test_squares(void **state) {
        for (unsigned m = 0; m < 60; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *plain = NULL;
                _cleanup_(recognised_freep) Recognised *found = NULL;
                uint32_t n = 3 + m % 6, to[64];
                Rng rng;

                rng_seed(&rng, 900, m);
                assignment(&rng, n, 4000, m % 2, &q);
                shuffle(&rng, q, to, &plain);
                assert_int_equal(qubo_recognise(plain, &found), 0);
                if (!found || !found->q->permutation || !found->exact || found->q->n_groups != n)
                        fail_msg("%u x %u is not recognised", n, n);
                check_equivalent(&rng, plain, found);
                assert_true(found->q->flow && found->q->row[n * n] == 0);
                if (n == 3)
                        assert_int_equal(model_brute_force(found->q), model_brute_force(plain));
        }
}

/* Penalties that are too small, or not shown to be large enough, are not said to be. */
static void test_squares_too_small(void **state) {
        unsigned found_some = 0;

        for (unsigned m = 0; m < 200; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *plain = NULL;
                _cleanup_(recognised_freep) Recognised *found = NULL;
                uint32_t n = 3, to[64];
                Rng rng;

                rng_seed(&rng, 901, m);
                assignment(&rng, n, 1 + m, m % 2, &q);
                shuffle(&rng, q, to, &plain);
                assert_int_equal(qubo_recognise(plain, &found), 0);
                if (!found)
                        continue;
                found_some++;
                check_equivalent(&rng, plain, found);
                if (found->exact)
                        assert_int_equal(model_brute_force(found->q), model_brute_force(plain));
        }
        assert_true(found_some > 100);
}

/* Any permutation, not only products, in the penalty form that is written here. */
static void test_permutations(void **state) {
        for (unsigned m = 0; m < 60; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *penalty = NULL, *plain = NULL;
                _cleanup_(recognised_freep) Recognised *found = NULL;
                uint32_t n = 3 + m % 5, to[64];
                Rng rng;

                rng_seed(&rng, 902, m);
                assert_int_equal(model_permutation(&rng, n, 20, m % 2, &q), 0);
                assert_int_equal(qubo_to_penalty(q, 0, &penalty, NULL), 0);
                shuffle(&rng, penalty, to, &plain);
                assert_int_equal(qubo_recognise(plain, &found), 0);
                assert_non_null(found);
                assert_true(found->exact && has_groups(q, to, found));
                assert_true(found->q->permutation);
                check_equivalent(&rng, plain, found);
                if (n <= 4)
                        assert_int_equal(model_brute_force(found->q), model_brute_force(q));
        }
}

/* What the caller of a solver sees: bits and energies of the plain model, never worse than the plain solver could. */
static void test_solved(void **state) {
        static const GroupShape small = {
                .n_groups = 3, .size_min = 3, .size_max = 4, .singles = 1, .density = 70, .range = 9
        };

        for (unsigned m = 0; m < 200; m++)
                for (int64_t p = 0; p < 100; p = 4 * p + 1) {
                        _cleanup_(qubo_freep) Qubo *q = NULL, *penalty = NULL, *plain = NULL;
                        _cleanup_(recognised_freep) Recognised *found = NULL;
                        SolveParams params = { .seed = m };
                        SolveResult r = {};
                        uint8_t start[16] = { 1, 0, 1 };
                        uint32_t to[16];
                        int64_t least;
                        Rng rng;

                        rng_seed(&rng, 601, m);
                        model_groups(&rng, &small, &q);
                        assert_int_equal(qubo_to_penalty(q, p, &penalty, NULL), 0);
                        shuffle(&rng, penalty, to, &plain);
                        assert_int_equal(qubo_recognise(plain, &found), 0);
                        if (!found)
                                continue;
                        least = model_brute_force(plain);
                        assert_int_equal(recognised_solve(plain, found, solver_by_name("exact"), &params, &r), 0);
                        assert_int_equal(r.energy, least);
                        assert_int_equal(qubo_energy(plain, r.x), least);
                        assert_true(r.proved && r.lower_bound == least);
                        solve_result_done(&r);
                        params.sweeps = 1;
                        params.start = start;
                        assert_int_equal(recognised_solve(plain, found, solver_by_name("sa"), &params, &r), 0);
                        assert_int_equal(qubo_energy(plain, r.x), r.energy);
                        assert_true(r.energy >= least && r.energy <= qubo_energy(plain, start));
                        solve_result_done(&r);
                }
}

static void test_empty(void **state) {
        for (uint32_t n = 0; n < 3; n++) {
                _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
                _cleanup_(qubo_freep) Qubo *q = NULL;
                Recognised *found = NULL;

                assert_int_equal(qubo_builder_new(n, &b), 0);
                assert_int_equal(qubo_build(b, &q), 0);
                assert_int_equal(qubo_recognise(q, &found), 0);
                assert_null(found);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_found_again),   cmocka_unit_test(test_given_penalties),
                cmocka_unit_test(test_never_wrongly), cmocka_unit_test(test_large_random_models_have_none),
                cmocka_unit_test(test_squares),       cmocka_unit_test(test_squares_too_small),
                cmocka_unit_test(test_permutations),  cmocka_unit_test(test_solved),
                cmocka_unit_test(test_empty),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
