/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a rank and of its children with their names, as roles_split() takes them. */
#pragma once

#include "policy/roles.h"
#include "policy/snapshot.h"

typedef struct RoleThreads {
        RoleThread *threads; /* the process's by tid, then each child's; comm points into names */
        size_t n_threads;
        char (*names)[16];
        uint64_t *starts; /* when each was born, as in its stat */
        unsigned n_reads; /* before this one, in a row */
        size_t n_stats;   /* threads that were read just now; of the others it is told what was known */
} RoleThreads;

/* root "" for this system. A child or a thread that is gone is left out; -ESRCH: the process itself is, or is another
 * one by now. before: what the last read gave, of which names of threads that are not young are taken; NULL: all are
 * read. */
int role_threads_read(const char *root, Process process, const Process *children, size_t n_children,
                      const RoleThreads *before, RoleThreads *ret);
void role_threads_done(RoleThreads *t);
