/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cpuset a process was in when it was looked at last. In another one the kernel has given all its threads the
 * whole of it, also when that allows just the same CPUs: its owner moved the process, made its group anew, or the
 * controller was handed down to a group that had none of its own. Masks alone would make that a person's taskset.
 *
 * Kept in memory, by process; a restart knows nothing of before.
 *
 * And what the legacy hierarchy forgets: CPUs that go offline leave each of its cpusets for good. Our slice gets back those
 * that it had.
 */
#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
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
        bitset_done(&e->slice);
        bitset_done(&e->slice_lost);
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

static int slice_read(const char *path, Bitset *ret) {
        _cleanup_free_ char *text = NULL;
        int r = read_line_at(AT_FDCWD, path, &text);

        return r < 0 ? r : bitset_parse(text, ret);
}

/* What is not in it any more, and offline, went with that; what somebody took out of it is online. */
static int note_lost(Enforcer *e, const Bitset *now) {
        BITSET_FOREACH (i, &e->slice)
                if (!bitset_test(now, (unsigned) i) && !bitset_test(&e->online, (unsigned) i) &&
                    bitset_set(&e->slice_lost, (unsigned) i) < 0)
                        return -ENOMEM;
        return bitset_copy(&e->slice, now);
}

static int give_back(Enforcer *e, const char *path, Bitset *now) {
        _cleanup_free_ char *text = NULL;

        if (bitset_or(now, &e->slice_lost) < 0)
                return -ENOMEM;
        BITSET_FOREACH (i, &e->slice_lost)
                if (!bitset_test(&e->online, (unsigned) i))
                        bitset_clear(now, (unsigned) i);
        if (bitset_format(now, &text) < 0)
                return -ENOMEM;
        if (write_file_at(AT_FDCWD, path, text) < 0) /* the top one gets them a moment later: the next tick */
                return 0;
        bitset_andnot(&e->slice_lost, &e->online);
        return bitset_copy(&e->slice, now);
}

int slice_restore(Enforcer *e) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
        _cleanup_free_ char *path = NULL;
        int r;

        if (!e->cgroups->cpuset)
                return 0;
        if (asprintf(&path, "%s/" SLICE "/cpuset.cpus", e->cgroups->cpuset) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        r = slice_read(path, &now);
        if (r >= 0)
                r = note_lost(e, &now);
        if (r >= 0 && bitset_intersects(&e->slice_lost, &e->online))
                r = give_back(e, path, &now);
        return r == -ENOMEM ? r : 0;
}
