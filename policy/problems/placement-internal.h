/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the placement problem share (used by them alone). */
#pragma once

#include "policy/problems/placement.h"

/* Kinds of blocks, what sets of two kinds have in common, how they crowd; brings block candidates into their order. */
int placement_find_kinds(Placement *p);
/* The value of a pair term for two candidates of its kind, traffic counted in; not weighted. */
double placement_pair_value(const Placement *p, size_t term, const Candidate *a, const Candidate *b);
