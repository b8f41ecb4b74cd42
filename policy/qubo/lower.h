/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a solver does not know of a model's structure is taken out before and put back after. Tables and products become
 * rows, which changes nothing. A permutation becomes penalties between groups, groups become penalties between bits
 * (qubo-penalty.c): bits that are feasible have the same energy there, all others can be repaired, and then have a
 * lower one. So optimum and bounds of the lowered model are the original's, and a target that was reached there is
 * reached. Whoever asked must see feasible points only: Best repairs what it is offered (not each time, that takes as
 * long as many flips do), and what was found is told once more at the end if nobody could tell before.
 *
 * Memory: the lowered model, at most QUBO_EXPAND_MAX entries of 8 bytes and while it is made twice that; to repair,
 * 9 bytes a variable.
 */
#pragma once

#include "policy/qubo/solver.h"

typedef struct Lowered {
        const Qubo *of; /* the model as it was */
        Qubo *q;        /* owned; NULL: there was nothing to lower */
        bool penalties; /* there are bits that are feasible in q and not in the original */
} Lowered;

/* -EFBIG: it would have more than QUBO_EXPAND_MAX entries; -EOVERFLOW; -ECANCELED: p->stop, or its time is over. */
int lower_model(const Qubo *q, const Solver *solver, const SolveParams *p, Lowered *ret);
void lower_done(Lowered *l);
/* Makes bits feasible in the original model. *energy is that of the lowered model, before and after: it does not rise. */
int lower_repair(const Lowered *l, uint8_t *x, int64_t *energy);
