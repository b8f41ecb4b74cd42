/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole runs of every solver with every table of kernels: the same points, energies and counts as with the plain one.
 * Models are seeded, of all shapes and widths that kernels are made for; budgets are sweeps. One line of text for each
 * run. Prints TAP by itself and needs nothing but policy/qubo (no NLopt if NO_NLOPT is defined: then solver "qaoa" is
 * left to its state vector, which has lines of its own), so that tests/cross-neon.sh can build it for another machine;
 * "print" as argument prints the lines of the last table, the compiler's baseline.
 */
#include <inttypes.h>
#include <stdio.h>

#include "policy/qubo/qaoa-state.h"
#include "tests/unit/qubo-models.h"

#define SWEEPS 50U /* of each run */
#define STEPS 300U /* of solvers whose sweep is one step */
#define AMPLITUDES_MAX 20000U

typedef enum Kind {
        PLAIN,      /* no structure */
        LATTICE,    /* a torus of n x n */
        GROUPED,    /* random groups */
        PLACEMENT,  /* ranks, devices, blocks */
        TABLED,     /* groups joined by tables */
        ASSIGNMENT, /* flows and distances of n items alone, symmetric */
        ONE_WAY,    /* the same, not symmetric */
        MIXED,      /* flows and distances, rows and linear terms */
} Kind;

typedef struct Shape {
        const char *name;
        Kind kind;
        uint32_t n;
        uint32_t density; /* per cent of pairs, or of the lattice's couplings */
        int32_t range;
        bool equal;  /* couplings are range or -range */
        bool linear; /* has linear terms */
} Shape;

static const Shape shapes[] = {
        { "lattice", LATTICE, 12, 100, .range = 1 },
        { "lattice-holes", LATTICE, 12, 80, .range = 1 },
        { "lattice-field", LATTICE, 9, 100, .range = 5, .linear = true },
        { "sparse-1", PLAIN, 150, 3, 1, .equal = true },
        { "sparse-3", PLAIN, 150, 4, 3, .linear = true },
        { "sparse-300", PLAIN, 130, 5, 300, .linear = true },
        { "sparse-300000", PLAIN, 130, 5, 300000, .linear = true },
        { "sparse-2e9", PLAIN, 130, 5, 2000000000, .linear = true },
        { "thin-3", PLAIN, 260, 1, 3, .linear = true },
        { "thin-300000", PLAIN, 260, 1, 300000, .linear = true },
        { "thin-2e9", PLAIN, 260, 1, 2000000000, .linear = true },
        { "dense-1", PLAIN, 90, 100, 1, .equal = true },
        { "dense-100", PLAIN, 100, 100, 100, .linear = true },
        { "dense-2000", PLAIN, 70, 90, 2000, .linear = true },
        { "dense-30000", PLAIN, 70, 100, 30000, .linear = true },
        { "dense-5e6", PLAIN, 70, 100, 5000000, .linear = true },
        { "dense-2e9", PLAIN, 70, 100, 2000000000, .linear = true },
        { "small", PLAIN, 11, 60, 20, .linear = true },
        { "qubits-14", PLAIN, 14, 50, 9, .linear = true },
        { "qubits-9", PLAIN, 9, 50, 500, .linear = true },
        { "choices", GROUPED, 18, 40, .range = 30 },
        { "choices-more", GROUPED, 25, 60, .range = 2000 },
        { "grouped-9", GROUPED, 60, 40, .range = 9 },
        { "grouped-1e6", GROUPED, 60, 30, .range = 1000000 },
        { "placement", PLACEMENT, .n = 6 },
        { "tables", TABLED, .range = 50 },
        { "assignment", ASSIGNMENT, 13, .range = 30 },
        { "assignment-2e5", ASSIGNMENT, 11, .range = 200000 },
        { "assignment-1e8", ASSIGNMENT, 9, .range = 100000000 },
        { "one-way", ONE_WAY, 13, .range = 30 },
        { "one-way-2e5", ONE_WAY, 11, .range = 200000 },
        { "one-way-1e8", ONE_WAY, 9, .range = 100000000 },
        { "mixed", MIXED, 8, .range = 30 },
        { "mixed-2e5", MIXED, 7, .range = 200000 },
        { "mixed-1e8", MIXED, 6, .range = 100000000 },
};

static int add_pair(QuboBuilder *b, const Shape *s, Rng *r, uint32_t i, uint32_t j) {
        const RandomShape any = { .range = s->range };

        return qubo_add_quadratic(b, i, j,
                                  !s->equal              ? model_coefficient(r, &any)
                                  : rng_below(r, 2) == 0 ? s->range
                                                         : -s->range);
}

static int make_plain(const Shape *s, Rng *r, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        const RandomShape any = { .range = s->range };
        int e = qubo_builder_new(s->n, &b);

        for (uint32_t i = 0; i < s->n; i++) {
                e |= s->linear ? qubo_add_linear(b, i, model_coefficient(r, &any)) : 0;
                for (uint32_t j = 0; j < i; j++)
                        e |= rng_below(r, 100) < s->density ? add_pair(b, s, r, i, j) : 0;
        }
        return e < 0 ? e : qubo_build(b, ret);
}

/* Spins with couplings of range or -range: the sum of couplings of a bit is its linear term then. */
static int make_lattice(const Shape *s, Rng *r, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        const RandomShape any = { .range = s->range };
        int e = qubo_builder_new(s->n * s->n, &b);

        for (uint32_t i = 0; i < s->n * s->n; i++) {
                uint32_t next[] = { i / s->n * s->n + (i + 1) % s->n, (i + s->n) % (s->n * s->n) };

                for (unsigned k = 0; k < 2; k++) {
                        int64_t w = rng_below(r, 2) ? s->range : -s->range;

                        if (rng_below(r, 100) >= s->density)
                                continue;
                        e |= qubo_add_quadratic(b, i, next[k], 2 * w) | qubo_add_linear(b, i, -w) |
                             qubo_add_linear(b, next[k], -w);
                }
                e |= s->linear ? qubo_add_linear(b, i, model_coefficient(r, &any)) : 0;
        }
        return e < 0 ? e : qubo_build(b, ret);
}

static int make_assignment(const Shape *s, Rng *r, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t n = s->n, range = (uint32_t) s->range;
        int32_t *flow = calloc((size_t) n * n, sizeof(*flow)), *distance = calloc((size_t) n * n, sizeof(*distance));
        int e = qubo_builder_new(n * n, &b);

        for (uint32_t g = 0; g < n; g++) {
                e |= qubo_add_group(b, g * n, n);
                for (uint32_t h = 0; h < n; h++) {
                        bool mirror = s->kind == ASSIGNMENT && h < g;

                        flow[g * n + h] = (int32_t) rng_below(r, range);
                        distance[g * n + h] = (int32_t) rng_below(r, range);
                        if (mirror) {
                                flow[g * n + h] = flow[h * n + g];
                                distance[g * n + h] = distance[h * n + g];
                        }
                }
        }
        e |= qubo_set_permutation(b, flow, distance);
        return e < 0 ? e : qubo_build(b, ret);
}

static int make(const Shape *s, uint64_t seed, Qubo **ret) {
        const RandomShape groups = {
                .n_max = s->n, .n_groups = 20, .size_max = 4, .density = s->density, .range = s->range
        };
        const PlacementShape placement = {
                .ranks = s->n, .devices = s->n, .blocks = 4, .nodes = 4, .tp = 2, .pp = 2, .noise = 5
        };
        _cleanup_(qubo_freep) Qubo *rows = NULL;
        Rng r;

        rng_seed(&r, seed, 0);
        switch (s->kind) {
        case PLAIN: return make_plain(s, &r, ret);
        case LATTICE: return make_lattice(s, &r, ret);
        case GROUPED: return model_random(&r, &groups, ret);
        case PLACEMENT: return model_placement(&r, &placement, ret);
        case TABLED: return model_tables(&r, s->range, ret, &rows);
        case ASSIGNMENT:
        case ONE_WAY: return make_assignment(s, &r, ret);
        case MIXED: return model_permutation(&r, s->n, s->range, true, ret);
        }
        return -1;
}

#ifdef NO_NLOPT
static bool fits_none(const Qubo *q) {
        return false;
}

const Solver solver_qaoa = { .name = "qaoa", .help = "", .fits = fits_none };
#endif

/* FNV-1a */
static uint64_t hash(uint64_t h, const void *data, size_t size) {
        for (size_t i = 0; i < size; i++)
                h = (h ^ ((const uint8_t *) data)[i]) * UINT64_C(0x100000001b3);
        return h;
}

#define HASH_EMPTY UINT64_C(0xcbf29ce484222325)

static void run_solver(FILE *to, const Kernels *k, const Shape *s, const Qubo *q, const Solver *solver) {
        bool steps = solver == &solver_tabu || solver == &solver_permutation;
        SolveParams p = { .seed = 7, .sweeps = steps ? STEPS : SWEEPS, .kernels = k };
        SolveResult result = {};
        int r;

        if (!solver->fits(q))
                return;
        r = qubo_solve(q, solver, &p, &result);
        if (r < 0)
                fprintf(to, "%s %s: error %d\n", s->name, solver->name, r);
        else
                fprintf(to, "%s %s: energy %" PRId64 ", point %016" PRIx64 ", %" PRIu64 " sweeps, %" PRIu64 " flips\n",
                        s->name, solver->name, result.energy, hash(HASH_EMPTY, result.x, q->n), result.sweeps,
                        result.flips);
        solve_result_done(&result);
}

/* Amplitudes are single precision; all of them, after layers with small and large angles. */
static void run_state(FILE *to, const Kernels *k, const Shape *s, const Qubo *q) {
        static const double beta[] = { 0.6, 1.2, -0.4, 0.1 };
        const SolveParams p = { .seed = 7, .kernels = k };
        _cleanup_(qaoa_state_freep) QaoaState *state = NULL;
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);
        double gamma[ELEMENTSOF(beta)], expectation = 0, a[2];
        uint64_t h = HASH_EMPTY;
        QaoaShape shape;
        Limit l;
        Rng r;

        if (!qaoa_shape(q, &shape) || shape.amplitudes > AMPLITUDES_MAX)
                return;
        limit_init(&l, &p);
        rng_seed(&r, 7, 0);
        if (!x || qaoa_state_new(q, k, &l, &state) < 0)
                return;
        for (unsigned i = 0; i < ELEMENTSOF(beta); i++)
                gamma[i] = (0.2 + 0.3 * i) / (1 + qaoa_state_energies(state)->deviation);
        if (qaoa_run(state, ELEMENTSOF(beta), gamma, beta) < 0 || qaoa_expectation(state, &expectation) < 0)
                return;
        model_first_point(q, x);
        do {
                qaoa_amplitude(state, x, a);
                h = hash(h, a, sizeof(a));
        } while (model_next_point(q, x));
        for (unsigned i = 0; i < 100; i++) {
                size_t at = qaoa_sample(state, &r);

                h = hash(h, &at, sizeof(at));
        }
        fprintf(to, "%s state: expectation %a, amplitudes %016" PRIx64 "\n", s->name, expectation, h);
}

static bool run_all(FILE *to, const Kernels *k) {
        for (size_t i = 0; i < ELEMENTSOF(shapes); i++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                if (make(&shapes[i], i, &q) < 0) {
                        printf("# no model %s\n", shapes[i].name);
                        return false;
                }
                for (size_t j = 0; solvers[j]; j++)
                        if (solvers[j] != &solver_qaoa)
                                run_solver(to, k, &shapes[i], q, solvers[j]);
                run_state(to, k, &shapes[i], q);
        }
        return true;
}

static char *lines_of(const Kernels *k) {
        char *text = NULL;
        size_t size;
        FILE *to = open_memstream(&text, &size);
        bool ok = to && run_all(to, k);

        if (!to || fclose(to) != 0 || !ok) {
                free(text);
                return NULL;
        }
        return text;
}

/* The first line that is not the same in both. */
static void print_difference(const Kernels *k, const char *is, const char *plain) {
        size_t at = 0, line = 0;

        for (; is[at] == plain[at]; at++)
                if (is[at] == '\n')
                        line = at + 1;
        printf("# %s: %.*s\n", k->name, (int) strcspn(is + line, "\n"), is + line);
        printf("# plain: %.*s\n", (int) strcspn(plain + line, "\n"), plain + line);
}

static bool check(const Kernels *k, unsigned n, const char *plain) {
        _cleanup_free_ char *is = k->supported() ? lines_of(k) : NULL;
        bool ok = !k->supported() || (is && streq(is, plain));

        printf("%s %u - %s: all runs end like those of plain C", ok ? "ok" : "not ok", n, k->name);
        if (!k->supported())
                printf(" # SKIP %s: compiled, not run: this CPU lacks it", k->name);
        printf("\n");
        if (!ok && is)
                print_difference(k, is, plain);
        return ok;
}

int main(int argc, char *argv[]) {
        _cleanup_free_ char *plain = NULL;
        const Kernels *const *last = kernels_all;
        unsigned n = 0;
        bool ok = true;

        while (last[1])
                last++;
        plain = lines_of(*last);
        if (!plain)
                return 99;
        if (argc > 1 && streq(argv[1], "print"))
                return fputs(plain, stdout) < 0;
        for (const Kernels *const *k = kernels_all; k <= last; k++)
                ok = check(*k, ++n, plain) && ok;
        printf("1..%u\n", n);
        return !ok;
}
