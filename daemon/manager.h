/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owns the state and the tick: config, applied jobs, the last snapshot and plan, undo journal, enforcer, collector.
 * Knows no bus: it offers observers, which main attaches. Solves run in a worker thread on values of their own, so the
 * loop never waits for the solver; requests are answered by callback when their solve is done.
 *
 *   tick: collect -> (applied jobs' tasks changed, or a device went bad) -> decide in the worker -> enforce -> observers
 */
#pragma once

#include <systemd/sd-event.h>

#include "daemon/collect.h"
#include "daemon/enforce.h"

typedef struct Manager Manager;

typedef struct ManagerPaths { /* from RUNTIME_DIRECTORY, STATE_DIRECTORY, --config, --devices; borrowed strings */
        const char *runtime, *state, *config, *devices;
} ManagerPaths;

typedef struct Drift { /* a change by somebody else: of a thread's mask, a group of ours, an interrupt */
        char *job, *comm;
        Process process; /* pid 0: an interrupt */
        pid_t tid;       /* 0: not of a thread */
        char *path;      /* of a group: its file */
        char *device;    /* of an interrupt: comm is its name */
        unsigned irq;
        char *expected, *found;
        char *author; /* goes after "changed by"; NULL no idea */
        char *hint;   /* what turns it off; NULL */
        DriftAct act;
        bool fresh; /* told in this round */
} Drift;

typedef struct Observer { /* any may be NULL; called from the loop */
        void (*snapshot)(void *userdata, const Snapshot *s, const Plan *plan);
        void (*applied)(void *userdata, const char *job, const Plan *plan, const Outcome *outcome);
        void (*drift)(void *userdata, const Drift *d);
        void (*device_fault)(void *userdata, const char *device, const char *health); /* or "gone" */
        void *userdata;
} Observer;

typedef struct JobText { /* how jobs travel */
        const char *text;
        const char *matrix; /* NULL or "": none */
} JobText;

typedef struct Caller { /* who asks, for authority and the log */
        uid_t uid;
        pid_t pid;           /* 0 unknown */
        uint64_t start_time; /* of pid, when the call came */
        char comm[16];       /* for the log; "" unknown */
        bool authorised;     /* may change anything; else only own processes inside their own masks */
} Caller;

/* r < 0: message is a sentence; json is NULL. Infeasible: r = 0 and "feasible":false in json. */
typedef void (*ManagerReply)(void *userdata, int r, const char *message, json_t *json);

int manager_new(sd_event *event, const ManagerPaths *paths, Manager **ret, char **ret_message);
Manager *manager_free(Manager *m);
DEFINE_CLEANUP(Manager *, manager_free);
int manager_start(Manager *m);                      /* recover from the journal, load jobs, first tick */
int manager_reload(Manager *m, char **ret_message); /* on failure the old configuration stays */
int manager_observe(Manager *m, const Observer *o);

typedef struct PlanOptions {
        const char *solver; /* NULL: configuration */
        uint64_t seed, sweeps;
        bool has_seed, dry_run;
} PlanOptions;

void manager_plan(Manager *m, const Caller *c, const JobText *jobs, size_t n, const PlanOptions *o, ManagerReply reply,
                  void *userdata);
/* Drops a plan that waits still and whose asker has gone: true, and reply will not be called. */
bool manager_forget(Manager *m, ManagerReply reply, const void *userdata);
void manager_apply(Manager *m, const Caller *c, const JobText *jobs, size_t n, const PlanOptions *o, ManagerReply reply,
                   void *userdata);
/* Places c->pid. */
void manager_run(Manager *m, const Caller *c, const JobText *job, const PlanOptions *o, ManagerReply reply,
                 void *userdata);
int manager_revert(Manager *m, const Caller *c, const char *job, json_t **ret, char **ret_message); /* NULL: all */
/* Memory by node is read, for a while, for a caller who may look into the process. */
int manager_explain(Manager *m, const Caller *c, const char *task_or_pid, json_t **ret, char **ret_message);
int manager_status(Manager *m, json_t **ret);
int manager_record(Manager *m, json_t **ret, char **ret_message);
int manager_stop(Manager *m, bool revert);

const Snapshot *manager_snapshot(const Manager *m); /* the last one; NULL before the first tick */
const Plan *manager_last_plan(const Manager *m);    /* in force; NULL none */
bool manager_feasible(const Manager *m);            /* what is applied fits, as far as is known */
const char *manager_job(const Manager *m, size_t i, unsigned *ret_priority,
                        unsigned *ret_ranks);               /* name of the i-th applied job, NULL: no more */
const Drift *manager_drift(const Manager *m, Process p);    /* the first that is told of this process; NULL none */
uint64_t manager_last_change(const Manager *m);             /* usec realtime; 0 none since start */
bool manager_alive(const Manager *m, const char **ret_why); /* ticks are run when due, the solver heeds its deadline */
const char *manager_trouble(const Manager *m); /* NULL, or why another configuration than the one on disk is in force */
