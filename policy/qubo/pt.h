/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replicas of parallel tempering: `sets` of one replica at each of `temps` temperatures, spread over the lanes of
 * blocks of anneal.h. An exchange of two replicas is one of their temperatures: of the columns of the two lanes in their
 * tables of thresholds. Energies and temperatures are in the units of the rows, energies without the offset.
 */
#pragma once

#include "policy/qubo/anneal.h"

#define PT_TEMPS_MAX 32U
#define PT_SETS_MAX 2U
#define PT_REPLICAS_MAX (PT_TEMPS_MAX * PT_SETS_MAX)
#define PT_BLOCKS_MAX 8U

typedef struct PtReplicas {
        const Qubo *q;
        const struct Kernels *kernels;
        Rows *rows;
        unsigned type, lanes, blocks, temps, sets;
        AnnealLanes block[PT_BLOCKS_MAX];
        void *threshold[PT_BLOCKS_MAX]; /* those of the blocks, to write */
        float *logs;
        double t[PT_TEMPS_MAX];                /* coldest first */
        uint8_t at[PT_SETS_MAX][PT_TEMPS_MAX]; /* number of the replica: block x lanes + lane */
        int64_t energy[PT_REPLICAS_MAX];       /* by replica, as pt_measure() has seen it */
        double rejected[PT_TEMPS_MAX];         /* of exchanges of a temperature with the next: mean share since the */
        uint64_t rounds;                       /* last change of temperatures, in so many rounds */
        uint32_t *queue;                       /* room for a cluster: n variables */
        uint8_t *mark;                         /* n */
        Rng rng;
} PtReplicas;

/* All zero, but the sweep before pt_set_temperatures() is of coins: for random points. sets: 1, or 2 to have cluster moves. */
struct Limit;
/* -ECANCELED: the limit, which may be NULL, has been hit. */
int pt_init(PtReplicas *p, const Qubo *q, const struct Kernels *kernels, uint64_t seed, unsigned sets, struct Limit *l);
void pt_done(PtReplicas *p);
void pt_set_temperatures(PtReplicas *p, const double *t); /* temps of them, rising */
uint32_t pt_sweep(PtReplicas *p, unsigned block, uint32_t from, uint32_t to);
void pt_measure(PtReplicas *p);
void pt_exchange(PtReplicas *p, unsigned parity); /* of pairs that begin at even or at odd temperatures */
/* A cluster move of the two replicas at a temperature; tells how many variables changed. */
uint32_t pt_cluster(PtReplicas *p, unsigned temp);
/* Temperatures between the same ends with even rates of exchange, from the rates since the last call. */
void pt_even_out(PtReplicas *p);
void pt_get(const PtReplicas *p, unsigned replica, uint8_t *x);
void pt_put(PtReplicas *p, unsigned replica, const uint8_t *x);
