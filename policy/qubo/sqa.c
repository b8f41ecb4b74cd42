/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated quantum annealing: an ordinary Monte Carlo program that imitates a quantum annealer by path integrals. Nothing
 * here is quantum hardware.
 *
 * The Hamiltonian is H = E(z) - Gamma sum_i sigma^x_i, E the model on spins z = 1 - 2 x, at temperature T. P Suzuki-Trotter
 * slices (Martonak, Santoro, Tosatti 2002, section II; Heim, Ronnow, Isakov, Troyer 2015) turn it into P classical copies
 * on a ring in imaginary time, with the weight
 *   exp(-[sum_k E(s_k) - c sum_k sum_i s_k,i s_k+1,i] / (P T)),  c = -(P T / 2) ln tanh(Gamma / (P T)),
 * so that a flip in slice k passes with min(1, exp(-[dE + 2 c s (s_before + s_after)] / (P T))). P is 32, or 16 where fields
 * need 32 bits (sqa.h). A sweep offers one such flip for each variable in each slice; each LINES_EVERY-th also offers each
 * variable's flip in all slices at once, which a large c would otherwise forbid. It costs sum_k dE and leaves bonds alone.
 *
 * The schedule, with t from 0 to 1 in a run: Gamma / (P T) falls linearly from FIELD_FIRST to FIELD_LAST, and P T
 * geometrically from HOT to COLD times the model's typical cost of a flip in a random point. Both fall because the aim
 * is good points in little time, not the physics of an annealer; Gamma itself so falls faster than linearly. A run ends with
 * a descent of all slices; the best slice is kept, and looked for on the way in the second half. Runs are independent
 * and begin at random: RUNS_PER_LENGTH of FIRST_LENGTH sweeps, then of twice that and so on. (Set by experiments on G-set graphs.)
 *
 * Memory: that of sqa-walk.c and 10 bytes a variable.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/kernels.h"
#include "policy/qubo/polish.h"
#include "policy/qubo/search.h"
#include "policy/qubo/sqa.h"

#define HOT 0.4
#define COLD 0.1
#define FIELD_FIRST 1.35
#define FIELD_LAST 0.1
#define LINES_EVERY 4U
#define TEMPERATURES 32U /* of one run: to set one takes as long as a sweep of a small model */
#define LOOK_EVERY 16U   /* sweeps */
#define FIRST_LENGTH 32U
#define RUNS_PER_LENGTH 4U
#define DOUBLINGS 7U
#define VARIABLES_AT_ONCE 256U /* and entries of their rows, before the limit is asked: microseconds */
#define ENTRIES_AT_ONCE 4096U
#define DEFAULT_STEPS UINT64_C(400000000) /* about a second */

typedef struct Sqa {
        SqaModel m;
        Best best;
        Limit limit;
        uint8_t *x;
        int64_t *field;
        uint64_t sweeps, flips;
} Sqa;

static void sqa_done(Sqa *s) {
        sqa_model_done(&s->m);
        best_done(&s->best);
        free(s->x);
        free(s->field);
}

/* In the model's own numbers, which the walk may have rounded. */
static void offer_polished(Sqa *s) {
        polish(&s->best, &s->limit, s->x, s->field, &s->flips);
}

/* Takes the best slice; false: it is not better than what there is. */
static bool look(Sqa *s) {
        double energy[SQA_NARROW_SLICES];
        unsigned least = 0;

        sqa_energies(&s->m, energy);
        for (unsigned k = 1; k < s->m.slices; k++)
                if (energy[k] < energy[least])
                        least = k;
        if (s->m.exact && energy[least] >= (double) s->best.energy)
                return false;
        sqa_get_slice(&s->m, least, s->x);
        return true;
}

/* Offers every variable once; false: the limit is hit. */
static bool pass(Sqa *s, uint32_t (*moves)(SqaModel *m, uint32_t from, uint32_t to), uint32_t *ret_changed) {
        const Qubo *q = s->m.q;
        uint32_t changed = 0;

        for (uint32_t from = 0, to = 0; from < q->n; from = to) {
                size_t end = q->row[from] + ENTRIES_AT_ONCE;

                do
                        to++;
                while (to < q->n && to - from < VARIABLES_AT_ONCE && q->row[to + 1] <= end);
                changed += moves(&s->m, from, to);
                if (limit_work(&s->limit, (q->row[to] - q->row[from]) + 8 * (to - from)))
                        return false;
        }
        s->flips += (uint64_t) q->n * (moves == sqa_sweep ? s->m.slices : 1);
        *ret_changed = changed;
        return true;
}

/* To a local minimum in every slice. */
static void quench(Sqa *s) {
        uint32_t changed = 1;

        sqa_set_temperature(&s->m, 0);
        sqa_set_bond(&s->m, 0);
        while (changed > 0 && pass(s, sqa_sweep, &changed))
                ;
        if (look(s))
                offer_polished(s);
}

static bool anneal(Sqa *s, uint64_t length) {
        double hot = HOT * s->m.unit, pt = hot;
        uint64_t step = MAX(length / TEMPERATURES, 1U);
        uint32_t changed;

        for (uint64_t t = 0; t < length; t++) {
                double part = (double) t / (double) length;

                if (t % step == 0) {
                        pt = hot * pow(COLD / HOT, part);
                        sqa_set_temperature(&s->m, pt);
                }
                sqa_set_bond(&s->m, sqa_bond(pt, FIELD_FIRST + (FIELD_LAST - FIELD_FIRST) * part));
                if (!pass(s, sqa_sweep, &changed) || (t % LINES_EVERY == 0 && !pass(s, sqa_lines, &changed)))
                        return false;
                s->sweeps++;
                if (t % LOOK_EVERY == 0 && t > length / 2 && look(s))
                        offer_polished(s);
        }
        return true;
}

static void search(Sqa *s, uint64_t seed, uint64_t sweeps) {
        for (uint64_t run = 0; s->sweeps < sweeps && !limit_hit(&s->limit); run++) {
                uint64_t length = (uint64_t) FIRST_LENGTH << MIN(run / RUNS_PER_LENGTH, DOUBLINGS);
                uint32_t changed;

                rng_seed(&s->m.walk.rng, seed, run);
                sqa_scatter(&s->m);
                if (pass(s, sqa_sweep, &changed) && anneal(s, MIN(length, sweeps - s->sweeps)))
                        quench(s);
        }
}

static int sqa_init(Sqa *s, const Qubo *q, const SolveParams *p) {
        int r;

        limit_init(&s->limit, p);
        s->x = calloc((size_t) q->n + 1, 1);
        s->field = calloc((size_t) q->n + 1, sizeof(*s->field));
        if (!s->x || !s->field)
                return -ENOMEM;
        r = best_init(&s->best, q, &s->limit);
        if (r < 0)
                return r;
        if (p->start)
                memcpy(s->x, p->start, q->n);
        else
                best_offer(&s->best, &s->limit, s->x, q->offset);
        return sqa_model_init(&s->m, q, p->kernels ? p->kernels : kernels_best(), p->seed, HOT, &s->limit);
}

static int sqa_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(sqa_done) Sqa s = {};
        uint64_t sweeps = p->sweeps;
        int r;

        ret->solver = "sqa";
        r = sqa_init(&s, q, p);
        if (r == -ECANCELED)
                return best_result(&s.best, ret);
        if (r < 0)
                return r;
        if (sweeps == 0)
                sweeps = s.limit.deadline != UINT64_MAX
                                 ? UINT64_MAX
                                 : DEFAULT_STEPS / (s.m.slices * (q->n + (uint64_t) 1) + q->row[q->n]) + FIRST_LENGTH;
        offer_polished(&s);
        if (q->n > 0)
                search(&s, p->seed, sweeps);
        ret->sweeps = s.sweeps;
        ret->flips = s.flips;
        return best_result(&s.best, ret);
}

const Solver solver_sqa = {
        .name = "sqa",
        .help = "Simulated quantum annealing: path integral with slices of imaginary time, falling transverse field",
        .fits = fits_all,
        .solve = sqa_solve,
};
