/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placement question as a QUBO. Each rank owns one-hot groups of concrete candidates: which devices it gets, and
 * which set of CPUs (a block: whole cores of one NUMA node where they fit). Cost is a sum of terms from one table, each
 * a unary price of a candidate and a pair price of two candidates of different ranks or groups; so the energy of a plan
 * is the energy of the model, exactly, and every term can be read off afterwards.
 *
 * H = alpha*H_resource + beta*H_time + gamma*H_cost + delta*H_compat   (design.md, section 3)
 */
#pragma once

#include <jansson.h>

#include "policy/job.h"
#include "policy/qubo/qubo.h"
#include "policy/qubo/solver.h"

#define PLACEMENT_TERM_MAX 20

typedef enum TermGroup { TERM_RESOURCE, TERM_TIME, TERM_COST, TERM_COMPAT, _TERM_GROUP_MAX } TermGroup;
extern const char *const term_group_names[]; /* "resource" "time" "cost" "compat" */

typedef struct Placement Placement;
typedef struct Candidate Candidate;

typedef struct PlacementTerm {
        const char *name;  /* "overlap", also the key in energy.terms and the configuration's Weight key */
        TermGroup group;
        const char *unit;  /* of the unweighted value */
        double weight;     /* default */
        double (*unary)(const Placement *p, const Candidate *c);                        /* may be NULL */
        double (*pair)(const Placement *p, const Candidate *a, const Candidate *b); /* may be NULL */
        const char *help;
} PlacementTerm;

extern const PlacementTerm placement_terms[]; /* ends with name NULL */
extern const size_t n_placement_terms;

typedef struct PlacementWeights {
        double group[_TERM_GROUP_MAX];        /* alpha, beta, gamma, delta; 1 by default */
        double term[PLACEMENT_TERM_MAX];      /* by placement_terms[] */
        double temperature_target;            /* degrees C above which a device counts as hot */
} PlacementWeights;

void placement_weights_default(PlacementWeights *w);
