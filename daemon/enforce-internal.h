/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of enforcement: enforce.c applies, enforce-revert.c and enforce-born.c put back, enforce-group.c moves processes
 * of ours into groups of ours, enforce-wall.c sets their memory nodes, enforce-roles.c splits a rank's pool between its
 * threads, enforce-drift.c says what is done about what others change, enforce-cpuset.c tells what the kernel changed,
 * enforce-util.c says who a process is, what its cpuset allows and what became of a change.
 */
#pragma once

#include "daemon/enforce.h"
#include "daemon/readers/role-threads.h"

#define THREAD_PASSES_MAX 16U
#define SLICE "qsched.slice"

typedef struct Transaction { /* begun with its first note, so that nothing is written when nothing changes */
        Undo *undo;
        char *job;
        uint64_t id;
        uint64_t opened; /* as start times of threads are told: ticks since boot */
        bool open, begun;
} Transaction;

typedef struct RolePlace { /* of one rank: how its pool was split last */
        Process process;
        Bitset within; /* the pool, as far as the cpuset allowed it */
        RoleSplit split;
        RoleThreads threads; /* … that it was split for */
} RolePlace;

struct Enforcer {
        Undo *undo;
        const Cgroups *cgroups;
        Bitset possible;    /* every CPU the kernel may ever have: a mask that follows the cpuset */
        Bitset online;      /* read at the start of each operation */
        unsigned n_waits;   /* of this operation, for systemd */
        const Roles *roles; /* NULL: no splits */
        const Topology *topology;
        RolePlace **places;
        size_t n_places;
        Transaction transaction;
        DriftBook drift;
        Process yielded;            /* by the rank that is being applied, or the last one that was */
        struct CpusetSeen *cpusets; /* processes, and where they were */
        size_t n_cpusets, cpusets_allocated;
        int notify;      /* inotify, on cpusets of these and on CPUs; -1: none */
        int cpu_watches; /* the highest watch of a CPU */
        Bitset slice,
                slice_lost; /* CPUs of our slice on the legacy hierarchy, and those it lost when they went offline */
};

/* A process that was the one meant when it was opened, and whose pid cannot pass to another unnoticed. */
typedef struct Identity {
        Process process;
        int pidfd;   /* -1: kernel before 5.3 */
        int proc_fd; /* /proc/PID of this very process: reads fail once it is reaped */
} Identity;

int identity_open(Process p, Identity *ret); /* -ESRCH: gone, or its pid is another's */
void identity_done(Identity *i);
bool identity_alive(const Identity *i);
bool identity_has_thread(const Identity *i, pid_t tid); /* … alive, and the thread is one of it */

typedef struct Thread {
        pid_t tid;
        uint64_t start;
        char comm[64];
} Thread;

int thread_read(const Identity *i, pid_t tid, Thread *ret); /* -ESRCH: not a thread of it any more */

/*
 * Walk over a process's threads, for a caller that changes masks as it goes: a thread that was being born while its
 * parent was changed shows only later, and the kernel's listing may skip threads while others end. So after a change
 * the walk goes on until two listings in a row were whole and brought nothing new; without one, one is enough.
 */
typedef struct Threads {
        pid_t *known; /* sorted */
        size_t n_known;
        pid_t *fresh; /* found by the last threads_next() */
        size_t n_fresh;
        unsigned n_passes, n_quiet;
        const RoleThread *listed; /* what the first listing gives, when it has just been made; NULL: it is made */
        size_t n_listed;
        bool changed; /* by the caller: a mask was written */
} Threads;

int threads_next(Threads *t, pid_t pid); /* 1 look at fresh (may be none); 0 done; -ELOOP they keep coming; -ESRCH */
bool threads_known(const Threads *t, pid_t tid);
void threads_done(Threads *t);

typedef struct Allowed { /* what the cgroup of a process allows, online CPUs only */
        Bitset cpus;
        char *group;
        uint64_t cpuset; /* inode of the directory that says so; 0: there is none */
        char *directory;
        bool replaced; /* … and it was another one at the last look, or was written since */
} Allowed;

int allowed_read(const Enforcer *e, pid_t pid, Allowed *ret);
void allowed_done(Allowed *a);
int online_read(Enforcer *e);

/* enforce-cpuset.c */
typedef struct CpusetSeen CpusetSeen;
void cpusets_watch(Enforcer *e); /* from here on */
/* Since it was asked last, by another one, or its CPUs by others; notes it. */
bool cpuset_replaced(Enforcer *e, Process p, uint64_t cpuset, const char *directory);
void cpusets_forget(Enforcer *e);
void walls_recover(Enforcer *e); /* at start: notes of walls that were not built */
int slice_restore(Enforcer *e);  /* CPUs that are online again; -ENOMEM */

/* Is `current` what the kernel makes of `wrote` under this cpuset? */
bool mask_stands(const Bitset *current, const Bitset *wrote, const Bitset *allowed);
/* … of what we wrote there, or are just writing? */
bool mask_is_written(const UndoEntry *e, const Bitset *current, const Bitset *allowed);
/* … or the whole of a cpuset that has changed since: kernels before 6.2 give that to each thread in it; or what was left
 * of it by the cpuset of then, which is wider now: those kernels, and each for CPUs that were offline, do not give it back. */
bool mask_is_ours(const UndoEntry *e, const Bitset *current, const Bitset *allowed);
int mask_read(pid_t tid, Bitset *ret); /* of online CPUs; of offline ones where it has no other */
/* Writes and reads back: CHANGE_DONE, _NARROWED, _GONE or _REFUSED (*ret_error). */
ChangeResult mask_write(pid_t tid, const Bitset *wanted, Bitset *got, int *ret_error);

/* One change, counted. Sets may be NULL. */
int outcome_add(Outcome *o, ChangeResult result, const char *job, Process p, const Thread *t, const Bitset *old,
                const Bitset *wanted, const Bitset *got, int error);
int outcome_add_path(Outcome *o, ChangeResult result, const char *job, Process p, const char *path, const Bitset *old,
                     const Bitset *wanted);
int outcome_add_irq(Outcome *o, ChangeResult result, const char *job, const ChangeIrq *irq, const Bitset *old,
                    const Bitset *wanted, const Bitset *got, int error);
/* Sentences on the changes from index `first` on, all of one process: one per kind, not one per thread. */
int outcome_say(Outcome *o, size_t first, const char *name, const Allowed *a);

int transaction_begin(Transaction *t);
/* Ends it: commit, or on error (r < 0, or that of the commit) a rollback. */
int transaction_end(Enforcer *e, int r, Outcome *o);
/* Undoes what the transaction did so far; `error` is why. Returns error. */
int transaction_rollback(Enforcer *e, int error, Outcome *o);

/* enforce-roles.c */
/* Splits the task's pool between the threads of its process and of these children. -ESRCH: the process is gone. */
int role_place(Enforcer *e, const PlanTask *task, const Process *children, size_t n_children, const Bitset *allowed,
               const RolePlace **ret);
/* What a thread of the task's process, or of one of its children, gets; NULL: not known before the next split.
 * index: of it in the threads that the pool was split for; SIZE_MAX: it is none of them. */
const Bitset *role_place_cpus(const Enforcer *e, const RolePlace *p, size_t index, const PlanTask *task,
                              Process process, const Thread *t);
const Bitset *role_place_listed(const RolePlace *p, size_t index, const PlanTask *task); /* … as it was named then */
void role_places_sweep(Enforcer *e); /* forgets processes that have ended */
void role_places_clear(Enforcer *e);

typedef struct Bearer { /* a thread with an entry in the journal */
        pid_t tid;
        uint64_t start;
} Bearer;

typedef struct Bearers { /* of the masks that we wrote in a process and in its parent: one thread for each */
        Undo *undo;
        Process process, parent; /* parent: the process itself, where it is no child */
        Bearer *threads;
        size_t n;
        bool read;
} Bearers;

/* The entry that a thread without one has its mask from (its process's main thread's, when that fits); NULL: none, the
 * mask is its own. What this transaction writes, only threads can have that were born since it was opened. */
int bearers_find(Bearers *b, const Transaction *t, const Thread *thread, const Bitset *current, const Bitset *allowed,
                 const UndoEntry **ret);
int bearers_add(Bearers *b, pid_t tid, uint64_t start); /* its entry has just been made, or changed */
void bearers_done(Bearers *b);

/* enforce-drift.c: what is done about a change of somebody else's */
/* A thread of this rank. DRIFT_WRITTEN: the caller writes; DRIFT_YIELDED: the entry is forgotten. */
int drift_thread(Enforcer *e, const char *job, Process rank, const UndoEntry *entry, DriftAct *ret);
bool drift_is_yielded(const Enforcer *e, Process rank); /* just now: nothing more of it is to be written */
/* The CPUs of a group are not those wanted. 1: write them, whether that was our doing or is told as drift; 0: leave it. */
int drift_group(Enforcer *e, const UndoEntry *entry, Process p, const char *path, const Bitset *now,
                const Bitset *wanted, Outcome *o);
int drift_yield(Enforcer *e, const char *job, Process rank);

/* enforce-group-file.c; say what is refused, and why */
int group_write(const char *dir, const char *file, const char *text, Outcome *o);
int group_copy(const char *from, const char *to, const char *file, Outcome *o);

/* enforce-group.c */
bool group_movable(const Enforcer *e, const Task *task);
/* Moves it into a group of ours with these CPUs. -EUCLEAN: could not, said so, all of it is as before; other negative
 * errno: the journal. */
int group_enter(Enforcer *e, Transaction *t, const char *job, Process p, const Bitset *cpus, char **ret_group,
                Outcome *o);
/* Noted first. 1: its group of ours has other CPUs than before, 0: it has none, or the same, or it could not be written
 * (said so); negative errno: the journal. */
int group_set_cpus(Enforcer *e, Transaction *t, Process p, const Bitset *cpus, Outcome *o);
int group_put_back_cpus(Enforcer *e, const UndoEntry *entry, Outcome *o); /* 1 entry is done with, 0 keep it */
const char *group_mount(const Enforcer *e, const char *controller);       /* NULL: not mounted any more */
/* The group of ours that binds a process's CPUs and memory nodes; NULL: it has none. */
const UndoEntry *group_of_cpuset(const Enforcer *e, Process p);
bool group_is_unit(const UndoEntry *entry); /* systemd's to write */
/* enforce-wall.c: 1 entry is done with, 0 keep it */
int group_put_back_mems(Enforcer *e, const UndoEntry *entry, Outcome *o);
int group_put_back(Enforcer *e, const UndoEntry *entry, Outcome *o); /* 1 entry is done with, 0 keep it */
int group_remove(const char *dir, bool wait);                        /* 0 it is gone; -EBUSY */
int control_release(const UndoEntry *entry);                         /* 0 done with; -EBUSY: our slice is still there */
void groups_remove_lost(const Enforcer *e);
bool group_populated(const Enforcer *e, const UndoEntry *entry);

/* enforce-bus.c: org.freedesktop.systemd1 */
int scope_start(const char *unit, pid_t pid, const char *description, const Bitset *cpus, char **ret_message);
int scope_set_cpus(const char *unit, const Bitset *cpus, char **ret_message);
int scope_set_mems(const char *unit, const Bitset *nodes, char **ret_message); /* empty: no wall */
