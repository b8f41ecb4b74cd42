/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of recognise.h: candidates, and a structured model that is being tried. */
#pragma once

#include "policy/qubo/recognise.h"

typedef struct Entry {
        int32_t w;
        uint32_t u;
} Entry;

typedef struct Line {
        int32_t w; /* couples any two of its members */
        uint32_t size;
        size_t first; /* into members */
        bool clean;   /* its members have no other couplings of that value, or those of one other line */
} Line;

typedef struct Lines {
        Line *lines;
        size_t n;
        uint32_t *members; /* each line's in order */
} Lines;

/* recognise.c: cliques of equal couplings, largest couplings first. They may overlap. */
int recognise_lines(const Qubo *q, Lines *ret);
void lines_done(Lines *l);

/* recognise-model.c: a choice of lines that do not overlap, as groups of a structured model. */
typedef struct Trial {
        const Qubo *plain;
        Qubo *q;                   /* with groups; of a permutation the couplings within columns are still there */
        uint32_t *old_of, *new_of; /* by variable of q; by variable of plain */
        int32_t *pair;             /* by group: what couples its members in the plain model */
        bool *one;                 /* by group: it is proved that it has one bit in an optimum */
        bool exact;
        size_t covered; /* variables in groups */
} Trial;

void trial_done(Trial *t);
/* Of the lines whose number is in chosen[0..n). -EINVAL: a line is not a clique. */
int trial_build(const Qubo *plain, const Lines *lines, const uint32_t *chosen, uint32_t n, Trial *ret);
/* Orders the choices of all groups so that those that must not meet have one number, if there are such; sets
 * q->permutation then. */
int trial_find_columns(Trial *t);
/* Leaves out what a permutation does not need, and splits couplings into flow and distance where they are products. */
int trial_finish(Trial *t);

/* recognise-prove.c */
int trial_prove(Trial *t);
/* Without proof: a group that hardly can be anything else. */
bool trial_is_evident(const Trial *t, uint32_t g);
