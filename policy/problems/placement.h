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

#include "policy/job.h"
#include "policy/qubo/qubo.h"
#include "policy/qubo/solver.h"

#define PLACEMENT_TERM_MAX 20
#define PLACEMENT_RANKS_MAX 1024U /* of one host, all jobs together: bounds time, and memory to some 100 MB */

typedef enum TermGroup { TERM_RESOURCE, TERM_TIME, TERM_COST, TERM_COMPAT, _TERM_GROUP_MAX } TermGroup;
extern const char *const term_group_names[]; /* "resource" "time" "cost" "compat" */

typedef struct PlacementWeights {
        double group[_TERM_GROUP_MAX];   /* alpha, beta, gamma, delta; 1 by default */
        double term[PLACEMENT_TERM_MAX]; /* by placement_terms[] */
        double temperature_target;       /* degrees C above which a device counts as hot */
} PlacementWeights;

typedef struct Block { /* a set of CPUs that a rank may get, with what the terms ask of it */
        Bitset cpus;
        uint64_t hash; /* of cpus */
        unsigned n_cpus;
        unsigned memory_node; /* topology index: the nearest node with memory */
        double *share;        /* by topology node: the part of its CPUs there, sums to 1 */
        double *distance;     /* by topology node: mean SLIT distance from its CPUs */
        double span;          /* mean distance between two of its CPUs beyond local, in units of local */
        double slow;          /* part of its CPUs that are of a slower kind than the machine's fastest */
} Block;

typedef enum CandidateKind { CANDIDATE_DEVICES, CANDIDATE_CPUS } CandidateKind;

typedef struct Candidate { /* one variable of the model */
        CandidateKind kind;
        unsigned rank;           /* index into Placement.ranks */
        const unsigned *devices; /* CANDIDATE_DEVICES: indices into the snapshot's devices */
        unsigned n_devices;
        unsigned block; /* CANDIDATE_CPUS: index into Placement.blocks */
        bool current;   /* where its process is now */
} Candidate;

typedef struct PlacementRank {
        const Rank *rank;
        unsigned min, want; /* CPUs: at least, at most (as asked) */
        unsigned size;      /* CPUs of its blocks: what it gets */
        double demand;      /* CPUs it keeps busy, for the overlap */
        uint64_t memory;    /* bytes of host memory */
        double pair_memory; /* the same as pair prices take it: in powers of two, 0 where small */
        Bitset allowed;     /* CPUs that its blocks may be of */
        bool pooled;        /* lives in kubelet's shared pool: keeps all of it, beside others */
        bool fixed;         /* pooled, and what it keeps is what somebody else has given it */
        double power;       /* W that it makes its device draw, relative to 300 W */
        uint32_t first_device, n_device_candidates; /* its one-hot groups: variables; n 0: no such group */
        uint32_t first_block, n_block_candidates;
        int current_device, current_block; /* variables of "stay as it is", or -1 */
        int present_block; /* candidate for where its process is, also when it cannot stay there; or -1 */
} PlacementRank;

typedef struct Other { /* a foreign task, or one of a job that is not asked: it stays where it is */
        const Task *task;
        double demand;
} Other;

typedef struct Placement {
        const Snapshot *snapshot;
        const PlacementWeights *weights;
        PlacementRank *ranks;
        unsigned n_ranks;
        Other *others;
        size_t n_others;
        Block *blocks;
        unsigned n_blocks;
        unsigned **device_sets; /* owned storage of Candidate.devices */
        size_t n_device_sets;
        Candidate *candidates; /* the variables, and behind them present places that are no choice */
        uint32_t n_candidates, n_variables;
        double *overlap; /* n_blocks x n_blocks: CPUs shared */
        unsigned *kind;  /* by block: blocks of one kind are alike to all terms but for what they share */
        unsigned n_kinds;
        double *common;           /* n_kinds x n_kinds: CPUs that any two have in common; negative: it depends */
        double *crowd;            /* n_kinds x n_kinds: sum over nodes of the shares of both, per CPU of the node */
        double *foreign, *kept;   /* by block: per CPU of demand, what foreign tasks and housekeeping make of it */
        double *busy;             /* by device: foreign tasks on it */
        uint32_t *of_block_first; /* n_blocks + 1, into of_block: */
        uint32_t *of_block;       /* candidates by block */
        double *traffic;          /* n_ranks x n_ranks, bytes/s both ways; NULL none */
        double *link_time;        /* n_devices x n_devices: seconds per byte */
        Bitset housekeeping;
        bool shares_cpus; /* there are fewer CPUs than the ranks need: sets overlap */
        double scale;     /* model units per unit of cost */
        char **messages;
        char **causes; /* why it is infeasible: one sentence each; empty when it is not */
} Placement;

typedef enum PairKind { /* which two candidates a pair price is for */
                        PAIR_NONE,
                        PAIR_CPUS,    /* CPU sets of two ranks */
                        PAIR_DEVICES, /* devices of two ranks */
                        PAIR_OWN,     /* a rank's own devices and CPU set */
} PairKind;

typedef enum PairFactor {
        FACTOR_NONE,
        FACTOR_TRAFFIC, /* the pair price is for each byte/s between the two ranks */
        FACTOR_MEETING, /* it is 0 for CPU sets that do not meet */
} PairFactor;

typedef struct PlacementTerm {
        const char *name; /* "overlap": key of energy.terms; with a capital the key in [Weights] */
        TermGroup group;
        const char *unit;                                        /* of the unweighted value */
        double weight;                                           /* default */
        double (*unary)(const Placement *p, const Candidate *c); /* may be NULL */
        PairKind pair_kind;
        double (*pair)(const Placement *p, const Candidate *a, const Candidate *b); /* of that kind; symmetric */
        PairFactor factor;
        const char *help;
} PlacementTerm;

extern const PlacementTerm placement_terms[]; /* ends with name NULL */

void placement_weights_default(PlacementWeights *w);

typedef struct PlacementParams {
        int housekeeping_cores;     /* per NUMA node; -1: one, none on hosts with fewer than 8 CPUs */
        const Bitset *housekeeping; /* explicit CPUs instead; empty: as above */
} PlacementParams;

/* Ranks, their candidates, and what cannot be (p->causes). Borrows everything; 0 or -ENOMEM, -EINVAL with a sentence. */
int placement_new(const Snapshot *s, const RankList *ranks, const Job *const *jobs, size_t n_jobs,
                  const PlacementWeights *w, const PlacementParams *params, Placement **ret, char **ret_message);
Placement *placement_free(Placement *p);
DEFINE_CLEANUP(Placement *, placement_free);

Candidate *placement_add_candidate(Placement *p); /* zeroed, the last one; NULL on OOM */

/* The model: variables are p->candidates, groups as in p->ranks. */
int placement_build(Placement *p, Qubo **ret);

/* Costs in the units of the terms, weighted. Index arrays: one chosen variable per group, n entries. */
double placement_term_weight(const Placement *p, size_t term);
void placement_energy(const Placement *p, const uint32_t *chosen, size_t n, double *terms, double *ret_total);
/* What one chosen variable costs beside the others: its unary prices and, times `share`, those of its pairs. */
void placement_share(const Placement *p, uint32_t variable, const uint32_t *chosen, size_t n, double share,
                     double *terms);
/* "Leave everything as it is": base (a solution, or NULL) with each group that has a current candidate set to it. False
 * when nothing runs, a running rank cannot stay, or base is NULL and some group has no current candidate. */
bool placement_stay(const Placement *p, const uint8_t *base, uint8_t *x);
/* Where everything is now, as a list for placement_energy(): the solution with each running rank at its present place.
 * Returns the number of entries, 0 when nothing runs. */
size_t placement_present(const Placement *p, const uint8_t *solution, uint32_t *chosen);
size_t placement_chosen(const Placement *p, const uint8_t *x, uint32_t *chosen);
