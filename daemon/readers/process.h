/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One process out of a /proc tree: the text parsers (pure, fuzzed) and the reads relative to an open /proc directory,
 * so that a recorded tree reads like the running system; last, processes of this system for who changes them. Times
 * are clock ticks, sizes bytes. A process that is gone is -ESRCH wherever it is noticed.
 */
#pragma once

#include "policy/snapshot.h"

typedef struct ProcStat { /* /proc/PID/stat */
        pid_t pid, parent;
        char comm[64];
        char state;
        bool kernel;                                           /* PF_KTHREAD */
        uint64_t utime, stime, children_utime, children_stime; /* the latter: children that ended and were waited for */
        unsigned threads;
        uint64_t start_time;
} ProcStat;

typedef struct ProcStatus { /* /proc/PID/status or /proc/PID/task/TID/status */
        uid_t uid;          /* real */
        Bitset cpus, mems;
} ProcStatus;

int proc_parse_stat(const char *text, ProcStat *ret);
int proc_parse_status(const char *text, ProcStatus *ret); /* caller: proc_status_done() */
void proc_status_done(ProcStatus *s);
/* Adds the pages of a numa_maps text, or of any run of whole lines of it, to bytes[t->n_nodes]. */
void proc_add_numa_maps(const char *text, const Topology *t, uint64_t *bytes);
/* Value of NAME in a block of NAME=VALUE strings, each ended by NUL; NULL when absent. block[size] must be NUL. */
const char *proc_environ_get(const char *block, size_t size, const char *name);

static inline bool proc_stat_dead(const ProcStat *s) {
        return (s->state == 'Z' || s->state == 'X') && s->threads <= 1; /* a dead leader's threads may live on */
}

int proc_open(const char *root); /* fd of ROOT/proc */
int proc_read_stat(int proc_fd, pid_t pid, ProcStat *ret);
int proc_read_status(int proc_fd, pid_t pid, pid_t tid, ProcStatus *ret); /* tid 0: the process's own */
int proc_read_text(int proc_fd, pid_t pid, const char *name, size_t max, char **ret, size_t *ret_size);
int proc_read_cmdline(int proc_fd, pid_t pid, char **ret); /* blanks between words; "" for kernel threads */
/* Numbers among the names in a directory: pids of /proc, tids of task, fds of fd. Sorted. */
int proc_list(int dir_fd, const char *path, int **ret, size_t *ret_n);

/* Of this system: identity and threads, for enforcement. */
int process_start_time(pid_t pid, uint64_t *ret);
int process_parent(pid_t pid, pid_t *ret);
int process_threads(pid_t pid, pid_t **ret, size_t *ret_n); /* caller frees; -ESRCH */
int process_is(pid_t pid, uint64_t start_time);             /* 1 the same, 0 gone or reused */
int process_uid(pid_t pid, uid_t *ret);
/* numa_maps, on demand: bytes by topology node index, caller frees. 1 when the budget ran out: *ret is what was seen. */
int process_memory_by_node(pid_t pid, const Topology *t, uint64_t budget_usec, uint64_t **ret);
