/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tabu search: every kernel table against a plain loop over the model, for all types of gains and weights, dense and
 * sparse; the move from narrow to wide gains; and the solver against brute force.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/tabu.h"
#include "tests/unit/plain-models.h"

#define N_MAX 700U

/* The walk, without vectors and without gains. */
typedef struct Plain {
        const Tabu *t;
        uint8_t x[N_MAX];
        uint64_t opens[N_MAX]; /* the step at which it does; UINT64_MAX: never */
        uint64_t now;
} Plain;

static int64_t plain_gain(const Plain *p, uint32_t i) {
        const Qubo *q = p->t->q;
        int64_t field = q->linear[i];

        for (size_t k = q->row[i]; k < q->row[i + 1]; k++)
                field += p->x[q->col[k]] ? q->val[k] : 0;
        return p->x[i] ? -field : field;
}

static int64_t stored_gain(const Tabu *t, uint32_t i) {
        return t->gain_bytes == 2   ? ((const int16_t *) t->w.gain)[i]
               : t->gain_bytes == 4 ? ((const int32_t *) t->w.gain)[i]
                                    : ((const int64_t *) t->w.gain)[i];
}

static void plain_flip(Plain *p, uint32_t i, uint32_t tenure) {
        p->now++;
        p->x[i] ^= 1;
        if (p->opens[i] <= p->now) /* one that is closed already opens when it would have */
                p->opens[i] = tenure > 0 ? p->now + tenure : UINT64_MAX;
}

/* Whether the walk chose one that is best, for this aspiration level, and told its gain. */
static void assert_chosen(const Plain *p, uint32_t chosen, int64_t aspired) {
        const Qubo *q = p->t->q;
        int64_t open = INT64_MAX, all = INT64_MAX, energy = qubo_energy(q, p->x);
        bool aspires;

        for (uint32_t i = 0; i < q->n; i++) {
                int64_t gain = plain_gain(p, i);

                assert_true(stored_gain(p->t, i) == gain);
                all = MIN(all, gain);
                if (p->opens[i] <= p->now)
                        open = MIN(open, gain);
        }
        assert_true(p->t->w.energy == energy);
        assert_memory_equal(p->t->w.x, p->x, q->n);
        aspires = all < 0 && all < open && energy + all < aspired;
        if (!aspires && open == INT64_MAX) {
                assert_true(chosen == TABU_NONE);
                return;
        }
        assert_true(chosen < q->n);
        assert_true(p->t->w.cost == (aspires ? all : open) && plain_gain(p, chosen) == p->t->w.cost);
        assert_true(aspires || p->opens[chosen] <= p->now);
}

static const struct {
        RandomShape shape;
        unsigned gain_bytes, weight_bytes; /* of a model of n_max variables; weight 0: sparse */
        uint32_t factor;                   /* of all coefficients */
} walks[] = {
        { { .n_max = 150, .density = 100, .range = 100 }, 2, 1, 1 },
        { { .n_max = 150, .density = 60, .range = 100 }, 2, 1, 2 },
        { { .n_max = 150, .density = 100, .range = 3 }, 2, 1, 1 },
        { { .n_max = 70, .density = 100, .range = 1 }, 2, 1, 64 },
        { { .n_max = 64, .density = 100, .range = 300 }, 2, 2, 1 },
        { { .n_max = 150, .density = 10, .range = 500 }, 2, 2, 1 },
        { { .n_max = 150, .density = 60, .range = 100 }, 4, 1, 64 },
        { { .n_max = 150, .density = 60, .range = 32767 }, 4, 2, 1 },
        { { .n_max = 65, .density = 60, .range = 1000000 }, 4, 4, 1 },
        { { .n_max = 65, .density = 100, .range = INT32_MAX }, 8, 4, 1 },
        { { .n_max = 130, .density = 100, .range = 1, .equal = true }, 2, 1, 1 },
        { { .n_max = 130, .density = 100, .range = -7, .equal = true }, 2, 1, 1 },
        { { .n_max = 130, .density = 100, .range = 0 }, 2, 0, 1 },
        { { .n_max = 690, .density = 1, .range = 2 }, 2, 0, 1 },
        { { .n_max = 300, .density = 1, .range = 100000 }, 4, 0, 1 },
        { { .n_max = 300, .density = 1, .range = INT32_MAX }, 8, 0, 1 },
        { { .n_max = 300, .density = 0, .range = 5 }, 2, 0, 1 },
};

/* With n_max variables exactly. */
static void build(const RandomShape *s, uint32_t n, int64_t factor, uint64_t seed, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        Rng rng;

        rng_seed(&rng, 9, seed);
        assert_int_equal(qubo_builder_new(n, &b), 0);
        assert_int_equal(qubo_add_offset(b, model_coefficient(&rng, s)), 0);
        for (uint32_t i = 0; i < n; i++) {
                assert_int_equal(qubo_add_linear(b, i, factor * model_coefficient(&rng, s)), 0);
                for (uint32_t j = i + 1; j < n; j++)
                        if (rng_below(&rng, 100) < s->density)
                                assert_int_equal(qubo_add_quadratic(b, j, i, factor * model_coefficient(&rng, s)), 0);
        }
        assert_int_equal(qubo_build(b, ret), 0);
}

/* Walks for a while; chosen gets the choices, which must be the same for all kernels. */
static void walk_beside_plain(const Kernels *kernels, const Qubo *q, unsigned gain_bytes, unsigned weight_bytes,
                              uint32_t *chosen, unsigned steps) {
        _cleanup_(tabu_done) Tabu t = {};
        SolveParams p = { .kernels = kernels };
        Plain plain = { .t = &t };
        uint32_t i;
        Rng rng;

        assert_int_equal(tabu_init(&t, q, &p, UINT64_MAX), 0);
        assert_int_equal(t.gain_bytes, gain_bytes);
        assert_int_equal(t.weight_bytes, weight_bytes);
        rng_seed(&rng, 3, steps);
        t.w.random = 7;
        t.w.aspired = t.w.energy;
        i = tabu_look(&t);
        assert_chosen(&plain, i, t.w.aspired);
        for (unsigned s = 0; s < steps; s++) {
                uint32_t tenure = s % 100 < 80 ? 1 + rng_below(&rng, 20) : s % 3;

                chosen[s] = i;
                if (i == TABU_NONE || rng_below(&rng, 10) == 0) /* as walks between points do */
                        i = rng_below(&rng, q->n);
                plain_flip(&plain, i, tenure);
                t.w.aspired = MIN(t.w.aspired, t.w.energy);
                assert_int_equal(tabu_step(&t, i, tenure, &i), 0);
                assert_chosen(&plain, i, t.w.aspired);
                if (s % 100 == 99) {
                        tabu_open_all(&t);
                        memset(plain.opens, 0, sizeof(plain.opens));
                        i = tabu_look(&t);
                        assert_chosen(&plain, i, t.w.aspired);
                }
        }
}

static void test_kernels(void **state) {
        for (size_t k = 0; kernels_all[k]; k++)
                if (kernels_all[k]->supported())
                        print_message("kernels %s\n", kernels_all[k]->name);
                else
                        print_message("kernels %s: not run, this CPU has no such instructions\n", kernels_all[k]->name);
        for (size_t m = 0; m < ELEMENTSOF(walks); m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;
                uint32_t chosen[2][300];
                bool first = true;

                build(&walks[m].shape, walks[m].shape.n_max, walks[m].factor, m, &q);
                for (size_t k = 0; kernels_all[k]; k++) {
                        if (!kernels_all[k]->supported())
                                continue;
                        walk_beside_plain(kernels_all[k], q, walks[m].gain_bytes, walks[m].weight_bytes, chosen[!first],
                                          300);
                        assert_memory_equal(chosen[0], chosen[!first], sizeof(chosen[0]));
                        first = false;
                }
        }
}

static void test_sizes_of_blocks(void **state) {
        static const RandomShape some = { .density = 70, .range = 20 };

        for (uint32_t n = 1; n < 200; n += 1 + n / 12) {
                _cleanup_(qubo_freep) Qubo *q = NULL;
                uint32_t chosen[60];

                build(&some, n, 1, n, &q);
                for (size_t k = 0; kernels_all[k]; k++)
                        if (kernels_all[k]->supported())
                                walk_beside_plain(kernels_all[k], q, 2, q->row[n] > 0 ? 1 : 0, chosen, 60);
        }
}

/* Gains begin narrow and leave 16 bits on the way to all ones, closed variables and the calendar stay what they are. */
static void test_widening(void **state) {
        static const uint32_t densities[] = { 100, 1 };

        for (size_t d = 0; d < ELEMENTSOF(densities); d++)
                for (size_t k = 0; kernels_all[k]; k++) {
                        const RandomShape shape = { .density = densities[d],
                                                    .range = d == 0 ? 120 : 1900,
                                                    .equal = true };
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        _cleanup_(tabu_done) Tabu t = {};
                        SolveParams p = { .kernels = kernels_all[k] };
                        Plain plain = { .t = &t };
                        uint32_t next;

                        if (!kernels_all[k]->supported())
                                continue;
                        build(&shape, N_MAX, 1, d, &q);
                        assert_int_equal(tabu_init(&t, q, &p, UINT64_MAX), 0);
                        assert_int_equal(t.gain_bytes, 2);
                        t.w.aspired = INT64_MIN;
                        for (uint32_t i = 0; i < N_MAX; i++) {
                                plain_flip(&plain, i, i % 2 ? 40 : 0);
                                assert_int_equal(tabu_step(&t, i, i % 2 ? 40 : 0, &next), 0);
                                if (i % 20 == 0)
                                        assert_chosen(&plain, next, t.w.aspired);
                        }
                        assert_chosen(&plain, next, t.w.aspired);
                        assert_int_equal(t.gain_bytes, 4);
                }
}

static void solve_beside_brute_force(const Qubo *q, uint64_t seed, bool *ret_found) {
        SolveParams p = { .seed = seed, .sweeps = 2000 };
        SolveResult r = {}, again = {};
        int64_t least = model_brute_force(q);

        assert_int_equal(qubo_solve(q, &solver_tabu, &p, &r), 0);
        assert_true(r.energy == qubo_energy(q, r.x) && r.energy >= least);
        assert_true(r.sweeps <= p.sweeps && r.flips == r.sweeps * q->n);
        *ret_found = r.energy == least;
        for (size_t k = 0; kernels_all[k]; k++)
                if (kernels_all[k]->supported()) {
                        p.kernels = kernels_all[k];
                        assert_int_equal(qubo_solve(q, &solver_tabu, &p, &again), 0);
                        assert_true(again.energy == r.energy && again.sweeps == r.sweeps);
                        assert_memory_equal(again.x, r.x, q->n);
                        solve_result_done(&again);
                }
        solve_result_done(&r);
}

static void test_brute_force(void **state) {
        unsigned found = 0, models = 0;

        for (size_t k = 0; k < ELEMENTSOF(plain_shapes); k++)
                for (unsigned m = 0; m < 60; m++) {
                        _cleanup_(qubo_freep) Qubo *q = plain_model(k, m);
                        bool one;

                        solve_beside_brute_force(q, m, &one);
                        found += one;
                        models++;
                }
        print_message("tabu found the optimum of %u of %u models\n", found, models);
        assert_true(found == models);
}

static void test_limits(void **state) {
        const RandomShape shape = { .density = 30, .range = 50 };
        _cleanup_(qubo_freep) Qubo *q = NULL;
        atomic_bool stop = true;
        uint8_t start[120] = { 1, 0, 1 };
        SolveParams p = { .seed = 4, .stop = &stop };
        SolveResult r = {}, target = {};

        build(&shape, 120, 1, 4, &q);
        assert_int_equal(qubo_solve(q, &solver_tabu, &p, &r), 0);
        assert_true(r.energy <= q->offset && r.sweeps == 0);
        solve_result_done(&r);
        p.start = start;
        assert_int_equal(qubo_solve(q, &solver_tabu, &p, &r), 0);
        assert_true(r.energy <= qubo_energy(q, start));
        solve_result_done(&r);
        stop = false;
        p.sweeps = 20000;
        assert_int_equal(qubo_solve(q, &solver_tabu, &p, &r), 0);
        assert_true(r.sweeps == p.sweeps);
        p.has_target = true;
        p.target = r.energy;
        assert_int_equal(qubo_solve(q, &solver_tabu, &p, &target), 0);
        assert_true(target.energy == r.energy && target.sweeps < r.sweeps);
        solve_result_done(&target);
        p.start = r.x; /* the target is there to begin with */
        assert_int_equal(qubo_solve(q, &solver_tabu, &p, &target), 0);
        assert_true(target.energy == r.energy && target.sweeps == 0);
        solve_result_done(&target);
        solve_result_done(&r);
}

/* From the best point a start can be no step away. */
static void test_relinking_keeps_going(void **state) {
        const RandomShape shape = { .density = 80, .range = 50 };
        _cleanup_(qubo_freep) Qubo *q = NULL;
        SolveResult r[2] = {};

        build(&shape, 200, 1, 8, &q);
        for (unsigned k = 0; k < 2; k++) {
                SolveParams p = { .seed = 1, .sweeps = k == 0 ? 300 : 100000 };

                assert_int_equal(qubo_solve(q, &solver_tabu, &p, &r[k]), 0);
                assert_true(r[k].sweeps == p.sweeps);
        }
        assert_true(r[1].energy <= r[0].energy);
        solve_result_done(&r[0]);
        solve_result_done(&r[1]);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kernels),  cmocka_unit_test(test_sizes_of_blocks),
                cmocka_unit_test(test_widening), cmocka_unit_test(test_brute_force),
                cmocka_unit_test(test_limits),   cmocka_unit_test(test_relinking_keeps_going),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
