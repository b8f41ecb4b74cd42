/* SPDX-License-Identifier: Apache-2.0 */
/* Small models without groups, of every shape and width, and a solver of such models beside brute force on them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/solver.h"
#include "tests/unit/qubo-models.h"

static const RandomShape plain_shapes[] = {
        { .n_max = 1, .density = 100, .range = 5 },
        { .n_max = 14, .density = 60, .range = 9 },
        { .n_max = 14, .density = 15, .range = 9 },
        { .n_max = 14, .density = 100, .range = 1 },
        { .n_max = 14, .density = 100, .range = 30000 },
        { .n_max = 14, .density = 100, .range = 1000000 },
        { .n_max = 14, .density = 20, .range = INT32_MAX },
        { .n_max = 12, .density = 100, .range = INT32_MAX, .equal = true },
        { .n_max = 12, .density = 100, .range = -7, .equal = true },
        { .n_max = 14, .density = 0, .range = 9 },
        { .n_max = 14, .density = 100, .range = 0 },
};

static inline Qubo *plain_model(size_t shape, unsigned m) {
        Qubo *q = NULL;
        Rng rng;

        rng_seed(&rng, shape, m);
        assert_int_equal(model_random(&rng, &plain_shapes[shape], &q), 0);
        return q;
}

/* A hundred models of each shape: true energies, and the optimum of 99 in a hundred. */
static inline void assert_finds_the_optimum(const Solver *solver) {
        unsigned found = 0, models = 0;

        for (size_t k = 0; k < ELEMENTSOF(plain_shapes); k++)
                for (unsigned m = 0; m < 100; m++) {
                        _cleanup_(qubo_freep) Qubo *q = plain_model(k, m);
                        SolveParams p = { .seed = m, .sweeps = 100 };
                        SolveResult r = {};
                        int64_t least = model_brute_force(q);

                        assert_int_equal(qubo_solve(q, solver, &p, &r), 0);
                        assert_true(r.energy == qubo_energy(q, r.x) && r.energy >= least);
                        found += r.energy == least;
                        models++;
                        solve_result_done(&r);
                }
        print_message("%s found the optimum of %u of %u models\n", solver->name, found, models);
        assert_true(found * 100 >= models * 99);
}

/* A sparse model: the same whatever the instructions, never worse than the start, done at the target. */
static inline void assert_limits(const Solver *solver, uint32_t density) {
        const RandomShape shape = { .n_max = 3000, .density = density, .range = 9 };
        _cleanup_(qubo_freep) Qubo *q = NULL;
        SolveParams p = { .seed = 7, .sweeps = 90 }, once = { .seed = 8, .sweeps = 1 };
        SolveResult a = {}, b = {}, c = {};
        Rng rng;

        rng_seed(&rng, 1, 3);
        assert_int_equal(model_random(&rng, &shape, &q), 0);
        assert_int_equal(qubo_solve(q, solver, &p, &a), 0);
        assert_int_equal(a.sweeps, 90);
        for (size_t k = 0; kernels_all[k]; k++) {
                if (!kernels_all[k]->supported()) {
                        print_message("kernels %s: not run, this CPU has no such instructions\n", kernels_all[k]->name);
                        continue;
                }
                p.kernels = kernels_all[k];
                assert_int_equal(qubo_solve(q, solver, &p, &b), 0);
                assert_true(a.energy == b.energy && a.flips == b.flips);
                assert_memory_equal(a.x, b.x, q->n);
                solve_result_done(&b);
        }
        once.start = a.x;
        assert_int_equal(qubo_solve(q, solver, &once, &c), 0);
        assert_true(c.energy <= a.energy);
        solve_result_done(&c);
        p.has_target = true;
        p.target = a.energy;
        assert_int_equal(qubo_solve(q, solver, &p, &c), 0);
        assert_true(c.energy <= a.energy && c.sweeps <= a.sweeps);
        solve_result_done(&a);
        solve_result_done(&c);
}
