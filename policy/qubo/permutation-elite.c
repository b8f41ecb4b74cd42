/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What drives the tabu walks over permutations: a population of good ones and crossover (Benlic, Hao 2015, "Memetic
 * search for the quadratic assignment problem", with the walk of Taillard in place of breakout local search). A child
 * keeps what its parents agree in, has each other item from one of them where that place is still free, and the rest at
 * random; a walk improves it, and it takes the place of the worst if it is better and none is the same. When nothing better
 * comes of a population any more, it is given up but for one, and the walks of the next are twice as long, so that landscapes without structure get long ones.
 */
#include <errno.h>

#include "policy/qubo/permutation.h"

#define ELITES 15U
#define TOURNAMENT 4U
#define PATIENCE 30U     /* steps without a better cost, times n, of the first population */
#define PATIENCE_MAX 64U /* times the first */
#define BARREN 30U       /* children in a row that were no better than the best */

typedef struct Elite {
        Permutation *t;
        Rng rng;
        uint32_t *place[ELITES + 1]; /* the last: the child */
        int64_t energy[ELITES + 1];
        unsigned n;
        uint32_t *free; /* places and items that are left, n each */
        bool *taken;
        uint64_t patience;
} Elite;

static void shuffle(Elite *e, uint32_t *p, uint32_t n) {
        for (uint32_t i = n; i > 1; i--) {
                uint32_t j = rng_below(&e->rng, i), x = p[i - 1];

                p[i - 1] = p[j];
                p[j] = x;
        }
}

static void random_places(Elite *e, uint32_t *p) {
        for (uint32_t i = 0; i < e->t->w.n; i++)
                p[i] = i;
        shuffle(e, p, e->t->w.n);
}

static bool same(const Elite *e, unsigned a, unsigned b) {
        return e->energy[a] == e->energy[b] && memcmp(e->place[a], e->place[b], e->t->w.n * sizeof(*e->place[a])) == 0;
}

static void swap_elites(Elite *e, unsigned a, unsigned b) {
        uint32_t *p = e->place[a];
        int64_t x = e->energy[a];

        e->place[a] = e->place[b];
        e->energy[a] = e->energy[b];
        e->place[b] = p;
        e->energy[b] = x;
}

static unsigned worst(const Elite *e) {
        unsigned w = 0;

        for (unsigned k = 1; k < e->n; k++)
                if (e->energy[k] > e->energy[w])
                        w = k;
        return w;
}

static unsigned best(const Elite *e) {
        unsigned b = 0;

        for (unsigned k = 1; k < e->n; k++)
                if (e->energy[k] < e->energy[b])
                        b = k;
        return b;
}

/* The child, which is behind the last, joins or not. */
static void admit(Elite *e) {
        unsigned w;

        for (unsigned k = 0; k < e->n; k++)
                if (same(e, k, ELITES))
                        return;
        if (e->n < ELITES) {
                swap_elites(e, e->n++, ELITES);
                return;
        }
        w = worst(e);
        if (e->energy[ELITES] < e->energy[w])
                swap_elites(e, w, ELITES);
}

static unsigned parent(Elite *e) {
        unsigned best = rng_below(&e->rng, e->n);

        for (unsigned k = 1; k < TOURNAMENT; k++) {
                unsigned other = rng_below(&e->rng, e->n);

                if (e->energy[other] < e->energy[best])
                        best = other;
        }
        return best;
}

static void take(Elite *e, uint32_t *child, uint32_t i, uint32_t place) {
        child[i] = place;
        e->taken[place] = true;
}

static void cross(Elite *e, const uint32_t *a, const uint32_t *b, uint32_t *child) {
        uint32_t n = e->t->w.n, left = 0, places = 0;

        memset(e->taken, 0, n * sizeof(*e->taken));
        for (uint32_t i = 0; i < n; i++) {
                child[i] = UINT32_MAX;
                if (a[i] == b[i])
                        take(e, child, i, a[i]);
        }
        for (uint32_t i = 0; i < n; i++) {
                uint32_t first = rng_next(&e->rng) >> 63 ? a[i] : b[i], second = first == a[i] ? b[i] : a[i];

                if (child[i] == UINT32_MAX && !e->taken[first])
                        take(e, child, i, first);
                else if (child[i] == UINT32_MAX && !e->taken[second])
                        take(e, child, i, second);
        }
        for (uint32_t c = 0; c < n; c++)
                if (!e->taken[c])
                        e->free[places++] = c;
        shuffle(e, e->free, places);
        for (uint32_t i = 0; i < n; i++)
                if (child[i] == UINT32_MAX)
                        child[i] = e->free[left++];
}

static void improve(Elite *e) {
        uint32_t *child = e->place[ELITES];

        permutation_load(e->t, child);
        e->energy[ELITES] = permutation_tabu(e->t, e->patience, child);
        admit(e);
}

/* One child; whether it is better than all. */
static bool breed(Elite *e) {
        unsigned a = parent(e), b = parent(e);
        int64_t before = e->energy[best(e)];

        for (unsigned k = 0; a == b && k < ELITES; k++)
                b = parent(e);
        if (a == b)
                random_places(e, e->place[ELITES]);
        else
                cross(e, e->place[a], e->place[b], e->place[ELITES]);
        improve(e);
        return e->energy[best(e)] < before;
}

static void populate(Elite *e) {
        for (unsigned tries = 0; e->n < ELITES && tries < 2 * ELITES && !permutation_over(e->t); tries++) {
                random_places(e, e->place[ELITES]);
                improve(e);
        }
}

static int elite_init(Elite *e) {
        const uint32_t n = e->t->w.n;
        bool made = true;

        for (unsigned k = 0; k <= ELITES; k++)
                made = made && (e->place[k] = calloc((size_t) n + 1, sizeof(*e->place[k])));
        e->free = calloc((size_t) n + 1, sizeof(*e->free));
        e->taken = calloc((size_t) n + 1, sizeof(*e->taken));
        return made && e->free && e->taken ? 0 : -ENOMEM;
}

static void elite_done(Elite *e) {
        for (unsigned k = 0; k <= ELITES; k++)
                free(e->place[k]);
        free(e->free);
        free(e->taken);
}

static void start_from(Elite *e, const uint8_t *x) {
        uint32_t n = e->t->w.n;

        for (uint32_t v = 0; x && v < n * n; v++)
                if (x[v])
                        e->place[ELITES][v / n] = v % n;
        if (x)
                improve(e);
}

int permutation_search(Permutation *t, uint64_t seed) {
        _cleanup_(elite_done) Elite e = { .t = t };
        uint64_t factor = 1;
        int r = elite_init(&e);

        if (r < 0)
                return r;
        rng_seed(&e.rng, seed, 0);
        t->w.random = rng_next(&e.rng);
        e.patience = PATIENCE * (uint64_t) t->w.n;
        start_from(&e, t->limit.p->start);
        while (!permutation_over(t)) {
                populate(&e);
                for (unsigned barren = 0; barren < BARREN && e.n > 0 && !permutation_over(t);)
                        barren = breed(&e) ? 0 : barren + 1;
                e.n = 0;
                if (factor < PATIENCE_MAX)
                        factor *= 2;
                e.patience = factor * PATIENCE * t->w.n;
        }
        return 0;
}
