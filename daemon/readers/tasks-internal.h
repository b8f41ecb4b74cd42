/* SPDX-License-Identifier: Apache-2.0 */
/* One read of the tasks, between tasks.c (reader, tasks), tasks-scan.c (every process) and tasks-family.c (who belongs
 * to whom). Procs and Seen are parallel arrays sorted by pid; a Pass lives for one tasks_read(). */
#pragma once

#include "daemon/readers/process.h"
#include "daemon/readers/task-devices.h"
#include "daemon/readers/tasks.h"

#define TASKS_DEPTH_MAX 128U /* of families: /proc may change while it is read, so that parents form rings */

typedef struct Seen { /* kept from read to read */
        pid_t pid;
        uint64_t start_time;
        uint64_t comm;      /* hash: changes with exec */
        uint64_t ticks;     /* CPU time at the start of the window */
        double use;         /* NAN unknown */
        uint64_t look_usec; /* not before; 0: at once */
        bool denied;
        bool kernel;
} Seen;

struct TaskReader {
        char *root;
        int proc_fd;
        Cgroups cgroups;
        uint64_t questions;   /* hash of what was asked last */
        uint64_t window_usec; /* when the CPU times were taken */
        Seen *seen;
        size_t n_seen;
};

typedef struct Proc { /* one process during a read */
        ProcStat stat;
        int parent;       /* index; -1 none */
        int extra;        /* index into the given ones; -1 no */
        int job, section; /* whose own Match= it fits; -1 none */
        bool by_pid;
        bool ignored;
        bool own; /* a program of ours */
        bool looked, denied;
        bool candidate, launcher, copy;
        Holding holding;
        char *cmdline;
        int rank;
        const char *heir_job, *heir_ranks; /* borrowed: belongs to its ancestor's job */
        unsigned n_matched, n_holders; /* candidates below it that fit the same job by themselves, that hold nodes */
        size_t task;                   /* index into the snapshot's tasks, while they are made; SIZE_MAX none */
} Proc;

typedef struct Pass { /* what one read works on */
        TaskReader *reader;
        const TaskReadParams *params;
        Snapshot *snapshot;
        NodeTable nodes;
        size_t *order; /* jobs by falling priority */
        bool ask_cmdline, ask_group;
        uint64_t now_usec, uptime_usec;
        double window; /* seconds since the CPU times were taken; NAN first read */
        bool new_window;
        Proc *procs;
        size_t n_procs;
        Seen *seen;
        CgroupMemo group; /* of the last task */
        char *crowd;      /* the memory directory of the last group that holds more than one process */
} Pass;

int tasks_scan(Pass *x);            /* fills procs and seen */
void tasks_forget_answers(Pass *x); /* before it: when other things are asked than last time */
int tasks_sort_families(Pass *x);   /* ranks, copies, launchers, heirs */
/* The next process above p that is a candidate and no copy; NULL none. */
Proc *tasks_ancestor(const Pass *x, const Proc *p);

static inline bool same_text(const char *a, const char *b) {
        return a && b && streq(a, b);
}
