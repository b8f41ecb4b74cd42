/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast simulated annealing is: flips offered per nanosecond and the time to a value, medians over seeds, in CPU time
 * of the thread. Beside it stands the clock rate, measured before each solve by additions that wait for each other: other
 * work on the machine changes it, so times and rates are told for 3.1 GHz as well. Nothing passes or fails.
 *
 *   bench-anneal [--solver=NAME] [--seeds=N] [--time=S] [--target=V] [--sweeps=N] FILE...
 *
 * FILE is .mc (n m; i j w; value: the weight of the cut) or .qubo (n nnz; i j q, i <= j; maximised), or random:N:DEGREE:W
 * with weights in -W..W. Values are printed and given in the file's sense.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "policy/qubo/rng.h"
#include "policy/qubo/solver.h"

#define SEEDS_MAX 101
#define GHZ 3.1

static struct {
        const char *solver;
        unsigned seeds;
        double time;
        const char *target;
        uint64_t sweeps;
} options = { .solver = "sa", .seeds = 5, .time = 1 };

static bool starts_with(const char *text, const char *with) {
        return strncmp(text, with, strlen(with)) == 0;
}

static uint64_t now_nsec(void) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

static uint64_t now_usec(void *userdata) {
        return now_nsec() / 1000;
}

static double clock_ghz(void) {
        enum { ADDS = 2000000 };
        uint64_t start = now_nsec(), x = 0;

        for (unsigned i = 0; i < ADDS; i++) {
                x += 1;
                __asm__ volatile("" : "+r"(x));
        }
        return ADDS / (double) (now_nsec() - start);
}

static Qubo *read_file(const char *path) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        bool cut = strstr(path, ".mc");
        long long n, m, i, j, w;
        Qubo *q = NULL;

        if (!f || fscanf(f, "%lld %lld", &n, &m) != 2 || qubo_builder_new((uint32_t) n, &b) < 0)
                return NULL;
        while (fscanf(f, "%lld %lld %lld", &i, &j, &w) == 3) {
                uint32_t u = (uint32_t) i - 1, v = (uint32_t) j - 1;
                int e = 0;

                if (cut)
                        e = qubo_add_linear(b, u, -w) | qubo_add_linear(b, v, -w) | qubo_add_quadratic(b, u, v, 2 * w);
                else
                        e = u == v ? qubo_add_linear(b, u, -w) : qubo_add_quadratic(b, u, v, -2 * w);
                if (e < 0)
                        return NULL;
        }
        return qubo_build(b, &q) < 0 ? NULL : q;
}

static Qubo *random_model(const char *text) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        unsigned n, degree, range;
        Qubo *q = NULL;
        Rng r;

        if (sscanf(text, "random:%u:%u:%u", &n, &degree, &range) != 3 || n < 2 || qubo_builder_new(n, &b) < 0)
                return NULL;
        rng_seed(&r, 1, n);
        for (uint64_t k = 0; k < (uint64_t) n * degree / 2; k++) {
                uint32_t u = rng_below(&r, n), v = rng_below(&r, n);
                int64_t w = (int64_t) rng_below(&r, 2 * range + 1) - range;

                if (u != v &&
                    (qubo_add_quadratic(b, u, v, 2 * w) | qubo_add_linear(b, u, -w) | qubo_add_linear(b, v, -w)) < 0)
                        return NULL;
        }
        return qubo_build(b, &q) < 0 ? NULL : q;
}

static int compare(const void *a, const void *b) {
        return CMP(*(const double *) a, *(const double *) b);
}

static void bench(const char *path, const Qubo *q) {
        double seconds[SEEDS_MAX], scaled[SEEDS_MAX], ghz_sum = 0, rate = 0;
        int64_t best = INT64_MAX, worst = INT64_MIN;
        unsigned reached = 0;

        for (unsigned s = 0; s < options.seeds; s++) {
                SolveParams p = { .seed = s + 1,
                                  .clock = now_usec,
                                  .budget_usec = (uint64_t) (options.time * 1e6),
                                  .sweeps = options.sweeps,
                                  .has_target = options.target,
                                  .target = options.target ? -strtoll(options.target, NULL, 10) : 0 };
                double ghz = clock_ghz();
                SolveResult r = {};
                uint64_t start = now_nsec();
                int e = qubo_solve(q, solver_by_name(options.solver), &p, &r);

                seconds[s] = (double) (now_nsec() - start) * 1e-9;
                ghz = (ghz + clock_ghz()) / 2;
                if (e < 0) {
                        printf("%s: %s\n", path, strerror(-e));
                        return;
                }
                rate += (double) r.flips / seconds[s] * 1e-9 * GHZ / ghz / options.seeds;
                scaled[s] = seconds[s] * ghz / GHZ;
                ghz_sum += ghz;
                if (options.target && r.energy > p.target)
                        scaled[s] = seconds[s] = 1e9;
                else
                        reached++;
                best = MIN(best, r.energy);
                worst = MAX(worst, r.energy);
                solve_result_done(&r);
        }
        qsort(seconds, options.seeds, sizeof(*seconds), compare);
        qsort(scaled, options.seeds, sizeof(*scaled), compare);
        printf("%-22s best %" PRId64 " worst %" PRId64
               " reached %u/%u median %.5f s, at %.1f GHz %.5f s; %.2f flips/ns (clock %.2f)\n",
               strrchr(path, '/') ? strrchr(path, '/') + 1 : path, -best, -worst, reached, options.seeds,
               seconds[options.seeds / 2], GHZ, scaled[options.seeds / 2], rate, ghz_sum / options.seeds);
}

static bool parse_option(const char *arg) {
        const char *value = strchr(arg, '=');

        if (!value++)
                return false;
        if (starts_with(arg, "--solver="))
                options.solver = value;
        else if (starts_with(arg, "--seeds="))
                options.seeds = (unsigned) MAX(MIN(atoi(value), SEEDS_MAX), 1);
        else if (starts_with(arg, "--time="))
                options.time = atof(value);
        else if (starts_with(arg, "--target="))
                options.target = value;
        else if (starts_with(arg, "--sweeps="))
                options.sweeps = strtoull(value, NULL, 10);
        else
                return false;
        return true;
}

int main(int argc, char **argv) {
        for (int i = 1; i < argc; i++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                if (starts_with(argv[i], "--")) {
                        if (!parse_option(argv[i]))
                                return fprintf(stderr, "%s is no option.\n", argv[i]), 1;
                        continue;
                }
                q = starts_with(argv[i], "random:") ? random_model(argv[i]) : read_file(argv[i]);
                if (!q)
                        return fprintf(stderr, "%s is no file with a model.\n", argv[i]), 1;
                bench(argv[i], q);
        }
        return 0;
}
