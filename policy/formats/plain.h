/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An instance as terms over plain variables, for writers: groups and permutations have become penalties, tables rows.
 * Where the numbers are whole or decimals, a coefficient here is a whole number of 10^-digits, exactly; where they were
 * rounded for the solvers, it is what the file said, summed up for each pair.
 */
#pragma once

#include "policy/formats/internal.h"

typedef struct PlainTerm {
        uint32_t i, j; /* i <= j; equal: linear */
        double w;
} PlainTerm;

typedef struct Plain {
        const Qubo *q;
        Qubo *lowered;    /* owned; NULL: q is the instance's */
        bool exact;       /* from q; else from terms, and digits is 0 */
        unsigned digits;  /* behind the point */
        int64_t unit;     /* of q's coefficients */
        PlainTerm *terms; /* sorted, no pair twice */
        size_t n_terms;
        long double offset;
} Plain;

int plain_new(const Instance *in, Plain **ret, char **ret_message);
Plain *plain_free(Plain *p);
DEFINE_CLEANUP(Plain *, plain_free);

typedef enum Part { PART_LINEAR = 1, PART_PAIRS = 2, PART_ALL = 3 } Part;

/* Every term that is not zero, by i, then j. */
typedef void (*PlainEach)(void *userdata, uint32_t i, uint32_t j, long double w);
void plain_each(const Plain *p, Part part, PlainEach each, void *userdata);
size_t plain_count(const Plain *p, Part part);
bool plain_pairs_even(const Plain *p); /* every pair's coefficient is */
void plain_print(const Plain *p, FILE *f, long double w);
double plain_value(const Plain *p, long double w); /* w / 10^digits */
