/* SPDX-License-Identifier: Apache-2.0 */
/* The answer: what each rank gets, what it costs by term, and what there is to say about it. Plain data, one owner. */
#pragma once

#include <jansson.h>

#include "policy/job.h"
#include "policy/problems/placement.h"

typedef struct PlanEnergy {
        bool known;
        double total;
        double terms[PLACEMENT_TERM_MAX]; /* by the table placement_terms[] */
} PlanEnergy;

typedef struct PlanTask {
        char *name; /* "train/0" */
        char *job;
        Process process; /* pid 0: no process yet */
        uid_t uid;
        Process *children; /* get the same CPUs */
        size_t n_children;
        char **devices;
        Bitset cpus;                     /* os numbers; never empty in a feasible plan */
        Bitset mems;                     /* os numbers; preferred, never bound */
        Bitset irq_cpus;                 /* "" when none are kept for interrupts */
        bool irqs_within;                /* … and enforcement is to keep some of cpus for them; the daemon says so */
        Bitset cpus_before, mems_before; /* where there is a process */
        bool memory_wall;                /* asked for */
        uint64_t memory;                 /* bytes, as the job says; 0 unknown */
        bool changed;                    /* differs from what the kernel says now */
        bool owned;                      /* started by run, lives in qsched.slice */
        bool fixed;                      /* its CPUs are somebody else's to set: nothing of it is written */
        PlanEnergy energy;               /* this task's share: its own terms and half of each pair it is in */
        char **reasons;                  /* sentences for explain: each choice, what the next best would have cost */
} PlanTask;

typedef struct Plan {
        bool feasible;
        bool changed;       /* some task's placement would change */
        bool optimal;       /* proved */
        const char *solver; /* what ran */
        uint64_t seed;
        uint64_t elapsed_us;
        PlanEnergy energy, energy_before;
        double lower_bound; /* NAN unknown */
        PlanTask *tasks;
        size_t n_tasks;
        Bitset housekeeping;
        char **messages;
} Plan;

Plan *plan_free(Plan *p);
DEFINE_CLEANUP(Plan *, plan_free);
int plan_to_json(const Plan *p, json_t **ret); /* the object that `qschedctl plan --json` prints */
const PlanTask *plan_task(const Plan *p, const char *name);
