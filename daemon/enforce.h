/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plan -> kernel, and back. All threads of a task, until two listings in a row bring no new ones; identity (pid, start
 * time, by pidfd; the thread by tgkill) is checked right before each mask is written; each change (mask, move, CPUs of a
 * group, directory, controller handed down) is noted in the undo journal first; masks are read back after, and the caller
 * logs from the Outcome. A mask that is neither what we wrote nor what we found is somebody else's: drift, reported and
 * left alone. What cannot be put back stays noted for the next start. Foreign tasks get affinity only; tasks of ours live
 * in qsched.slice: a scope where systemd is pid 1, a plain group elsewhere, both where systemd has no cpuset controller.
 */
#pragma once

#include "daemon/enforce-drift.h"
#include "daemon/readers/cgroup.h"
#include "daemon/undo.h"
#include "policy/plan.h"
#include "policy/roles.h"

typedef enum ChangeResult {
        CHANGE_DONE,
        CHANGE_SAME,     /* already so: nothing was written */
        CHANGE_DRIFT,    /* somebody else's mask: left alone */
        CHANGE_GONE,     /* process or thread ended, or its pid is another's now */
        CHANGE_NARROWED, /* written, but the kernel intersected it with the cpuset: `got` tells */
        CHANGE_REFUSED,  /* error tells (EINVAL: outside its cpuset, EPERM, PF_NO_SETAFFINITY) */
        _CHANGE_MAX
} ChangeResult;
extern const char *const change_names[];

typedef struct ChangeIrq {
        unsigned irq;
        char *device, *name;
} ChangeIrq;

typedef struct Change { /* one write, or the reason for none */
        ChangeResult result;
        DriftAct act; /* CHANGE_DRIFT: what was done about it; `got` (of a group: `old`) is what is there */
        char *job;
        Process process;
        pid_t tid;
        char *comm;
        Bitset old, wanted, got;
        char *path;    /* cgroup changes: file or group; NULL for affinity */
        ChangeIrq irq; /* changes of interrupts; device NULL: none of these, else pid and tid are 0 */
        int error;     /* positive errno */
} Change;

typedef struct Outcome {
        Change *changes; /* everything but CHANGE_SAME */
        size_t n_changes, n_allocated;
        unsigned n_written, n_same, n_drift, n_gone, n_refused;
        char **messages; /* sentences for people */
} Outcome;

void outcome_done(Outcome *o);
int outcome_absorb(Outcome *into, Outcome *from); /* appends; from is emptied */
int outcome_to_json(
        const Outcome *o,
        json_t **ret); /* {"written":n,"unchanged":n,"drift":n,"gone":n,"refused":n,"changes":[…],"messages":[…]} */

typedef struct Enforcer Enforcer;

/* undo and cgroups are borrowed. online: all CPUs that exist, for the "follow your cpuset" mask. */
int enforcer_new(Undo *undo, const Cgroups *cgroups, Enforcer **ret);
Enforcer *enforcer_free(Enforcer *e);
DEFINE_CLEANUP(Enforcer *, enforcer_free);

/* How the pool of a rank is split between its threads; both are borrowed. NULL roles: each thread has the whole pool. To
 * be called again when either is another one; masks follow at the next enforce_apply(). */
void enforcer_set_roles(Enforcer *e, const Roles *roles, const Topology *topology);
/* How the last enforce_apply() split the pool of this rank; NULL: it did not. The enforcer's, until the next call. */
const RoleSplit *enforcer_split(const Enforcer *e, Process p);
int enforcer_split_to_json(const Enforcer *e, Process p, json_t **ret); /* as role_split_to_json(); -ENOENT */

void enforcer_set_drift(Enforcer *e, DriftPolicy policy);

/*
 * One order, one transaction: what is adopted and applied between begin and commit stands as a whole or not at all. It is
 * written to the journal with its first change. After any failure (of commit too) the caller ends it by
 * enforce_rollback(), which puts back what it did, says so in *ret, and returns the error. Without an open transaction,
 * enforce_adopt() and enforce_apply() are one each. Reverts and recovery are none of it: -EBUSY within one.
 * *ret_id (may be NULL): by it, undo_committed() tells a later start whether the order was committed: a job file prepared
 * under a temporary name is moved into place then, and removed otherwise.
 */
int enforce_begin(Enforcer *e, const char *job, uint64_t *ret_id); /* job: for the journal; may be NULL */
int enforce_commit(Enforcer *e);
int enforce_rollback(Enforcer *e, int error, Outcome *ret);

/* The outcome is filled on failure too: its messages say what was put back. The caller does outcome_done(). */

/* Brings the tasks of one job (NULL: of all jobs in the plan) to the plan. 0 also when single threads or processes
 * refused (see the outcome); negative errno when nothing could be noted (the journal). */
int enforce_apply(Enforcer *e, const Plan *plan, const char *job, Outcome *ret);
/* Puts back what the journal knows of a job (NULL: of all). Threads born since get their process's old mask. */
int enforce_revert(Enforcer *e, const char *job, Outcome *ret);
/* The same for one process, which its job does not name any more. */
int enforce_revert_process(Enforcer *e, Process process, Outcome *ret);
/* At start: undoes transactions without a commit mark; forgets entries of processes that are gone. */
int enforce_recover(Enforcer *e, Outcome *ret);
/* A wall around the memory of a process in a group of ours. 1 set; 0 it could not be (said so), or is so as it is;
 * -ENOENT: it is in no group of ours. Not within a transaction: -EBUSY. */
int enforce_wall(Enforcer *e, Process p, const Bitset *nodes, Outcome *o);
int enforce_unwall(Enforcer *e, const UndoEntry *wall, Outcome *o); /* 1 as before, 0 it could not be: said so */
/* 1 it stands; 0 somebody has set *ret_now since; negative: the group is gone, or cannot be read. */
int enforce_wall_stands(const Enforcer *e, const UndoEntry *wall, Bitset *ret_now);
const UndoEntry *enforce_walled(const Enforcer *e, Process p); /* the wall of its group; NULL: none */
bool enforce_has_group(const Enforcer *e, Process p);          /* of ours, with a cpuset */
/* For `run`: moves a process that sits in nobody's group into qsched.slice and gives it its CPUs. *ret_group is where
 * it lives now (or stays, when its owner keeps it). */
int enforce_adopt(Enforcer *e, const char *job, const Task *task, const PlanTask *plan, char **ret_group, Outcome *ret);
/* Forgets processes that have ended and removes groups of ours that have become empty. For each tick: it costs one read
 * per process, and writes only where one has ended. Not within a transaction: -EBUSY. */
int enforce_sweep(Enforcer *e);
