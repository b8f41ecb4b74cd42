/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many CPUs each rank gets, and which sets of CPUs ("blocks") it may choose from.
 *
 * Sizes: the largest even share s such that blocks of min(want, s) CPUs, whole cores first, can be packed disjointly
 * into single NUMA nodes; when explicit wishes do not fit, ranks of higher priority get theirs first. Only when that
 * fails even at the least sizes do blocks straddle nodes, then housekeeping CPUs are given up, then ranks share CPUs:
 * then each has the choice of whole nodes, or of sets as large as it asks for.
 * Candidates: each node cut into blocks of the rank's size, the packing's own block, and where its process is now; so a
 * disjoint plan is always among the choices when there is one.
 */
#pragma once

#include "policy/problems/placement.h"

typedef struct BlockParams {
        int housekeeping_cores;     /* per NUMA node; -1: one, none on hosts with fewer than 8 CPUs */
        const Bitset *housekeeping; /* explicit CPUs instead; empty: as above */
} BlockParams;

/* Fills sizes, blocks and p->housekeeping, and calls add for each candidate. Causes and messages go into p. */
int blocks_make(Placement *p, const BlockParams *params, int (*add)(Placement *p, unsigned rank, const Bitset *cpus));
/* Finds an equal block or appends one with all that the terms ask of it. */
int blocks_add(Placement *p, const Bitset *cpus, unsigned *ret);
void block_done(Block *b);
/* CPUs for the interrupts of a rank's devices: a free core of its block's node, else that node's housekeeping CPUs,
 * else none. `taken`: all CPUs of all blocks and interrupts so far; extended. */
int blocks_irq(const Placement *p, const Block *block, Bitset *taken, Bitset *ret);
