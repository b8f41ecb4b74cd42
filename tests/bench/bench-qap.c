/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a step of the walk over permutations is, and how long that search takes to known values. Times are CPU time of
 * the thread.
 *
 *   bench-qap                       steps of random models of several sizes and kinds of numbers, with every kernel
 *   bench-qap [--seconds=S] [--seeds=N] [--solver=NAME] [FILE VALUE]...
 *                                   to the value, at most so long (2) for each of so many seeds (5): how many reached
 *                                   it, the median time, and per cent off the value in the median and at worst
 */
#include <inttypes.h>
#include <math.h>
#include <time.h>
#include <zlib.h>

#include "policy/formats/format.h"
#include "policy/qubo/permutation.h"

#define SEEDS_MAX 101U
#define FILE_MAX ((size_t) 64 << 20)

static struct {
        double seconds;
        unsigned seeds;
        const Solver *solver;
} options = { .seconds = 2, .seeds = 5, .solver = &solver_permutation };

static double now(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static uint64_t now_usec(void *userdata) {
        return (uint64_t) (1e6 * now());
}

static Instance *read_instance(const char *path) {
        _cleanup_free_ char *text = calloc(FILE_MAX + 1, 1), *message = NULL;
        Instance *in = NULL;
        gzFile f = gzopen(path, "rb");
        int n = f && text ? gzread(f, text, FILE_MAX) : -1;

        if (f)
                gzclose(f);
        if (n < 0 || instance_read(format_by_suffix(path), path, text, (size_t) n, &in, &message) < 0) {
                fprintf(stderr, "%s: %s\n", path, message ?: "cannot be read");
                exit(EXIT_FAILURE);
        }
        return in;
}

/* Entries of 0..range - 1. */
static int random_model(uint32_t n, bool symmetric, int32_t range, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int32_t *flow = calloc((size_t) n * n, sizeof(*flow)), *distance = calloc((size_t) n * n, sizeof(*distance));
        int r = qubo_builder_new(n * n, &b);
        Rng rng;

        rng_seed(&rng, n, 0);
        for (uint32_t g = 0; g < n && r >= 0; g++)
                r = qubo_add_group(b, g * n, n);
        for (uint32_t i = 0; flow && distance && i < n; i++)
                for (uint32_t j = 0; j < n; j++) {
                        bool again = symmetric && j < i;

                        flow[i * n + j] = again ? flow[j * n + i] : (int32_t) rng_below(&rng, (uint32_t) range);
                        distance[i * n + j] = again ? distance[j * n + i] : (int32_t) rng_below(&rng, (uint32_t) range);
                }
        if (r >= 0)
                r = qubo_set_permutation(b, flow, distance);
        return r < 0 ? r : qubo_build(b, ret);
}

/* The difference of a long and a short run. */
static double step_usec(const Qubo *q, const Kernels *k) {
        double seconds[2], least = INFINITY;
        uint64_t steps = 1000 + UINT64_C(100000000) / (100 + (uint64_t) q->n);

        for (unsigned run = 0; run < 3; run++) {
                for (unsigned i = 0; i < 2; i++) {
                        SolveParams p = { .seed = 1, .sweeps = i == 0 ? 1000 : steps + 1000, .kernels = k };
                        SolveResult r = {};

                        seconds[i] = now();
                        if (qubo_solve(q, &solver_permutation, &p, &r) < 0)
                                exit(EXIT_FAILURE);
                        seconds[i] = now() - seconds[i];
                        solve_result_done(&r);
                }
                least = MIN(least, seconds[1] - seconds[0]);
        }
        return least * 1e6 / (double) steps;
}

static void bench_steps(void) {
        static const struct {
                uint32_t n;
                bool symmetric;
                int32_t range;
        } rows[] = { { 12, true, 100 },      { 30, true, 100 },       { 30, false, 100 },
                     { 100, true, 100 },     { 100, false, 100 },     { 100, true, 100000 },
                     { 100, false, 100000 }, { 100, true, 10000000 }, { 256, true, 100 } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                if (random_model(rows[i].n, rows[i].symmetric, rows[i].range, &q) < 0)
                        exit(EXIT_FAILURE);
                for (const Kernels *const *k = kernels_all; *k; k++)
                        if ((*k)->supported())
                                printf("%-6s n=%-3u %-13s 0..%-9d %8.3f us a step\n", (*k)->name, rows[i].n,
                                       rows[i].symmetric ? "symmetric" : "not symmetric", rows[i].range - 1,
                                       step_usec(q, *k));
        }
}

static int compare(const void *a, const void *b) {
        return CMP(*(const double *) a, *(const double *) b);
}

static void bench_time(const char *name, const Instance *in, double value) {
        double seconds[SEEDS_MAX], gap[SEEDS_MAX], sweeps = 0;
        unsigned reached = 0;
        bool proved = false;

        for (unsigned s = 0; s < options.seeds; s++) {
                SolveParams p = { .seed = s + 1,
                                  .budget_usec = (uint64_t) (options.seconds * 1e6),
                                  .clock = now_usec,
                                  .has_target = true,
                                  .target = instance_target(in, value) };
                SolveResult r = {};

                seconds[s] = now();
                if (qubo_solve(in->q, options.solver, &p, &r) < 0)
                        exit(EXIT_FAILURE);
                seconds[s] = now() - seconds[s];
                reached += r.energy <= p.target;
                gap[s] = 100 * ((double) instance_value(in, r.energy) - value) / fabs(value);
                sweeps += (double) r.sweeps;
                proved = r.proved;
                solve_result_done(&r);
        }
        qsort(seconds, options.seeds, sizeof(*seconds), compare);
        qsort(gap, options.seeds, sizeof(*gap), compare);
        printf("%-40s %u of %u, %.4f s median, %.4f at most; off %.3f %% median, %.3f at worst; %.0f sweeps%s\n", name,
               reached, options.seeds, seconds[options.seeds / 2], seconds[options.seeds - 1], gap[options.seeds / 2],
               gap[options.seeds - 1], sweeps / options.seeds, proved ? ", proved" : "");
        fflush(stdout);
}

static bool parse_option(const char *a) {
        if (strncmp(a, "--seconds=", 10) == 0)
                options.seconds = strtod(a + 10, NULL);
        else if (strncmp(a, "--seeds=", 8) == 0)
                options.seeds = MIN((unsigned) strtoul(a + 8, NULL, 10), SEEDS_MAX);
        else if (strncmp(a, "--solver=", 9) == 0)
                options.solver = solver_by_name(a + 9) ?: options.solver;
        else
                return false;
        return true;
}

int main(int argc, char **argv) {
        int i = 1;

        while (i < argc && parse_option(argv[i]))
                i++;
        if (i == argc)
                bench_steps();
        for (; i + 1 < argc; i += 2) {
                _cleanup_(instance_freep) Instance *in = read_instance(argv[i]);

                bench_time(argv[i], in, strtod(argv[i + 1], NULL));
        }
        return EXIT_SUCCESS;
}
