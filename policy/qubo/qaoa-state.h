/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state vector of a simulated QAOA circuit, in single precision. Its space is a product of dimensions: an ungrouped
 * variable (a qubit) has two values, a one-hot group as many as choices; so one-hot constraints hold by construction and
 * a model of T groups of D choices takes D^T amplitudes instead of 2^(T D). Groups of one choice take none.
 *
 * A layer is exp(-i gamma E) and then a mixer on each dimension, which is 1 + (exp(2 i beta) - 1) / d * J, J all ones: on
 * a qubit exp(i beta X) up to a phase, on a group the XY mixer of the complete graph, exp(i (2 beta / d) sum_{j<k} (X_j X_k
 * + Y_j Y_k) / 2), in the one-hot subspace (Hadfield et al. 2019, arXiv 1709.03489; Wang et al. 2020, arXiv 1904.09314),
 * where the sum is J - 1: exact, without Trotter steps, and with the gap of X whatever the number of choices. Before the
 * first layer all points are equally likely, the ground state of the mixers for beta > 0.
 *
 * Memory: at most QAOA_PADDED_MAX amplitudes of 8 bytes and an energy of 4 bytes for each, 240 MiB; and a tile of 4 MiB.
 * To build the energies (O(amplitudes), above the least one and exact while they differ by less than 2^24) uses the
 * room of the amplitudes. Everything looks at the limit at least every few hundred microseconds.
 */
#pragma once

#include "policy/qubo/kernels.h"
#include "policy/qubo/rng.h"
#include "policy/qubo/search.h"

#define QAOA_DIMS_MAX 24U
#define QAOA_AMPLITUDES_MAX ((size_t) 1 << 24)
#define QAOA_PADDED_MAX (QAOA_AMPLITUDES_MAX + QAOA_AMPLITUDES_MAX / 4)
#define QAOA_CHOICES_MAX 65536U /* of one group */

typedef struct QaoaDim {
        uint32_t size;
        uint32_t first; /* variable: of choice 0; of a qubit the only one, and choice 1 */
        bool qubit;
        size_t stride; /* from choice to choice, in amplitudes */
} QaoaDim;

/*
 * Where an amplitude lies. The first n_inner dimensions make a row of "row" amplitudes, padded to whole chunks; the others
 * have strides of whole rows. The inner ones are three qubits, or what gives rows with little padding.
 */
typedef struct QaoaShape {
        unsigned n_dims, n_inner;
        QaoaDim dims[QAOA_DIMS_MAX];
        size_t row, padded_row;
        size_t rows;
        size_t amplitudes; /* without padding */
} QaoaShape;

bool qaoa_shape(const Qubo *q, QaoaShape *ret); /* false: too many amplitudes */

/* Energies of all amplitudes above the least one of them; of padding 0. */
typedef struct QaoaEnergies {
        float *above; /* owned by the caller */
        int64_t least;
        double mean, deviation; /* of the points, above the least */
} QaoaEnergies;

/* qaoa-energies.c. Room: 8 bytes for each amplitude, padding included. -ECANCELED, -ENOMEM. */
int qaoa_energies(const Qubo *q, const QaoaShape *s, Limit *l, void *room, QaoaEnergies *e);

typedef struct QaoaState QaoaState;

/* -ECANCELED: the limit was hit; -ENOMEM. */
int qaoa_state_new(const Qubo *q, const Kernels *k, Limit *l, QaoaState **ret);
QaoaState *qaoa_state_free(QaoaState *s);
DEFINE_CLEANUP(QaoaState *, qaoa_state_free);

/* These stop, with -ECANCELED, when the limit is hit: the state is undefined until the next qaoa_run(). */
int qaoa_run(QaoaState *s, unsigned layers, const double *gamma, const double *beta);
int qaoa_expectation(QaoaState *s, double *ret); /* of the energy; after it, samples can be taken */
/* A point, drawn with the square of its amplitude. */
size_t qaoa_sample(const QaoaState *s, Rng *rng);
void qaoa_point(const QaoaState *s, size_t at, uint8_t *x); /* its bits */
float qaoa_above(const QaoaState *s, size_t at);            /* its energy above the least */

/* What a simulation can tell and a device could not: for tests and reports. */
void qaoa_amplitude(const QaoaState *s, const uint8_t *x,
                    double ret[static 2]);                /* real and imaginary, but for a phase */
double qaoa_probability(const QaoaState *s, float above); /* of all points that are at most so much above the least */

const QaoaShape *qaoa_state_shape(const QaoaState *s);
const QaoaEnergies *qaoa_state_energies(const QaoaState *s);
uint64_t qaoa_state_layers(const QaoaState *s); /* so far */
uint64_t qaoa_state_work(const QaoaState *s);   /* amplitudes times dimensions of all of them */

/* qaoa-angles.c: schedules of angles, and how they are found. */
#define QAOA_LAYERS_MAX 64U

typedef struct QaoaAngles {
        unsigned layers;
        double gamma[QAOA_LAYERS_MAX]; /* in units of qaoa_unit() */
        double beta[QAOA_LAYERS_MAX];
        double expectation; /* INFINITY: not evaluated yet */
} QaoaAngles;

typedef struct QaoaSearch {
        QaoaState *s;
        /* After each expectation, when samples can be taken; false: end. */
        bool (*evaluated)(struct QaoaSearch *search, const QaoaAngles *a);
        void *userdata;
        uint64_t layers_left;
} QaoaSearch;

double qaoa_unit(const QaoaState *s); /* gamma by which a typical change of one dimension turns by about a radian */
/* gamma rises and beta falls linearly, as in annealing; stretch: times what is usually best. */
void qaoa_ramp(const QaoaState *s, unsigned layers, double stretch, QaoaAngles *ret);
/* The same course in more layers. */
void qaoa_interpolate(const QaoaAngles *from, unsigned layers, QaoaAngles *ret);
/* False: ended by the limit, by the callback, or because too few layers are left. */
bool qaoa_evaluate(QaoaSearch *q, QaoaAngles *a);
bool qaoa_optimise_ramp(QaoaSearch *q, QaoaAngles *a, unsigned evaluations); /* how steep a ramp is, both angles */
/* The angles at so many points of the course; with as many as there are layers, all of them. At least 2. */
bool qaoa_optimise(QaoaSearch *q, QaoaAngles *a, unsigned knots, unsigned evaluations);
