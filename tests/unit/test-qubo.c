/* SPDX-License-Identifier: Apache-2.0 */
/* The model itself: adding up, order of rows, refusals, energy, the penalty form, the plain bound. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/solver.h"
#include "tests/unit/qubo-models.h"

static void test_empty_model(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        uint8_t x = 0;

        assert_int_equal(qubo_builder_new(0, &b), 0);
        assert_int_equal(qubo_add_offset(b, -5), 0);
        assert_int_equal(qubo_add_linear(b, 0, 1), -EINVAL);
        assert_int_equal(qubo_add_group(b, 0, 1), -EINVAL);
        assert_int_equal(qubo_build(b, &q), 0);
        assert_int_equal(q->n, 0);
        assert_true(qubo_feasible(q, &x));
        assert_int_equal(qubo_energy(q, &x), -5);
        assert_int_equal(qubo_lower_bound(q), -5);
}

static void test_sums_up_and_sorts(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        const uint8_t x[] = { 1, 0, 1, 1 };

        assert_int_equal(qubo_builder_new(4, &b), 0);
        assert_int_equal(qubo_add_quadratic(b, 3, 0, 5), 0);
        assert_int_equal(qubo_add_quadratic(b, 0, 3, -2), 0);
        assert_int_equal(qubo_add_quadratic(b, 2, 0, 4), 0);
        assert_int_equal(qubo_add_quadratic(b, 1, 2, 7), 0);
        assert_int_equal(qubo_add_quadratic(b, 2, 1, -7), 0); /* cancels: no entry */
        assert_int_equal(qubo_add_quadratic(b, 3, 3, 11), 0); /* x * x = x */
        assert_int_equal(qubo_add_linear(b, 0, 1), 0);
        assert_int_equal(qubo_add_linear(b, 0, 1), 0);
        assert_int_equal(qubo_build(b, &q), 0);

        assert_int_equal(q->row[4], 4);
        assert_int_equal(q->row[1] - q->row[0], 2);
        assert_int_equal(q->col[0], 2);
        assert_int_equal(q->val[0], 4);
        assert_int_equal(q->col[1], 3);
        assert_int_equal(q->val[1], 3);
        assert_int_equal(q->row[2], q->row[1]);
        assert_int_equal(q->linear[0], 2);
        assert_int_equal(q->linear[3], 11);
        assert_int_equal(qubo_energy(q, x), 2 + 11 + 4 + 3);
}

/* The same few pairs again and again: the list is merged as it grows, and the sums stay right. */
static void test_many_additions(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        int64_t sum[10][10] = {};
        Rng rng;

        rng_seed(&rng, 7, 0);
        assert_int_equal(qubo_builder_new(10, &b), 0);
        for (unsigned k = 0; k < 200000; k++) {
                uint32_t i = rng_below(&rng, 10), j = rng_below(&rng, 10);
                int64_t w = (int64_t) rng_below(&rng, 100) - 50;

                assert_int_equal(qubo_add_quadratic(b, i, j, w), 0);
                sum[MIN(i, j)][MAX(i, j)] += w;
        }
        assert_int_equal(qubo_build(b, &q), 0);
        for (uint32_t i = 0; i < 10; i++) {
                assert_int_equal(q->linear[i], sum[i][i]);
                for (size_t k = q->row[i]; k < q->row[i + 1]; k++) {
                        assert_true(k == q->row[i] || q->col[k] > q->col[k - 1]);
                        assert_int_equal(q->val[k], sum[MIN(i, q->col[k])][MAX(i, q->col[k])]);
                }
        }
}

static void test_groups(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        uint8_t x[] = { 0, 1, 0, 0, 1, 0 };

        assert_int_equal(qubo_builder_new(6, &b), 0);
        assert_int_equal(qubo_add_group(b, 4, 2), 0);
        assert_int_equal(qubo_add_group(b, 0, 3), 0);
        assert_int_equal(qubo_add_group(b, 2, 2), -EINVAL);          /* overlaps */
        assert_int_equal(qubo_add_group(b, 3, 0), -EINVAL);          /* empty */
        assert_int_equal(qubo_add_group(b, 3, UINT32_MAX), -EINVAL); /* outside */
        assert_int_equal(qubo_add_group(b, 6, 1), -EINVAL);
        assert_int_equal(qubo_add_quadratic(b, 0, 2, 1000), 0); /* within a group: dropped */
        assert_int_equal(qubo_add_quadratic(b, 1, 4, 3), 0);
        assert_int_equal(qubo_build(b, &q), 0);

        assert_int_equal(q->n_groups, 2);
        assert_int_equal(q->group_first[0], 4);
        assert_int_equal(q->group_of[0], 1);
        assert_int_equal(q->group_of[3], QUBO_NO_GROUP);
        assert_int_equal(q->row[6], 2);
        assert_true(qubo_feasible(q, x));
        assert_int_equal(qubo_energy(q, x), 3);
        x[0] = 1;
        assert_false(qubo_feasible(q, x));
        x[0] = x[1] = 0;
        assert_false(qubo_feasible(q, x));
}

static void test_overflow_is_refused(void **state) {
        static const struct {
                int64_t linear, pair, offset;
                int expected;
        } cases[] = {
                { INT32_MAX, -(int64_t) INT32_MAX, 0, 0 }, { (int64_t) INT32_MAX + 1, 0, 0, -EOVERFLOW },
                { INT64_MIN, 0, 0, -EOVERFLOW },           { 0, (int64_t) INT32_MAX + 1, 0, -EOVERFLOW },
                { 0, INT64_MIN, 0, -EOVERFLOW },           { 0, 0, INT64_MAX / 4, 0 },
                { 1, 0, INT64_MAX / 4, -EOVERFLOW },       { 0, -1, -(INT64_MAX / 4), -EOVERFLOW },
                { 0, 0, INT64_MIN, -EOVERFLOW },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
                _cleanup_(qubo_freep) Qubo *q = NULL;

                assert_int_equal(qubo_builder_new(2, &b), 0);
                assert_int_equal(qubo_add_linear(b, 0, cases[i].linear), 0);
                assert_int_equal(qubo_add_quadratic(b, 0, 1, cases[i].pair), 0);
                assert_int_equal(qubo_add_offset(b, cases[i].offset), 0);
                assert_int_equal(qubo_build(b, &q), cases[i].expected);
                assert_true((q != NULL) == (cases[i].expected == 0));
        }
}

static void test_sums_beyond_int64_are_refused(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;

        assert_int_equal(qubo_builder_new(2, &b), 0);
        assert_int_equal(qubo_add_linear(b, 0, INT64_MAX), 0);
        assert_int_equal(qubo_add_linear(b, 0, 1), -EOVERFLOW);
        assert_int_equal(qubo_add_quadratic(b, 0, 1, INT64_MAX), 0);
        assert_int_equal(qubo_add_quadratic(b, 0, 1, 1), 0);
        assert_int_equal(qubo_build(b, &q), -EOVERFLOW);
}

static const RandomShape small = { .n_max = 12, .n_groups = 4, .size_max = 4, .density = 70, .range = 30 };

static void test_penalty_form_is_equal(void **state) {
        Rng rng;

        for (unsigned m = 0; m < 300; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *free_form = NULL;
                int64_t penalty = -1, least;
                uint8_t x[16] = {};

                rng_seed(&rng, 11, m);
                assert_int_equal(model_random(&rng, &small, &q), 0);
                assert_int_equal(qubo_to_penalty(q, 0, &free_form, &penalty), 0);
                assert_int_equal(free_form->n_groups, 0);
                assert_true(penalty > 0);
                least = model_brute_force(q);
                do {
                        int64_t e = qubo_energy(free_form, x);

                        if (qubo_feasible(q, x))
                                assert_int_equal(e, qubo_energy(q, x));
                        else
                                assert_true(e > least); /* exact: breaking a group never pays */
                } while (model_next_point(free_form, x));
        }
}

static void test_penalty_given(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL, *p = NULL;
        const uint8_t none[] = { 0, 0 }, both[] = { 1, 1 };
        int64_t penalty = 0;

        assert_int_equal(qubo_builder_new(2, &b), 0);
        assert_int_equal(qubo_add_group(b, 0, 2), 0);
        assert_int_equal(qubo_build(b, &q), 0);
        assert_int_equal(qubo_to_penalty(q, 17, &p, &penalty), 0);
        assert_int_equal(penalty, 17);
        assert_int_equal(qubo_energy(p, none), 17);
        assert_int_equal(qubo_energy(p, both), 17);
        assert_int_equal(qubo_to_penalty(q, -1, &p, NULL), -EINVAL);
        assert_int_equal(qubo_to_penalty(q, (int64_t) INT32_MAX + 1, &p, NULL), -EOVERFLOW);
}

static void test_lower_bound_is_below_all(void **state) {
        Rng rng;

        for (unsigned m = 0; m < 1000; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                rng_seed(&rng, 13, m);
                assert_int_equal(model_random(&rng, &small, &q), 0);
                assert_true(qubo_lower_bound(q) <= model_brute_force(q));
        }
}

/* One group alone, and groups without couplings: the bound is the optimum. */
static void test_lower_bound_is_tight_without_couplings(void **state) {
        const RandomShape loose = { .n_max = 12, .n_groups = 4, .size_max = 4, .density = 0, .range = 30 };
        Rng rng;

        for (unsigned m = 0; m < 200; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                rng_seed(&rng, 17, m);
                assert_int_equal(model_random(&rng, &loose, &q), 0);
                assert_int_equal(qubo_lower_bound(q), model_brute_force(q));
        }
}

static void test_tables_are_rows_written_once(void **state) {
        Rng rng;

        for (unsigned m = 0; m < 500; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *rows = NULL, *expanded = NULL;
                uint8_t x[16] = {};

                rng_seed(&rng, 19, m);
                assert_int_equal(model_tables(&rng, 50, &q, &rows), 0);
                assert_int_equal(qubo_expand(q, &expanded), 0);
                assert_int_equal(expanded->row[q->n], rows->row[q->n]);
                for (size_t k = 0; k < rows->row[q->n]; k++) {
                        assert_int_equal(expanded->col[k], rows->col[k]);
                        assert_int_equal(expanded->val[k], rows->val[k]);
                }
                model_first_point(q, x);
                do
                        assert_int_equal(qubo_energy(q, x), qubo_energy(rows, x));
                while (model_next_point(q, x));
                assert_true(qubo_lower_bound(q) <= model_brute_force(rows));
                assert_true(qubo_couplings(q) >= rows->row[q->n]);
        }
}

static void test_tables_penalty_form(void **state) {
        Rng rng;

        for (unsigned m = 0; m < 50; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *rows = NULL, *p = NULL, *p_rows = NULL;
                int64_t a = 0, b = 0;
                uint8_t x[16] = {};

                rng_seed(&rng, 23, m);
                assert_int_equal(model_tables(&rng, 50, &q, &rows), 0);
                assert_int_equal(qubo_to_penalty(q, 0, &p, &a), 0);
                assert_int_equal(qubo_to_penalty(rows, 0, &p_rows, &b), 0);
                assert_int_equal(a, b);
                do
                        assert_int_equal(qubo_energy(p, x), qubo_energy(p_rows, x));
                while (model_next_point(p, x));
        }
}

/* Of permutations: products with flows of any sign written out as rows, energies of any bits, the bound. */
static void test_permutations(void **state) {
        unsigned tight = 0;
        Rng rng;

        for (unsigned m = 0; m < 400; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *rows = NULL;
                uint32_t n = m % 6;
                uint8_t x[25] = {};
                int64_t least;

                rng_seed(&rng, 37, m);
                assert_int_equal(model_permutation(&rng, n, 30, m % 3, &q), 0);
                assert_int_equal(qubo_expand(q, &rows), 0);
                assert_true(rows->permutation && !rows->flow);
                assert_true(rows->row[n * n] <= qubo_couplings(q));
                for (uint32_t v = 0; v < n * n; v++)
                        for (size_t k = rows->row[v]; k + 1 < rows->row[v + 1]; k++)
                                assert_true(rows->col[k] < rows->col[k + 1] && rows->val[k] != 0);
                model_first_point(q, x);
                do {
                        int64_t e = q->offset;

                        for (uint32_t u = 0; u < q->n; u++) {
                                e += x[u] ? q->linear[u] : 0;
                                for (size_t k = q->row[u]; x[u] && k < q->row[u + 1]; k++)
                                        e += q->col[k] < u && x[q->col[k]] ? q->val[k] : 0;
                                for (uint32_t v = 0; q->flow && x[u] && v < q->n; v++)
                                        if (x[v] && u / n != v / n)
                                                e += (int64_t) q->flow[u / n * n + v / n] *
                                                     q->distance[u % n * n + v % n];
                        }
                        assert_int_equal(qubo_energy(q, x), e);
                        if (qubo_feasible(q, x))
                                assert_int_equal(qubo_energy(rows, x), e);
                } while (model_next_point(q, x));
                least = model_brute_force(q);
                assert_true(qubo_lower_bound(q) <= least && qubo_lower_bound(rows) <= least);
                tight += qubo_lower_bound(q) == least;
        }
        assert_true(tight >= 400 / 6); /* at least where there is nothing to choose */
}

static void test_permutation_penalty_form(void **state) {
        Rng rng;

        for (unsigned m = 0; m < 60; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL, *free_form = NULL;
                int64_t penalty = 0, least;
                uint8_t x[9] = {};

                rng_seed(&rng, 41, m);
                assert_int_equal(model_permutation(&rng, m % 4, 30, m % 2, &q), 0);
                assert_int_equal(qubo_to_penalty(q, m % 3 ? 0 : 77, &free_form, &penalty), 0);
                assert_true(!free_form->permutation && free_form->n_groups == 0);
                assert_true(m % 3 || m % 4 == 0 || penalty == 77);
                least = model_brute_force(q);
                do {
                        if (qubo_feasible(q, x))
                                assert_int_equal(qubo_energy(free_form, x), qubo_energy(q, x));
                        else if (m % 3)
                                assert_true(qubo_energy(free_form, x) > least);
                } while (model_next_point(free_form, x));
        }
}

/* No couplings: an assignment problem, whose bound is its optimum. */
static void test_assignment_bound_is_tight(void **state) {
        Rng rng;

        for (unsigned m = 0; m < 200; m++) {
                _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
                _cleanup_(qubo_freep) Qubo *q = NULL;
                uint32_t n = 1 + m % 5;

                rng_seed(&rng, 43, m);
                assert_int_equal(qubo_builder_new(n * n, &b), 0);
                for (uint32_t g = 0; g < n; g++)
                        assert_int_equal(qubo_add_group(b, g * n, n), 0);
                for (uint32_t v = 0; v < n * n; v++)
                        assert_int_equal(qubo_add_linear(b, v, (int64_t) rng_below(&rng, 200) - 100), 0);
                assert_int_equal(qubo_set_permutation(b, NULL, NULL), 0);
                assert_int_equal(qubo_build(b, &q), 0);
                assert_int_equal(qubo_lower_bound(q), model_brute_force(q));
        }
}

static int32_t *cells(int32_t a, int32_t b, int32_t c, int32_t d) {
        int32_t *w = calloc(4, sizeof(*w));

        w[0] = a;
        w[1] = b;
        w[2] = c;
        w[3] = d;
        return w;
}

static void test_tables_refused(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        uint32_t t = 9, wide = 9;

        assert_int_equal(qubo_builder_new(7, &b), 0);
        assert_int_equal(qubo_add_group(b, 0, 2), 0);
        assert_int_equal(qubo_add_group(b, 2, 2), 0);
        assert_int_equal(qubo_add_group(b, 4, 1), 0);
        assert_int_equal(qubo_add_table(b, 0, 2, cells(1, 2, 3, 4), &t), -EINVAL);
        assert_int_equal(qubo_add_table(b, 2, 2, cells(1, 2, 3, INT32_MIN), &t), -EOVERFLOW);
        assert_int_equal(qubo_add_table(b, UINT32_MAX, UINT32_MAX, cells(1, 2, 3, 4), &t), -EFBIG);
        assert_int_equal(qubo_add_table(b, 2, 2, cells(1, 2, 3, 4), &t), 0);
        assert_int_equal(qubo_add_table(b, 1, 4, cells(1, 2, 3, 4), &wide), 0);
        assert_int_equal(qubo_join(b, 0, 0, t), -EINVAL);
        assert_int_equal(qubo_join(b, 0, 2, t), -EINVAL);
        assert_int_equal(qubo_join(b, 0, 1, wide), -EINVAL);
        assert_int_equal(qubo_join(b, 0, 1, 7), -EINVAL);
        assert_int_equal(qubo_join(b, 0, 3, t), -EINVAL);
        assert_int_equal(qubo_join(b, 0, 1, t), 0);
        assert_int_equal(qubo_join(b, 1, 0, t), -EINVAL); /* joined */
        assert_int_equal(qubo_add_group(b, 5, 1), -EINVAL);
        assert_int_equal(qubo_build(b, &q), 0);
        assert_int_equal(qubo_table_row(q, 0, 1)[1], 2);
        assert_int_equal(qubo_table_row(q, 3, 0)[0], 2);
        assert_null(qubo_table_row(q, 0, 2));
        assert_null(qubo_table_row(q, 6, 0));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_empty_model),
                cmocka_unit_test(test_sums_up_and_sorts),
                cmocka_unit_test(test_many_additions),
                cmocka_unit_test(test_groups),
                cmocka_unit_test(test_overflow_is_refused),
                cmocka_unit_test(test_sums_beyond_int64_are_refused),
                cmocka_unit_test(test_penalty_form_is_equal),
                cmocka_unit_test(test_penalty_given),
                cmocka_unit_test(test_lower_bound_is_below_all),
                cmocka_unit_test(test_tables_are_rows_written_once),
                cmocka_unit_test(test_tables_penalty_form),
                cmocka_unit_test(test_permutations),
                cmocka_unit_test(test_permutation_penalty_form),
                cmocka_unit_test(test_assignment_bound_is_tight),
                cmocka_unit_test(test_tables_refused),
                cmocka_unit_test(test_lower_bound_is_tight_without_couplings),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
