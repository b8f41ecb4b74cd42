/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the placement problem share (used by them alone). */
#pragma once

#include "policy/problems/placement.h"

#define PLACEMENT_NOT_UNIFORM (-1.0)

/* Two blocks that have CPUs in common which their kinds do not tell. */
static inline bool placement_meets_singly(const Placement *p, unsigned x, unsigned y) {
        return p->overlap[(size_t) x * p->n_blocks + y] > 0 &&
               p->common[(size_t) p->kind[x] * p->n_kinds + p->kind[y]] == PLACEMENT_NOT_UNIFORM;
}

/* Kinds of blocks, what sets of two kinds have in common, how they crowd; brings block candidates into their order. */
int placement_find_kinds(Placement *p);
/* The value of a pair term for two candidates of its kind, traffic counted in; not weighted. */
double placement_pair_value(const Placement *p, size_t term, const Candidate *a, const Candidate *b);
