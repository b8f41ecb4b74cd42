/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is done about a change by somebody else, by [Enforce] Drift=. One book per enforcer counts in how many passes in a
 * row the same thing was found changed: a process's masks, the CPUs of a group of ours, an interrupt.
 *   report    it is left alone
 *   reassert  it is written again; after REASSERTS_MAX passes in a row left alone, until it has been right in between
 *   yield     it is theirs: noted so in the undo journal, which forgets what it knew of it. The rank is planned as fixed
 *             where it is, until its job is applied again or it ends
 * Only a tick's pass acts: in an order (apply, run) and in a revert what is somebody else's is left alone.
 */
#pragma once

#include "daemon/undo.h"

#define REASSERTS_MAX 3U

typedef enum DriftPolicy { DRIFT_REPORT, DRIFT_REASSERT, DRIFT_YIELD, _DRIFT_POLICY_MAX } DriftPolicy;
extern const char *const drift_policy_names[]; /* "report", "reassert", "yield", NULL-terminated, by DriftPolicy */

typedef enum DriftAct {
        DRIFT_NONE, /* of a revert: not asked */
        DRIFT_LEFT,
        DRIFT_WRITTEN,
        DRIFT_GIVEN_UP, /* it was written REASSERTS_MAX times in a row */
        DRIFT_YIELDED,
        _DRIFT_ACT_MAX
} DriftAct;
extern const char *const drift_act_names[]; /* "", "left", "reasserted", "given-up", "yielded" */

typedef enum DriftKind { DRIFT_MASKS, DRIFT_GROUP, DRIFT_IRQ } DriftKind;

typedef struct DriftThing {
        DriftKind kind;
        Process process; /* the rank; for an interrupt its number is the pid */
        unsigned n;      /* passes in a row */
        uint64_t pass;   /* the last one */
} DriftThing;

typedef struct DriftBook {
        DriftPolicy policy;
        bool acting; /* a tick's pass is on; the caller takes it back for an order */
        uint64_t pass;
        DriftThing *things;
        size_t n_things;
} DriftBook;

void drift_book_done(DriftBook *b);
void drift_pass_begin(DriftBook *b); /* one that acts */
/* What is to be done about it: DRIFT_LEFT, DRIFT_WRITTEN, DRIFT_GIVEN_UP or DRIFT_YIELDED. -ENOMEM. */
int drift_judge(DriftBook *b, DriftKind kind, Process process, DriftAct *ret);

/* Ends yields: of a job (NULL: of all) and of one process. Applied again, reverted, or gone. */
void drift_take_back(Undo *u, const char *job);
void drift_take_back_process(Undo *u, Process process);
void drift_forget_ended(Undo *u);
