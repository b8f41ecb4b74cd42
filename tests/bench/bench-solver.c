/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How good the solvers are in how little time: for every model and time budget, several seeds; printed are the best
 * value, how many seeds reached it, whether it was proved, the median time a solve took and proposed flips per
 * nanosecond. Time is CPU time of the thread: what else runs here does not count. Not a test: nothing passes or fails.
 *
 *   bench-solver [--solver=NAME] [--seeds=N] [--ms=N,N,...] [--target=N] [--only=TEXT] [FILE...]
 *
 * Without FILE the placement-like models of tests/unit/qubo-models.h are solved (those with TEXT in their name); FILE
 * is QAPLIB's .dat, or a .txt of tasks and devices (tasks devices pairs load-weight penalty constant; loads; targets;
 * costs; distances; pairs).
 */
#include <errno.h>
#include <inttypes.h>
#include <time.h>

#include "policy/qubo/solver.h"
#include "tests/unit/qubo-models.h"

#define BUDGETS_MAX 8
#define SEEDS_MAX 101

static struct {
        const Solver *solver;
        unsigned seeds, n_budgets;
        uint64_t budget_ms[BUDGETS_MAX];
        int64_t target;
        const char *only;
} options = { .seeds = 5, .n_budgets = 3, .budget_ms = { 5, 20, 100 }, .target = INT64_MAX, .only = "" };

static uint64_t now_usec(void *userdata) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

static int64_t *read_numbers(FILE *f, size_t n) {
        int64_t *v = calloc(n + 1, sizeof(*v));

        for (size_t i = 0; v && i < n; i++)
                if (fscanf(f, "%ld", &v[i]) != 1) {
                        free(v);
                        return NULL;
                }
        return v;
}

static int qap_pairs(QuboBuilder *b, uint32_t n, const int64_t *a, const int64_t *d, int64_t penalty) {
        int e = 0;

        for (uint32_t i = 0; i < n; i++) {
                e |= qubo_add_group(b, i * n, n);
                for (uint32_t k = 0; k < n; k++)
                        e |= qubo_add_linear(b, i * n + k, a[i * n + i] * d[k * n + k]);
                for (uint32_t j = i + 1; j < n; j++)
                        for (uint32_t k = 0; k < n; k++)
                                for (uint32_t m = 0; m < n; m++)
                                        e |= qubo_add_quadratic(b, i * n + k, j * n + m,
                                                                k == m ? penalty
                                                                       : a[i * n + j] * d[k * n + m] +
                                                                                 a[j * n + i] * d[m * n + k]);
        }
        return e;
}

static int read_qap(FILE *f, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_free_ int64_t *a = NULL, *d = NULL;
        int64_t most_a = 0, most_d = 0;
        uint32_t n;

        if (fscanf(f, "%u", &n) != 1 || n == 0 || n > 256)
                return -EINVAL;
        a = read_numbers(f, (size_t) n * n);
        d = read_numbers(f, (size_t) n * n);
        if (!a || !d || qubo_builder_new(n * n, &b) < 0)
                return -EINVAL;
        for (uint32_t i = 0; i < n; i++) {
                int64_t sum = 0;

                for (uint32_t j = 0; j < n; j++) {
                        sum += a[i * n + j] + a[j * n + i];
                        most_d = MAX(most_d, d[i * n + j]);
                }
                most_a = MAX(most_a, sum);
        }
        if (qap_pairs(b, n, a, d, MIN(most_a * most_d + 1, INT32_MAX)) < 0)
                return -EINVAL;
        return qubo_build(b, ret);
}

typedef struct Tasks {
        int64_t n, d, pairs, load_weight;
        int64_t *load, *target, *cost, *distance, *pair;
} Tasks;

static int build_tasks(const Tasks *t, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int e = qubo_builder_new((uint32_t) (t->n * t->d), &b);

        for (uint32_t k = 0; k < t->d; k++)
                e |= qubo_add_offset(b, t->load_weight * t->target[k] * t->target[k]);
        for (uint32_t i = 0; i < t->n; i++) {
                e |= qubo_add_group(b, (uint32_t) (i * t->d), (uint32_t) t->d);
                for (uint32_t k = 0; k < t->d; k++) {
                        e |= qubo_add_linear(b, (uint32_t) (i * t->d + k),
                                             t->cost[i * t->d + k] +
                                                     t->load_weight * t->load[i] * (t->load[i] - 2 * t->target[k]));
                        for (uint32_t j = i + 1; j < t->n; j++)
                                e |= qubo_add_quadratic(b, (uint32_t) (i * t->d + k), (uint32_t) (j * t->d + k),
                                                        2 * t->load_weight * t->load[i] * t->load[j]);
                }
        }
        for (int64_t p = 0; p < t->pairs; p++)
                for (int64_t k = 0; k < t->d; k++)
                        for (int64_t m = 0; m < t->d; m++)
                                e |= qubo_add_quadratic(b, (uint32_t) (t->pair[3 * p] * t->d + k),
                                                        (uint32_t) (t->pair[3 * p + 1] * t->d + m),
                                                        t->pair[3 * p + 2] * t->distance[k * t->d + m]);
        return e < 0 ? -EINVAL : qubo_build(b, ret);
}

static int read_tasks(FILE *f, Qubo **ret) {
        Tasks t = {};
        int r = -EINVAL;

        if (fscanf(f, "%ld %ld %ld %ld %*d %*d", &t.n, &t.d, &t.pairs, &t.load_weight) != 4 || t.n < 1 || t.d < 1 ||
            t.n > 4096 || t.d > 4096 || t.pairs < 0 || t.pairs > 1 << 24)
                return -EINVAL;
        t.load = read_numbers(f, (size_t) t.n);
        t.target = read_numbers(f, (size_t) t.d);
        t.cost = read_numbers(f, (size_t) (t.n * t.d));
        t.distance = read_numbers(f, (size_t) (t.d * t.d));
        t.pair = read_numbers(f, (size_t) (3 * t.pairs));
        if (t.load && t.target && t.cost && t.distance && t.pair)
                r = build_tasks(&t, ret);
        free(t.load);
        free(t.target);
        free(t.cost);
        free(t.distance);
        free(t.pair);
        return r;
}

static int cmp_u64(const void *a, const void *b) {
        return CMP(*(const uint64_t *) a, *(const uint64_t *) b);
}

typedef struct Score {
        int64_t best, worst, bound;
        unsigned hits, proved;
        uint64_t usec[SEEDS_MAX];
        double flips_per_ns;
        const char *solver;
} Score;

static void solve_seeds(const Qubo *q, uint64_t budget_ms, int64_t target, Score *s) {
        int64_t found[SEEDS_MAX];
        uint64_t flips = 0, total = 0;

        *s = (Score){ .best = INT64_MAX, .worst = INT64_MIN, .bound = INT64_MIN };
        for (unsigned i = 0; i < options.seeds; i++) {
                SolveParams p = { .seed = i + 1, .budget_usec = budget_ms * 1000, .clock = now_usec };
                uint64_t start = now_usec(NULL);
                SolveResult r = {};

                if (qubo_solve(q, options.solver, &p, &r) < 0)
                        continue;
                s->usec[i] = now_usec(NULL) - start;
                total += s->usec[i];
                flips += r.flips;
                found[i] = r.energy;
                s->best = MIN(s->best, r.energy);
                s->worst = MAX(s->worst, r.energy);
                s->bound = MAX(s->bound, r.lower_bound);
                s->proved += r.proved;
                s->solver = r.solver;
                solve_result_done(&r);
        }
        for (unsigned i = 0; i < options.seeds; i++)
                s->hits += found[i] <= MIN(target, s->best);
        if (target != INT64_MAX && s->best > target)
                s->hits = 0;
        qsort(s->usec, options.seeds, sizeof(*s->usec), cmp_u64);
        s->flips_per_ns = total > 0 ? (double) flips / (double) total / 1000 : 0;
}

static void bench(const char *name, const Qubo *q) {
        int64_t target = options.target;
        Score s[BUDGETS_MAX];

        if (!options.solver->fits(q)) {
                printf("%-22s %6u  %s does not fit\n", name, q->n, options.solver->name);
                return;
        }
        /* The largest budget first: what it reaches is the target of the smaller ones. */
        for (unsigned k = options.n_budgets; k-- > 0;) {
                solve_seeds(q, options.budget_ms[k], target, &s[k]);
                target = MIN(target, s[k].best);
        }
        for (unsigned k = 0; k < options.n_budgets; k++) {
                printf("%-22s %6u %5" PRIu64 " ms  best %-11" PRId64 " worst %-11" PRId64
                       " hits %2u/%-2u  proved %2u  ",
                       name, q->n, options.budget_ms[k], s[k].best, s[k].worst, s[k].best > target ? 0 : s[k].hits,
                       options.seeds, s[k].proved);
                if (s[k].bound != INT64_MIN)
                        printf("bound %-11" PRId64, s[k].bound);
                printf(" median %6.2f ms  %.3f flips/ns  %s\n", (double) s[k].usec[options.seeds / 2] / 1000,
                       s[k].flips_per_ns, strempty(s[k].solver));
        }
}

static const struct {
        const char *name;
        PlacementShape shape;
} placements[] = {
        { "8x8x8 tp4 pp2", { .ranks = 8, .devices = 8, .blocks = 8, .nodes = 4, .tp = 4, .pp = 2 } },
        { "8x8x8 tp4 noise", { .ranks = 8, .devices = 8, .blocks = 8, .nodes = 4, .tp = 4, .pp = 2, .noise = 50 } },
        { "8x8x8 random", { .ranks = 8, .devices = 8, .blocks = 8, .nodes = 4, .random_traffic = true, .noise = 9 } },
        { "8x8x16 tp2 pp4", { .ranks = 8, .devices = 8, .blocks = 16, .nodes = 8, .tp = 2, .pp = 4 } },
        { "6x8x8 tp2 pp3", { .ranks = 6, .devices = 8, .blocks = 8, .nodes = 4, .tp = 2, .pp = 3 } },
        { "4x8x20 tp4", { .ranks = 4, .devices = 8, .blocks = 20, .nodes = 4, .tp = 4, .pp = 1, .noise = 20 } },
        { "16x16x16 tp4 pp4", { .ranks = 16, .devices = 16, .blocks = 16, .nodes = 8, .tp = 4, .pp = 4 } },
        { "16x16x16 random",
          { .ranks = 16, .devices = 16, .blocks = 16, .nodes = 8, .random_traffic = true, .noise = 9 } },
        { "16x16x32 tp8 noise",
          { .ranks = 16, .devices = 16, .blocks = 32, .nodes = 8, .tp = 8, .pp = 2, .noise = 50 } },
        { "32x32x0 random", { .ranks = 32, .devices = 32, .nodes = 8, .random_traffic = true } },
        { "64x64x0 tp8 pp8", { .ranks = 64, .devices = 64, .blocks = 0, .nodes = 8, .tp = 8, .pp = 8, .noise = 20 } },
        { "64x64x64 tp8 pp8", { .ranks = 64, .devices = 64, .blocks = 64, .nodes = 8, .tp = 8, .pp = 8, .noise = 20 } },
};

static int bench_placements(void) {
        for (size_t i = 0; i < ELEMENTSOF(placements); i++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;
                Rng rng;

                if (!strstr(placements[i].name, options.only))
                        continue;
                rng_seed(&rng, 1, i);
                if (model_placement(&rng, &placements[i].shape, &q) < 0)
                        return EXIT_FAILURE;
                bench(placements[i].name, q);
        }
        return EXIT_SUCCESS;
}

static int bench_file(const char *path) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        _cleanup_(qubo_freep) Qubo *q = NULL;
        const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
        int r;

        if (!f) {
                fprintf(stderr, "%s: %m\n", path);
                return EXIT_FAILURE;
        }
        r = dot && streq(dot, ".dat") ? read_qap(f, &q) : read_tasks(f, &q);
        if (r < 0) {
                fprintf(stderr, "%s: neither a QAPLIB .dat nor a task file: %s\n", path, strerror(-r));
                return EXIT_FAILURE;
        }
        bench(slash ? slash + 1 : path, q);
        return EXIT_SUCCESS;
}

static bool parse_option(const char *arg) {
        char *end;

        if (strncmp(arg, "--solver=", 9) == 0)
                return (options.solver = solver_by_name(arg + 9)) != NULL;
        if (strncmp(arg, "--only=", 7) == 0)
                return (options.only = arg + 7) != NULL;
        if (strncmp(arg, "--seeds=", 8) == 0) {
                options.seeds = (unsigned) strtoul(arg + 8, &end, 10);
                return options.seeds > 0 && options.seeds <= SEEDS_MAX && *end == 0;
        }
        if (strncmp(arg, "--target=", 9) == 0) {
                options.target = strtoll(arg + 9, &end, 10);
                return *end == 0;
        }
        if (strncmp(arg, "--ms=", 5) != 0)
                return false;
        options.n_budgets = 0;
        for (arg += 5; options.n_budgets < BUDGETS_MAX; arg = end + 1) {
                options.budget_ms[options.n_budgets++] = strtoull(arg, &end, 10);
                if (*end != ',')
                        return *end == 0;
        }
        return false;
}

int main(int argc, char **argv) {
        int failed = EXIT_SUCCESS, i = 1;

        options.solver = solvers[0];
        for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++)
                if (!parse_option(argv[i])) {
                        fprintf(stderr,
                                "bench-solver: bad option %s; known are --solver=NAME --seeds=1..%d --ms=N,... "
                                "(at most %d) --target=N --only=TEXT\n",
                                argv[i], SEEDS_MAX, BUDGETS_MAX);
                        return 2;
                }
        if (i == argc)
                return bench_placements();
        for (; i < argc; i++)
                failed |= bench_file(argv[i]);
        return failed;
}
