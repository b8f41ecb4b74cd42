/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long after the end of its time a solver comes back: for every solver, large models of every shape and budgets of 1
 * and 20 ms, the worst of a few runs in milliseconds. The clock is the CPU time of the thread, so that other programs do
 * not count; what the system does for it, as giving out and taking back pages, does.
 *
 *   bench-stop [SOLVER [MODEL]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "policy/qubo/rng.h"
#include "policy/qubo/solver.h"

#define RUNS 3U

static uint64_t now(void *userdata) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

static int64_t weight(Rng *r) {
        return (int64_t) rng_below(r, 201) - 100;
}

static int dense(QuboBuilder *b, Rng *r, uint32_t n, uint32_t percent) {
        int e = 0;

        for (uint32_t i = 0; i < n && e >= 0; i++) {
                e = qubo_add_linear(b, i, weight(r));
                for (uint32_t j = 0; j < i && e >= 0; j++)
                        if (rng_below(r, 100) < percent)
                                e = qubo_add_quadratic(b, i, j, weight(r));
        }
        return e;
}

static int sparse(QuboBuilder *b, Rng *r, uint32_t n, uint32_t degree) {
        int e = 0;

        for (uint32_t k = 0; k < n * degree / 2 && e >= 0; k++)
                e = qubo_add_quadratic(b, rng_below(r, n), rng_below(r, n), weight(r));
        return e;
}

static void spins(QuboBuilder *b, uint32_t i, uint32_t j, int64_t w) {
        (void) qubo_add_quadratic(b, i, j, 4 * w);
        (void) qubo_add_linear(b, i, -2 * w);
        (void) qubo_add_linear(b, j, -2 * w);
}

/* A torus of +-1. */
static int lattice(QuboBuilder *b, Rng *r, uint32_t n, uint32_t width) {
        for (uint32_t i = 0; i < n; i++) {
                spins(b, i, i / width * width + (i + 1) % width, rng_below(r, 2) ? 1 : -1);
                spins(b, i, (i + width) % n, rng_below(r, 2) ? 1 : -1);
        }
        return 0;
}

static int assignment(QuboBuilder *b, Rng *r, uint32_t n, uint32_t unused) {
        size_t cells = (size_t) n * n;
        int32_t *m[2];

        for (uint32_t g = 0; g < n; g++)
                (void) qubo_add_group(b, g * n, n);
        for (unsigned k = 0; k < 2; k++) {
                m[k] = calloc(cells, sizeof(*m[k]));
                for (size_t i = 0; m[k] && i < cells; i++)
                        m[k][i] = (int32_t) rng_below(r, 100);
                for (size_t i = 0; m[k] && k == 0 && i < cells; i++)
                        m[k][i] = m[k][i % n * n + i / n];
        }
        return qubo_set_permutation(b, m[0], m[1]);
}

static int groups(QuboBuilder *b, Rng *r, uint32_t n, uint32_t degree) {
        for (uint32_t v = 0; v + 10 <= n; v += 10)
                (void) qubo_add_group(b, v, 10);
        return sparse(b, r, n, degree);
}

static const struct Model {
        const char *name;
        int (*make)(QuboBuilder *b, Rng *r, uint32_t n, uint32_t more);
        uint32_t n, more;
        bool squared;
} models[] = {
        { "dense-3000", dense, 3000, 50, false },     { "dense-5000", dense, 5000, 100, false },
        { "sparse-20000", sparse, 20000, 50, false }, { "lattice-20000", lattice, 20000, 200, false },
        { "groups-20000", groups, 20000, 20, false }, { "qap-100", assignment, 100, 0, true },
        { "qap-150", assignment, 150, 0, true },      { "qap-256", assignment, 256, 0, true },
        { "qubits-22", dense, 22, 100, false },       { "qubits-24", dense, 24, 100, false },
};

static Qubo *make(const struct Model *m) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        Qubo *q = NULL;
        Rng r;

        rng_seed(&r, 1, 0);
        if (qubo_builder_new(m->squared ? m->n * m->n : m->n, &b) < 0 || m->make(b, &r, m->n, m->more) < 0 ||
            qubo_build(b, &q) < 0)
                exit(EXIT_FAILURE);
        return q;
}

/* Milliseconds after the deadline, or an error. */
static double late(const Qubo *q, const Solver *s, uint64_t usec, int *ret_error) {
        double most = -1e9;

        for (unsigned i = 0; i < RUNS && *ret_error >= 0; i++) {
                SolveParams p = { .seed = i, .budget_usec = usec, .clock = now, .threads = 1 };
                SolveResult result = {};
                uint64_t start = now(NULL);

                *ret_error = qubo_solve(q, s, &p, &result);
                most = MAX(most, ((double) (now(NULL) - start) - (double) usec) / 1000);
                solve_result_done(&result);
        }
        return most;
}

int main(int argc, char **argv) {
        static const uint64_t budgets[] = { 1000, 20000 };

        printf("%-14s %-12s %9s %9s  ms late\n", "model", "solver", "1 ms", "20 ms");
        for (size_t m = 0; m < ELEMENTSOF(models); m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                if (argc > 2 && !streq(argv[2], models[m].name))
                        continue;
                q = make(&models[m]);
                for (size_t k = 0; solvers[k]; k++) {
                        int error = 0;

                        if (!solvers[k]->fits(q) ||
                            (argc > 1 && !streq(argv[1], "all") && !streq(argv[1], solvers[k]->name)))
                                continue;
                        printf("%-14s %-12s", models[m].name, solvers[k]->name);
                        for (size_t i = 0; i < ELEMENTSOF(budgets); i++)
                                printf(" %9.2f", late(q, solvers[k], budgets[i], &error));
                        printf("%s\n", error < 0 ? "  error" : "");
                        fflush(stdout);
                }
        }
        return 0;
}
