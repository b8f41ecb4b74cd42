/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable set of small numbers: CPUs and NUMA nodes by their kernel (OS) index. No fixed upper limit but
 * BITSET_MAX, so hosts with more than 1,024 CPUs need no special case. A Bitset is a value embedded in its owner;
 * BITSET_EMPTY (all zero) is a valid empty set; bitset_done() frees what it holds.
 *
 * Text form is the kernel's list format ("0-3,8", "" for none): what /proc and /sys print and take.
 * Functions that may have to grow the set return 0 or -ENOMEM (-ERANGE above BITSET_MAX); on failure it is unchanged.
 */
#pragma once

#include <sched.h>

#include "macro.h"

#define BITSET_MAX 65536U

typedef struct Bitset {
        uint64_t *words;
        unsigned n_words;
} Bitset;

#define BITSET_EMPTY ((Bitset){})

void bitset_done(Bitset *b);
int bitset_set(Bitset *b, unsigned i);
int bitset_set_range(Bitset *b, unsigned first, unsigned last); /* both inclusive */
void bitset_clear(Bitset *b, unsigned i);
void bitset_zero(Bitset *b);
int bitset_copy(Bitset *dst, const Bitset *src);
int bitset_or(Bitset *dst, const Bitset *src);
void bitset_and(Bitset *dst, const Bitset *src);
void bitset_andnot(Bitset *dst, const Bitset *src); /* dst = dst without src */

bool bitset_test(const Bitset *b, unsigned i) _pure_;
bool bitset_isempty(const Bitset *b) _pure_;
bool bitset_equal(const Bitset *a, const Bitset *b) _pure_;
bool bitset_subset(const Bitset *a, const Bitset *b) _pure_; /* every member of a is in b */
bool bitset_intersects(const Bitset *a, const Bitset *b) _pure_;
unsigned bitset_weight(const Bitset *b) _pure_;
unsigned bitset_and_weight(const Bitset *a, const Bitset *b) _pure_; /* |a and b| */
int bitset_next(const Bitset *b, int prev) _pure_;                   /* smallest member > prev, or -1 */
static inline int bitset_first(const Bitset *b) {
        return bitset_next(b, -1);
}

#define BITSET_FOREACH(i, b) for (int i = bitset_first(b); i >= 0; i = bitset_next(b, i))

/* Kernel list format. -EINVAL on anything else (nothing is half read: *b is only replaced on success), -ERANGE. */
int bitset_parse(const char *text, Bitset *b);
int bitset_format(const Bitset *b, char **ret); /* caller frees */

/* The kernel's affinity calls, with a buffer that grows until the kernel takes it. 0 or negative errno. */
int bitset_getaffinity(pid_t tid, Bitset *b);
int bitset_setaffinity(pid_t tid, const Bitset *b);
