/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs at most to repair a point that breaks the structure of a model, see qubo-penalty.c: what penalties have
 * to outweigh, and what must be shown of penalties that somebody else has chosen. Of models in rows alone.
 */
#pragma once

#include "policy/qubo/qubo.h"

/* What the couplings of a variable to other groups come to, with its linear term. */
typedef struct Reach {
        int64_t dearest, cheapest; /* each other group has one choice, of a permutation another or (cheapest) any */
        int64_t set;               /* at most, each other group has one or none */
        int64_t clear;             /* of clearing it, at most */
} Reach;

/* At_most_one says which groups do not have two bits when something is cleared; NULL: none, they may have any. */
Reach qubo_reach(const Qubo *q, uint32_t v, const bool *at_most_one);

typedef struct RepairCost {
        int64_t clear; /* of one of two bits */
        int64_t set;   /* of one bit of a group that has none */
        int64_t move;  /* of a permutation, to a choice that is free */
} RepairCost;

/* Of all groups. */
int qubo_repair_costs(const Qubo *q, const bool *at_most_one, const QuboWatch *watch, RepairCost *ret);
/* qubo_to_penalty() with exact penalties; groups false: only a permutation is given up, groups stay. */
int qubo_penalise(const Qubo *q, bool groups, const QuboWatch *watch, Qubo **ret);
