/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-hot groups and permutations that a plain model encodes as penalties, for files from outside, so that they get
 * the moves that keep groups whole.
 *
 * What is looked for: cliques of equal positive couplings, each of which is what P (1 - sum x)^2 leaves between the
 * variables of a group, whatever its P and its size and wherever they stand; of a permutation, choices of different
 * groups that must not meet.
 *
 * What is proved, coefficient by coefficient: the structured model has the value of the plain one at every point that
 * has one bit in each group (and of a permutation in each column). Only couplings within groups and columns are left
 * out, and those add nothing there. And by the three steps of qubo-penalty.c, whether the penalties are large enough
 * that an optimum of the plain model is such a point: "exact". Where that cannot be shown the structured optimum is the
 * best of the points that keep the structure and no more; recognised_solve() then lets plain search go on from there.
 *
 * Time O(couplings log couplings), memory about 40 bytes a coupling for a while, and the structured model.
 */
#pragma once

#include "policy/qubo/solver.h"

typedef struct Recognised {
        Qubo *q;          /* groups, perhaps a permutation; owned */
        uint32_t *old_of; /* by variable of q: the plain model's */
        bool exact;       /* the optima of both are the same value */
} Recognised;

/* *ret = NULL: there is nothing. The model has no groups. */
int qubo_recognise(const Qubo *q, Recognised **ret);
Recognised *recognised_free(Recognised *r);
DEFINE_CLEANUP(Recognised *, recognised_free);
void recognised_to_plain(const Recognised *r, const uint8_t *x, uint8_t *plain);
void recognised_from_plain(const Recognised *r, const uint8_t *plain, uint8_t *x);

/*
 * qubo_solve() of the plain model with what was recognised in it: bits and energies are the plain model's. If it is not
 * exact, half of the time or of the sweeps goes to the same solver without structure, from the best point so far, and
 * nothing is proved but by that.
 */
int recognised_solve(const Qubo *plain, const Recognised *r, const Solver *solver, const SolveParams *p,
                     SolveResult *ret);
