/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The angles of a QAOA circuit. A schedule begins as a linear ramp, gamma rising and beta falling as in annealing (so
 * called LR-QAOA; Montanez-Barrera, Michielsen 2024, arXiv 2405.09169), and one for more layers as the course of that of
 * fewer (INTERP; Zhou et al. 2020, arXiv 1812.01041). gamma is counted in a unit of the model: the deviation of the energies
 * over all points, shared out to the dimensions, is about what a change of one of them costs. From there NLopt goes on
 * without derivatives.
 */
#include <math.h>
#include <nlopt.h>

#include "policy/qubo/qaoa-state.h"

#define RAMP_GAMMA 0.7
#define RAMP_BETA 0.65
#define STEP 0.15 /* the first of an optimisation */

double qaoa_unit(const QaoaState *s) {
        double deviation = qaoa_state_energies(s)->deviation;

        return deviation > 0 ? sqrt(MAX(qaoa_state_shape(s)->n_dims, 1U)) / deviation : 1;
}

static void ramp(unsigned layers, double gamma, double beta, QaoaAngles *ret) {
        *ret = (QaoaAngles){ .layers = layers, .expectation = INFINITY };
        for (unsigned i = 0; i < layers; i++) {
                double at = (i + 0.5) / layers;

                ret->gamma[i] = gamma * at;
                ret->beta[i] = beta * (1 - at);
        }
}

/* Two of d choices differ by twice a deviation where d is 2, and by sqrt(2) of them where it is large: then angles are
 * larger, that of the mixer, too (as measured). */
static double widening(const QaoaShape *h) {
        double sum = 0;

        for (unsigned i = 0; i < h->n_dims; i++)
                sum += sqrt(2 - 2.0 / h->dims[i].size);
        return h->n_dims > 0 ? sum / h->n_dims : 1;
}

void qaoa_ramp(const QaoaState *s, unsigned layers, double stretch, QaoaAngles *ret) {
        double by = stretch * widening(qaoa_state_shape(s));

        ramp(layers, by * RAMP_GAMMA, by * RAMP_BETA, ret);
}

static double course(const double *angle, unsigned layers, double at) {
        double x = at * layers - 0.5;
        unsigned i = x <= 0 ? 0 : MIN((unsigned) x, layers - 2);

        return angle[i] + (x - i) * (angle[i + 1] - angle[i]);
}

void qaoa_interpolate(const QaoaAngles *from, unsigned layers, QaoaAngles *ret) {
        *ret = (QaoaAngles){ .layers = layers, .expectation = INFINITY };
        for (unsigned i = 0; i < layers; i++) {
                double at = (i + 0.5) / layers;

                /* One layer is the middle of a ramp. */
                ret->gamma[i] = from->layers > 1 ? course(from->gamma, from->layers, at) : from->gamma[0] * 2 * at;
                ret->beta[i] = from->layers > 1 ? course(from->beta, from->layers, at) : from->beta[0] * 2 * (1 - at);
        }
}

bool qaoa_evaluate(QaoaSearch *q, QaoaAngles *a) {
        double gamma[QAOA_LAYERS_MAX], unit = qaoa_unit(q->s);

        if (q->layers_left < a->layers)
                return false;
        q->layers_left -= a->layers;
        for (unsigned i = 0; i < a->layers; i++)
                gamma[i] = a->gamma[i] * unit;
        if (qaoa_run(q->s, a->layers, gamma, a->beta) < 0 || qaoa_expectation(q->s, &a->expectation) < 0)
                return false;
        return q->evaluated(q, a);
}

typedef struct Optimisation {
        QaoaSearch *search;
        nlopt_opt opt;
        QaoaAngles *best, tried;
        QaoaAngles knots; /* the course that the layers follow */
        bool ramp, ended;
} Optimisation;

static double objective(unsigned n, const double *x, double *gradient, void *userdata) {
        Optimisation *o = userdata;
        QaoaAngles *t = &o->tried;

        if (o->ramp)
                ramp(t->layers, x[0], x[1], t);
        else {
                memcpy(o->knots.gamma, x, o->knots.layers * sizeof(*x));
                memcpy(o->knots.beta, x + o->knots.layers, o->knots.layers * sizeof(*x));
                qaoa_interpolate(&o->knots, t->layers, t);
        }
        t->expectation = INFINITY;
        o->ended = !qaoa_evaluate(o->search, t);
        if (t->expectation < o->best->expectation)
                *o->best = *t;
        if (o->ended)
                nlopt_force_stop(o->opt);
        return (isfinite(t->expectation) ? t->expectation - (double) qaoa_state_energies(o->search->s)->least : 0) *
               qaoa_unit(o->search->s);
}

static bool minimise(Optimisation *o, unsigned n, double *x, unsigned evaluations) {
        double least;

        o->opt = nlopt_create(NLOPT_LN_BOBYQA, n);
        if (!o->opt)
                return false;
        nlopt_set_min_objective(o->opt, objective, o);
        nlopt_set_initial_step1(o->opt, STEP);
        nlopt_set_xtol_abs1(o->opt, 1e-3);
        nlopt_set_maxeval(o->opt, (int) evaluations);
        nlopt_optimize(o->opt, x, &least);
        nlopt_destroy(o->opt);
        return !o->ended;
}

bool qaoa_optimise(QaoaSearch *q, QaoaAngles *a, unsigned knots, unsigned evaluations) {
        Optimisation o = { .search = q, .best = a, .tried = *a };
        double x[2 * QAOA_LAYERS_MAX];

        qaoa_interpolate(a, knots, &o.knots);
        memcpy(x, o.knots.gamma, knots * sizeof(*x));
        memcpy(x + knots, o.knots.beta, knots * sizeof(*x));
        return minimise(&o, 2 * knots, x, evaluations);
}

bool qaoa_optimise_ramp(QaoaSearch *q, QaoaAngles *a, unsigned evaluations) {
        Optimisation o = { .search = q, .best = a, .tried = *a, .ramp = true };
        double x[2] = { a->gamma[0] * 2 * a->layers, a->beta[a->layers - 1] * 2 * a->layers };

        return minimise(&o, 2, x, evaluations);
}
