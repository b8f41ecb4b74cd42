/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cpuset a process was in when it was looked at last. In another one the kernel has given all its threads the
 * whole of it, also when that allows just the same CPUs: its owner moved the process, made its group anew, or the
 * controller was handed down to a group that had none of its own. Masks alone would make that a person's taskset.
 *
 * Kept in memory, by process; a restart knows nothing of before.
 */
#include <errno.h>

#include "daemon/enforce-internal.h"
#include "daemon/readers/tasks.h"

struct CpusetSeen {
        Process process;
        uint64_t cpuset; /* inode of its directory */
};

void cpusets_forget(Enforcer *e) {
        free(e->cpusets);
        e->cpusets = NULL;
        e->n_cpusets = e->cpusets_allocated = 0;
}

static void drop_ended(Enforcer *e) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_cpusets; i++)
                if (process_is(e->cpusets[i].process.pid, e->cpusets[i].process.start_time) == 1)
                        e->cpusets[n++] = e->cpusets[i];
        e->n_cpusets = n;
}

static int make_room(Enforcer *e) {
        size_t n = e->n_cpusets;
        CpusetSeen *seen;

        if (n < e->cpusets_allocated)
                return 0;
        drop_ended(e);
        if (e->n_cpusets * 2 < n)
                return 0;
        seen = reallocarray(e->cpusets, n * 2 + 16, sizeof(*seen));
        if (!seen)
                return -ENOMEM;
        e->cpusets = seen;
        e->cpusets_allocated = n * 2 + 16;
        return 0;
}

bool cpuset_replaced(Enforcer *e, Process p, uint64_t cpuset) {
        if (cpuset == 0)
                return false;
        for (size_t i = 0; i < e->n_cpusets; i++) {
                CpusetSeen *s = &e->cpusets[i];
                bool other = s->cpuset != cpuset;

                if (s->process.pid != p.pid || s->process.start_time != p.start_time)
                        continue;
                s->cpuset = cpuset;
                return other;
        }
        if (make_room(e) >= 0) /* else it is not known the next time: no harm */
                e->cpusets[e->n_cpusets++] = (CpusetSeen){ .process = p, .cpuset = cpuset };
        return false;
}
