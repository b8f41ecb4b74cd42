/* SPDX-License-Identifier: Apache-2.0 */
/* How many CPUs each rank gets: a disjoint packing into nodes at the largest even share (used by blocks.c alone). */
#pragma once

#include "policy/problems/blocks.h"

typedef enum Floor { FLOOR_PROMISED, FLOOR_MEASURED } Floor; /* what a rank does not fall below; MinCPUs= in any case */

typedef struct Packer {
        Placement *p;
        const Topology *t;
        unsigned *order;      /* dense CPU indices, node by node */
        unsigned *node_first; /* n_nodes + 1, into order */
        uint8_t *pool;        /* by dense index: may be handed out at this level */
        int *owner;           /* by dense index: rank, or -1 */
        unsigned *sizes;      /* by rank */
        unsigned *floors;     /* by rank: the least size at this attempt */
        unsigned *sequence;   /* ranks: the hardest to fit first */
        Bitset *packed;       /* by rank */
        unsigned threads;     /* SMT siblings per core, at most */
        bool straddle;
} Packer;

int packer_init(Packer *k, Placement *p);
void packer_done(Packer *k);
/* One core of each node, the lowest; a node is never left without a CPU for ranks. Fills p->housekeeping. */
int packer_housekeeping(Packer *k, const BlockParams *params);
/* 1: sizes are set (disjoint, or shared: p->shares_cpus); 0: infeasible, the cause is told. */
int packer_find(Packer *k);

bool packer_available(const Packer *k, unsigned rank, unsigned cpu); /* dense index: in the pool, allowed, not taken */
unsigned packer_room(const Packer *k, unsigned rank, unsigned node);
unsigned packer_capacity(const Packer *k, unsigned rank); /* most CPUs a block inside one node can have, taken or not */
