/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Solver "qaoa": a simulated quantum approximate optimisation algorithm (Farhi, Goldstone, Gutmann 2014, arXiv 1411.4028;
 * one-hot groups by the XY mixers that qaoa-state.h tells of). The state vector is simulated exactly, layer by layer; as on a
 * device, only the expectation of the energy guides the angles and only points that were drawn from the state count. They
 * are not improved by descent. The simulation knows all energies, and so the optimum, and makes no use of that.
 *
 * A round has a number of layers to spend. It looks at schedules of 1, 2, 4, ... layers once each, so that a short time
 * sees something, and tunes the deepest: first the two numbers of a linear ramp, then the course at two and at three points.
 * Measured on random models of 10 to 18 qubits and of 4 to 9 groups (bench-qaoa quality), twice the depth gains as much
 * as tuning does, and three points of the course nearly as much as all angles of their own: so depth comes first, up to
 * LAYERS_MAX. Each round may spend twice as many layers as the one before, and begins near the usual ramp. After each
 * evaluation points are drawn, as many as take a small part of its time.
 *
 * A sweep is a layer; flips are amplitudes times dimensions. Memory: see qaoa-state.h; fits() is that. Angles: O(layers).
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/qaoa-state.h"

#define LAYERS_MAX 64U
#define LAYERS_PER_DEPTH 4U               /* so many of a round's for each of the deepest schedule */
#define COST_DEFAULT UINT64_C(6000000000) /* about a second */
#define LAYERS_DEFAULT 2000U              /* at most */
#define WORK_PER_SHOT UINT64_C(40000)
#define SHOTS_MIN 16U
#define SHOTS_MAX 4096U
#define SHOTS_LAST 1024U /* of the best schedule of a round, at least */
#define RAMP_EVALUATIONS 8U
#define KNOT_EVALUATIONS 12U /* for each point of the course */
#define EXACT_FLOAT 0x1p24F  /* whole numbers up to this are told apart */

typedef struct Run {
        QaoaState *s;
        Best *best;
        Limit *limit;
        Rng rng;
        uint8_t *x;
        float least; /* of the points drawn, above the least of all */
} Run;

static void offer(Run *r, size_t at) {
        float above = qaoa_above(r->s, at);

        if (above > r->least || (above == r->least && above < EXACT_FLOAT))
                return;
        r->least = above;
        qaoa_point(r->s, at, r->x);
        best_offer(r->best, r->limit, r->x, qubo_energy(r->best->q, r->x));
}

static bool draw(Run *r, uint64_t shots) {
        for (uint64_t i = 0; i < shots && !r->limit->hit; i++) {
                offer(r, qaoa_sample(r->s, &r->rng));
                (void) limit_work(r->limit, 256);
        }
        return !r->limit->hit;
}

static bool evaluated(QaoaSearch *search, const QaoaAngles *a) {
        Run *r = search->userdata;
        const QaoaShape *h = qaoa_state_shape(r->s);

        return draw(r, MAX(MIN(h->amplitudes * h->n_dims * a->layers / WORK_PER_SHOT, SHOTS_MAX), SHOTS_MIN));
}

/* A point of the state before the first layer: any of all. */
static void draw_first(Run *r) {
        const Qubo *q = r->best->q;

        if (r->best->energy != INT64_MAX)
                return;
        for (uint32_t v = 0; v < q->n; v++)
                r->x[v] = q->group_of[v] == QUBO_NO_GROUP && rng_next(&r->rng) >> 63;
        for (uint32_t g = 0; g < q->n_groups; g++)
                r->x[q->group_first[g] + rng_below(&r->rng, q->group_size[g])] = 1;
        best_offer(r->best, r->limit, r->x, qubo_energy(q, r->x));
}

static bool tune(QaoaSearch *q, QaoaAngles *a) {
        if (!qaoa_optimise_ramp(q, a, RAMP_EVALUATIONS))
                return false;
        for (unsigned knots = 2; knots <= MIN(a->layers, 3U); knots++)
                if (!qaoa_optimise(q, a, knots, KNOT_EVALUATIONS * knots))
                        return false;
        return true;
}

/* False: the limit has been hit. */
static bool run_round(Run *r, uint64_t layers, uint64_t *left, double stretch) {
        uint64_t given = MIN(layers, *left);
        QaoaSearch search = { .s = r->s, .evaluated = evaluated, .userdata = r, .layers_left = given };
        QaoaAngles a;
        unsigned depth = 1;

        while (depth < LAYERS_MAX && 2 * depth * LAYERS_PER_DEPTH <= given) {
                qaoa_ramp(r->s, depth, stretch, &a);
                if (!qaoa_evaluate(&search, &a))
                        break;
                depth *= 2;
        }
        qaoa_ramp(r->s, depth, stretch, &a);
        if (tune(&search, &a) && qaoa_evaluate(&search, &a))
                (void) draw(r, SHOTS_LAST);
        *left -= given - search.layers_left;
        return !r->limit->hit;
}

/* About .1 ns each: of an amplitude and qubit; a group's mixer and the phase cost as much as several. */
static uint64_t layer_cost(const QaoaShape *h) {
        uint64_t cost = 8;

        for (unsigned i = 0; i < h->n_dims; i++)
                cost += h->dims[i].size == 2 ? 1 : 4;
        return cost * h->amplitudes;
}

static void run(Run *r, const SolveParams *p, bool timed) {
        uint64_t usual = MAX(MIN(COST_DEFAULT / layer_cost(qaoa_state_shape(r->s)), LAYERS_DEFAULT), 8U), before;
        uint64_t left = p->sweeps > 0 ? p->sweeps : timed ? UINT64_MAX : usual, layers = usual;
        double stretch = 1;

        /* All points alike: the first is as good as any. */
        if (qaoa_state_energies(r->s)->deviation <= 0)
                return;
        do {
                before = left;
                if (!run_round(r, layers, &left, stretch))
                        return;
                layers = layers <= UINT64_MAX / 2 ? 2 * layers : layers;
                stretch = 0.6 + (double) (rng_next(&r->rng) >> 11) * 0x1p-53;
        } while (left > 0 && left < before);
}

static int qaoa_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(qaoa_state_freep) QaoaState *s = NULL;
        _cleanup_(best_done) Best best = {};
        _cleanup_free_ uint8_t *x = calloc((size_t) q->n + 1, 1);
        Run r = { .best = &best, .x = x, .least = INFINITY };
        Limit l;
        int e;

        if (!x)
                return -ENOMEM;
        limit_init(&l, p);
        r.limit = &l;
        rng_seed(&r.rng, p->seed, 0);
        e = best_init(&best, q, &l);
        if (e < 0)
                return e;
        draw_first(&r);
        if (!limit_hit(&l)) {
                e = qaoa_state_new(q, p->kernels ? p->kernels : kernels_best(), &l, &s);
                r.s = s;
                if (e >= 0)
                        run(&r, p, l.deadline != UINT64_MAX);
                else if (e != -ECANCELED)
                        return e;
        }
        if (s) {
                ret->sweeps = qaoa_state_layers(s);
                ret->flips = qaoa_state_work(s);
        }
        ret->solver = "qaoa";
        return best_result(&best, ret);
}

static bool qaoa_fits(const Qubo *q) {
        QaoaShape s;

        return qaoa_shape(q, &s);
}

const Solver solver_qaoa = {
        .name = "qaoa",
        .help = "Simulated QAOA: state vector of up to 24 qubits or 2^24 one-hot choices; points drawn, no descent",
        .fits = qaoa_fits,
        .knows = MODEL_GROUPS,
        .solve = qaoa_solve,
};
