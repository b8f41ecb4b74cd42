/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads by role: how a rank's CPU pool is split between the threads of its process, by a table of the configuration
 * ([Role NAME] sections over the built-in rows; the table is data, roles_split() a pure function of it, the pool, the
 * machine and the list of threads).
 *
 * A thread's role: children's threads have the role with Children=; the main thread the first with Main=; a thread that
 * still bears the main thread's name was named by nobody, and so is a compute thread (roles[0]); any other has the first
 * role, by falling priority, with a pattern that fits its name; roles[0] if none does.
 *
 * The unit is the core: the siblings of one that are in the pool stay together. Helpers (roles with Share=own of which
 * there are threads, and interrupts where asked for) get cores of their own from the end of the pool, at most half of
 * it; the rest is for everybody else: main and compute threads, for new threads and OpenMP's idea of the machine come
 * from the main thread's mask. Interrupts alone are worth a core of four or more. With H helper roles of one core each, by falling priority h1, h2, …:
 *
 *   cores   compute   helpers                    e.g. H=4
 *   1       all threads share it
 *   2       1         1: all helpers share it
 *   3       2         1: all helpers share it
 *   4       2         2: h1 | the others share
 *   5       3         2
 *   6       3         3: h1 | h2 | the others share
 *   7       4         3
 *   2H      H         H: one each
 *   more    all but H
 *
 * A helper role that wants more cores than are left gets what is left; those that find one core left share it.
 * Children get the whole pool. The kernel does not balance isolated CPUs (isolcpus): a pool with others beside them is
 * split without them; one of isolated CPUs alone gives each thread a core of its own, and where there are more threads
 * than cores it says so (refused) and deals the cores round.
 */
#pragma once

#include <jansson.h>

#include "policy/topology.h"

#define ROLES_MAX 64U

typedef enum RoleShare {
        ROLE_REST, /* what no helper has */
        ROLE_OWN,  /* cores of its own, when there are enough */
        ROLE_POOL, /* the rank's whole pool */
        _ROLE_SHARE_MAX
} RoleShare;
extern const char *const role_share_names[]; /* "rest", "own", "pool"; NULL-terminated */

typedef struct Role {
        char *name;
        char **comm;       /* globs of thread names, of which the kernel keeps 15 bytes; NULL none */
        bool main;         /* the main thread, whatever its name */
        bool children;     /* all threads of child processes */
        bool interrupts;   /* no threads: cores for the interrupts of the rank's devices */
        int share;         /* RoleShare */
        unsigned cpus;     /* ROLE_OWN: logical CPUs it wants, rounded up to whole cores */
        unsigned priority; /* 0..100: who gets cores of its own first, whose patterns are tried first */
} Role;

typedef struct Roles {
        Role *roles; /* [0]: compute, where all that is not named goes */
        size_t n_roles;
} Roles;

int roles_default(Roles *ret); /* the built-in rows */
void roles_done(Roles *r);
int roles_copy(const Roles *from, Roles *ret);
/* The role of that name (not case-sensitive), added with Share=own, CPUs=1, Priority=50 when there is none; NULL on OOM
 * or beyond ROLES_MAX. Pointers to other roles are void then. */
Role *roles_get(Roles *r, const char *name);

typedef struct RoleThread {
        pid_t pid, tid;
        const char *comm; /* borrowed */
        bool is_main;     /* main thread of the rank's own process */
        bool is_child;    /* of a child process, a data loader */
} RoleThread;

typedef struct RoleGrant { /* by role, parallel to Roles.roles */
        Bitset cpus;       /* what a thread of it gets; never empty, also where it has none (a late one gets this) */
        unsigned n_threads;
        bool own;    /* has cores of its own … */
        bool shared; /* … which it shares with other helpers */
} RoleGrant;

typedef struct RoleSplit {
        RoleGrant *grants;
        size_t n_grants;
        unsigned *role; /* by thread: index into the roles */
        Bitset *single; /* by thread: its one CPU; NULL unless the pool is of isolated CPUs */
        size_t n_threads;
        unsigned n_cores;
        char *main_comm;
        Bitset irq_cpus; /* empty when not asked for */
        bool isolated;   /* all of the pool is: one thread per core */
        bool refused;    /* … and there are more threads than cores: better left alone */
        uint64_t seen;   /* by role: those that have threads, or were said to have had */
        char **messages; /* sentences: who shares, what was left out */
} RoleSplit;

/* topology may be NULL: each CPU is a core then. interrupts: the rank's devices have some and no CPUs are kept for them
 * elsewhere. seen: roles (a bit each) that count as if there were threads of them, so that helpers that come and go do
 * not make the others move each time. -EINVAL: the pool is empty. Every thread gets a non-empty part of the pool, also
 * when refused. */
int roles_split(const Roles *r, const Topology *topology, const Bitset *pool, const RoleThread *threads,
                size_t n_threads, bool interrupts, uint64_t seen, RoleSplit *ret);
void role_split_done(RoleSplit *s);
/* What the i-th thread gets. */
const Bitset *role_split_cpus(const RoleSplit *s, size_t i);
/* The same for a thread that was not in the list (born since). Isolated: NULL, as which cores are free is not known. */
const Bitset *role_split_late(const RoleSplit *s, const Roles *r, const RoleThread *t);
/* Index of a thread's role. main_comm: the name of its process's main thread, NULL unknown. */
unsigned role_of(const Roles *r, const RoleThread *t, const char *main_comm);
/* [{"role":s,"cpus":s,"threads":n,"own":bool,"shared":bool}], roles that have threads or cores of their own only */
int role_split_to_json(const RoleSplit *s, const Roles *r, json_t **ret);
