/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What on a host works against placement, and what mends it. One table of checks; each looks at a few files, processes
 * or what the daemon said, and gives findings: a level, a sentence with the numbers that were seen, and what to do.
 * Nothing is changed, no process is stopped, no page table is walked. A check that cannot see is "unknown", never ok.
 *
 * Levels: ok; note (good to know); unknown (could not be looked at); warning (costs speed, or may undo a placement);
 * problem (a placement cannot be right as long as it is so).
 */
#pragma once

#include "policy/snapshot.h"

typedef enum DoctorLevel {
        DOCTOR_OK,
        DOCTOR_NOTE,
        DOCTOR_UNKNOWN,
        DOCTOR_WARNING,
        DOCTOR_PROBLEM,
        _DOCTOR_LEVEL_MAX
} DoctorLevel;
extern const char *const doctor_level_names[]; /* NULL-terminated, by DoctorLevel */

typedef struct Doctor Doctor;

typedef struct DoctorCheck {
        const char *name;
        const char *looks_at;  /* for the manual: "irqbalance, its bans, and the vectors of devices" */
        int (*run)(Doctor *d); /* adds at least one finding; negative: could not be looked at */
} DoctorCheck;
extern const DoctorCheck doctor_checks[]; /* ends with name NULL */

typedef struct DoctorFinding {
        const DoctorCheck *check;
        DoctorLevel level;
        char *sentence;
        char *remedy; /* NULL: nothing to do */
} DoctorFinding;

typedef struct DoctorParams {
        const char *root;         /* "" for this system; a directory with proc, sys, etc, run, var in tests */
        const Snapshot *snapshot; /* machine, devices, tasks; borrowed */
        bool daemon_runs;
        const char *daemon_error; /* why it did not answer, though it is there; NULL */
        const pid_t *applied;     /* processes that it says it placed */
        size_t n_applied;
        const char *journal; /* undo journal, below root: what a daemon that is gone has left; NULL: none */
} DoctorParams;

typedef struct DoctorReport {
        DoctorFinding *findings; /* in the table's order */
        size_t n_findings;
} DoctorReport;

int doctor_examine(const DoctorParams *p, DoctorReport *ret);
void doctor_report_done(DoctorReport *r);
DoctorLevel doctor_worst(const DoctorReport *r);
