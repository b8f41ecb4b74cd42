/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/PID/task and the stat of each thread there: who it is, and its name, which it may change itself at any time. */
#include "daemon/readers/role-threads.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "daemon/readers/process.h"

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

static int add_thread(RoleThreads *t, int task_fd, pid_t pid, pid_t tid, bool child) {
        ProcStat stat;
        int r = proc_read_stat(task_fd, tid, &stat);

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

static int add_process(RoleThreads *t, int proc_fd, Process p, bool child) {
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
                r = add_thread(t, task_fd, p.pid, tids[i], child);
        return r;
}

int role_threads_read(const char *root, Process process, const Process *children, size_t n_children, RoleThreads *ret) {
        _cleanup_(role_threads_done) RoleThreads t = {};
        _cleanup_close_ int proc_fd = proc_open(root);
        int r;

        if (proc_fd < 0)
                return proc_fd;
        r = add_process(&t, proc_fd, process, false);
        for (size_t i = 0; i < n_children && r >= 0; i++) {
                r = add_process(&t, proc_fd, children[i], true);
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
