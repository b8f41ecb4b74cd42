/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a step of the tabu walk is, and how long tabu search takes to known values. Times are CPU time of the thread.
 *
 *   bench-tabu [KERNEL]        steps for models of several sizes and every kernel, then p3000.1 to its best known value
 *   bench-tabu [--limit=SECONDS] FILE VALUE ...  seconds to the value for five seeds
 *   bench-tabu p:N:D:SEED VALUE ...  the same for an instance of Palubeckis's generator: n, density in per cent, seed
 *
 * That generator (2002, of the instances p3000.1 to p7000.3): Lehmer's numbers 16807 s mod 2^31 - 1; of the upper
 * triangle row by row, the diagonal always and other entries with the density, evenly from -100..100; maximised.
 */
#include <inttypes.h>
#include <math.h>
#include <time.h>
#include <zlib.h>

#include "policy/formats/format.h"
#include "policy/qubo/tabu.h"

#define LIMIT_SECONDS 20
#define SEEDS 5U
#define FILE_MAX ((size_t) 64 << 20)
#define CHAIN 20000000U

static double limit_seconds = LIMIT_SECONDS;

static double now(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (double) t.tv_sec + 1e-9 * (double) t.tv_nsec;
}

static uint64_t now_usec(void *userdata) {
        return (uint64_t) (1e6 * now());
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

static double lehmer(uint64_t *s) {
        *s = *s * 16807 % 2147483647;
        return (double) *s / 2147483648.0;
}

static int32_t entry(uint64_t *s) {
        return (int32_t) (lehmer(s) * 201) - 100;
}

static int palubeckis(uint32_t n, uint32_t density, uint64_t seed, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int r = qubo_builder_new(n, &b);

        for (uint32_t i = 0; i < n && r >= 0; i++) {
                r = qubo_add_linear(b, i, -entry(&seed));
                for (uint32_t j = i + 1; j < n && r >= 0; j++)
                        if ((float) (lehmer(&seed) * 100) <= (float) density)
                                r = qubo_add_quadratic(b, i, j, -2 * (int64_t) entry(&seed));
        }
        return r < 0 ? r : qubo_build(b, ret);
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

/* Microseconds of a step: the difference of a long and a short run. */
static double step_usec(const Qubo *q, const Kernels *k) {
        double seconds[2], least = INFINITY;
        uint64_t steps = 200000;

        for (unsigned run = 0; run < 3; run++) {
                for (unsigned i = 0; i < 2; i++) {
                        SolveParams p = { .seed = 1, .sweeps = i == 0 ? 1000 : steps + 1000, .kernels = k };
                        SolveResult r = {};

                        seconds[i] = now();
                        if (qubo_solve(q, &solver_tabu, &p, &r) < 0)
                                exit(EXIT_FAILURE);
                        seconds[i] = now() - seconds[i];
                        solve_result_done(&r);
                }
                least = MIN(least, seconds[1] - seconds[0]);
        }
        return least * 1e6 / (double) steps;
}

static void bench_steps(const char *only) {
        static const struct {
                uint32_t n, density;
                double goal; /* at 3.1 GHz; 0: none */
        } rows[] = { { 250, 10, 0 },    { 500, 100, .18 }, { 800, 6, 0 }, { 2000, 1, 0 },
                     { 2500, 10, .68 }, { 3000, 50, .8 },  { 5000, 2, 0 } };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                if (palubeckis(rows[i].n, rows[i].density, 1, &q) < 0)
                        exit(EXIT_FAILURE);
                for (const Kernels *const *k = kernels_all; *k; k++)
                        if ((*k)->supported() && (streq(only, "") || streq(only, (*k)->name)))
                                printf("%-6s n=%-5u %3u %%: %.3f us a step (goal %.2f), %.2f GHz\n", (*k)->name,
                                       rows[i].n, rows[i].density, step_usec(q, *k), rows[i].goal, clock_ghz());
        }
}

static int compare(const void *a, const void *b) {
        return (*(const double *) a > *(const double *) b) - (*(const double *) a < *(const double *) b);
}

static void bench_time(const char *name, const Qubo *q, int64_t target) {
        double seconds[SEEDS];
        unsigned reached = 0;
        int64_t worst = INT64_MIN;
        uint64_t steps = 0;

        for (unsigned s = 0; s < SEEDS; s++) {
                SolveParams p = { .seed = s + 1,
                                  .budget_usec = (uint64_t) (limit_seconds * 1e6),
                                  .clock = now_usec,
                                  .has_target = true,
                                  .target = target };
                SolveResult r = {};

                seconds[s] = now();
                if (qubo_solve(q, &solver_tabu, &p, &r) < 0)
                        exit(EXIT_FAILURE);
                seconds[s] = now() - seconds[s];
                reached += r.energy <= target;
                worst = MAX(worst, r.energy);
                steps += r.sweeps;
                solve_result_done(&r);
        }
        qsort(seconds, SEEDS, sizeof(*seconds), compare);
        printf("%s: %u of %u reach it; %.4f s median, %.4f to %.4f; %.0f steps in the mean; worst %" PRId64
               " above target\n",
               name, reached, SEEDS, seconds[SEEDS / 2], seconds[0], seconds[SEEDS - 1], (double) steps / SEEDS,
               worst - target);
}

static void bench_name(const char *name, const char *value) {
        uint32_t n, density;
        uint64_t seed;

        if (sscanf(name, "p:%" SCNu32 ":%" SCNu32 ":%" SCNu64, &n, &density, &seed) == 3) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                if (palubeckis(n, density, seed, &q) < 0)
                        exit(EXIT_FAILURE);
                bench_time(name, q, -strtoll(value, NULL, 10));
        } else {
                _cleanup_(instance_freep) Instance *in = read_instance(name);

                bench_time(name, in->q, instance_target(in, strtod(value, NULL)));
        }
}

int main(int argc, char **argv) {
        int first = 1;

        setvbuf(stdout, NULL, _IOLBF, 0);
        if (argc > 1 && strncmp(argv[1], "--limit=", 8) == 0)
                limit_seconds = strtod(argv[first++] + 8, NULL);
        if (argc - first < 2) {
                bench_steps(argc > first ? argv[first] : "");
                bench_name("p:3000:50:31000", "3931583");
        }
        for (int i = first; i + 1 < argc; i += 2)
                bench_name(argv[i], argv[i + 1]);
        return EXIT_SUCCESS;
}
