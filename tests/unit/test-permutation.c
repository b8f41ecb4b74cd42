/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search over permutations: every kernel's books against energies computed anew, for all kinds of numbers; the solver
 * against brute force on small models of all shapes; starts, targets, stop flag, repeatability.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "policy/qubo/permutation.h"
#include "tests/unit/qubo-models.h"

/* What a model is made of. */
typedef struct Shape {
        bool products, symmetric_flow, symmetric_distance, linear, rows, table;
        int32_t range, linear_range;
        bool equal; /* every number is range */
} Shape;

static const Shape shapes[] = {
        { .products = true, .range = 50 },
        { .products = true, .symmetric_flow = true, .range = 50, .linear = true, .linear_range = 3000 },
        { .products = true, .symmetric_distance = true, .range = 50 },
        { .products = true, .symmetric_flow = true, .symmetric_distance = true, .range = 9, .linear_range = 9 },
        { .products = true, .symmetric_flow = true, .symmetric_distance = true, .range = 4000 },
        { .products = true, .range = 4000 },
        { .products = true, .symmetric_flow = true, .range = 100000, .linear = true, .linear_range = INT32_MAX },
        { .products = true, .range = 100000 },
        { .products = true, .range = 30000000, .linear = true, .linear_range = INT32_MAX },
        { .products = true, .symmetric_distance = true, .range = 30000000 },
        { .products = true, .range = 50, .rows = true, .linear = true, .linear_range = 100 },
        { .products = true, .symmetric_flow = true, .range = 50, .table = true, .linear_range = 100 },
        { .rows = true, .linear_range = INT32_MAX },
        { .table = true, .rows = true, .linear = true, .linear_range = 50 },
        { .linear = true, .linear_range = INT32_MAX },
        { .products = true, .range = 7, .equal = true },
        { .linear = true, .linear_range = 1, .equal = true },
        {},
};

static int32_t number(Rng *rng, const Shape *s, int32_t range) {
        return s->equal ? range : (int32_t) ((int64_t) (rng_next(rng) % (2 * (uint64_t) range + 1)) - range);
}

static int32_t *matrix(Rng *rng, const Shape *s, uint32_t n, bool symmetric) {
        int32_t *m = calloc((size_t) n * n + 1, sizeof(*m));

        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = 0; j < n; j++)
                        m[i * n + j] = symmetric && j < i       ? m[j * n + i]
                                       : rng_below(rng, 4) == 0 ? 0
                                                                : number(rng, s, s->range);
        return m;
}

static Qubo *make(Rng *rng, const Shape *s, uint32_t n) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t table = 0;
        Qubo *q = NULL;
        int e = qubo_builder_new(n * n, &b) | qubo_add_offset(b, 17);

        for (uint32_t g = 0; g < n; g++)
                e |= qubo_add_group(b, g * n, n);
        for (uint32_t v = 0; v < n * n; v++) {
                if (s->linear)
                        e |= qubo_add_linear(b, v, number(rng, s, s->linear_range));
                for (uint32_t u = 0; s->rows && u < v; u++)
                        if (rng_below(rng, 4) == 0)
                                e |= qubo_add_quadratic(b, u, v, number(rng, s, s->linear_range));
        }
        if (s->table && n > 0) {
                Shape cells = *s;

                cells.range = s->linear_range;
                e |= qubo_add_table(b, n, n, matrix(rng, &cells, n, false), &table);
        }
        for (uint32_t g = 0; s->table && g < n; g++)
                for (uint32_t h = 0; h < g; h++)
                        if (rng_below(rng, 3) > 0)
                                e |= qubo_join(b, g, h, table);
        e |= s->products ? qubo_set_permutation(b, matrix(rng, s, n, s->symmetric_flow),
                                                matrix(rng, s, n, s->symmetric_distance))
                         : qubo_set_permutation(b, NULL, NULL);
        assert_int_equal(e, 0);
        assert_int_equal(qubo_build(b, &q), 0);
        return q;
}

static int64_t energy_at(const Qubo *q, const uint32_t *place) {
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);

        for (uint32_t i = 0; i < q->n_groups; i++)
                x[i * q->n_groups + place[i]] = 1;
        return qubo_energy(q, x);
}

static int64_t energy_exchanged(const Qubo *q, uint32_t *place, uint32_t u, uint32_t v) {
        uint32_t pu = place[u], pv = place[v];
        int64_t e;

        place[u] = pv;
        place[v] = pu;
        e = energy_at(q, place);
        place[u] = pu;
        place[v] = pv;
        return e;
}

static bool is_closed(const QapWalk *w, uint32_t u, uint32_t v) {
        return w->closed[(size_t) u * w->n + w->place[v]] > w->now &&
               w->closed[(size_t) v * w->n + w->place[u]] > w->now;
}

/* Every change, and that what is proposed is the best of the pairs that may be exchanged. */
static void check_walk(Permutation *t) {
        int64_t open = INT64_MAX, all = INT64_MAX;
        QapWalk *w = &t->w;

        assert_true(w->energy == energy_at(t->q, w->place));
        for (uint32_t u = 0; u < w->n; u++)
                for (uint32_t v = 0; v < u; v++) {
                        int64_t d = energy_exchanged(t->q, w->place, u, v) - w->energy;

                        assert_true(permutation_gain(t, u, v) == d);
                        all = MIN(all, d);
                        if (!is_closed(w, u, v))
                                open = MIN(open, d);
                }
        if (all < open && w->energy + all < w->aspired)
                open = all;
        assert_int_equal(w->u == w->v, open == INT64_MAX);
        if (w->u != w->v)
                assert_true(w->gain == open && permutation_gain(t, w->u, w->v) == open);
}

static void walk(const Qubo *q, const Kernels *k, uint64_t seed, unsigned seen[static _QAP_TYPE_MAX]) {
        _cleanup_(permutation_done) Permutation t = {};
        SolveParams p = { .kernels = k };
        uint32_t n = q->n_groups, place[64];
        Rng rng;

        rng_seed(&rng, seed, 1);
        for (uint32_t i = 0; i < n; i++) {
                uint32_t j = rng_below(&rng, i + 1);

                place[i] = place[j];
                place[j] = i;
        }
        assert_int_equal(permutation_init(&t, q, &p, UINT64_MAX), 0);
        seen[t.type]++;
        permutation_load(&t, place);
        check_walk(&t);
        for (unsigned step = 0; step < 12; step++) {
                uint32_t u = t.w.u, v = t.w.v;

                if (u == v || step % 4 == 3) {
                        u = rng_below(&rng, n);
                        v = (u + 1 + rng_below(&rng, n - 1)) % n;
                        t.w.gain = permutation_gain(&t, u, v);
                }
                if (step == 6)
                        t.w.aspired = t.w.energy;
                permutation_step(&t, u, v, rng_below(&rng, 9), rng_below(&rng, 9));
                check_walk(&t);
        }
}

static void test_books(void **state) {
        static const uint32_t sizes[] = { 2, 3, 4, 5, 8, 9, 16, 17, 21 };
        unsigned seen[_QAP_TYPE_MAX] = {};

        for (const Kernels *const *k = kernels_all; *k; k++) {
                if (!(*k)->supported()) {
                        print_message("kernels %s: not run, this CPU has no such instructions\n", (*k)->name);
                        continue;
                }
                for (size_t i = 0; i < ELEMENTSOF(shapes); i++)
                        for (size_t n = 0; n < ELEMENTSOF(sizes); n++) {
                                _cleanup_(qubo_freep) Qubo *q = NULL;
                                Rng rng;

                                rng_seed(&rng, i, n);
                                q = make(&rng, &shapes[i], sizes[n]);
                                walk(q, *k, i, seen);
                        }
        }
        for (unsigned t = 0; t < _QAP_TYPE_MAX; t++)
                assert_true(seen[t] > 0);
}

static int64_t brute_force(const Qubo *q, uint32_t *place, uint32_t at) {
        int64_t least = INT64_MAX;

        if (at == q->n_groups)
                return energy_at(q, place);
        for (uint32_t k = at; k < q->n_groups; k++) {
                uint32_t x = place[at];

                place[at] = place[k];
                place[k] = x;
                least = MIN(least, brute_force(q, place, at + 1));
                place[k] = place[at];
                place[at] = x;
        }
        return least;
}

static int64_t optimum(const Qubo *q) {
        uint32_t place[16];

        for (uint32_t i = 0; i < q->n_groups; i++)
                place[i] = i;
        return brute_force(q, place, 0);
}

static void check_result(const Qubo *q, const SolveResult *r, int64_t least) {
        assert_true(qubo_feasible(q, r->x));
        assert_true(qubo_energy(q, r->x) == r->energy);
        assert_true(r->energy >= least && r->lower_bound <= least);
        assert_true(!r->proved || r->energy == least);
        assert_string_equal(r->solver, "permutation");
}

static void test_small_models(void **state) {
        for (unsigned m = 0; m < 40; m++)
                for (size_t i = 0; i < ELEMENTSOF(shapes); i++)
                        for (uint32_t n = 0; n <= 6; n++) {
                                _cleanup_(qubo_freep) Qubo *q = NULL;
                                SolveParams p = { .seed = m, .sweeps = 300 };
                                SolveResult r = {};
                                int64_t least;
                                Rng rng;

                                if (n == 6 && m % 8 > 0)
                                        continue;
                                rng_seed(&rng, 1000 + i, m * 8 + n);
                                q = make(&rng, &shapes[i], n);
                                least = optimum(q);
                                assert_int_equal(qubo_solve(q, &solver_permutation, &p, &r), 0);
                                check_result(q, &r, least);
                                assert_true(r.energy == least);
                                solve_result_done(&r);
                        }
}

/* auto leaves them to this solver, and knows a bound. */
static void test_auto(void **state) {
        for (size_t i = 0; i < ELEMENTSOF(shapes); i++)
                for (uint32_t n = 0; n <= 6; n++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveParams p = { .seed = n, .sweeps = 2000 };
                        SolveResult r = {};
                        int64_t least;
                        Rng rng;

                        rng_seed(&rng, 2000 + i, n);
                        q = make(&rng, &shapes[i], n);
                        least = optimum(q);
                        assert_int_equal(qubo_solve(q, &solver_auto, &p, &r), 0);
                        assert_true(qubo_feasible(q, r.x) && qubo_energy(q, r.x) == r.energy);
                        assert_true(r.energy == least && r.lower_bound <= least);
                        solve_result_done(&r);
                }
}

static Qubo *middle(void) {
        const Shape s = { .products = true, .symmetric_flow = true, .range = 40, .linear = true, .linear_range = 500 };
        Rng rng;

        rng_seed(&rng, 7, 7);
        return make(&rng, &s, 23);
}

/* Also the same with every table of kernels. */
static void test_same_seed_same_result(void **state) {
        _cleanup_(qubo_freep) Qubo *q = middle();
        SolveParams p = { .seed = 5, .sweeps = 20000, .kernels = kernels_best() };
        SolveResult a = {}, b = {};

        assert_int_equal(qubo_solve(q, &solver_permutation, &p, &a), 0);
        for (const Kernels *const *k = kernels_all; *k; k++) {
                if (!(*k)->supported())
                        continue;
                p.kernels = *k;
                assert_int_equal(qubo_solve(q, &solver_permutation, &p, &b), 0);
                assert_memory_equal(a.x, b.x, q->n);
                assert_true(a.energy == b.energy && a.flips == b.flips && a.sweeps == b.sweeps);
                solve_result_done(&b);
        }
        solve_result_done(&a);
}

static void count(void *userdata, int64_t energy) {
        int64_t *told = userdata;

        assert_true(energy < *told);
        *told = energy;
}

static void test_limits(void **state) {
        _cleanup_(qubo_freep) Qubo *q = middle();
        int64_t told = INT64_MAX;
        SolveParams p = { .seed = 2, .sweeps = 20000, .improved = count, .improved_userdata = &told };
        SolveResult a = {}, b = {};
        atomic_bool stop = true;

        assert_int_equal(qubo_solve(q, &solver_permutation, &p, &a), 0);
        assert_int_equal(a.sweeps, 20000);
        assert_int_equal(a.flips, 20000 * 23 * 11);
        assert_true(told == a.energy);

        p = (SolveParams){ .seed = 3, .sweeps = 1, .start = a.x };
        assert_int_equal(qubo_solve(q, &solver_permutation, &p, &b), 0);
        assert_true(b.energy <= a.energy);
        solve_result_done(&b);

        p = (SolveParams){ .seed = 3, .sweeps = UINT64_MAX, .stop = &stop };
        assert_int_equal(qubo_solve(q, &solver_permutation, &p, &b), 0);
        check_result(q, &b, INT64_MIN);
        solve_result_done(&b);

        p = (SolveParams){ .seed = 4, .sweeps = UINT64_MAX, .has_target = true, .target = a.energy };
        assert_int_equal(qubo_solve(q, &solver_permutation, &p, &b), 0);
        assert_true(b.energy <= a.energy);
        solve_result_done(&b);
        solve_result_done(&a);
}

static void test_other_models_are_refused(void **state) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        SolveParams p = {};
        SolveResult r = {};

        assert_int_equal(qubo_builder_new(4, &b) | qubo_add_group(b, 0, 2) | qubo_add_group(b, 2, 2), 0);
        assert_int_equal(qubo_build(b, &q), 0);
        assert_int_equal(qubo_solve(q, &solver_permutation, &p, &r), -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_books),  cmocka_unit_test(test_small_models),
                cmocka_unit_test(test_auto),   cmocka_unit_test(test_same_seed_same_result),
                cmocka_unit_test(test_limits), cmocka_unit_test(test_other_models_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
