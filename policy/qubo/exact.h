/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What branch and bound (exact.c) and its strong bound (bound.c) share: the state of one search.
 * Units: costs and bounds are doubled, so that the half of a coupling that either end pays is a whole number; those of
 * a dual (dual.h) are also scaled. Search.unit is what an energy of 1 comes to.
 */
#pragma once

#include "policy/qubo/frame.h"

#define BOUND_DEAD INT64_MAX
#define SLOT_NONE UINT32_MAX

/* The least coupling of variable v to any choice of an item; listed by item. */
typedef struct Least {
        uint32_t v;
        int32_t min;
} Least;

typedef struct Child {
        uint32_t to;
        int64_t bound; /* doubled */
} Child;

typedef struct Level {
        uint32_t item, next, n_children;
        bool entered;   /* children[next - 1] is assigned */
        uint64_t steps; /* of the search when it was opened */
        Child *children;
} Level;

/* What the strong bound brought at one depth. */
typedef struct Worth {
        double tried, pruned, cost; /* times, sum of shares of children it ruled out, steps */
        double trees, tree_steps;   /* trees below nodes of this depth that were searched through */
        uint32_t skipped;
} Worth;

typedef struct Search {
        const Frame *f;
        const struct Dual *dual; /* f is its frame; NULL: f is the model's own */
        int64_t unit;            /* costs of f that an energy of 1 comes to, doubled */
        Limit *limit;
        size_t *least_first; /* by item, n_items + 1 */
        Least *least;
        int64_t *now;   /* by variable, doubled: linear + couplings to what is assigned */
        int64_t *later; /* least couplings to what is not */
        int64_t fixed;  /* of what is assigned, doubled */
        bool *assigned;
        uint32_t *held;
        uint32_t depth;
        Level *levels;
        Child *children; /* of all levels, one after the other */
        size_t n_children;
        Incumbent *best;
        uint64_t nodes;
        int64_t *child;      /* by variable: bound of the node below that takes it, or BOUND_DEAD */
        int64_t *nothing;    /* by ungrouped item: the same for leaving it out */
        struct Slots *slots; /* NULL: no strong bound */
        Worth *worth;        /* by depth */
        uint64_t steps;      /* of work, some nanoseconds each */
} Search;

/* Nothing whose bound reaches this can be better: energies are whole. */
static inline bool hopeless(const Search *s, int64_t bound) {
        return bound > s->unit * (s->best->energy - 1);
}

/* Finds what at most one item can have; *ret_slots stays NULL where there is nothing of the kind. */
int slots_new(const Search *s, int64_t root_bound, struct Slots **ret);
struct Slots *slots_free(struct Slots *slots);
/* Bounds the present node and, in child[], each way down from it. BOUND_DEAD: no point below can be better. */
int64_t slots_bound(struct Slots *slots, Search *s);
