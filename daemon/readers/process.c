/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/PID: who it is (stat), what it may use (status), what it was started with (cmdline, environ), where its memory
 * is (numa_maps). stat is read for every process of the host at every tick, hence without allocation. Names in /proc
 * are hostile: comm may hold blanks and brackets, so stat is read from its last ')'.
 *
 * numa_maps makes the kernel walk page tables under the process's mmap lock: only process_memory_by_node() reads it,
 * in small steps, and stops when its time is up.
 */
#include "daemon/readers/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>

#include "common/clock.h"
#include "common/fileio.h"
#include "common/text.h"

#define PF_KTHREAD 0x00200000U
#define CMDLINE_MAX (64U << 10)
#define NUMA_MAPS_STEP (16U << 10)

static int proc_error(int error) {
        return error == ENOENT || error == ESRCH ? -ESRCH : -error;
}

static int parse_stat_numbers(const char *s, ProcStat *ret) {
        /* Fields after comm and state, which is field 3: parent is 4, flags 9, …, start time 22. */
        uint64_t field[23] = {};

        for (int i = 4; i <= 22; i++) {
                char *end;

                errno = 0;
                field[i] = (uint64_t) strtoll(s, &end, 10);
                if (end == s || (errno != 0 && errno != ERANGE))
                        return -EBADMSG;
                s = end;
        }
        ret->parent = (pid_t) field[4];
        ret->kernel = field[9] & PF_KTHREAD;
        ret->utime = field[14];
        ret->stime = field[15];
        ret->children_utime = field[16];
        ret->children_stime = field[17];
        ret->threads = (unsigned) field[20];
        ret->start_time = field[22];
        return 0;
}

int proc_parse_stat(const char *text, ProcStat *ret) {
        const char *open = strchr(text, '('), *close = strrchr(text, ')');
        ProcStat s = {};
        size_t n;

        if (!open || !close || close < open || close[1] != ' ' || !close[2])
                return -EBADMSG;
        long pid = strtol(text, NULL, 10);
        if (pid <= 0 || pid > INT_MAX)
                return -EBADMSG;
        s.pid = (pid_t) pid;
        n = MIN((size_t) (close - open - 1), sizeof(s.comm) - 1);
        memcpy(s.comm, open + 1, n);
        s.state = close[2];
        int r = parse_stat_numbers(close + 3, &s);
        if (r < 0)
                return r;
        *ret = s;
        return 0;
}

/* The rest of the line that begins with key, up to its newline, in buf; NULL when there is no such line or it is too long. */
static const char *line_value(const char *text, const char *key, char **buf) {
        size_t k = strlen(key);

        for (const char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
                if (strncmp(p, key, k) != 0)
                        continue;
                p += k + strspn(p + k, " \t");
                free(*buf);
                *buf = strndup(p, strcspn(p, "\n"));
                return *buf;
        }
        return NULL;
}

int proc_parse_status(const char *text, ProcStatus *ret) {
        _cleanup_free_ char *buf = NULL;
        ProcStatus s = {};
        const char *v;
        char *end;
        int r;

        v = line_value(text, "Uid:", &buf);
        if (!v)
                return -EBADMSG;
        s.uid = (uid_t) strtoul(v, &end, 10);
        if (end == v)
                return -EBADMSG;
        v = line_value(text, "Cpus_allowed_list:", &buf);
        r = v ? bitset_parse(v, &s.cpus) : -EBADMSG;
        if (r >= 0) {
                v = line_value(text, "Mems_allowed_list:", &buf); /* absent without CONFIG_CPUSETS */
                r = v ? bitset_parse(v, &s.mems) : 0;
        }
        if (r < 0) {
                proc_status_done(&s);
                return r;
        }
        *ret = s;
        return 0;
}

void proc_status_done(ProcStatus *s) {
        bitset_done(&s->cpus);
        bitset_done(&s->mems);
}

static void add_numa_line(const char *line, const char *end, const Topology *t, uint64_t *bytes) {
        const char *size = memmem(line, (size_t) (end - line), "kernelpagesize_kB=", 18);
        uint64_t page = size ? strtoull(size + 18, NULL, 10) : 4;

        if (page == 0 || page > (16U << 20))
                return;
        for (const char *p = line; p < end && (p = memchr(p, ' ', (size_t) (end - p)));) {
                char *stop;

                if (*++p != 'N' || p[1] < '0' || p[1] > '9')
                        continue;
                unsigned long node = strtoul(p + 1, &stop, 10);
                if (*stop != '=' || node > UINT_MAX)
                        continue;
                unsigned i = topology_node_by_os(t, (unsigned) node);
                if (i != TOPOLOGY_NONE)
                        bytes[i] += strtoull(stop + 1, NULL, 10) * page * 1024;
        }
}

void proc_add_numa_maps(const char *text, const Topology *t, uint64_t *bytes) {
        while (*text) {
                const char *end = strchrnul(text, '\n');

                add_numa_line(text, end, t, bytes);
                text = *end ? end + 1 : end;
        }
}

const char *proc_environ_get(const char *block, size_t size, const char *name) {
        size_t k = strlen(name);

        for (const char *p = block; p < block + size; p += strlen(p) + 1)
                if (strncmp(p, name, k) == 0 && p[k] == '=')
                        return p + k + 1;
        return NULL;
}

int proc_open(const char *root) {
        _cleanup_free_ char *path = NULL;
        int fd;

        if (asprintf(&path, "%s/proc", strempty(root)) < 0)
                return -ENOMEM;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

int proc_read_stat(int proc_fd, pid_t pid, ProcStat *ret) {
        _cleanup_close_ int fd = -1;
        char path[32], text[2048];
        ssize_t n;

        (void) snprintf(path, sizeof(path), "%d/stat", (int) pid);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return proc_error(errno);
        n = read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return proc_error(errno);
        if (n == 0)
                return -ESRCH;
        text[n] = '\0';
        return proc_parse_stat(text, ret);
}

int proc_read_text(int proc_fd, pid_t pid, const char *name, size_t max, char **ret, size_t *ret_size) {
        char path[64];
        int r;

        (void) snprintf(path, sizeof(path), "%d/%s", (int) pid, name);
        r = read_file_at(proc_fd, path, max, ret, ret_size);
        return r == -ENOENT ? -ESRCH : r;
}

int proc_read_status(int proc_fd, pid_t pid, pid_t tid, ProcStatus *ret) {
        _cleanup_close_ int fd = -1;
        _cleanup_free_ char *long_text = NULL;
        char path[64], text[8192]; /* about 1.5 KiB, and lists of groups, CPUs and nodes */
        size_t n = 0;

        if (tid > 0)
                (void) snprintf(path, sizeof(path), "%d/task/%d/status", (int) pid, (int) tid);
        else
                (void) snprintf(path, sizeof(path), "%d/status", (int) pid);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return proc_error(errno);
        while (n < sizeof(text) - 1) {
                ssize_t k = read(fd, text + n, sizeof(text) - 1 - n);

                if (k < 0)
                        return proc_error(errno);
                if (k == 0)
                        break;
                n += (size_t) k;
        }
        if (n == 0)
                return -ESRCH;
        if (n == sizeof(text) - 1) {
                int r = read_file_at(proc_fd, path, 1U << 20, &long_text, NULL);

                return r < 0 ? (r == -ENOENT ? -ESRCH : r) : proc_parse_status(long_text, ret);
        }
        text[n] = '\0';
        return proc_parse_status(text, ret);
}

int proc_read_cmdline(int proc_fd, pid_t pid, char **ret) {
        _cleanup_free_ char *text = NULL;
        _cleanup_close_ int fd = -1;
        char path[32];
        ssize_t n;

        text = malloc(CMDLINE_MAX);
        if (!text)
                return -ENOMEM;
        (void) snprintf(path, sizeof(path), "%d/cmdline", (int) pid);
        fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return proc_error(errno);
        n = read(fd, text, CMDLINE_MAX - 1); /* a longer one is cut: it is only matched against patterns */
        if (n < 0)
                return proc_error(errno);
        while (n > 0 && text[n - 1] == '\0')
                n--;
        for (ssize_t i = 0; i < n; i++)
                if (text[i] == '\0')
                        text[i] = ' ';
        text[n] = '\0';
        *ret = realloc(text, (size_t) n + 1);
        if (!*ret)
                return -ENOMEM;
        text = NULL;
        return 0;
}

static int int_cmp(const void *a, const void *b) {
        return CMP(*(const int *) a, *(const int *) b);
}

int proc_list(int dir_fd, const char *path, int **ret, size_t *ret_n) {
        _cleanup_free_ int *list = NULL;
        size_t n = 0, allocated = 0;
        struct dirent *e;
        DIR *d;
        int fd;

        fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return proc_error(errno);
        d = fdopendir(fd);
        if (!d) {
                int r = -errno;

                (void) close(fd);
                return r;
        }
        while (errno = 0, e = readdir(d)) {
                unsigned v;

                if (text_parse_uint(e->d_name, 0, INT_MAX, &v) < 0)
                        continue;
                if (n == allocated) {
                        int *p = reallocarray(list, allocated = allocated ? allocated * 2 : 64, sizeof(int));

                        if (!p) {
                                (void) closedir(d);
                                return -ENOMEM;
                        }
                        list = p;
                }
                list[n++] = (int) v;
        }
        int error = errno;
        (void) closedir(d);
        if (error != 0)
                return proc_error(error);
        if (n > 1)
                qsort(list, n, sizeof(int), int_cmp);
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 0;
}

int process_start_time(pid_t pid, uint64_t *ret) {
        _cleanup_close_ int proc_fd = proc_open("");
        ProcStat s;
        int r;

        if (proc_fd < 0)
                return proc_fd;
        r = proc_read_stat(proc_fd, pid, &s);
        if (r < 0)
                return r;
        if (proc_stat_dead(&s))
                return -ESRCH;
        *ret = s.start_time;
        return 0;
}

int process_parent(pid_t pid, pid_t *ret) {
        _cleanup_close_ int proc_fd = proc_open("");
        ProcStat s;
        int r;

        if (proc_fd < 0)
                return proc_fd;
        r = proc_read_stat(proc_fd, pid, &s);
        if (r < 0)
                return r;
        *ret = s.parent;
        return 0;
}

int process_threads(pid_t pid, pid_t **ret, size_t *ret_n) {
        char path[40];
        pid_t *list;
        size_t n;
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
        r = proc_list(AT_FDCWD, path, &list, &n);
        if (r < 0)
                return r;
        if (n == 0) { /* the directory of a process that ended while it was open */
                free(list);
                return -ESRCH;
        }
        *ret = list;
        *ret_n = n;
        return 0;
}

int process_is(pid_t pid, uint64_t start_time) {
        uint64_t now;
        int r;

        r = process_start_time(pid, &now);
        if (r < 0)
                return r == -ESRCH ? 0 : r;
        return now == start_time;
}

int process_uid(pid_t pid, uid_t *ret) {
        _cleanup_close_ int proc_fd = proc_open("");
        ProcStatus s;
        int r;

        if (proc_fd < 0)
                return proc_fd;
        r = proc_read_status(proc_fd, pid, 0, &s);
        if (r < 0)
                return r;
        *ret = s.uid;
        proc_status_done(&s);
        return 0;
}

int process_memory_by_node(pid_t pid, const Topology *t, uint64_t budget_usec, uint64_t **ret) {
        _cleanup_free_ uint64_t *bytes = calloc(MAX(t->n_nodes, 1U), sizeof(uint64_t));
        _cleanup_free_ char *buf = malloc(NUMA_MAPS_STEP + 1);
        _cleanup_close_ int fd = -1;
        uint64_t start = clock_monotonic_usec();
        size_t kept = 0;
        char path[40];
        int partial = 0;

        if (!bytes || !buf)
                return -ENOMEM;
        (void) snprintf(path, sizeof(path), "/proc/%d/numa_maps", (int) pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return proc_error(errno);
        for (;;) {
                ssize_t n = read(fd, buf + kept, NUMA_MAPS_STEP - kept);

                if (n < 0)
                        return proc_error(errno);
                if (n == 0)
                        break;
                kept += (size_t) n;
                char *last = memrchr(buf, '\n', kept);
                if (last) { /* whole lines are added, the rest waits for its end */
                        *last = '\0';
                        proc_add_numa_maps(buf, t, bytes);
                        kept -= (size_t) (last + 1 - buf);
                        memmove(buf, last + 1, kept);
                } else if (kept == NUMA_MAPS_STEP)
                        kept = 0; /* a path longer than that: its line is lost */
                if (clock_monotonic_usec() - start > budget_usec) {
                        partial = 1;
                        break;
                }
        }
        *ret = TAKE_PTR(bytes);
        return partial;
}
