/* SPDX-License-Identifier: Apache-2.0 */
/* Small models without groups, of every shape and width, and a solver of such models beside brute force on them. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

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
