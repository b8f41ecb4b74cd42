/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search over permutations: the quadratic assignment problem (Koopmans, Beckmann 1957) and whatever else a model with a
 * permutation has in linear terms, rows and tables.
 *
 * The walk keeps an assignment, the field of every item at every place (what it would cost there, all others staying),
 * and for every pair of items the change of the cost if they exchange their places. With f_i = flow_ir - flow_is and
 * d_i = distance_{p(i) p(r)} - distance_{p(i) p(s)} an exchange of r and s changes the field of i at c by -f_i d_c,
 * that of another pair u, v by (f_u - f_v)(d_u - d_v) (Burkard, Rendl 1984; Taillard 1991, section 3), and pairs with r
 * or s are read off the fields, so that everything is O(1) a pair. Flows and distances are folded into symmetric ones
 * where one of them is symmetric; else both directions add up, a second product.
 *
 * The step is a kernel (kernel-qap.inc.h): update of the triangle of pairs and search of the best open pair in one
 * pass. Numbers are int32 where no change of an exchange can leave it (fields may wrap: differences do not), else double
 * where all sums are whole numbers below 2^52, else int64. What rows and tables of the model add is kept in int64 beside it, O(n^2) lookups a step.
 *
 * Memory: 7 matrices (9 if not symmetric) of n x n numbers of 4 or 8 bytes, 4 n^2 bytes for the tabu list; with rows or tables 40 n^2 bytes more.
 */
#pragma once

#include "policy/qubo/kernels.h"
#include "policy/qubo/rng.h"
#include "policy/qubo/search.h"

#define QAP_VECTOR 32U /* bytes, of all tables of kernels */

typedef enum QapType {
        QAP_INT32,
        QAP_DOUBLE,
        QAP_INT64,
        _QAP_TYPE_MAX,
} QapType;

typedef struct QapWalk {
        uint32_t n;
        size_t stride; /* numbers in a row of all matrices, whole vectors */
        bool symmetric;
        uint32_t *place; /* by item */
        /* n x stride numbers of the walk's type; those without _t are there only if not symmetric */
        void *flow, *flow_t;         /* by item and item; transposed */
        void *distance, *distance_t; /* by place and place */
        void *linear;                /* by item and place */
        void *field;                 /* by item and place */
        void *delta;                 /* by pair of items, the second smaller */
        void *until;                 /* the same: the last step in which the pair is closed */
        void *low;                   /* n vectors: least open change of each row, lane by lane */
        void *f, *d, *e, *f2, *d2, *e2;
        uint32_t *closed; /* by item and place: the last step in which it may not return there */
        /* of rows and tables, n x n, or NULL: what they add to delta now, and how that changed for pairs with neither r nor s */
        int64_t *extra, *shift;
        int64_t energy;
        int64_t aspired; /* a closed pair may change if that goes below */
        uint64_t now;    /* steps since the walk was loaded */
        uint64_t random;
        uint32_t u, v; /* the pair that the last step found; u == v: none is open */
        int64_t gain;  /* its change of the cost */
} QapWalk;

/* 32 random bits: the high half of a linear congruential generator (Knuth's MMIX). */
static inline uint32_t qap_random(QapWalk *w) {
        w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t) (w->random >> 32);
}

/* The walk and what it takes to keep it going. */
typedef struct Permutation {
        QapWalk w;
        const Qubo *q;
        const Kernels *kernels;
        QapType type;
        int64_t *own, *change; /* of rows and tables: the field of every variable, and its change in a step */
        Limit limit;
        Best best;
        uint8_t *bits;
        uint64_t steps, max_steps, step_work;
} Permutation;

int permutation_init(Permutation *t, const Qubo *q, const SolveParams *p, uint64_t max_steps);
void permutation_done(Permutation *t);
bool permutation_over(Permutation *t);
void permutation_load(Permutation *t, const uint32_t *place);
/* Exchanges the places of r and s, which are closed for that many steps, and finds the best pair after that. */
void permutation_step(Permutation *t, uint32_t r, uint32_t s, uint32_t tenure_r, uint32_t tenure_s);
int64_t permutation_gain(const Permutation *t, uint32_t u, uint32_t v); /* of an exchange */
void permutation_offer(Permutation *t);                                 /* to t->best */

/* permutation-tabu.c: from where the walk is, until `patience` steps in a row found nothing better; the best goes to place. */
int64_t permutation_tabu(Permutation *t, uint64_t patience, uint32_t *place);

/* permutation-elite.c: until the limit. */
int permutation_search(Permutation *t, uint64_t seed);
