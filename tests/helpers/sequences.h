/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences against a running qschedd, and what is expected of the kernel after each step.
 *   sequences.c           options and the steps
 *   sequences-account.c   what must be so, by what the steps have done
 *   sequences-world.c     puppets (processes that are placed), cpusets of theirs, the daemon as a child, its bus
 *   sequences-check.c     reads /proc and cpusets and compares; shares no code with qschedd except the journal's reader
 *
 * The account is kept by thread: `own` is the mask it had before it was placed (0: it follows its cpuset), `theirs` what
 * somebody set over ours. Where the kernel or the configuration leave two outcomes right, a thread is `vague`: then only
 * what must hold for every task is asked of it. Sets of CPUs are 64 bits; a host with more is skipped.
 */
#pragma once

#include <jansson.h>
#include <sys/types.h>
#include <systemd/sd-bus.h>

#include "common/macro.h"

#define PUPPETS 6U
#define CHILDREN 4U
#define THREADS 64U
#define GROUPS 2U
#define JOBS 3U
#define NONE (-1)

typedef uint64_t Set;

typedef struct Tid {
        pid_t tid;
        Set own;    /* 0: follows its cpuset */
        Set theirs; /* 0: nobody changed it since it was placed */
        bool vague;
        uint64_t born; /* usec, monotonic */
} Tid;

typedef struct Puppet {
        pid_t pid; /* 0: none */
        pid_t children[CHILDREN];
        unsigned n_children;
        int in, out;
        int group; /* index, NONE */
        int job;   /* index, NONE; a run's is JOBS + index of the puppet */
        bool run;
        char *cgroups; /* /proc/PID/cgroup as it was born */
        Tid tids[THREADS];
        unsigned n_tids;
} Puppet;

typedef struct World {
        const char *dir; /* RUNTIME_DIRECTORY and STATE_DIRECTORY are below */
        unsigned seed;   /* of rand_r */
        unsigned seed0;
        bool hotplug, keeps_masks, has_drift, has_roles;
        const char *drift; /* in force; NULL: the daemon has no such key */
        bool roles;
        pid_t daemon;
        sd_bus *bus;
        Puppet puppets[PUPPETS];
        char *groups[GROUPS]; /* directories; NULL: no cpusets here */
        Set group_cpus[GROUPS];
        char *base; /* v2: the delegated group above them */
        bool unified;
        Set online0; /* at the start */
        json_t *status;
        char *steps; /* what was done, one a line */
        size_t steps_size;
        FILE *trace;
        bool applied[JOBS];
        char failure[8192];
} World;

/* sequences-world.c */
Set set_parse(const char *s);
const char *set_text(Set s, char buffer[static 256]);
Set set_read(const char *dir, const char *file); /* 0: cannot be read */
uint64_t now_usec(void);
int fail(World *w, const char *format, ...) _printf_(2, 3); /* notes the first one; -1 */
unsigned pick(World *w, unsigned n);
Set pick_set(World *w, Set of); /* not empty */
int world_open(World *w);
void world_close(World *w);
int world_config(World *w);
int daemon_start(World *w);
void daemon_kill(World *w, int signal, int *ret_status);
int call(World *w, const char *method, const char *text, char **ret, char **ret_error);
sd_bus_message *call_message(World *w, const char *method, const char *text);
int settle(World *w, unsigned ticks);
int puppet_start(World *w, Puppet *p, int group, const char *run_name);
pid_t puppet_do(Puppet *p, char what);
void puppet_end(Puppet *p);
int puppet_main(const char *fds);
char *proc_text(pid_t pid, pid_t tid, const char *file);
Set mask_of(pid_t pid, pid_t tid, const char *key);
Set online(void);
Set allowed_of(const World *w, pid_t pid); /* what its cpuset comes to */
int group_write(World *w, unsigned g, Set cpus);
int groups_open(World *w);
void groups_close(World *w);

/* sequences-account.c */
void for_tids(World *w, Puppet *p, void (*f)(World *, Puppet *, Tid *, Set));
void everybody(World *w, void (*f)(World *, Puppet *, Tid *, Set));
void rewritten(World *w, Puppet *p, Tid *t, Set allowed); /* the cpuset it is in was written */
void unsure(World *w, Puppet *p, Tid *t, Set allowed);    /* notes it; what cannot be foretold is vague */
void leave_job(World *w, Puppet *p);
void assign(World *w, int job, unsigned puppets); /* the job is of these (bits) now */
unsigned puppets_of(const World *w, int job);

/* sequences-check.c */
Tid *tid_of(Puppet *p, pid_t tid); /* noted when new: it was born with what its process had */
int tids_of(pid_t pid, pid_t **ret, unsigned *ret_n);
Set expected_mask(Set own, Set allowed);
int check(World *w);
int check_end(World *w); /* nothing is placed */
