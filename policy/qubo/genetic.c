/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solver genetic: a plain genetic algorithm (Holland 1975; Goldberg 1989), the baseline that others are compared with.
 * A gene is a group's choice or an ungrouped variable's bit. Parents win tournaments of two, children are crossed gene by
 * gene (uniform crossover, Syswerda 1989), in permutations by cycles (Oliver, Smith, Holland 1987), which gives an
 * assignment again; then each gene mutates with chance 1 / genes (in permutations: exchanges its place with another's).
 * The best two survive. There is no local search, and energies of children are computed in full.
 *
 * A sweep is a generation; flips counts children. Everything random follows from the seed. Memory: two generations of
 * at most POPULATION individuals and about GENES_MAX genes of 4 bytes each, 64 MiB in all, and 10 bytes a variable.
 */
#include <errno.h>

#include "policy/qubo/rng.h"
#include "policy/qubo/search.h"

#define POPULATION 100U
#define POPULATION_MIN 4U
#define GENES_MAX ((size_t) 8 << 20)
#define ELITISM 2U
#define CROSSED 58982U                   /* of 65536: 90 per cent of children, others are copies that mutate */
#define DEFAULT_WORK UINT64_C(300000000) /* in the units of limit_work(): about a second */
#define DEFAULT_GENERATIONS 20000U

typedef struct Genetic {
        const Qubo *q;
        Limit limit;
        Best best;
        Rng rng;
        uint32_t n;         /* genes: first those of groups */
        uint32_t *variable; /* of each gene: the first of the group, or the one that it is */
        uint32_t population;
        uint32_t *genes, *next; /* population x n */
        int64_t *energy, *next_energy;
        uint8_t *x;
        uint32_t *item_at; /* by place: the second parent's item there */
        bool *seen;
        uint64_t children;
} Genetic;

static uint32_t choices(const Genetic *g, uint32_t i) {
        return i < g->q->n_groups ? g->q->group_size[i] : 2;
}

/* The variable that gene i sets, or UINT32_MAX. */
static uint32_t held(const Genetic *g, const uint32_t *gene, uint32_t i) {
        if (i < g->q->n_groups)
                return g->variable[i] + gene[i];
        return gene[i] ? g->variable[i] : UINT32_MAX;
}

static int64_t rows_energy(const Genetic *g, uint32_t v) {
        const Qubo *q = g->q;
        int64_t e = q->linear[v];

        for (size_t k = q->row[v]; k < q->row[v + 1] && q->col[k] < v; k++)
                e += g->x[q->col[k]] ? q->val[k] : 0;
        return e;
}

/* Of group i with those before it. */
static int64_t groups_energy(const Genetic *g, const uint32_t *gene, uint32_t i) {
        const Qubo *q = g->q;
        size_t n = q->n_groups, c = gene[i];
        int64_t e = 0;

        for (uint32_t h = 0; q->table_of && h < i; h++) {
                uint32_t t = q->table_of[i * n + h];

                e += t > 0 ? q->tables[t - 1].w[c * q->tables[t - 1].cols + gene[h]] : 0;
        }
        for (uint32_t h = 0; q->flow && h < i; h++)
                e += (int64_t) q->flow[i * n + h] * q->distance[c * n + gene[h]] +
                     (int64_t) q->flow[h * n + i] * q->distance[gene[h] * n + c];
        return e;
}

/* False: the limit was hit on the way. */
static bool evaluate(Genetic *g, const uint32_t *gene, int64_t *ret) {
        const Qubo *q = g->q;
        int64_t e = q->offset;

        memset(g->x, 0, q->n);
        for (uint32_t i = 0; i < g->n; i++) {
                uint32_t v = held(g, gene, i);

                if (v != UINT32_MAX)
                        g->x[v] = 1;
        }
        for (uint32_t i = 0; i < g->n; i++) {
                uint32_t v = held(g, gene, i), groups = q->table_of || q->flow ? MIN(i, q->n_groups) : 0;

                if (v == UINT32_MAX)
                        continue;
                e += rows_energy(g, v) + (i < q->n_groups ? groups_energy(g, gene, i) : 0);
                if (limit_work(&g->limit, 1 + (q->row[v + 1] - q->row[v]) / 2 + groups))
                        return false;
        }
        *ret = e;
        best_offer(&g->best, &g->limit, g->x, e);
        return true;
}

static void randomise(Genetic *g, uint32_t *gene) {
        for (uint32_t i = 0; i < g->n; i++) {
                uint32_t j = g->q->permutation ? rng_below(&g->rng, i + 1) : 0;

                if (!g->q->permutation) {
                        gene[i] = rng_below(&g->rng, choices(g, i));
                        continue;
                }
                gene[i] = gene[j];
                gene[j] = i;
        }
}

static void read_start(const Genetic *g, const uint8_t *x, uint32_t *gene) {
        for (uint32_t i = 0; i < g->n; i++)
                if (i >= g->q->n_groups)
                        gene[i] = x[g->variable[i]] != 0;
                else
                        for (uint32_t c = 0; c < choices(g, i); c++)
                                if (x[g->variable[i] + c])
                                        gene[i] = c;
}

static const uint32_t *individual(const Genetic *g, uint32_t k) {
        return g->genes + (size_t) k * g->n;
}

static const uint32_t *parent(Genetic *g) {
        uint32_t a = rng_below(&g->rng, g->population), b = rng_below(&g->rng, g->population);

        return individual(g, g->energy[a] <= g->energy[b] ? a : b);
}

static void cross(Genetic *g, const uint32_t *a, const uint32_t *b, uint32_t *child) {
        uint64_t bits = 0;

        for (uint32_t i = 0; i < g->n; i++, bits >>= 1) {
                if (i % 64 == 0)
                        bits = rng_next(&g->rng);
                child[i] = bits & 1 ? a[i] : b[i];
        }
}

/* Items whose places are the same in both parents as a set: all of them from one parent. */
static void cross_cycles(Genetic *g, const uint32_t *a, const uint32_t *b, uint32_t *child) {
        for (uint32_t i = 0; i < g->n; i++) {
                g->item_at[b[i]] = i;
                g->seen[i] = false;
        }
        for (uint32_t i = 0; i < g->n; i++) {
                const uint32_t *from = g->seen[i] || rng_next(&g->rng) >> 63 ? a : b;

                for (uint32_t k = i; !g->seen[k]; k = g->item_at[a[k]]) {
                        g->seen[k] = true;
                        child[k] = from[k];
                }
        }
}

static void mutate(Genetic *g, uint32_t *child) {
        for (uint32_t i = 0; i < g->n; i++) {
                uint32_t j, x;

                if (rng_below(&g->rng, g->n) > 0)
                        continue;
                j = rng_below(&g->rng, g->q->permutation ? g->n : choices(g, i));
                x = child[i];
                child[i] = g->q->permutation ? child[j] : j;
                if (g->q->permutation)
                        child[j] = x;
        }
}

static bool breed(Genetic *g, uint32_t k) {
        uint32_t *child = g->next + (size_t) k * g->n;
        const uint32_t *a = parent(g), *b = parent(g);

        if (rng_next(&g->rng) >> 48 >= CROSSED)
                memcpy(child, a, g->n * sizeof(*child));
        else if (g->q->permutation)
                cross_cycles(g, a, b, child);
        else
                cross(g, a, b, child);
        mutate(g, child);
        g->children++;
        return !limit_work(&g->limit, g->n) && evaluate(g, child, &g->next_energy[k]);
}

/* The best ones, in front of the next generation. */
static void survive(Genetic *g) {
        uint32_t best[ELITISM] = {};

        for (uint32_t k = 1; k < g->population; k++)
                if (g->energy[k] < g->energy[best[0]])
                        best[0] = k;
        best[1] = best[0] == 0;
        for (uint32_t k = 0; k < g->population; k++)
                if (k != best[0] && g->energy[k] < g->energy[best[1]])
                        best[1] = k;
        for (uint32_t k = 0; k < ELITISM; k++) {
                memcpy(g->next + (size_t) k * g->n, individual(g, best[k]), g->n * sizeof(*g->next));
                g->next_energy[k] = g->energy[best[k]];
        }
}

static bool generation(Genetic *g) {
        uint32_t *genes = g->genes;
        int64_t *energy = g->energy;

        survive(g);
        for (uint32_t k = ELITISM; k < g->population; k++)
                if (!breed(g, k) || g->limit.hit)
                        return false;
        g->genes = g->next;
        g->energy = g->next_energy;
        g->next = genes;
        g->next_energy = energy;
        return true;
}

static bool populate(Genetic *g) {
        const uint8_t *start = g->limit.p->start;

        for (uint32_t k = 0; k < g->population; k++) {
                uint32_t *gene = g->genes + (size_t) k * g->n;

                if (start && k == 0)
                        read_start(g, start, gene);
                else
                        randomise(g, gene);
                if (!evaluate(g, gene, &g->energy[k]) || g->limit.hit)
                        return false;
        }
        return true;
}

static int genetic_init(Genetic *g) {
        const Qubo *q = g->q;
        uint32_t n = 0;

        g->variable = calloc((size_t) q->n + 1, sizeof(*g->variable));
        g->x = calloc((size_t) q->n + 1, 1);
        if (!g->variable || !g->x)
                return -ENOMEM;
        for (uint32_t k = 0; k < q->n_groups; k++)
                g->variable[n++] = q->group_first[k];
        for (uint32_t v = 0; v < q->n; v++)
                if (q->group_of[v] == QUBO_NO_GROUP)
                        g->variable[n++] = v;
        g->n = n;
        g->population = (uint32_t) MIN(MAX(GENES_MAX / MAX(n, 1U), POPULATION_MIN), POPULATION);
        g->genes = calloc((size_t) g->population * n + 1, sizeof(*g->genes));
        g->next = calloc((size_t) g->population * n + 1, sizeof(*g->next));
        g->energy = calloc(g->population, sizeof(*g->energy));
        g->next_energy = calloc(g->population, sizeof(*g->next_energy));
        g->item_at = calloc((size_t) n + 1, sizeof(*g->item_at));
        g->seen = calloc((size_t) n + 1, sizeof(*g->seen));
        if (!g->genes || !g->next || !g->energy || !g->next_energy || !g->item_at || !g->seen)
                return -ENOMEM;
        return best_init(&g->best, q, &g->limit);
}

static void genetic_done(Genetic *g) {
        free(g->variable);
        free(g->genes);
        free(g->next);
        free(g->energy);
        free(g->next_energy);
        free(g->x);
        free(g->item_at);
        free(g->seen);
        best_done(&g->best);
}

/* Generations of about a second. */
static uint64_t default_sweeps(const Genetic *g) {
        const Qubo *q = g->q;
        uint64_t pairs = q->table_of || q->flow ? (uint64_t) q->n_groups * q->n_groups : 0;
        uint64_t work = (q->row[q->n] * (g->n + 1) / (q->n + 1) + pairs) / 2 + 4 * (uint64_t) g->n + 20;

        return MIN(DEFAULT_WORK / (work * g->population) + 1, DEFAULT_GENERATIONS);
}

static int genetic_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(genetic_done) Genetic g = { .q = q };
        uint64_t sweeps = p->sweeps;
        int r;

        limit_init(&g.limit, p);
        r = genetic_init(&g);
        if (r < 0)
                return r;
        if (sweeps == 0)
                sweeps = p->clock && p->budget_usec > 0 ? UINT64_MAX : default_sweeps(&g);
        rng_seed(&g.rng, p->seed, 0);
        if (populate(&g))
                while (ret->sweeps < sweeps && g.n > 0 && generation(&g))
                        ret->sweeps++;
        ret->flips = g.children;
        ret->solver = "genetic";
        return best_result(&g.best, ret);
}

const Solver solver_genetic = {
        .name = "genetic",
        .help = "A plain genetic algorithm with uniform or cycle crossover, without local search: a baseline",
        .fits = fits_all,
        .knows = MODEL_GROUPS | MODEL_TABLES | MODEL_PERMUTATION,
        .solve = genetic_solve,
};
