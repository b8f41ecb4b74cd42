/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The annealer against its goals, and against what the best public solvers need on a machine like this: a table made from
 * the rows of a file (solver-goals). Not a test: nothing passes or fails.
 *
 *   bench-solver GOALS INSTANCES [--only=TEXT] [--seeds=N]     the table; --only: rows with TEXT in them
 *   bench-solver --count SOLVER SWEEPS FILE                    solves once and prints the flips, for callgrind
 *
 * A row: what, instance, solver, value, limit, goal, peer's, peer. "what" is
 *   time    median seconds of the seeds to a value of the instance's own, reading the file not included; goal and peer's in seconds
 *   flips   proposed flips per nanosecond in `limit` seconds
 *   sweep   microseconds for each sweep
 *   gap     per cent off the value after `limit` seconds, the median of the seeds
 *   layer   nanoseconds for each amplitude and qubit of a layer of X mixers, simulated, of as many qubits as the instance has
 * An instance is a file below INSTANCES, or p:N:DENSITY:SEED: Palubeckis's generator (2002, of p3000.1 to p7000.3): Lehmer's
 * numbers 16807 s mod 2^31 - 1; of the upper triangle row by row the diagonal always and other entries with the density in
 * per cent, evenly from -100..100; maximised. Time is CPU time of the thread: what else runs here does not count. The last
 * line measures the clock rate.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>
#include <zlib.h>

#include "common/text.h"
#include "policy/formats/format.h"
#include "policy/qubo/qaoa-state.h"
#include "policy/qubo/solver.h"

#define SEEDS_MAX 101
#define FILE_MAX ((size_t) 64 << 20)

static struct {
        const char *only;
        unsigned seeds;
} options = { .only = "", .seeds = 5 };

typedef struct Row {
        char what[16], instance[64], solver[16], peer[32];
        double value, limit, goal, peers;
} Row;

static uint64_t now_usec(void *userdata) {
        struct timespec t;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return (uint64_t) t.tv_sec * 1000000 + (uint64_t) t.tv_nsec / 1000;
}

static Instance *read_instance(const char *path) {
        _cleanup_free_ char *text = calloc(FILE_MAX + 1, 1), *message = NULL;
        Instance *in = NULL;
        gzFile f = gzopen(path, "rb");
        int n = f && text ? gzread(f, text, FILE_MAX) : -1;

        if (f)
                gzclose(f);
        if (n < 0 || instance_read(format_by_suffix(path), path, text, (size_t) n, &in, &message) < 0)
                fprintf(stderr, "%s: %s\n", path, message ?: "cannot be read");
        return in;
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

typedef struct Model {
        Instance *in; /* NULL: one of the generator */
        Qubo *made;
} Model;

static const Qubo *qubo_of(const Model *m) {
        return m->in ? m->in->q : m->made;
}

static bool model_load(const char *folder, const char *name, Model *ret) {
        uint32_t n, density;
        uint64_t seed;
        char path[512];

        *ret = (Model){};
        if (sscanf(name, "p:%u:%u:%" SCNu64, &n, &density, &seed) == 3)
                return palubeckis(n, density, seed, &ret->made) >= 0;
        snprintf(path, sizeof(path), "%s/%s", folder, name);
        ret->in = read_instance(path);
        return ret->in != NULL;
}

static void model_done(Model *m) {
        instance_free(m->in);
        qubo_free(m->made);
}

static int cmp_double(const void *a, const void *b) {
        return CMP(*(const double *) a, *(const double *) b);
}

/* The least of some runs; two depths, since the first layer does more. */
static double layer_ns(const Qubo *q) {
        _cleanup_(qaoa_state_freep) QaoaState *s = NULL;
        double gamma[9] = {}, beta[9], usec[2] = { INFINITY, INFINITY };
        SolveParams p = {};
        Limit l;

        limit_init(&l, &p);
        if (qaoa_state_new(q, kernels_best(), &l, &s) < 0)
                return INFINITY;
        for (unsigned i = 0; i < ELEMENTSOF(beta); i++)
                beta[i] = 0.4;
        for (unsigned run = 0; run < 10; run++) {
                uint64_t start = now_usec(NULL);

                if (qaoa_run(s, run % 2 ? 9 : 1, gamma, beta) < 0)
                        return INFINITY;
                usec[run % 2] = MIN(usec[run % 2], (double) (now_usec(NULL) - start));
        }
        return (usec[1] - usec[0]) * 1e3 / 8 / (double) qaoa_state_shape(s)->amplitudes / qaoa_state_shape(s)->n_dims;
}

/* One seed: what the row asks for; infinite: not reached. */
static double measure(const Row *row, const Model *m, unsigned seed, const char **ret_solver) {
        bool timed = streq(row->what, "time");
        SolveParams p = { .seed = seed, .budget_usec = (uint64_t) (row->limit * 1e6), .clock = now_usec };
        uint64_t start = now_usec(NULL);
        SolveResult r = {};
        double usec, v = INFINITY;

        if (streq(row->what, "layer"))
                return layer_ns(qubo_of(m));
        p.has_target = timed;
        p.target = timed ? m->in ? instance_target(m->in, row->value) : -(int64_t) row->value : 0;
        if (qubo_solve(qubo_of(m), solver_by_name(row->solver), &p, &r) < 0)
                return INFINITY;
        usec = (double) (now_usec(NULL) - start);
        *ret_solver = r.solver;
        if (timed)
                v = r.energy <= p.target ? usec / 1e6 : INFINITY;
        else if (streq(row->what, "flips"))
                v = (double) r.flips / usec / 1e3;
        else if (streq(row->what, "sweep"))
                v = usec / (double) r.sweeps;
        else if (streq(row->what, "gap"))
                v = 100 * fabs((double) instance_value(m->in, r.energy) - row->value) / fabs(row->value);
        solve_result_done(&r);
        return v;
}

static const char *unit_of(const Row *row) {
        return streq(row->what, "time")    ? "s"
               : streq(row->what, "flips") ? "/ns"
               : streq(row->what, "sweep") ? "us"
               : streq(row->what, "layer") ? "ns"
                                           : "%";
}

static void print_cell(double v, const Row *row) {
        if (isinf(v))
                printf("  %7s %-3s", "never", "");
        else
                printf("  %7.3g %-3s", v, unit_of(row));
}

/* The file without folder and endings, and the value that is asked for. */
static void row_name(const Row *row, char *ret, size_t size) {
        const char *slash = strrchr(row->instance, '/'), *base = slash ? slash + 1 : row->instance;
        int n = (int) (strncmp(base, "p:", 2) == 0 ? strlen(base) : strcspn(base, "."));

        if (streq(row->what, "time") || streq(row->what, "gap"))
                snprintf(ret, size, "%.*s %.0f", n, base, row->value);
        else
                snprintf(ret, size, "%.*s", n, base);
}

static void run_row(const char *folder, const Row *row) {
        double v[SEEDS_MAX], median;
        const char *solver = row->solver;
        char name[96];
        Model m;

        if (!model_load(folder, row->instance, &m))
                return;
        for (unsigned i = 0; i < options.seeds; i++)
                v[i] = measure(row, &m, i + 1, &solver);
        qsort(v, options.seeds, sizeof(*v), cmp_double);
        median = v[options.seeds / 2];
        row_name(row, name, sizeof(name));
        printf("%-23s %-11s", name, solver);
        print_cell(median, row);
        if (row->goal > 0)
                print_cell(row->goal, row);
        else
                printf("  %11s", "");
        if (row->peers > 0) {
                print_cell(row->peers, row);
                printf(" %s", row->peer);
        }
        puts("");
        fflush(stdout);
        model_done(&m);
}

#ifdef __aarch64__
#define ADD_ONE "add %0, %0, #1"
#else
#define ADD_ONE "add $1, %0"
#endif

/* Additions that wait for each other, one a cycle. */
static double clock_ghz(void) {
        const uint64_t n = 200000000;
        uint64_t x = 0, start = now_usec(NULL);

        for (uint64_t i = 0; i < n; i++)
                __asm__ volatile(ADD_ONE : "+r"(x));
        return (double) n / (double) (now_usec(NULL) - start) / 1e3;
}

static bool parse_row(char *line, Row *row) {
        return sscanf(line, "%15s %63s %15s %lf %lf %lf %lf %31[^\n]", row->what, row->instance, row->solver,
                      &row->value, &row->limit, &row->goal, &row->peers, row->peer) >= 7;
}

static int run_table(const char *goals, const char *folder) {
        _cleanup_fclose_ FILE *f = fopen(goals, "re");
        char line[512];

        if (!f) {
                fprintf(stderr, "%s: %m\n", goals);
                return EXIT_FAILURE;
        }
        printf("%-23s %-11s  %-11s  %-11s  %s\n", "", "solver", "median", "goal", "best peer");
        while (fgets(line, sizeof(line), f)) {
                Row row = {};

                if (line[0] == '#') {
                        if (options.only[0] == 0)
                                printf("%s", line + 1);
                } else if (strstr(line, options.only) && parse_row(line, &row)) {
                        if (solver_by_name(row.solver))
                                run_row(folder, &row);
                        else
                                fprintf(stderr, "no solver %s\n", row.solver);
                }
        }
        printf("The clock of this core: %.2f GHz. Medians of %u seeds, CPU time of one thread.\n", clock_ghz(),
               options.seeds);
        return EXIT_SUCCESS;
}

static int count(const char *solver, const char *sweeps, const char *path) {
        SolveParams p = { .seed = 1, .sweeps = strtoull(sweeps, NULL, 10) };
        Instance *in = read_instance(path);
        SolveResult r = {};

        if (!in || !solver_by_name(solver) || qubo_solve(in->q, solver_by_name(solver), &p, &r) < 0)
                return EXIT_FAILURE;
        printf("%" PRIu64 "\n", r.flips);
        solve_result_done(&r);
        instance_free(in);
        return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
        if (argc == 5 && streq(argv[1], "--count"))
                return count(argv[2], argv[3], argv[4]);
        for (int i = 3; i < argc; i++)
                if (strncmp(argv[i], "--only=", 7) == 0)
                        options.only = argv[i] + 7;
                else if (strncmp(argv[i], "--seeds=", 8) == 0)
                        options.seeds = (unsigned) MAX(MIN(strtoul(argv[i] + 8, NULL, 10), (unsigned long) SEEDS_MAX),
                                                       1UL);
                else
                        argc = 0;
        if (argc < 3) {
                fprintf(stderr,
                        "bench-solver GOALS INSTANCES [--only=TEXT] [--seeds=N], or --count SOLVER SWEEPS FILE\n");
                return 2;
        }
        return run_table(argv[1], argv[2]);
}
