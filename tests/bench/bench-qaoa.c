/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a layer of the simulated QAOA circuit is. Times are the least CPU time of several runs, each
 * beside the clock rate that was measured with it (a chain of additions, one a cycle): nanoseconds scale with the clock.
 */
#include <math.h>
#include <time.h>

#include "policy/qubo/qaoa-state.h"
#include "tests/unit/qubo-models.h"

#define CHAIN 20000000U
#define RUNS 7U

static double now(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static double clock_ghz(void) {
        double best = 0;

        for (unsigned run = 0; run < 3; run++) {
                uint64_t x = run;
                double start = now();

                for (uint32_t i = 0; i < CHAIN; i++)
                        __asm__ volatile("" : "+r"(x) : "r"(x += i));
                best = MAX(best, CHAIN / (now() - start) * 1e-9);
        }
        return best;
}

static int model(uint32_t qubits, uint32_t groups, uint32_t size, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t n = qubits + groups * size;
        int e = qubo_builder_new(n, &b);
        Rng rng;

        rng_seed(&rng, 7, n);
        for (uint32_t g = 0; g < groups; g++)
                e |= qubo_add_group(b, qubits + g * size, size);
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = i + 1; j < n; j++) {
                        int64_t w = (int64_t) rng_below(&rng, 21) - 10;

                        e |= qubo_add_quadratic(b, i, j, 2 * w) | qubo_add_linear(b, i, -w) | qubo_add_linear(b, j, -w);
                }
        return e < 0 ? e : qubo_build(b, ret);
}

static double least_seconds(QaoaState *s, unsigned layers, double angle) {
        double gamma[9], beta[9], least = INFINITY;

        for (unsigned i = 0; i < layers; i++) {
                gamma[i] = angle / qaoa_state_energies(s)->deviation;
                beta[i] = 0.4;
        }
        for (unsigned run = 0; run < RUNS; run++) {
                double start = now();

                if (qaoa_run(s, layers, gamma, beta) < 0)
                        exit(EXIT_FAILURE);
                least = MIN(least, now() - start);
        }
        return least;
}

/* Seconds of one layer: the difference of runs of different depth. */
static double layer_seconds(QaoaState *s, double angle) {
        return (least_seconds(s, 9, angle) - least_seconds(s, 1, angle)) / 8;
}

static const struct {
        uint32_t qubits, groups, size;
} spaces[] = { { 10, 0, 0 }, { 12, 0, 0 }, { 16, 0, 0 }, { 20, 0, 0 }, { 24, 0, 0 }, { 0, 4, 16 },
               { 0, 5, 16 }, { 0, 6, 16 }, { 0, 8, 8 },  { 0, 7, 7 },  { 0, 14, 3 }, { 1, 14, 3 } };

static void bench_layer(const Kernels *k, uint32_t qubits, uint32_t groups, uint32_t size) {
        _cleanup_(qaoa_state_freep) QaoaState *s = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        SolveParams p = {};
        double build, mixers, layer, amplitudes, expectation, moments;
        Limit l;

        limit_init(&l, &p);
        if (model(qubits, groups, size, &q) < 0)
                exit(EXIT_FAILURE);
        build = now();
        if (qaoa_state_new(q, k, &l, &s) < 0)
                exit(EXIT_FAILURE);
        build = now() - build;
        mixers = layer_seconds(s, 0);
        layer = layer_seconds(s, 0.3);
        (void) qaoa_expectation(s, &expectation);
        moments = now();
        (void) qaoa_expectation(s, &expectation);
        moments = now() - moments;
        amplitudes = (double) qaoa_state_shape(s)->amplitudes;
        printf("%-6s %2u qubits %2u groups of %-2u %8.0f amplitudes: mixers %.3f ns an amplitude and dimension; "
               "phase %.2f, expectation %.2f, energies %.2f ns an amplitude; %.2f GHz\n",
               k->name, qubits, groups, size, amplitudes, mixers * 1e9 / amplitudes / qaoa_state_shape(s)->n_dims,
               (layer - mixers) * 1e9 / amplitudes, moments * 1e9 / amplitudes, build * 1e9 / amplitudes, clock_ghz());
}

int main(int argc, char **argv) {
        for (size_t i = 0; i < ELEMENTSOF(spaces); i++)
                for (const Kernels *const *k = kernels_all; *k; k++)
                        if ((*k)->supported() && (argc < 2 || streq(argv[1], (*k)->name)))
                                bench_layer(*k, spaces[i].qubits, spaces[i].groups, spaces[i].size);
        return EXIT_SUCCESS;
}
