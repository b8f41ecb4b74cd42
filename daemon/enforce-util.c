/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every part of enforcement needs: the identity of a process (pidfd and an open /proc/PID: both are of the process,
 * not of its number), its threads until no pass finds new ones, what its cpuset allows, the kernel's answer to a mask.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "common/fileio.h"
#include "daemon/enforce-internal.h"
#include "daemon/readers/process.h"
#include "daemon/readers/tasks.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

int identity_open(Process p, Identity *ret) {
        _cleanup_close_ int pidfd = -1, proc_fd = -1;
        char path[32];

        pidfd = (int) syscall(SYS_pidfd_open, p.pid, 0);
        if (pidfd < 0 && errno != ENOSYS && errno != EPERM) /* EINVAL: the number of a thread now */
                return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : -ESRCH;
        (void) snprintf(path, sizeof(path), "/proc/%d", p.pid);
        proc_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (proc_fd < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        if (process_is(p.pid, p.start_time) <= 0)
                return -ESRCH;
        *ret = (Identity){ .process = p, .pidfd = TAKE_FD(pidfd), .proc_fd = TAKE_FD(proc_fd) };
        return 0;
}

void identity_done(Identity *i) {
        closep(&i->pidfd);
        closep(&i->proc_fd);
        i->pidfd = i->proc_fd = -1;
}

bool identity_alive(const Identity *i) {
        struct pollfd p = { .fd = i->pidfd, .events = POLLIN };

        if (i->pidfd < 0)
                return process_is(i->process.pid, i->process.start_time) > 0;
        return poll(&p, 1, 0) == 0;
}

bool identity_has_thread(const Identity *i, pid_t tid) {
        if (!identity_alive(i))
                return false;
        return syscall(SYS_tgkill, i->process.pid, tid, 0) == 0 || errno == EPERM; /* signal 0 asks just that */
}

int thread_read(const Identity *i, pid_t tid, Thread *ret) {
        char path[48], text[1024];
        _cleanup_close_ int fd = -1;
        ProcStat st;
        ssize_t n;

        (void) snprintf(path, sizeof(path), "task/%d/stat", tid);
        fd = openat(i->proc_fd, path, O_RDONLY | O_CLOEXEC);
        n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return errno == ENOENT ? -ESRCH : -errno;
        text[n] = '\0';
        if (proc_parse_stat(text, &st) < 0)
                return -ESRCH;
        *ret = (Thread){ .tid = tid, .start = st.start_time };
        memcpy(ret->comm, st.comm, sizeof(ret->comm));
        return 0;
}

static int pid_compare(const void *a, const void *b) {
        return CMP(*(const pid_t *) a, *(const pid_t *) b);
}

bool threads_known(const Threads *t, pid_t tid) {
        return t->n_known > 0 && bsearch(&tid, t->known, t->n_known, sizeof(tid), pid_compare);
}

static int threads_learn(Threads *t) {
        pid_t *known = reallocarray(t->known, t->n_known + t->n_fresh + 1, sizeof(*known));

        if (!known)
                return -ENOMEM;
        t->known = known;
        for (size_t i = 0; i < t->n_fresh; i++)
                known[t->n_known++] = t->fresh[i];
        qsort(known, t->n_known, sizeof(*known), pid_compare);
        free(t->fresh);
        t->fresh = NULL;
        t->n_fresh = 0;
        return 0;
}

/* How many threads there are, to tell a listing that skipped some. */
static size_t threads_count(pid_t pid) {
        _cleanup_free_ char *text = NULL;
        char path[32];
        ProcStat st;

        (void) snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        if (read_file_at(AT_FDCWD, path, 4096, &text, NULL) < 0 || proc_parse_stat(text, &st) < 0)
                return 0;
        return st.threads;
}

static int threads_copy(const Threads *t, pid_t **ret, size_t *ret_n) {
        pid_t *all = calloc(t->n_listed, sizeof(*all));

        if (!all)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_listed; i++)
                all[i] = t->listed[i].tid;
        *ret = all;
        *ret_n = t->n_listed;
        return 0;
}

static int threads_list(Threads *t, pid_t pid) {
        _cleanup_free_ pid_t *all = NULL;
        size_t n, n_fresh = 0;
        int r = t->n_listed > 0 && t->n_passes == 1 ? threads_copy(t, &all, &n) : process_threads(pid, &all, &n);

        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++)
                if (!threads_known(t, all[i]))
                        all[n_fresh++] = all[i];
        t->fresh = TAKE_PTR(all);
        t->n_fresh = n_fresh;
        if (n_fresh > 0 || n < threads_count(pid))
                t->n_quiet = 0;
        else
                t->n_quiet++;
        return 1;
}

int threads_next(Threads *t, pid_t pid) {
        int r = threads_learn(t);

        if (r < 0)
                return r;
        if (t->n_quiet == 2 || (t->n_passes > 0 && !t->changed))
                return 0;
        if (t->n_passes++ == THREAD_PASSES_MAX)
                return -ELOOP;
        if (t->n_quiet > 0)
                (void) sched_yield(); /* let the one that is being born appear */
        return threads_list(t, pid);
}

void threads_done(Threads *t) {
        free(t->known);
        free(t->fresh);
        *t = (Threads){};
}

static int cpus_read(const char *path, Bitset *ret) {
        _cleanup_free_ char *line = NULL;
        int r = read_line_at(AT_FDCWD, path, &line);

        return r < 0 ? r : bitset_parse(line, ret);
}

int online_read(Enforcer *e) {
        e->n_waits = 0;
        return cpus_read("/sys/devices/system/cpu/online", &e->online);
}

int allowed_read(const Enforcer *e, pid_t pid, Allowed *ret) {
        CgroupInfo info = {};
        Allowed a = {};
        struct stat st;
        int r;

        r = cgroup_cpuset_of_pid(e->cgroups, "", pid, &info);
        if (r < 0)
                return r == -ENOENT ? -ESRCH : r;
        a.group = TAKE_PTR(info.path);
        a.cpuset = info.cpuset_directory && stat(info.cpuset_directory, &st) == 0 ? st.st_ino : 0;
        r = bitset_copy(&a.cpus, bitset_isempty(&info.cpus) ? &e->online : &info.cpus);
        if (r >= 0 && bitset_intersects(&a.cpus, &e->online))
                bitset_and(&a.cpus, &e->online);
        a.directory = TAKE_PTR(info.cpuset_directory);
        cgroup_info_done(&info);
        if (r < 0) {
                allowed_done(&a);
                return r;
        }
        *ret = a;
        return 0;
}

void allowed_done(Allowed *a) {
        bitset_done(&a->cpus);
        free(a->group);
        free(a->directory);
        *a = (Allowed){};
}

/* Word by word on a copy would need memory that may be short just when something is to be put back. */
static bool equal_within(const Bitset *current, const Bitset *wrote, const Bitset *allowed) {
        BITSET_FOREACH (i, current)
                if (!bitset_test(wrote, (unsigned) i) || !bitset_test(allowed, (unsigned) i))
                        return false;
        return bitset_weight(current) == bitset_and_weight(wrote, allowed);
}

bool mask_stands(const Bitset *current, const Bitset *wrote, const Bitset *allowed) {
        if (bitset_isempty(wrote))
                return false;
        if (bitset_equal(current, wrote))
                return true;
        /* Nothing of it was left (a cpuset rewritten, CPUs unplugged): the kernel falls back to the whole cpuset. */
        if (!bitset_intersects(wrote, allowed))
                return bitset_equal(current, allowed);
        return equal_within(current, wrote, allowed);
}

bool mask_is_written(const UndoEntry *e, const Bitset *current, const Bitset *allowed) {
        return mask_stands(current, &e->new, allowed) || mask_stands(current, &e->before, allowed);
}

bool mask_is_ours(const UndoEntry *e, const Bitset *current, const Bitset *allowed) {
        if (mask_is_written(e, current, allowed))
                return true;
        if (bitset_isempty(&e->cpuset) || bitset_equal(&e->cpuset, allowed))
                return false;
        return bitset_equal(current, allowed) || mask_stands(current, &e->new, &e->cpuset);
}

/* The call leaves out CPUs that are offline: of a thread that has no other (the kernel gives it some when it runs next),
 * /proc tells. */
int mask_read(pid_t tid, Bitset *ret) {
        static const char key[] = "\nCpus_allowed_list:";
        _cleanup_free_ char *text = NULL;
        char path[32], *line;
        int r = bitset_getaffinity(tid, ret);

        if (r < 0 || !bitset_isempty(ret))
                return r;
        (void) snprintf(path, sizeof(path), "/proc/%d/status", tid);
        r = read_file_at(AT_FDCWD, path, FILEIO_MAX_DEFAULT, &text, NULL);
        if (r < 0)
                return r == -ENOENT ? -ESRCH : r;
        line = strstr(text, key);
        if (!line)
                return -ESRCH;
        line += sizeof(key) - 1;
        line += strspn(line, " \t");
        line[strcspn(line, "\n")] = '\0';
        return bitset_parse(line, ret);
}

ChangeResult mask_write(pid_t tid, const Bitset *wanted, Bitset *got, int *ret_error) {
        int r = bitset_setaffinity(tid, wanted);

        if (r >= 0)
                r = bitset_getaffinity(tid, got);
        if (r >= 0)
                return bitset_equal(got, wanted) ? CHANGE_DONE : CHANGE_NARROWED;
        *ret_error = -r;
        return r == -ESRCH ? CHANGE_GONE : CHANGE_REFUSED;
}

int enforcer_new(Undo *undo, const Cgroups *cgroups, Enforcer **ret) {
        _cleanup_(enforcer_freep) Enforcer *e = calloc(1, sizeof(*e));
        int r;

        if (!e)
                return -ENOMEM;
        e->undo = undo;
        e->cgroups = cgroups;
        e->notify = -1;
        r = cpus_read("/sys/devices/system/cpu/possible", &e->possible);
        if (r >= 0)
                r = online_read(e);
        if (r < 0)
                return r;
        cpusets_watch(e);
        *ret = TAKE_PTR(e);
        return 0;
}

static void transaction_done(Transaction *t) {
        free(t->job);
        *t = (Transaction){};
}

Enforcer *enforcer_free(Enforcer *e) {
        if (!e)
                return NULL;
        bitset_done(&e->possible);
        bitset_done(&e->online);
        transaction_done(&e->transaction);
        cpusets_forget(e);
        role_places_clear(e);
        drift_book_done(&e->drift);
        free(e);
        return NULL;
}

int transaction_begin(Transaction *t) {
        int r = t->begun ? 0 : undo_begin(t->undo, t->job, &t->id);

        if (r >= 0)
                t->begun = true;
        return r;
}

int enforce_begin(Enforcer *e, const char *job, uint64_t *ret_id) {
        Transaction *t = &e->transaction;

        if (t->open)
                return -EBUSY;
        *t = (Transaction){ .undo = e->undo, .job = strdup(strempty(job)), .id = undo_next_id(e->undo), .open = true };
        t->opened = clock_usec(CLOCK_BOOTTIME) * (uint64_t) sysconf(_SC_CLK_TCK) / USEC_PER_SEC;
        if (!t->job) {
                transaction_done(t);
                return -ENOMEM;
        }
        if (ret_id)
                *ret_id = t->id;
        e->drift.acting = false;
        e->yielded = (Process){};
        return 0;
}

int enforce_commit(Enforcer *e) {
        Transaction *t = &e->transaction;
        int r = !t->open ? -EINVAL : t->begun ? undo_commit(t->undo, t->id) : 0;

        if (r >= 0)
                transaction_done(t);
        return r;
}

int enforce_rollback(Enforcer *e, int error, Outcome *ret) {
        *ret = (Outcome){};
        if (!e->transaction.open)
                return -EINVAL;
        (void) transaction_rollback(e, error, ret);
        transaction_done(&e->transaction);
        return error;
}

int transaction_end(Enforcer *e, int r, Outcome *o) {
        if (r >= 0)
                r = enforce_commit(e);
        if (r < 0) {
                (void) transaction_rollback(e, r, o);
                transaction_done(&e->transaction);
        }
        return r < 0 ? r : 0;
}
