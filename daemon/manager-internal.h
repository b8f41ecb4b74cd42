/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the manager share; nobody else includes this.
 *   manager.c        life, tick, reload, observers
 *   manager-apply.c  requests: plan, apply, run and the automatic re-plan, one solve at a time
 *   manager-enact.c  what comes of a solve: jobs written, kernel changed, plan in force
 *   manager-change.c what happens to the kernel and to the plan in force: enforce, log, drift, revert
 *   manager-log.c    what is logged of changes
 *   manager-run.c    processes that Run placed, and their end
 *   manager-show.c   status, explain, record
 *   manager-scope.c  who may place what
 *
 * Jobs are solved in scopes. All jobs applied with authority are one scope and solved together; the jobs that one user
 * applied without are a scope of their own, so that such a user can never move a rank of somebody else's.
 */
#pragma once

#include "daemon/enforce-irq.h"
#include "daemon/jobs.h"
#include "daemon/manager.h"
#include "daemon/worker.h"

#define SCOPE_AUTHORISED TASK_ANY_USER
#define REQUESTS_MAX 64U          /* waiting, of callers without authority; as many of those with */
#define REQUESTS_MAX_PER_USER 16U /* of one uid without authority */
#define SOLVE_TIMEOUT_USEC (60U * 1000000U)
#define SWEEPS_MAX 10000000U
#define LOOK_FRESH_USEC 100000U /* so old may be what is told to who asks */

typedef enum RequestKind { REQUEST_PLAN, REQUEST_APPLY, REQUEST_RUN, REQUEST_TICK } RequestKind;

typedef struct Request {
        struct Request *next;
        RequestKind kind;
        Caller caller;
        bool first; /* of a caller with authority, or our own: before those without, and in room of its own */
        uid_t scope;
        AppliedJob **jobs; /* asked for */
        size_t n_jobs;
        AppliedJob **all; /* what is solved: the scope's jobs and those asked for; set when the solve begins */
        size_t n_all;
        PlanOptions options;
        char *solver;    /* options.solver */
        Process process; /* REQUEST_RUN */
        ManagerReply reply;
        void *userdata;
} Request;

typedef struct Scope { /* what was last planned for */
        uid_t key;
        char *signature;
} Scope;

typedef struct Drift {
        char *job, *comm;
        char *device; /* of an interrupt: comm is its name, pid 0; NULL: a thread */
        unsigned irq;
        pid_t pid, tid;
        char *expected, *found;
} Drift;

struct Manager {
        sd_event *event;
        sd_event_source *timer;
        ManagerPaths paths;
        Config *config;
        Collector *collector;
        Undo *undo;
        Enforcer *enforcer;
        IrqEnforcer *irqs;
        JobStore *jobs;
        Worker *worker;

        Snapshot *snapshot; /* all applied jobs */
        uint64_t looked_at; /* monotonic */
        char **unfit;       /* why the last automatic re-plan was infeasible; NULL it was not */
        char **faulty;      /* names of devices that were bad at the last look */
        Plan *plan;         /* in force: tasks of all applied jobs that have processes or planned ranks */
        Scope *scopes;
        size_t n_scopes;

        Request *queue, *current; /* waiting in order; being solved */
        unsigned n_queued;
        bool machine_stale; /* read it again once the solver is idle */

        Drift *drift;
        size_t n_drift;
        char **said;          /* sentences of the last outcome */
        uint64_t hold_until;  /* monotonic */
        uint64_t last_change; /* realtime */
        uint64_t ticks;
        int tick_error; /* logged once, until it changes */

        Observer *observers;
        size_t n_observers;
};

/* manager.c */
int manager_look(Manager *m, char **ret_message);            /* collects anew, tells the observers */
void manager_look_again(Manager *m);                         /* unless it has just been done */
int manager_refresh_machine(Manager *m, char **ret_message); /* if it is stale and nobody reads it */
int manager_collect(Manager *m, AppliedJob *const *jobs, size_t n, const Request *q, bool keep_use, Snapshot **ret,
                    char **ret_message); /* q: for this one; NULL: for all */
void manager_tick_soon(Manager *m);

/* manager-scope.c */
uid_t job_scope(const AppliedJob *j);
Scope *manager_scope(Manager *m, uid_t key, bool create);
int scope_signature(const Snapshot *s, AppliedJob *const *jobs, size_t n, uid_t key, char **ret);
bool scope_has_unplaced(const Snapshot *s, AppliedJob *const *jobs, size_t n, uid_t key); /* ranks, that is */
void scope_planned(Manager *m, uid_t key, const Snapshot *s, AppliedJob *const *jobs, size_t n);
void drop_foreign_children(Task *t); /* of another user */
int request_confine(Manager *m, const Request *q, Snapshot *s, const Job *const *jobs, size_t n_jobs,
                    char **ret_message);

/* manager-apply.c */
void manager_replan(Manager *m, uid_t scope);
void manager_solved(void *userdata, Solve *s);
void manager_cancel(Manager *m); /* answers all requests: stopping */
void manager_kick(Manager *m);

/* manager-enact.c */
int request_conclude(Manager *m, Request *q, Solve *s, json_t **ret,
                     char **ret_message); /* r and json for the answer */

/* manager-irq.c; the snapshot tells where the plan's devices are */
void manager_place_irqs(Manager *m, const Plan *plan, const Snapshot *s, Outcome *outcome);
void manager_restore_irqs(Manager *m, Outcome *outcome);
void manager_recover_irqs(Manager *m);

/* manager-run.c */
void manager_end_runs(Manager *m);
void manager_watch_run(Manager *m, Process p);
void manager_watch_runs(Manager *m);

/* manager-log.c */
void manager_log_asked(const char *what, AppliedJob *const *jobs, size_t n, const Caller *c);
void manager_log_outcome(Manager *m, const Outcome *o, const char *why);

/* manager-change.c */
int manager_enforce(Manager *m, const char *why); /* m->plan; logs, drift; number of writes */
void manager_end_reverts(Manager *m);             /* at start: those that were cut short */
int manager_revert_job(Manager *m, AppliedJob *j, const char *why, Outcome *outcome); /* and drops it */
int manager_take_outcome(Manager *m, const Outcome *o);                               /* times, drift */
void manager_set_plan(Manager *m, Plan *plan, uid_t scope);                           /* takes plan */
void manager_forget_plan(Manager *m, const char *job);
void drift_free(Drift *d, size_t n);
