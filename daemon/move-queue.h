/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes' pages are moved, one after another. The owner adds processes with the nodes they go to and calls
 * move_queue_step() from a timer; between two steps it waits as long as the last one took, so that moving takes half of
 * one CPU at most. Those who asked with authority come before those without, else the order is that of asking.
 *
 * A process that waits, is being moved or has been moved to the same nodes is not moved again, and of several that share
 * an address space one is. What ended is kept, to tell that and to show it, until its job is forgotten or, where there is
 * much of it, its process is gone.
 */
#pragma once

#include "daemon/move-pages.h"

typedef struct MoveItem {
        char *job, *task; /* "train", "train/0" */
        Process process;
        Bitset nodes; /* os numbers */
        uid_t uid;    /* it moves only while it is this user's; TASK_ANY_USER */
        bool first;   /* asked for with authority */
        bool begun, ended;
        uint64_t begun_usec, took_usec;
        MoveReport report; /* ended: its own; else zero, see move_queue_report() */
} MoveItem;

typedef struct MoveHooks {
        /* May it begin, and what is its memory's cgroup (NULL: none is known)? Negative errno: no, and why. */
        int (*begin)(void *userdata, const MoveItem *item, char **ret_group_dir);
        void (*ended)(void *userdata, const MoveItem *item);
        void *userdata;
} MoveHooks;

typedef struct MoveQueue MoveQueue;

int move_queue_new(const MoveOps *ops, const MoveHooks *hooks, MoveQueue **ret); /* both may be NULL */
MoveQueue *move_queue_free(MoveQueue *q);
DEFINE_CLEANUP(MoveQueue *, move_queue_free);
/* For moves that begin from now on; strings are borrowed. */
void move_queue_set_params(MoveQueue *q, const MoveParams *params);

/* Copies job, task, process, nodes, uid and first. 1: it waits now; 0: nothing to do. again: what ended without being
 * whole is tried once more. */
int move_queue_add(MoveQueue *q, const MoveItem *wish, bool again);
/* 1: call again after *ret_rest_usec; 0: nothing is left; negative errno: out of memory, one item is lost. */
int move_queue_step(MoveQueue *q, uint64_t *ret_rest_usec);
/* Cancels what is on and forgets what drop() says. */
void move_queue_drop(MoveQueue *q, bool (*drop)(const MoveItem *item, const void *what), const void *what);

size_t move_queue_size(const MoveQueue *q);
const MoveItem *move_queue_item(const MoveQueue *q,
                                size_t i); /* ended ones in the order of their end, then the others */
/* Of an item that runs or has ended; NULL: it waits. */
const MoveReport *move_queue_report(const MoveQueue *q, const MoveItem *item);
