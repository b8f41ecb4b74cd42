/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that matter, from /proc: holders of a compute device node, those a job's Match= names, those started by
 * `qschedctl run`; with threads, masks, CPU use between two reads, cgroup facts, rank identity and children.
 * Nothing here walks page tables. A process that vanishes while it is read is no error.
 */
#pragma once

#include "daemon/readers/cgroup.h"
#include "daemon/readers/process.h"
#include "policy/job.h"

typedef struct TaskReader TaskReader; /* keeps CPU times between reads */

int task_reader_new(const char *root, TaskReader **ret); /* root "" for this system */
TaskReader *task_reader_free(TaskReader *r);
DEFINE_CLEANUP(TaskReader *, task_reader_free);
const Cgroups *task_reader_cgroups(const TaskReader *r);

#define TASK_ANY_USER ((uid_t) -1)

typedef struct TaskReadParams {
        char *const *node_globs; /* compute device nodes beside those of the snapshot's devices */
        char *const *ignore;     /* comm globs that never are tasks: npu-smi, exporters, device plugins */
        const Job *const *jobs;  /* whose Match= is asked */
        size_t n_jobs;
        const uid_t *job_users; /* by job: only this user's tasks fill its ranks, or TASK_ANY_USER; NULL: any's do */
        bool keep_use;          /* do not begin a new window for CPU use: what was counted in the last one is told */
        const Process *extra;   /* always included when alive (run, the undo journal's) */
        const char *const *extra_jobs; /* the job each extra belongs to, by index; entries may be NULL */
        size_t n_extra;
} TaskReadParams;

/* Appends tasks to the snapshot, whose topology and devices are set. */
int tasks_read(TaskReader *r, const TaskReadParams *p, Snapshot *s);
