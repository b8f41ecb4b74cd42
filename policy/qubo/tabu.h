/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-flip tabu search on a plain model: the walk, which kernels step, and the search that drives it.
 *
 * The walk keeps the gain of every variable, the change of the energy if it flips. A step flips one, updates the gains and
 * in the same pass finds the least gain of those that are open; a variable that flipped is closed for its tenure. Blocks
 * of TABU_BLOCK variables each have a vector of least gains, from which the step finds who has the least of all, so
 * that ties (many) are broken by a random block and lane to begin with, and a sparse step looks again only at blocks
 * it touched (Palubeckis 2006, section 3, and Glover, Lu, Hao 2010, section 2.2, update gains in the same way).
 *
 * Gains are int16 while they fit, which is watched: no step changes one by more than `largest`, so that after a look
 * at all gains so many steps are safe (`room`); where they do not fit the walk becomes wider and stays so. int32 and int64
 * gains fit by the bound over all points.
 *
 * Memory: dense rows of 1, 2 or 4 bytes an entry, at most TABU_DENSE_MAX in all, else the model's own rows; 12 to 40 bytes
 * a variable.
 */
#pragma once

#include "policy/qubo/kernels.h"
#include "policy/qubo/rng.h"
#include "policy/qubo/search.h"

#define TABU_VECTOR 32U /* bytes, of all tables of kernels */
#define TABU_BLOCK 64U  /* variables */
#define TABU_NONE UINT32_MAX
#define TABU_DENSE_MAX ((size_t) 128 << 20)
#define TABU_SLOTS 1024U /* of the calendar: a power of two above any tenure */

/* By bytes of a gain, and of a weight of a dense row. */
typedef enum TabuType {
        TABU_16_8,
        TABU_16_16,
        TABU_32_8,
        TABU_32_16,
        TABU_32_32,
        TABU_64_32,
        _TABU_TYPE_MAX,
} TabuType;

typedef struct TabuWalk {
        uint32_t n, blocks;
        size_t stride;     /* n, rounded up to whole blocks; what is beyond n is closed, with a gain of 0 */
        void *gain;        /* stride, of the width of gains, like the next four */
        void *ones;        /* -1 where the variable is 1, else 0 */
        void *closed;      /* the type's greatest value where it is, else its least */
        void *low;         /* TABU_VECTOR a block: lane by lane the least open gain */
        void *lowest;      /* the same of all gains; of sparse rows only */
        const void *dense; /* stride x stride weights, or NULL: the rows below */
        unsigned shift;    /* of dense weights of one byte: they are divided by 2^shift */
        const size_t *row;
        const uint32_t *col;
        const int32_t *val;
        uint8_t *x;
        int64_t energy;
        int64_t aspired; /* a closed variable may flip if that goes below */
        int64_t cost;    /* of the variable that the last step found */
        uint64_t random;
        uint64_t now;      /* steps */
        uint32_t *slot;    /* TABU_SLOTS: the first of the variables that open at this step */
        uint32_t *next;    /* n: the next of them */
        uint64_t *touched; /* bits: blocks to look at again */
} TabuWalk;

/* 32 random bits: the high half of a linear congruential generator (Knuth's MMIX). */
static inline uint32_t tabu_random(TabuWalk *w) {
        w->random = w->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        return (uint32_t) (w->random >> 32);
}

/* The walk and what it takes to keep it going. */
typedef struct Tabu {
        TabuWalk w;
        const Qubo *q;
        const Kernels *kernels;
        unsigned gain_bytes, weight_bytes; /* weight 0: sparse */
        uint32_t (*step)(struct TabuWalk *w, uint32_t i, uint32_t tenure);
        uint64_t largest; /* |weight| */
        uint64_t room;    /* steps until gains have to be looked at */
        uint32_t tenure;
        Limit limit;
        Best best;
        uint64_t steps, max_steps;
        uint64_t step_work; /* for limit_work() */
} Tabu;

int tabu_init(Tabu *t, const Qubo *q, const SolveParams *p, uint64_t max_steps);
void tabu_done(Tabu *t);
/* Flips i and tells the best open variable after that, or TABU_NONE. tenure 0: i stays closed. */
int tabu_step(Tabu *t, uint32_t i, uint32_t tenure, uint32_t *ret_next);
uint32_t tabu_look(Tabu *t); /* the best open variable, without a step */
void tabu_open_all(Tabu *t);
void tabu_close(Tabu *t, uint32_t i);
bool tabu_over(Tabu *t);
int tabu_walk_to(Tabu *t, const uint8_t *x); /* flips what is different */
/*
 * Tabu search until `patience` steps in a row found nothing better than its own best, which goes to x (n bits) and
 * *ret_energy.
 */
int tabu_improve(Tabu *t, uint64_t patience, uint8_t *x, int64_t *ret_energy);

int relink_search(Tabu *t, uint64_t seed);
