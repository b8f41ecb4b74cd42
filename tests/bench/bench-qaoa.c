/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a layer of the simulated QAOA circuit is; and, as "bench-qaoa quality", how good its angles are on random
 * models. Times are the least CPU time of several runs, each beside the clock rate that was measured with it (a chain of
 * additions, one a cycle): nanoseconds scale with the clock.
 */
#include <math.h>
#include <time.h>

#include "policy/qubo/qaoa-state.h"
#include "tests/unit/qubo-models.h"

#define CHAIN 20000000U
#define RUNS 7U
#define MODELS 5U

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

static int model(uint32_t qubits, uint32_t groups, uint32_t size, uint64_t seed, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t n = qubits + groups * size;
        int e = qubo_builder_new(n, &b);
        Rng rng;

        rng_seed(&rng, seed, n);
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
        if (model(qubits, groups, size, 7, &q) < 0)
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

/* The share of the way from the mean of all points to the least that the expectation has gone; and how likely the optimum
 * is drawn. */
typedef struct Quality {
        double ratio, probability;
} Quality;

static void add_quality(QaoaState *s, QaoaSearch *search, QaoaAngles *a, Quality *q) {
        const QaoaEnergies *e = qaoa_state_energies(s);

        if (!qaoa_evaluate(search, a))
                exit(EXIT_FAILURE);
        q->ratio += (e->mean - (a->expectation - (double) e->least)) / e->mean / MODELS;
        q->probability += qaoa_probability(s, 0) / MODELS;
}

static bool go_on(QaoaSearch *search, const QaoaAngles *a) {
        return true;
}

static void measure_quality(QaoaState *s, unsigned layers, Quality quality[static 3]) {
        QaoaSearch search = { .s = s, .evaluated = go_on, .layers_left = UINT64_MAX };
        QaoaAngles a;

        qaoa_ramp(s, layers, 1, &a);
        add_quality(s, &search, &a, &quality[0]);
        qaoa_optimise_ramp(&search, &a, 8);
        for (unsigned knots = 2; knots <= MIN(layers, 3U); knots++)
                qaoa_optimise(&search, &a, knots, 12 * knots);
        add_quality(s, &search, &a, &quality[1]);
        if (layers > 16)
                return;
        if (layers > 1)
                qaoa_optimise(&search, &a, layers, 20 * layers);
        add_quality(s, &search, &a, &quality[2]);
}

static void bench_quality(uint32_t qubits, uint32_t groups, uint32_t size) {
        Quality quality[7][3] = {};
        double plain = 0;

        for (unsigned m = 0; m < MODELS; m++) {
                _cleanup_(qaoa_state_freep) QaoaState *s = NULL;
                _cleanup_(qubo_freep) Qubo *q = NULL;
                SolveParams p = {};
                Limit l;

                limit_init(&l, &p);
                if (model(qubits, groups, size, m, &q) < 0 || qaoa_state_new(q, kernels_best(), &l, &s) < 0 ||
                    qaoa_run(s, 0, NULL, NULL) < 0)
                        exit(EXIT_FAILURE);
                plain += qaoa_probability(s, 0) / MODELS;
                for (unsigned k = 0; k < ELEMENTSOF(quality); k++)
                        measure_quality(s, 1U << k, quality[k]);
        }
        printf("%u qubits, %u groups of %u, %u models: one of all points is the optimum with probability %.3g\n",
               qubits, groups, size, MODELS, plain);
        for (unsigned k = 0; k < ELEMENTSOF(quality); k++) {
                static const char *const names[] = { "ramp as it comes", "tuned at 3 points", "all angles tuned" };

                printf("  %2u layers", 1U << k);
                for (unsigned i = 0; i < ELEMENTSOF(names) && quality[k][i].probability > 0; i++)
                        printf("  %s %.3f, %.3g", names[i], quality[k][i].ratio, quality[k][i].probability);
                printf("\n");
        }
}

static void bench_all_quality(void) {
        static const struct {
                uint32_t qubits, groups, size;
        } cases[] = { { 10, 0, 0 }, { 14, 0, 0 }, { 18, 0, 0 }, { 0, 4, 8 }, { 0, 5, 6 }, { 0, 9, 3 }, { 0, 4, 16 } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                bench_quality(cases[i].qubits, cases[i].groups, cases[i].size);
}

int main(int argc, char **argv) {
        if (argc > 1 && streq(argv[1], "quality")) {
                bench_all_quality();
                return EXIT_SUCCESS;
        }
        for (size_t i = 0; i < ELEMENTSOF(spaces); i++)
                for (const Kernels *const *k = kernels_all; *k; k++)
                        if ((*k)->supported() && (argc < 2 || streq(argv[1], (*k)->name)))
                                bench_layer(*k, spaces[i].qubits, spaces[i].groups, spaces[i].size);
        return EXIT_SUCCESS;
}
