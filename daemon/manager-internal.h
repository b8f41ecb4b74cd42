/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the manager share; nobody else includes this.
 *   manager.c        life, tick, reload, observers
 *   manager-machine.c CPUs and devices that come and go
 *   manager-apply.c  requests: plan, apply, run and the automatic re-plan, one solve at a time
 *   manager-enact.c  what comes of a solve: jobs written, kernel changed, plan in force
 *   manager-change.c what happens to the kernel and to the plan in force: enforce, log, drift, revert
 *   manager-drift.c  changes by somebody else: told once, with who it may have been
 *   manager-log.c    what is logged of changes
 *   manager-run.c    processes that Run placed, and their end
 *   manager-show.c   status, explain, record
 *   manager-scope.c  who may place what
 *   manager-move.c   pages follow the plan
 *   manager-wall.c   memory walls
 *
 * Jobs are solved in scopes. All jobs applied with authority are one scope and solved together; the jobs that one user
 * applied without are a scope of their own, so that such a user can never move a rank of somebody else's.
 */
#pragma once

#include "daemon/enforce-irq.h"
#include "daemon/jobs.h"
#include "daemon/manager.h"
#include "daemon/move-queue.h"
#include "daemon/worker.h"

#define SCOPE_AUTHORISED TASK_ANY_USER
#define REQUESTS_MAX 64U          /* waiting, of callers without authority; as many of those with */
#define REQUESTS_MAX_PER_USER 16U /* of one uid without authority */
#define SOLVE_TIMEOUT_USEC (60U * 1000000U)
#define SOLVE_AGAIN_MAX 3U
#define SWEEPS_MAX 10000000U
#define TICK_LATE_USEC 10000000U /* beyond which it counts as hung */
#define LOOK_FRESH_USEC 100000U  /* so old may be what is told to who asks */

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
        char *solver;     /* options.solver */
        unsigned n_again; /* solved anew since the machine changed meanwhile */
        Process process;  /* REQUEST_RUN */
        ManagerReply reply;
        void *userdata;
} Request;

typedef struct Scope { /* what was last planned for */
        uid_t key;
        char *signature;
        bool planned; /* since the start, and it fitted: what is in force for its jobs is in the plan */
} Scope;

typedef struct WallNote WallNote; /* manager-wall.c */

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
        MoveQueue *moves;
        sd_event_source *move_timer;
        WallNote *walls; /* that are not there, and why */
        size_t n_walls;

        Snapshot *snapshot; /* all applied jobs */
        uint64_t looked_at; /* monotonic */
        char **unfit;       /* why the last automatic re-plan was infeasible; NULL it was not */
        char **faulty;      /* names of devices that were bad at the last look */
        char **devices;     /* names of all, then; NULL before */
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
        int tick_error;    /* logged once, until it changes */
        uint64_t tick_due; /* monotonic */
        char *trouble;     /* see manager_trouble() */

        Observer *observers;
        size_t n_observers;
};

/* manager.c */
int manager_look(Manager *m, char **ret_message); /* collects anew, tells the observers */
void manager_look_again(Manager *m);              /* unless it has just been done */
int manager_collect(Manager *m, AppliedJob *const *jobs, size_t n, const Request *q, bool keep_use, Snapshot **ret,
                    char **ret_message); /* q: for this one; NULL: for all */
void manager_tick_soon(Manager *m);
void manager_use_roles(Manager *m); /* configuration or machine are others now */

/* manager-machine.c */
int manager_refresh_machine(Manager *m, char **ret_message); /* if it is stale, or another, and nobody reads it */
bool manager_machine_moved(Manager *m);                      /* … than m->snapshot and a solve that is on have */
void manager_trim_plan(const Manager *m, Plan *plan);        /* of CPUs that are not online */
int manager_look_at_devices(Manager *m); /* tells of those that came, went, went bad; 1: others are bad */

/* manager-scope.c */
uid_t job_scope(const AppliedJob *j);
Scope *manager_scope(Manager *m, uid_t key, bool create);
int scope_signature(const Snapshot *s, AppliedJob *const *jobs, size_t n, uid_t key, char **ret);
bool scope_has_news(const Scope *scope, const char *signature); /* more than something being gone */
void scopes_forget(Manager *m);                                 /* all are planned again */
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
void manager_mark_irqs(const Manager *m, Plan *plan, const Snapshot *s); /* before it is enforced */
void manager_place_irqs(Manager *m, const Plan *plan, const Snapshot *s, Outcome *outcome);
void manager_restore_irqs(Manager *m, Outcome *outcome);
void manager_recover_irqs(Manager *m);

/* manager-move.c */
int manager_moves_new(Manager *m);
void manager_moves_free(Manager *m);
void manager_move_order(Manager *m, const Request *q, const Plan *plan, const Outcome *o); /* after its commit */
void manager_move_late(Manager *m, const Outcome *o);              /* masks of the plan in force were written */
void manager_move_forget(Manager *m, const char *job);             /* cancels and forgets; NULL: all */
void manager_move_cancel(Manager *m);                              /* what has not ended */
void manager_move_reload(Manager *m);                              /* the configuration is another one */
bool manager_is_all_memory(const Manager *m, const Bitset *nodes); /* nothing can be elsewhere */
json_t *manager_show_moves(const Manager *m);
json_t *manager_explain_moves(const Manager *m, const PlanTask *t);

/* manager-wall.c */
void manager_walls(Manager *m); /* sets what can be, takes away what does harm */
void manager_walls_order(Manager *m, const Request *q, const Plan *plan, Outcome *o); /* after its commit */
void manager_look_through_walls(Manager *m, Snapshot *s);
json_t *manager_show_walls(Manager *m);
void manager_walls_free(Manager *m);

/* manager-run.c */
void manager_end_runs(Manager *m);
void manager_watch_run(Manager *m, Process p);
void manager_watch_runs(Manager *m);

/* manager-log.c */
#define MANAGER_TICK "late" /* why, in a tick */
void manager_log_asked(const char *what, AppliedJob *const *jobs, size_t n, const Caller *c);
void manager_log_outcome(Manager *m, const Outcome *o, const char *why);

/* manager-show.c */
void manager_show_roles(const Manager *m, const Plan *plan, json_t *printed); /* of a plan in force, printed as JSON */

/* manager-change.c */
int manager_enforce(Manager *m, const char *why); /* m->plan; logs, drift; number of writes */
void manager_end_reverts(Manager *m);             /* at start: those that were cut short */
int manager_revert_job(Manager *m, AppliedJob *j, const char *why, Outcome *outcome); /* and drops it */
int manager_take_outcome(Manager *m, const Outcome *o);                               /* times, drift */
void manager_set_plan(Manager *m, Plan *plan, uid_t scope);                           /* takes plan */
void manager_forget_plan(Manager *m, const char *job);

/* manager-drift.c */
void drift_free(Drift *d, size_t n);
DriftPolicy manager_drift_policy(const Manager *m);
void manager_forget_drift(Manager *m, const char *job);
int manager_tell_drift(Manager *m, const Outcome *o, bool tick); /* tick: the outcome is of all that is in force */
/* What was yielded is fixed, by the journal; not of jobs that q (may be NULL) asks for, which takes them back. For a plan
 * (q) what will be written again is where it was placed. */
int manager_mark_drift(Manager *m, Snapshot *s, const Request *q);
void manager_mark_plan_fixed(Manager *m, Plan *plan, const Request *q);
void manager_take_back(Manager *m, const Request *q); /* its jobs have been applied again */
