/* SPDX-License-Identifier: Apache-2.0 */
/* The dual of small random models against the models themselves, and the one-hot search against brute force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "policy/qubo/dual.h"
#include "policy/qubo/rng.h"
#include "tests/unit/qubo-models.h"

static const RandomShape shapes[] = {
        { .n_max = 12, .n_groups = 0, .size_max = 1, .density = 60, .range = 20 },
        { .n_max = 14, .n_groups = 5, .size_max = 4, .density = 70, .range = 20 },
        { .n_max = 14, .n_groups = 14, .size_max = 1, .density = 50, .range = 20 },
        { .n_max = 14, .n_groups = 7, .size_max = 3, .density = 100, .range = 2 },
        { .n_max = 14, .n_groups = 2, .size_max = 9, .density = 100, .range = 1000000 },
        { .n_max = 14, .n_groups = 4, .size_max = 3, .density = 20, .range = INT32_MAX },
        { .n_max = 12, .n_groups = 4, .size_max = 3, .density = 100, .range = -7, .equal = true },
        { .n_max = 14, .n_groups = 4, .size_max = 4, .density = 0, .range = 9 },
        { .n_max = 1, .n_groups = 0, .size_max = 1, .density = 0, .range = 9 },
};

#define MODELS 200

/* Every feasible point has scale times its energy in the dual, whose numbers are not negative. */
static void check_dual(const Frame *f, const Dual *d, int64_t bound) {
        const Qubo *q = f->q, *dual = d->q;
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1), *y = calloc((size_t) dual->n + 1, 1);

        for (uint32_t v = 0; v < dual->n; v++)
                assert_true(dual->linear[v] >= 0);
        for (size_t k = 0; k < dual->row[dual->n]; k++)
                assert_true(dual->val[k] >= 0);
        assert_true(dual->offset <= d->scale * bound);
        for (uint64_t bits = 0; bits < UINT64_C(1) << q->n; bits++) {
                for (uint32_t i = 0; i < q->n; i++)
                        x[i] = bits >> i & 1;
                if (!qubo_feasible(q, x))
                        continue;
                memset(y, 0, dual->n);
                for (uint32_t a = 0; a < d->f->n_items; a++)
                        for (uint32_t v = d->f->first[a]; v < d->f->first[a] + d->f->size[a]; v++) {
                                uint32_t u = dual_held(d, a, v);

                                y[v] = u == ITEM_NOTHING ? !x[f->first[a]] : x[u];
                        }
                assert_true(qubo_feasible(dual, y));
                assert_true(qubo_energy(dual, y) == d->scale * qubo_energy(q, x));
        }
}

static void test_dual(void **state) {
        unsigned made = 0;

        for (size_t k = 0; k < ELEMENTSOF(shapes); k++)
                for (unsigned m = 0; m < MODELS; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        _cleanup_(frame_freep) Frame *f = NULL;
                        _cleanup_(dual_freep) Dual *d = NULL;
                        SolveParams p = {};
                        int64_t least, bound = INT64_MIN;
                        uint64_t steps = 0;
                        Limit l;
                        Rng rng;

                        rng_seed(&rng, k, m);
                        assert_int_equal(model_random(&rng, &shapes[k], &q), 0);
                        limit_init(&l, &p);
                        assert_int_equal(frame_new(q, &l, &f), 0);
                        least = model_brute_force(q);
                        /* An energy that no bound reaches, so that the dual is made. */
                        assert_int_equal(dual_new(f, &l, INT64_MIN, INT64_MAX / 4, 0, &bound, &steps, &d), 0);
                        assert_true(bound <= least);
                        if (d)
                                check_dual(f, d, least);
                        made += d != NULL;
                }
        assert_true(made > MODELS * ELEMENTSOF(shapes) / 2);
}

static void test_search(void **state) {
        unsigned found = 0, models = 0;

        for (size_t k = 0; k < ELEMENTSOF(shapes); k++)
                for (unsigned m = 0; m < MODELS; m++, models++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveParams p = { .seed = m, .sweeps = 100 };
                        SolveResult a = {}, b = {};
                        Rng rng;

                        rng_seed(&rng, k, m);
                        assert_int_equal(model_random(&rng, &shapes[k], &q), 0);
                        assert_int_equal(qubo_solve(q, solver_by_name("onehot"), &p, &a), 0);
                        assert_int_equal(qubo_solve(q, solver_by_name("onehot"), &p, &b), 0);
                        assert_true(qubo_feasible(q, a.x) && qubo_energy(q, a.x) == a.energy);
                        assert_memory_equal(a.x, b.x, q->n);
                        assert_true(a.flips == b.flips && a.sweeps <= 100);
                        found += a.energy == model_brute_force(q);
                        solve_result_done(&a);
                        solve_result_done(&b);
                }
        print_message("onehot found the optimum of %u of %u models\n", found, models);
        assert_true(found * 100 >= models * 99);
}

/* Tasks on devices with loads to level: what the search is for; a chain of traffic has a dual that proves it. */
static int chain(uint32_t tasks, uint32_t devices, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int r = qubo_builder_new(tasks * devices, &b);
        Rng rng;

        rng_seed(&rng, 7, 7);
        for (uint32_t t = 0; t < tasks && r >= 0; t++) {
                r = qubo_add_group(b, t * devices, devices);
                for (uint32_t d = 0; d < devices && r >= 0; d++) {
                        r = qubo_add_linear(b, t * devices + d, rng_below(&rng, 30));
                        for (uint32_t e = 0; t > 0 && e < devices && r >= 0; e++)
                                r = qubo_add_quadratic(b, (t - 1) * devices + d, t * devices + e,
                                                       5 * llabs((int) d - (int) e));
                }
        }
        return r < 0 ? r : qubo_build(b, ret);
}

static void test_chain_is_proved(void **state) {
        static const char *const names[] = { "exact", "auto" };
        _cleanup_(qubo_freep) Qubo *q = NULL;
        int64_t energy[2];

        assert_int_equal(chain(60, 12, &q), 0);
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                SolveParams p = { .sweeps = 2000 };
                SolveResult r = {};

                assert_int_equal(qubo_solve(q, solver_by_name(names[i]), &p, &r), 0);
                assert_true(r.proved && r.lower_bound == r.energy);
                energy[i] = r.energy;
                solve_result_done(&r);
        }
        assert_true(energy[0] == energy[1]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_dual),
                cmocka_unit_test(test_search),
                cmocka_unit_test(test_chain_is_proved),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
