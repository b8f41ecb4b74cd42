/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parallel tempering: replicas at a ladder of temperatures, each taking Metropolis sweeps at its own, exchanged with the
 * neighbours on the ladder, and on sparse models joined by cluster moves (pt-replicas.c has the formulas and papers). There
 * is no schedule and no end: it goes on as long as it may. A sweep offers one flip to each variable in every replica;
 * cluster moves are not counted, and the first sweep is of coins.
 *
 * The ladder begins geometric, from COLD times the spread of a flip's cost in random points over sqrt(n), or COLD_UNITS of
 * the least step of energies, to HOT times the spread; it is evened out at rounds 16, 32, 64 and so on. A round is a
 * few sweeps, more on small models, so that an exchange costs little beside them.
 *
 * What it offers: after each round the replica of least energy if that is the best so far, and every POLISH_EVERY-th a
 * descent from the coldest.
 *
 * Memory: that of pt-replicas.c and 9 bytes a variable.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/polish.h"
#include "policy/qubo/pt.h"

#define HOT 0.6
#define COLD 1.2
#define COLD_UNITS 0.1
#define SPARSE 12.0 /* mean degree; beyond, clusters are all that differs (Zhu, Ochoa, Katzgraber 2015) */
#define FIRST_ROUND 16U
#define POLISH_EVERY 16U
#define ROUND_VISITS 4096U
#define ROUNDS_LEAST 32U
#define STEPS_AT_ONCE 4096U
#define DEFAULT_VISITS UINT64_C(60000000) /* of blocks, to a variable each: about a second */

typedef struct Tempering {
        PtReplicas p;
        Best best;
        Limit limit;
        uint8_t *x;
        int64_t *field;
        uint64_t sweeps, rounds, flips;
} Tempering;

static void tempering_done(Tempering *t) {
        pt_done(&t->p);
        best_done(&t->best);
        free(t->x);
        free(t->field);
}

static int tempering_init(Tempering *t, const Qubo *q, const SolveParams *p) {
        double degree = q->n > 0 ? (double) q->row[q->n] / q->n : 0;
        int r;

        limit_init(&t->limit, p);
        t->x = calloc((size_t) q->n + 1, 1);
        t->field = calloc((size_t) q->n + 1, sizeof(*t->field));
        if (!t->x || !t->field)
                return -ENOMEM;
        r = best_init(&t->best, q, &t->limit);
        if (r < 0)
                return r;
        if (p->start)
                memcpy(t->x, p->start, q->n);
        else
                best_offer(&t->best, &t->limit, t->x, q->offset);
        return pt_init(&t->p, q, p->kernels ? p->kernels : kernels_best(), p->seed, degree <= SPARSE ? 2 : 1,
                       &t->limit);
}

static void set_ladder(PtReplicas *p) {
        const Rows *r = p->rows;
        double squares = 0, spread, cold, hot, t[PT_TEMPS_MAX];

        for (size_t k = 0; k < r->first[r->n]; k++)
                squares += (double) rows_weight(r, k) * rows_weight(r, k);
        spread = sqrt(squares / 4 / r->n);
        cold = fmax(COLD * spread / sqrt(r->n), COLD_UNITS);
        hot = fmax(HOT * spread, 2 * cold);
        for (unsigned k = 0; k < p->temps; k++)
                t[k] = cold * pow(hot / cold, (double) k / (p->temps - 1));
        pt_set_temperatures(p, t);
}

static bool sweep(Tempering *t) {
        PtReplicas *p = &t->p;
        const size_t *first = p->rows->first;
        uint32_t n = p->q->n;

        for (unsigned k = 0; k < p->blocks; k++)
                for (uint32_t from = 0, to = 0; from < n; from = to) {
                        do
                                to++;
                        while (to < n && 8 * (to - from) + (first[to + 1] - first[from]) <= STEPS_AT_ONCE);
                        (void) pt_sweep(p, k, from, to);
                        if (limit_work(&t->limit, 4 * (to - from) + (first[to] - first[from]) / 2))
                                return false;
                }
        t->sweeps++;
        t->flips += (uint64_t) n * p->blocks * p->lanes;
        return true;
}

static void offer_polished(Tempering *t) {
        polish(&t->best, &t->limit, t->x, t->field, &t->flips);
}

static void look(Tempering *t) {
        PtReplicas *p = &t->p;
        unsigned least = 0;
        int64_t energy;

        for (unsigned k = 1; k < p->blocks * p->lanes; k++)
                if (p->energy[k] < p->energy[least])
                        least = k;
        energy = p->q->offset + p->energy[least] * p->rows->unit;
        if (energy < t->best.energy) {
                pt_get(p, least, t->x);
                best_offer(&t->best, &t->limit, t->x, energy);
        }
        if (t->rounds % POLISH_EVERY == 0) {
                pt_get(p, p->at[0][0], t->x);
                offer_polished(t);
        }
}

static bool cluster_moves(Tempering *t) {
        for (unsigned k = 0; k < t->p.temps / 2; k++) {
                uint32_t changed = pt_cluster(&t->p, k);

                if (limit_work(&t->limit, t->p.q->n + 16 * (uint64_t) changed))
                        return false;
        }
        return true;
}

static void search(Tempering *t, uint64_t sweeps) {
        PtReplicas *p = &t->p;
        uint64_t length = 1 + MIN(ROUND_VISITS / p->q->n, sweeps / ROUNDS_LEAST), next = FIRST_ROUND;

        while (t->sweeps < sweeps && !limit_hit(&t->limit)) {
                for (uint64_t i = 0; i < length && t->sweeps < sweeps; i++)
                        if (!sweep(t))
                                return;
                if (p->sets > 1 && !cluster_moves(t))
                        return;
                pt_measure(p);
                look(t);
                pt_exchange(p, t->rounds % 2);
                if (++t->rounds == next) {
                        pt_even_out(p);
                        next *= 2;
                }
        }
}

/* From the coldest on. */
static void polish_all(Tempering *t) {
        for (unsigned k = 0; k < t->p.temps && !limit_hit(&t->limit); k++) {
                pt_get(&t->p, t->p.at[0][k], t->x);
                offer_polished(t);
        }
}

static int pt_solve(const Qubo *q, const SolveParams *params, SolveResult *ret) {
        _cleanup_(tempering_done) Tempering t = {};
        uint64_t sweeps = params->sweeps;
        int r;

        ret->solver = "pt";
        r = tempering_init(&t, q, params);
        if (r == -ECANCELED)
                return best_result(&t.best, ret);
        if (r < 0)
                return r;
        if (sweeps == 0)
                sweeps = t.limit.deadline == UINT64_MAX
                                 ? DEFAULT_VISITS / (t.p.blocks * (q->n + q->row[q->n] / 8 + (uint64_t) 1)) +
                                           FIRST_ROUND
                                 : UINT64_MAX;
        offer_polished(&t);
        if (q->n > 0 && sweep(&t)) {
                if (params->start)
                        pt_put(&t.p, t.p.at[0][0], t.x);
                set_ladder(&t.p);
                search(&t, sweeps);
                polish_all(&t);
        }
        ret->sweeps = t.sweeps;
        ret->flips = t.flips;
        return best_result(&t.best, ret);
}

const Solver solver_pt = {
        .name = "pt",
        .help = "Parallel tempering: replicas at a ladder of temperatures, exchanges and cluster moves",
        .fits = fits_all,
        .solve = pt_solve,
};
