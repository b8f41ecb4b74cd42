/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of enforcement: enforce.c applies, enforce-revert.c puts back, enforce-group.c moves processes of ours into
 * groups of ours, enforce-util.c says who a process is, what its cpuset allows and what became of a change.
 */
#pragma once

#include "daemon/enforce.h"

#define THREAD_PASSES_MAX 16U

typedef struct Transaction { /* begun with its first note, so that nothing is written when nothing changes */
        Undo *undo;
        char *job;
        uint64_t id;
        bool open, begun;
} Transaction;

struct Enforcer {
        Undo *undo;
        const Cgroups *cgroups;
        Bitset possible; /* every CPU the kernel may ever have: a mask that follows the cpuset */
        Bitset online;   /* read at the start of each operation */
        Transaction transaction;
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
        bool changed; /* by the caller: a mask was written */
} Threads;

int threads_next(Threads *t, pid_t pid); /* 1 look at fresh (may be none); 0 done; -ELOOP they keep coming; -ESRCH */
bool threads_known(const Threads *t, pid_t tid);
void threads_done(Threads *t);

typedef struct Allowed { /* what the cgroup of a process allows, online CPUs only */
        Bitset cpus;
        char *group;
} Allowed;

int allowed_read(const Enforcer *e, pid_t pid, Allowed *ret);
void allowed_done(Allowed *a);
int online_read(Enforcer *e);

/* Is `current` what the kernel makes of `wrote` under this cpuset? */
bool mask_stands(const Bitset *current, const Bitset *wrote, const Bitset *allowed);
/* … of what we wrote there, or are just writing? */
bool mask_is_written(const UndoEntry *e, const Bitset *current, const Bitset *allowed);
/* … or the whole of a cpuset that has changed since: kernels before 6.2 give that to each thread in it. */
bool mask_is_ours(const UndoEntry *e, const Bitset *current, const Bitset *allowed);
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
int group_put_back(Enforcer *e, const UndoEntry *entry, Outcome *o);      /* 1 entry is done with, 0 keep it */
int group_remove(const char *dir, bool wait);                             /* 0 it is gone; -EBUSY */
int control_release(const UndoEntry *entry); /* 0 done with; -EBUSY: our slice is still there */
void groups_remove_lost(const Enforcer *e);
bool group_populated(const Enforcer *e, const UndoEntry *entry);

/* enforce-bus.c: org.freedesktop.systemd1 */
int scope_start(const char *unit, pid_t pid, const char *description, const Bitset *cpus, char **ret_message);
int scope_set_cpus(const char *unit, const Bitset *cpus, char **ret_message);
