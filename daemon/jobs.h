/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applied jobs: what is in force, in memory and in STATE_DIRECTORY/jobs, so that workers are matched again after a
 * restart of theirs or of the daemon.
 *   NAME.job     the job file as given          NAME.matrix  the traffic matrix it names, if any
 *   NAME.owner   {"uid":0,"confined":false,"run":false,"processes":[{"pid":81,"start_time":123}],"matrix":false,"order":7}
 *   NAME.*.new   what an order writes before it changes anything; "order" is its transaction in the undo journal, by
 *                which a start after a kill knows whether it was committed
 *   NAME.job.reverting   a revert that has begun: a start goes on with it
 * An AppliedJob is counted: the store holds one reference, each request and solve that uses it another, so a job that
 * is reverted while the solver works on it stays readable (and is marked gone). Counted in the loop's thread only.
 */
#pragma once

#include "common/text.h"
#include "daemon/undo.h"
#include "policy/job.h"

typedef struct AppliedJob {
        unsigned n_ref;
        Job *job;
        uid_t uid;          /* who applied it */
        bool confined;      /* without authority: own processes, inside their own masks */
        bool run;           /* made by Run: ends with its processes */
        bool gone;          /* dropped or replaced since */
        Process *processes; /* put in by Run; Match= finds the others */
        size_t n_processes;
} AppliedJob;

int applied_job_new(Job *job, uid_t uid, bool confined, AppliedJob **ret); /* takes job, also on failure */
AppliedJob *applied_job_ref(AppliedJob *j);
AppliedJob *applied_job_unref(AppliedJob *j);
DEFINE_CLEANUP(AppliedJob *, applied_job_unref);
int applied_job_add_process(AppliedJob *j, Process p);
void applied_job_remove_process(AppliedJob *j, size_t i);

typedef struct JobStore {
        char *directory;
        AppliedJob **jobs; /* in the order they were applied; after a restart by name */
        size_t n_jobs;
        char **retired; /* found at the start: names of jobs whose revert was cut short */
} JobStore;

/* Reads what is there, and ends what was cut short: undo (NULL: none) tells which orders were committed. A bad file is
 * set aside as NAME.job.bad with a sentence in *messages. */
int job_store_open(const char *state, const Undo *undo, char ***messages, JobStore **ret);
JobStore *job_store_free(JobStore *s);
DEFINE_CLEANUP(JobStore *, job_store_free);
AppliedJob *job_store_find(const JobStore *s, const char *name);
/* An order in two steps, so that what is in force and what is on disk agree whenever the daemon ends: prepare writes
 * under temporary names (a full disk shows here; 1 written, 0 the same is in force already), commit renames and puts
 * the job in force in the place of its namesake, cancel removes what was prepared. */
int job_store_prepare(const JobStore *s, const AppliedJob *j, uint64_t order, char **ret_message);
int job_store_commit(JobStore *s, AppliedJob *j);
void job_store_cancel(const JobStore *s, const AppliedJob *j);
int job_store_save(const JobStore *s, const AppliedJob *j); /* again, after its processes changed */
/* A revert in two steps: retire, before anything is put back, takes the job out of force (in memory on failure too) and
 * keeps a mark of it; forget, after it, removes that. */
int job_store_retire(JobStore *s, AppliedJob *j);
void job_store_forget(const JobStore *s, const char *name);
