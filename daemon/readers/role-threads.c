/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID/task and the stat of each thread there: who it is, and its name, which it may change itself at any time. A
 * stat costs several times what else is asked of a thread at a tick, and threads are named when they are started. So one
 * that is older than YOUNG_USEC is read at each SELDOM-th time only, a few at a time. One that has ended and whose number
 * is another's of the same process by then is found out by that too; until then its mask tells.
 */
#include "daemon/readers/role-threads.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/clock.h"
#include "daemon/readers/process.h"

#define YOUNG_USEC (60 * UINT64_C(1000000))
#define SELDOM 8U

typedef struct Known { /* threads of one process, as they were read the last time */
        const RoleThreads *before;
        size_t i, end;
        uint64_t old; /* those born before this, in ticks, are */
} Known;

void role_threads_done(RoleThreads *t) {
        free(t->threads);
        free(t->names);
        free(t->starts);
        *t = (RoleThreads){};
}

static int grow(RoleThreads *t, size_t more) {
        size_t n = t->n_threads + more;
        RoleThread *threads = reallocarray(t->threads, MAX(n, (size_t) 1), sizeof(*threads));
        char(*names)[16];
        uint64_t *starts;

        if (!threads)
                return -ENOMEM;
        t->threads = threads;
        names = reallocarray(t->names, MAX(n, (size_t) 1), sizeof(*names));
        if (!names)
                return -ENOMEM;
        t->names = names;
        starts = reallocarray(t->starts, MAX(n, (size_t) 1), sizeof(*starts));
        if (!starts)
                return -ENOMEM;
        t->starts = starts;
        return 0;
}

/* Where the threads of this very process are in what was read before; *cursor: where those of the last one ended, since
 * the processes come in the same order each time. */
static Known known_of(const RoleThreads *before, Process p, size_t *cursor) {
        uint64_t now = clock_usec(CLOCK_BOOTTIME), hz = (uint64_t) sysconf(_SC_CLK_TCK);
        Known k = { .before = before, .old = now > YOUNG_USEC ? (now - YOUNG_USEC) * hz / 1000000 : 0 };
        size_t n = before ? before->n_threads : 0;
        bool same = false;
        size_t i = 0;

        while (i < n && before->threads[(*cursor + i) % n].pid != p.pid)
                i++;
        if (i == n)
                return k;
        k.i = (*cursor + i) % n;
        for (k.end = k.i; k.end < n && before->threads[k.end].pid == p.pid; k.end++)
                same = same || (before->threads[k.end].tid == p.pid && before->starts[k.end] == p.start_time);
        *cursor = k.end;
        if (!same) /* its number was another's then */
                k.i = k.end;
        return k;
}

/* Threads are asked for by rising tid. */
static bool recall(Known *k, const RoleThreads *t, pid_t tid, ProcStat *ret) {
        while (k->i < k->end && k->before->threads[k->i].tid < tid)
                k->i++;
        if (k->i == k->end || k->before->threads[k->i].tid != tid || k->before->starts[k->i] >= k->old ||
            (((unsigned) tid * 2654435761U >> 16) + t->n_reads) % SELDOM == 0)
                return false;
        *ret = (ProcStat){ .start_time = k->before->starts[k->i] };
        (void) snprintf(ret->comm, sizeof(ret->comm), "%s", k->before->names[k->i]);
        return true;
}

static int add_thread(RoleThreads *t, Known *known, int task_fd, pid_t pid, pid_t tid, bool child) {
        ProcStat stat;
        int r = 0;

        if (!recall(known, t, tid, &stat)) {
                r = proc_read_stat(task_fd, tid, &stat);
                t->n_stats++;
        }
        if (r < 0)
                return r == -ESRCH || r == -EBADMSG ? 0 : r;
        stat.comm[strcspn(stat.comm, "\n")] = '\0';
        (void) snprintf(t->names[t->n_threads], sizeof(*t->names), "%.15s", stat.comm);
        t->starts[t->n_threads] = stat.start_time;
        t->threads[t->n_threads++] = (RoleThread){
                .pid = pid, .tid = tid, .is_main = !child && tid == pid, .is_child = child
        };
        return 0;
}

static int add_process(RoleThreads *t, const RoleThreads *before, size_t *cursor, int proc_fd, Process p, bool child) {
        Known known = known_of(before, p, cursor);
        _cleanup_free_ int *tids = NULL;
        _cleanup_close_ int task_fd = -1;
        ProcStat stat;
        char path[40];
        size_t n = 0;
        int r;

        r = proc_read_stat(proc_fd, p.pid, &stat);
        if (r < 0)
                return r;
        if (stat.start_time != p.start_time || proc_stat_dead(&stat))
                return -ESRCH;
        (void) snprintf(path, sizeof(path), "%d/task", (int) p.pid);
        task_fd = openat(proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (task_fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        r = proc_list(proc_fd, path, &tids, &n);
        if (r >= 0)
                r = grow(t, n);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = add_thread(t, &known, task_fd, p.pid, tids[i], child);
        return r;
}

int role_threads_read(const char *root, Process process, const Process *children, size_t n_children,
                      const RoleThreads *before, RoleThreads *ret) {
        _cleanup_(role_threads_done) RoleThreads t = { .n_reads = before ? before->n_reads + 1 : 0 };
        _cleanup_close_ int proc_fd = proc_open(root);
        size_t cursor = 0;
        int r;

        if (proc_fd < 0)
                return proc_fd;
        r = add_process(&t, before, &cursor, proc_fd, process, false);
        for (size_t i = 0; i < n_children && r >= 0; i++) {
                r = add_process(&t, before, &cursor, proc_fd, children[i], true);
                if (r == -ESRCH)
                        r = 0;
        }
        if (r < 0)
                return r;
        for (size_t i = 0; i < t.n_threads; i++)
                t.threads[i].comm = t.names[i];
        *ret = t;
        t = (RoleThreads){};
        return 0;
}
