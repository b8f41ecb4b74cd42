/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The solver thread. A Solve is a value with one owner at a time: the loop makes it, worker_submit() gives it to the
 * thread, the done callback (in the loop) gets it back. One at a time; the queue is the manager's.
 */
#pragma once

#include <stdatomic.h>
#include <systemd/sd-event.h>

#include "policy/decide.h"

typedef struct Solve {
        Snapshot *snapshot; /* owned */
        const Job **jobs;   /* array owned; the jobs outlive the solve, who made it sees to that */
        size_t n_jobs;
        DecideParams params; /* solver and housekeeping are owned copies */
        char *solver;
        atomic_bool stop;
        uint64_t deadline_usec; /* CLOCK_MONOTONIC; 0 none: past it, whoever watches sets stop */
        /* filled by the thread */
        int r;
        char *message;
        Plan *plan;
} Solve;

Solve *solve_free(Solve *s);
DEFINE_CLEANUP(Solve *, solve_free);

typedef struct Worker Worker;
typedef void (*WorkerDone)(void *userdata, Solve *s);

int worker_new(sd_event *event, WorkerDone done, void *userdata, Worker **ret);
Worker *worker_free(Worker *w); /* stops a running solve, waits for it and frees it without calling back */
DEFINE_CLEANUP(Worker *, worker_free);
bool worker_busy(const Worker *w);                /* also when there is none any more */
int worker_submit(Worker *w, Solve *s);           /* takes s on success; -EBUSY */
void worker_watch(Worker *w);                     /* stops a solve that is past its deadline */
bool worker_hangs(const Worker *w, uint64_t now); /* told to stop long ago, and still at it */
uint64_t now_monotonic(void);                     /* usec */
