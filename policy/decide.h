/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one door of policy/: snapshot + jobs + weights -> plan. Pure: no I/O, log or global; time comes from a callback.
 */
#pragma once

#include "policy/plan.h"

typedef struct DecideParams {
        PlacementWeights weights;
        const char *solver; /* name from solvers[] */
        uint64_t seed;
        uint64_t sweeps;      /* 0: default */
        uint64_t budget_usec; /* 0: none */
        uint64_t (*clock)(void *userdata);
        void *userdata;
        const atomic_bool *stop;
        unsigned threads;
        double hysteresis; /* a new plan must be better than leaving all alone by this share of the energy before */
        int housekeeping_cores; /* per NUMA node; -1: one, and none on hosts with fewer than 8 CPUs */
        Bitset housekeeping;    /* explicit CPUs instead; empty: as above */
        bool explain;           /* reasons for each choice, however many ranks (otherwise up to 32) */
} DecideParams;

void decide_params_default(DecideParams *p);
/*
 * Infeasible is an outcome, not an error: 0 with plan->feasible false and the reasons in plan->messages.
 * Errors: -EINVAL with a sentence (no such solver, does not fit), -ENOMEM, -ECANCELED.
 */
int decide(const Snapshot *s, const Job *const *jobs, size_t n_jobs, const DecideParams *p, Plan **ret,
           char **ret_message);
