/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real processes for the tests of enforcement: workers (tests/helpers/worker) and puppets (children of the test that do
 * as told), plans for them, and their masks as /proc/PID/task/TID/status says them, read without the code under test.
 */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/enforce.h"

extern char cpu_a[16], cpu_b[16], cpu_all[1024]; /* two CPUs of this machine, and all of them, in list format */

typedef struct Fixture {
        char dir[64]; /* runtime directory */
        char *journal;
        Undo *undo;
        Cgroups cgroups;
        Enforcer *enforcer;
        Outcome outcome; /* of the last operation */
} Fixture;

int group_setup(void **state);
int setup(void **state);
int teardown(void **state);
void daemon_restart(Fixture *f); /* journal and enforcer opened again */
off_t journal_size(const Fixture *f);
size_t journal_count(Fixture *f);

typedef struct Worker {
        Process process;
        int out;
} Worker;

Worker worker_start(const char *arg, ...) __attribute__((__sentinel__));
void worker_say(const Worker *w, const char *word); /* waits for that line */
void worker_end(Worker *w);

typedef struct Puppet {
        Process process;
        int in, out;
} Puppet;

Puppet puppet_start(void);
pid_t puppet_fork(Puppet *p);                    /* a child process of it */
void puppet_thread(Puppet *p);                   /* one more thread */
pid_t puppet_named(Puppet *p, const char *name); /* one with that name */
void puppet_end_named(Puppet *p);                /* … the last of these ends */
void puppet_churn(Puppet *p);                    /* short-lived threads from now on */
void puppet_end(Puppet *p);

Process process_now(pid_t pid);
unsigned n_threads(pid_t pid);
pid_t newest_thread(pid_t pid); /* the one with the highest number */
/* Every thread's Cpus_allowed_list is `cpus`. */
void assert_masks(pid_t pid, const char *cpus);
unsigned count_masks(pid_t pid, const char *cpus);
char *mask_of(pid_t tid); /* caller frees */
void set_mask(pid_t tid, const char *cpus);
void set_masks(pid_t pid, const char *cpus);

/* Plan of one task of job "train" on these CPUs; children NULL-pid-terminated or NULL. Valid until the next one. */
const Plan *plan_for(Process p, const char *cpus, const Process *children);
int apply(Fixture *f, Process p, const char *cpus);
int revert(Fixture *f);
void assert_message(const Fixture *f, const char *part); /* some message contains it */

/* Groups. The hierarchy that has the cpuset controller; a test of groups needs root and all of it. */
const char *cpuset_tree(const Fixture *f);
bool cpuset_usable(const Fixture *f);
#define SKIP_UNLESS_USABLE(f)                                                                                          \
        do {                                                                                                           \
                if (!cpuset_usable(f)) {                                                                               \
                        print_message("needs root and a whole cpuset hierarchy\n");                                    \
                        skip();                                                                                        \
                }                                                                                                      \
        } while (0)

void group_set(const char *dir, const char *file, const char *text);
void group_add(const char *dir, pid_t pid);
char *cpuset_path_of(pid_t pid); /* caller frees */
void assert_cpuset_path(pid_t pid, const char *path);
int adopt(Fixture *f, Process p, OwnerKind kind, const char *cpus, char **ret_group);
Worker homeless(const Fixture *f, const char *arg); /* in nobody's group */
void assert_no_group(Fixture *f, const char *group);
