/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which cpuset a process was in when it was looked at last. In another one the kernel has given all its threads the
 * whole of it, also when that allows just the same CPUs: its owner moved the process, made its group anew, or the
 * controller was handed down to a group that had none of its own. Masks alone would make that a person's taskset.
 *
 * So does a cpuset that is written, its own or one above, or a CPU that is unplugged and plugged: of what was there and
 * gone again between two looks, inotify tells.
 *
 * Kept in memory, by process; a restart knows nothing of before.
 *
 * And what the legacy hierarchy forgets: CPUs that go offline leave each of its cpusets for good. Our slice gets back those
 * that it had, and all that come later if it was given the whole machine.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/inotify.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"
#include "daemon/readers/tasks.h"

#define WATCHES_MAX 12U /* levels above a process that are watched */

struct CpusetSeen {
        Process process;
        uint64_t cpuset; /* inode of its directory */
        int watches[WATCHES_MAX];
        unsigned n_watches;
        bool written; /* since it was looked at last */
};

void cpusets_watch(Enforcer *e) {
        e->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        if (e->notify < 0) /* without it, what is there and gone again is not seen */
                return;
        BITSET_FOREACH (i, &e->possible) {
                char path[64];
                int watch;

                (void) snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", i);
                watch = inotify_add_watch(e->notify, path, IN_MODIFY);
                if (watch > e->cpu_watches)
                        e->cpu_watches = watch; /* they are numbered as they are made: these are the first */
        }
}

static void watch_cpuset(const Enforcer *e, CpusetSeen *s, const char *directory) {
        _cleanup_free_ char *dir = strdup(directory);
        const char *mount = e->cgroups->cpuset ? e->cgroups->cpuset : e->cgroups->unified;

        s->n_watches = 0;
        while (dir && mount && s->n_watches < WATCHES_MAX && strlen(dir) > strlen(mount)) {
                _cleanup_free_ char *path = path_join(dir, "cpuset.cpus");
                int watch = path && e->notify >= 0 ? inotify_add_watch(e->notify, path, IN_MODIFY) : -1;

                if (watch >= 0)
                        s->watches[s->n_watches++] = watch;
                *strrchr(dir, '/') = '\0';
        }
}

static void note_written(Enforcer *e, int watch) {
        for (size_t i = 0; i < e->n_cpusets; i++) {
                CpusetSeen *s = &e->cpusets[i];

                s->written |= watch <= e->cpu_watches;
                for (unsigned k = 0; k < s->n_watches; k++)
                        s->written |= s->watches[k] == watch;
        }
}

static void read_notices(Enforcer *e) {
        char buffer[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
        ssize_t n;

        while (e->notify >= 0 && (n = read(e->notify, buffer, sizeof(buffer))) > 0)
                for (const char *p = buffer; p < buffer + n;) {
                        const struct inotify_event *event = (const void *) p;

                        if (event->mask & (IN_MODIFY | IN_Q_OVERFLOW)) /* of that, watch is -1: all may be */
                                note_written(e, event->wd);
                        p += sizeof(*event) + event->len;
                }
}

void cpusets_forget(Enforcer *e) {
        free(e->cpusets);
        e->cpusets = NULL;
        e->n_cpusets = e->cpusets_allocated = 0;
        closep(&e->notify);
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

static CpusetSeen *find_seen(const Enforcer *e, Process p) {
        for (size_t i = 0; i < e->n_cpusets; i++)
                if (e->cpusets[i].process.pid == p.pid && e->cpusets[i].process.start_time == p.start_time)
                        return &e->cpusets[i];
        return NULL;
}

bool cpuset_replaced(Enforcer *e, Process p, uint64_t cpuset, const char *directory) {
        CpusetSeen *s;
        bool replaced;

        if (cpuset == 0)
                return false;
        read_notices(e);
        s = find_seen(e, p);
        if (!s) {
                if (make_room(e) < 0) /* then it is not known the next time: no harm */
                        return false;
                s = &e->cpusets[e->n_cpusets++];
                *s = (CpusetSeen){ .process = p, .cpuset = cpuset };
                watch_cpuset(e, s, directory);
                return false;
        }
        replaced = s->cpuset != cpuset || s->written;
        if (s->cpuset != cpuset)
                watch_cpuset(e, s, directory);
        s->cpuset = cpuset;
        s->written = false;
        return replaced;
}

static int slice_read(const char *path, Bitset *ret) {
        _cleanup_free_ char *text = NULL;
        int r = read_line_at(AT_FDCWD, path, &text);

        return r < 0 ? r : bitset_parse(text, ret);
}

/* Made by us, it was given the whole machine: what is offline when it is seen first comes when it is online. */
static bool slice_is_ours(const Enforcer *e) {
        size_t n;
        const UndoEntry *all = undo_entries(e->undo, &n);

        for (size_t i = 0; i < n; i++)
                if (all[i].type == UNDO_DIR && !all[i].controller && streq(strrchr(all[i].new_path, '/'), "/" SLICE))
                        return true;
        return false;
}

/* What is not in it any more, and offline, went with that; what somebody took out of it is online. */
static int note_lost(Enforcer *e, const Bitset *now) {
        if (bitset_isempty(&e->slice) && slice_is_ours(e)) {
                if (bitset_copy(&e->slice_lost, &e->possible) < 0)
                        return -ENOMEM;
                bitset_andnot(&e->slice_lost, &e->online);
        }
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
