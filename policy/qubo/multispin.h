/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Multi-spin coding: one bit a replica, MULTISPIN_REPLICAS of them in a vector, for models whose couplings have one
 * absolute value |w|, whose variables have no field (as spins; a maximum cut is like that), and at most
 * MULTISPIN_DEGREE_MAX neighbours. Of a site's d couplings k are satisfied in a replica, and a flip costs
 * |w| / 2 (2 k - d). Carry-save adders count k for all replicas at once; what costs something passes where random bits of
 * the right chances are set: with a = exp(-|w| / 2 T) and b = a^2 a cost of m |w| / 2 passes with chance a^m, a product of
 * independent bits of chance b, and one of chance a where m is odd (after Isakov, Zintchenko, Ronnow, Troyer 2015,
 * section 4.2, who take the same bits for all replicas; here each has its own).
 *
 * Random bits come from pools of MULTISPIN_POOL vectors for each of the two chances, read at random bytes. Sites are sorted
 * by colour, so that sites one after the other do not wait for each other.
 */
#pragma once

#include "policy/qubo/rng.h"
#include "policy/qubo/rows.h"

#define MULTISPIN_BYTES 32U
#define MULTISPIN_REPLICAS 256U
#define MULTISPIN_DEGREE_MAX 6U
#define MULTISPIN_POOL 256U
#define MULTISPIN_CHANCE 65536U /* in these a chance is given */

typedef struct MultiSpinLink {
        uint32_t site;
        int32_t equal; /* -1: satisfied by equal bits; 0: by different ones */
} MultiSpinLink;

typedef struct MultiSpin {
        uint32_t n;
        const uint32_t *first; /* n + 1: links of a site */
        const MultiSpinLink *link;
        void *spin;       /* n vectors */
        void *pool[2];    /* of chance a and b; MULTISPIN_POOL vectors and one more */
        uint64_t seed[8]; /* of the pools: two vectors of state */
        Rng rng;
} MultiSpin;

bool multispin_fits(const Rows *r);
