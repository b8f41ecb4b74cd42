/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Path relinking (Wang, Lu, Glover, Hao 2012, "Path relinking for unconstrained binary quadratic programming"): an elite
 * of good points, made by tabu search from random ones; then again and again two of them, a walk from one towards the
 * other that always flips the best of the variables in which they differ, and tabu search from a point well between the
 * two. What comes out replaces the worst of the elite if it is better and not there yet. When nothing has been
 * replaced for a long time a new and larger elite begins, around the best point.
 *
 * Where a point and its complement have the same energy always (a cut), the complement stands for a point that is nearer.
 */
#include <errno.h>

#include "policy/qubo/tabu.h"

#define ELITE_FIRST 10U
#define ELITE 20U                /* after the first round */
#define FAILURES 2U              /* in a row, of relinking, times the elite, before a new one */
#define PATIENCE_PER_VARIABLE 2U /* steps */
#define PATIENCE_LEAST 100U

typedef struct Elite {
        Tabu *t;
        uint32_t n;
        uint32_t size, most; /* points */
        uint8_t *x;          /* ELITE points, and one more that is being made */
        int64_t energy[ELITE];
        uint64_t patience;
        bool symmetric; /* complements are the same */
} Elite;

static uint8_t *point(const Elite *e, uint32_t k) {
        return e->x + (size_t) k * e->n;
}

static bool is_symmetric(Tabu *t) {
        const Qubo *q = t->q;

        for (uint32_t i = 0; i < q->n; i++) {
                int64_t sum = 2 * (int64_t) q->linear[i];

                for (size_t k = q->row[i]; k < q->row[i + 1]; k++)
                        sum += q->val[k];
                if (sum != 0 || limit_work(&t->limit, q->row[i + 1] - q->row[i]))
                        return false;
        }
        return true;
}

/* Between two points; b becomes its complement where that is nearer and the same. */
static uint32_t distance(const Elite *e, const uint8_t *a, uint8_t *b) {
        uint32_t d = 0;

        for (uint32_t i = 0; i < e->n; i++)
                d += a[i] ^ b[i];
        if (!e->symmetric || d <= e->n / 2)
                return d;
        for (uint32_t i = 0; i < e->n; i++)
                b[i] ^= 1;
        return e->n - d;
}

/* Takes the new point (number ELITE) in; false: it is not better than the worst, or there already. */
static bool elite_offer(Elite *e, int64_t energy) {
        uint32_t worst = 0;

        for (uint32_t k = 0; k < e->size; k++) {
                if (e->energy[k] == energy && distance(e, point(e, k), point(e, ELITE)) == 0)
                        return false;
                if (e->energy[k] > e->energy[worst])
                        worst = k;
        }
        if (e->size < e->most)
                worst = e->size++;
        else if (energy >= e->energy[worst])
                return false;
        memcpy(point(e, worst), point(e, ELITE), e->n);
        e->energy[worst] = energy;
        return true;
}

static int improve(Elite *e, bool *ret_taken) {
        int64_t energy;
        int r = tabu_improve(e->t, e->patience, point(e, ELITE), &energy);

        if (r < 0)
                return r;
        *ret_taken = energy != INT64_MAX && elite_offer(e, energy);
        return 0;
}

/* Random points, but for a start; a small model has fewer good ones than ELITE. */
static int fill(Elite *e, Rng *rng, const uint8_t *start) {
        uint8_t *x = point(e, ELITE);
        bool taken;
        int r;

        for (uint32_t tries = 0; e->size < e->most && tries < 2 * e->most && !tabu_over(e->t); tries++) {
                for (uint32_t i = 0; i < e->n; i++)
                        x[i] = rng_next(rng) >> 63;
                r = tabu_walk_to(e->t, start ?: x);
                if (r >= 0)
                        r = improve(e, &taken);
                if (r < 0)
                        return r;
                start = NULL;
        }
        return 0;
}

/* From one to between a third and half of the way to the other. */
static int walk_between(Elite *e, uint32_t from, uint32_t to, uint32_t flips) {
        const uint8_t *x = e->t->w.x, *aim = point(e, to);
        uint32_t i;
        int r = tabu_walk_to(e->t, point(e, from));

        if (r < 0)
                return r;
        tabu_open_all(e->t);
        for (uint32_t k = 0; k < e->n; k++)
                if (x[k] == aim[k])
                        tabu_close(e->t, k);
        e->t->w.aspired = INT64_MIN;
        i = tabu_look(e->t);
        while (i != TABU_NONE && flips-- > 0 && !tabu_over(e->t)) {
                r = tabu_step(e->t, i, 0, &i);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int relink(Elite *e, Rng *rng, bool *ret_taken) {
        uint32_t from = rng_below(rng, e->size), to = (from + 1 + rng_below(rng, e->size - 1)) % e->size;
        uint32_t d = distance(e, point(e, from), point(e, to));
        int r;

        r = walk_between(e, from, to, d / 3 + rng_below(rng, d / 2 - d / 3 + 1));
        return r < 0 ? r : improve(e, ret_taken);
}

/* Of the elite only the best stays. */
static void begin_anew(Elite *e, uint64_t round) {
        uint32_t best = 0;

        for (uint32_t k = 1; k < e->size; k++)
                if (e->energy[k] < e->energy[best])
                        best = k;
        if (e->size > 0 && best > 0) {
                memcpy(point(e, 0), point(e, best), e->n);
                e->energy[0] = e->energy[best];
        }
        e->size = MIN(e->size, 1U);
        e->most = round == 0 ? ELITE_FIRST : ELITE;
        e->patience = PATIENCE_PER_VARIABLE * (uint64_t) e->n + PATIENCE_LEAST;
}

int relink_search(Tabu *t, uint64_t seed) {
        Elite e = { .t = t, .n = t->w.n, .symmetric = is_symmetric(t) };
        _cleanup_free_ uint8_t *x = calloc(ELITE + 1, e.n);
        const uint8_t *start = t->limit.p->start ?: t->w.x; /* zeros: soon at something good, if time is short */
        Rng rng;

        e.x = x;
        if (!x)
                return -ENOMEM;
        rng_seed(&rng, seed, 0);
        t->w.random = rng_next(&rng);
        for (uint64_t round = 0; !tabu_over(t); round++) {
                int r;

                begin_anew(&e, round);
                r = fill(&e, &rng, start);
                start = NULL;
                for (uint32_t failures = 0; r >= 0 && e.size > 1 && failures < FAILURES * e.most && !tabu_over(t);) {
                        bool taken = false;

                        r = relink(&e, &rng, &taken);
                        failures = taken ? 0 : failures + 1;
                }
                if (r < 0)
                        return r;
        }
        return 0;
}
