/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated annealing of models without groups. Time is spent in runs, each from random points, cooling linearly between
 * temperatures read off the model's weights and ending in a descent; short runs first, then longer ones, so that an easy
 * model is done early and a hard one gets its long runs. A sweep offers one flip to each variable in every replica.
 *
 * The spread of a variable's cost over random points, sigma, is the scale: runs begin at HOT sigma, near where a spin glass
 * freezes (dense models gain from colder and so cheaper runs: what passes is what costs time there), and the lowest excitations of n variables are near sigma / sqrt(n) (the density
 * of local fields vanishes linearly at zero) or where coefficients are few, at their unit.
 *
 * Which method: estimated cycles for an offered flip. Lanes: compare and add one vector for each neighbour, whatever
 * passes; dense: a whole row, but only for what passes.
 */
#include "policy/qubo/anneal.h"

#include <errno.h>
#include <math.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/multispin.h"

#define HOT 0.4
#define HOT_DENSE 0.15
#define COLD 1.0
#define COLD_UNITS 0.12
#define FIRST_SWEEPS 128U /* of the first run, less for less than so many variables: */
#define FIRST_VARIABLES 768U
#define RUNS_PER_LENGTH 1U
#define LOOK_FROM 0.7 /* of a run: from here on every sweep's best is looked at */
#define STEPS_AT_ONCE 8192U
#define DENSE_BYTES_MAX ((size_t) 1 << 30)
#define PASSES 0.06 /* of the flips offered in a run, typically */
#define DESCENT_SWEEPS 20U
#define COIN_SWEEPS 2.0 /* the sweep that makes a random point, in others' time */

typedef struct Anneal {
        const AnnealMethod *method;
        AnnealState *state;
        Best best;
        Limit limit;
        double hot, cold;
        double sweep_usec; /* in the run before; 0: unknown */
        uint64_t sweeps;
} Anneal;

float *anneal_logs(uint64_t seed) {
        float *logs = calloc(ANNEAL_DRAWS + ANNEAL_LANES_MAX, sizeof(*logs));
        Rng rng;

        if (!logs)
                return NULL;
        rng_seed(&rng, seed, UINT64_MAX);
        for (uint32_t i = 0; i < ANNEAL_DRAWS; i++) {
                uint32_t j = rng_below(&rng, i + 1);

                logs[i] = logs[j];
                logs[j] = (float) -log((i + 0.5) / ANNEAL_DRAWS);
        }
        memcpy(logs + ANNEAL_DRAWS, logs, ANNEAL_LANES_MAX * sizeof(*logs));
        return logs;
}

/* The spread of costs, in units, of all variables together. */
static double spread(const Rows *r) {
        double sum = 0;

        for (uint32_t i = 0; i < r->n; i++) {
                size_t n = r->first[i + 1] - r->first[i];

                if (r->same[i] != 0)
                        sum += (double) n * r->same[i] * r->same[i];
                else
                        for (size_t k = r->first[i]; k < r->first[i + 1]; k++)
                                sum += (double) rows_weight(r, k) * rows_weight(r, k);
        }
        return r->n > 0 ? sqrt(sum / 4 / r->n) : 0;
}

static void set_temperatures(Anneal *a, const Rows *r) {
        double sigma = spread(r);

        a->cold = fmax(COLD * sigma / sqrt(r->n + 1.0), COLD_UNITS);
        a->hot = fmax((a->method == &anneal_dense ? HOT_DENSE : HOT) * sigma, 1.5 * a->cold);
}

static const AnnealMethod *choose_method(const Rows *r) {
        unsigned dense_lanes;
        size_t bytes = anneal_dense_size(r, &dense_lanes);
        double degree = r->n > 0 ? (double) r->first[r->n] / r->n : 0;
        double lanes = (12 + 0.85 * degree) / anneal_lanes(r);
        double dense = PASSES * (30 + 1.3 * r->n / dense_lanes) + 2.0 / dense_lanes;

        if (multispin_fits(r))
                return &anneal_multispin;
        return bytes <= DENSE_BYTES_MAX && dense < lanes ? &anneal_dense : &anneal_by_lanes;
}

/* Tells whether it went to the end, and if anything has passed. */
static bool sweep(Anneal *a, bool *ret_changed) {
        uint32_t units = a->state->units, step = MAX(STEPS_AT_ONCE / a->state->work, 1U);
        bool changed = false;

        for (uint32_t from = 0; from < units;) {
                uint32_t to = units - from > step ? from + step : units;

                changed |= a->method->sweep(a->state, from, to) > 0;
                if (limit_work(&a->limit, (uint64_t) (to - from) * a->state->work))
                        return false;
                from = to;
        }
        a->sweeps++;
        if (ret_changed)
                *ret_changed = changed;
        return true;
}

static void descend(Anneal *a) {
        bool changed = true;

        a->method->cool(a->state, 0);
        for (unsigned i = 0; i < DESCENT_SWEEPS && changed; i++)
                if (!sweep(a, &changed))
                        return;
}

/* A run that the clock would cut is made shorter, one that would leave too little for the next takes all there is. */
static uint64_t fit_length(const Anneal *a, uint64_t length) {
        uint64_t left = limit_left(&a->limit);
        double most = left == UINT64_MAX || a->sweep_usec <= 0 ? HUGE_VAL : 0.95 * (double) left / a->sweep_usec;

        return most > 2.5 * (double) length ? length : (uint64_t) fmax(most, 1);
}

static void run(Anneal *a, uint64_t seed, uint64_t stream, uint64_t length) {
        uint64_t start = limit_left(&a->limit), before = a->sweeps, every;
        bool whole;

        a->method->scatter(a->state, seed, stream);
        whole = sweep(a, NULL);
        if (start != UINT64_MAX) {
                if (stream == 0)
                        a->sweep_usec = (double) (start - limit_left(&a->limit)) / COIN_SWEEPS;
                length = fit_length(a, length);
        }
        every = length / 64 + 1;
        for (uint64_t i = 0; i < length && whole; i++) {
                if (i % every == 0)
                        a->method->cool(a->state,
                                        a->hot + (a->cold - a->hot) * (double) i / fmax((double) length - 1, 1));
                whole = sweep(a, NULL);
                if ((double) i >= LOOK_FROM * (double) length && i % a->state->look_every == 0)
                        a->method->offer(a->state, &a->best, &a->limit);
        }
        if (whole)
                descend(a);
        a->method->offer(a->state, &a->best, &a->limit);
        if (start != UINT64_MAX)
                a->sweep_usec = (double) (start - limit_left(&a->limit)) / (double) (a->sweeps - before + 1);
}

static void anneal(Anneal *a, uint64_t seed, uint64_t left) {
        uint64_t n = a->best.q->n, first = MAX(MIN(n * FIRST_SWEEPS / FIRST_VARIABLES, FIRST_SWEEPS), FIRST_SWEEPS / 8);

        for (uint64_t i = 0; left > 0 && !limit_hit(&a->limit); i++) {
                uint64_t before = a->sweeps, length = MIN(left, first << MIN(i / RUNS_PER_LENGTH, 30U));

                run(a, seed, i, left - length < length ? left : length);
                left -= MIN(left, a->sweeps - before);
        }
}

static void anneal_done(Anneal *a) {
        if (a->state)
                a->method->free(a->state);
        best_done(&a->best);
}

static uint64_t default_sweeps(const AnnealState *s) {
        return MAX(MIN(UINT64_C(50000000) / ((uint64_t) s->units * s->work + 1), 4000U), 20U);
}

int anneal_by(const AnnealMethod *method, const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(rows_freep) Rows *rows = NULL;
        _cleanup_(anneal_done) Anneal a = {};
        _cleanup_free_ uint8_t *zeros = calloc((size_t) q->n + 1, 1);
        uint64_t sweeps = p->sweeps;
        int r;

        limit_init(&a.limit, p);
        r = zeros ? best_init(&a.best, q, &a.limit) : -ENOMEM;
        if (r < 0)
                return r;
        best_offer(&a.best, &a.limit, zeros, q->offset);
        ret->solver = "sa";
        r = rows_new_within(q, &a.limit, &rows);
        if (r == -ECANCELED)
                return best_result(&a.best, ret);
        if (r < 0)
                return r;
        a.method = method ?: choose_method(rows);
        set_temperatures(&a, rows);
        r = a.method->new (q, rows, p->kernels ? p->kernels : kernels_best(), p->seed, &a.limit, &a.state);
        if (r < 0)
                return r;
        if (sweeps == 0)
                sweeps = a.limit.deadline == UINT64_MAX ? default_sweeps(a.state) : UINT64_MAX;
        if (q->n > 0)
                anneal(&a, p->seed, sweeps);
        ret->sweeps += a.sweeps;
        ret->flips += a.sweeps * a.state->replicas * q->n;
        return best_result(&a.best, ret);
}

int anneal_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        return anneal_by(NULL, q, p, ret);
}
