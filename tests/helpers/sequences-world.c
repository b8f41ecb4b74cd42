/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the sequences act on. A puppet is this program again (--puppet): it starts threads, named ones and children as one
 * byte on its pipe says, and ends with the driver. The daemon is a child too, with directories of the driver's, so that
 * it can be killed and started again at any moment; calls never start one through the bus.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "common/fileio.h"
#include "sequences.h"

#define CALL_USEC (60U * 1000000U)
#define SETTLE_USEC (30U * 1000000U)

Set set_parse(const char *s) {
        Set set = 0;
        int n;

        for (unsigned a, b; sscanf(s, "%u%n", &a, &n) == 1; s += *s == ',') {
                s += n;
                b = a;
                if (sscanf(s, "-%u%n", &b, &n) == 1)
                        s += n;
                for (; a <= b && a < 64; a++)
                        set |= (Set) 1 << a;
        }
        return set;
}

const char *set_text(Set s, char buffer[static 256]) {
        size_t n = 0;

        (void) snprintf(buffer, 256, "nothing");
        for (unsigned i = 0; i < 64; i++)
                if (s >> i & 1)
                        n += (size_t) snprintf(buffer + n, 256 - n, "%s%u", n ? "," : "", i);
        return buffer;
}

Set set_read(const char *dir, const char *file) {
        _cleanup_free_ char *path = path_join(dir, file), *line = NULL;

        return path && read_line_at(AT_FDCWD, path, &line) >= 0 ? set_parse(line) : 0;
}

Set online(void) {
        return set_read("/sys/devices/system/cpu", "online");
}

uint64_t now_usec(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000U + (uint64_t) ts.tv_nsec / 1000U;
}

int fail(World *w, const char *format, ...) {
        va_list ap;

        va_start(ap, format);
        if (!w->failure[0])
                (void) vsnprintf(w->failure, sizeof(w->failure), format, ap);
        va_end(ap);
        return -1;
}

unsigned pick(World *w, unsigned n) {
        return (unsigned) rand_r(&w->seed) / 7U % n;
}

Set pick_set(World *w, Set of) {
        Set s;

        do {
                s = 0;
                for (unsigned i = 0; i < 64; i++)
                        if (of >> i & 1)
                                s |= (Set) pick(w, 2) << i;
        } while (!s);
        return s;
}

/* tid 0: of the process; pid 0: file is a whole path. NULL: gone. */
char *proc_text(pid_t pid, pid_t tid, const char *file) {
        char path[512], *text = NULL;

        if (pid == 0)
                (void) snprintf(path, sizeof(path), "%s", file);
        else if (tid == 0)
                (void) snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
        else
                (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, file);
        return read_file_at(AT_FDCWD, path, 1U << 24, &text, NULL) < 0 ? NULL : text;
}

Set mask_of(pid_t pid, pid_t tid, const char *key) {
        _cleanup_free_ char *text = proc_text(pid, tid, "status");
        const char *found = text ? strstr(text, key) : NULL;

        return found ? set_parse(found + strlen(key) + 2) : 0;
}

/* The effective CPUs of the nearest group that has any. */
static Set effective(const World *w, char *path) {
        const char *root = w->unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpuset";
        const char *file = w->unified ? "cpuset.cpus.effective" : "cpuset.effective_cpus";

        for (char *slash; path[1]; *slash = '\0') {
                char dir[4096];
                Set s;

                (void) snprintf(dir, sizeof(dir), "%s%s", root, path);
                s = set_read(dir, file);
                slash = strrchr(path, '/');
                if (s || !slash || slash == path)
                        return s ? s : online();
        }
        return online();
}

Set allowed_of(const World *w, pid_t pid) {
        _cleanup_free_ char *text = proc_text(pid, 0, "cgroup");
        const char *key = w->unified ? "0::" : ":cpuset:";
        char *found = text ? strstr(text, key) : NULL;

        if (!found)
                return online();
        found += strlen(key);
        found[strcspn(found, "\n")] = '\0';
        return effective(w, found);
}

/* --- puppets ------------------------------------------------------------------------------------------------------ */

static void *sleep_thread(void *name) {
        if (name)
                (void) prctl(PR_SET_NAME, name);
        for (;;)
                (void) pause();
        return NULL;
}

static void thread_start(const char *name) {
        pthread_attr_t attr;
        pthread_t t;

        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 128U << 10);
        if (pthread_create(&t, &attr, sleep_thread, (void *) name) != 0)
                _exit(1);
        pthread_attr_destroy(&attr);
}

static pid_t child_start(void) {
        pid_t parent = getpid(), pid = fork();

        if (pid != 0)
                return pid;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(0);
        thread_start("pin_memory");
        sleep_thread(NULL);
        return 0;
}

int puppet_main(const char *fds) {
        static const char *const names[] = { "acl_thread", "release_thread", "hccl_watchdog", "worker_7",
                                             "cuda-EvtHandlr" };
        unsigned n = 0;
        pid_t pid = 0;
        int in, out;
        char what;

        if (sscanf(fds, "%d,%d", &in, &out) != 2)
                return 2;
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) prctl(PR_SET_NAME, "seqpuppet");
        if (write(out, &pid, sizeof(pid)) != sizeof(pid))
                return 1;
        while (read(in, &what, 1) == 1) {
                pid = 0;
                switch (what) {
                case 'c': pid = child_start(); break;
                case 'n': thread_start(names[n++ % ELEMENTSOF(names)]); break;
                default: thread_start(NULL); break;
                }
                if (write(out, &pid, sizeof(pid)) != sizeof(pid))
                        break;
        }
        return 0;
}

pid_t puppet_do(Puppet *p, char what) {
        pid_t pid = -1;

        if (write(p->in, &what, 1) != 1 || read(p->out, &pid, sizeof(pid)) != sizeof(pid))
                return -1;
        return pid;
}

static void puppet_exec(const World *w, int in, int out, int group, const char *run_name) {
        _cleanup_free_ char *log = path_join(w->dir, "puppets.log");
        char self[4096] = {}, option[64], name[64], procs[4096];
        int fd;

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void) snprintf(option, sizeof(option), "--puppet=%d,%d", in, out);
        (void) snprintf(name, sizeof(name), "--name=%s", run_name ? run_name : "");
        (void) snprintf(procs, sizeof(procs), "%s/cgroup.procs", group == NONE ? "" : w->groups[group]);
        if (group != NONE && write_file_at(AT_FDCWD, procs, "0") < 0)
                _exit(1);
        fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
                _exit(1);
        if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
                _exit(1);
        if (run_name)
                (void) execlp("qschedctl", "qschedctl", "run", name, "--cpus=1", "--", self, option, NULL);
        else
                (void) execl(self, self, option, NULL);
        _exit(127);
}

int puppet_start(World *w, Puppet *p, int group, const char *run_name) {
        int in[2], out[2];
        pid_t pid, ready;

        if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || (pid = fork()) < 0)
                return fail(w, "no puppet: %s", strerror(errno));
        if (pid == 0) {
                (void) fcntl(in[0], F_SETFD, 0);
                (void) fcntl(out[1], F_SETFD, 0);
                puppet_exec(w, in[0], out[1], group, run_name);
        }
        (void) close(in[0]);
        (void) close(out[1]);
        *p = (Puppet){ .pid = pid, .in = in[1], .out = out[0], .group = group, .job = NONE, .run = run_name };
        if (!run_name)
                p->cgroups = NULL;
        if (read(p->out, &ready, sizeof(ready)) != sizeof(ready))
                return fail(w, "puppet %d did not start%s", pid, run_name ? " under qschedctl run" : "");
        p->cgroups = proc_text(run_name ? getpid() : pid, 0, "cgroup");
        (void) tid_of(p, pid);
        return 0;
}

void puppet_end(Puppet *p) {
        if (p->pid <= 0)
                return;
        (void) kill(p->pid, SIGKILL);
        (void) waitpid(p->pid, NULL, 0);
        (void) close(p->in);
        (void) close(p->out);
        free(p->cgroups);
        *p = (Puppet){ .group = NONE, .job = NONE };
}

/* --- cpusets ------------------------------------------------------------------------------------------------------ */

int group_write(World *w, unsigned g, Set cpus) {
        _cleanup_free_ char *path = path_join(w->groups[g], "cpuset.cpus");
        char text[256];

        if (write_file_at(AT_FDCWD, path, set_text(cpus, text)) < 0)
                return fail(w, "%s cannot be written", path);
        w->group_cpus[g] = cpus;
        return 0;
}

/* On the unified hierarchy the driver needs a group of its own that was delegated to it (systemd-run -p Delegate=yes). */
static int delegated(World *w) {
        _cleanup_free_ char *text = proc_text(getpid(), 0, "cgroup"), *leaf = NULL, *procs = NULL, *control = NULL;
        char *path = text ? strstr(text, "0::") : NULL;

        if (!path)
                return -1;
        path[strcspn(path, "\n")] = '\0';
        w->base = path_join("/sys/fs/cgroup", path + 4);
        leaf = path_join(w->base, "driver");
        procs = path_join(leaf, "cgroup.procs");
        control = path_join(w->base, "cgroup.subtree_control");
        if ((mkdir(leaf, 0755) < 0 && errno != EEXIST) || write_file_at(AT_FDCWD, procs, "0") < 0 ||
            write_file_at(AT_FDCWD, control, "+cpuset") < 0)
                return -1;
        return 0;
}

int groups_open(World *w) {
        const char *v1 = "/sys/fs/cgroup/cpuset";
        _cleanup_free_ char *mems = NULL;

        w->unified = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0;
        if (w->unified
                    ? delegated(w) < 0
                    : access(v1, W_OK) < 0 || read_line_at(AT_FDCWD, "/sys/fs/cgroup/cpuset/cpuset.mems", &mems) < 0) {
                printf("# no cpusets here: sequences without them\n");
                return 0;
        }
        for (unsigned g = 0; g < GROUPS; g++) {
                _cleanup_free_ char *path = NULL;

                if (asprintf(&w->groups[g], "%s/qsched-sequences-%d-%u", w->unified ? w->base : v1, getpid(), g) < 0)
                        return -1;
                if (mkdir(w->groups[g], 0755) < 0)
                        return fail(w, "%s: %s", w->groups[g], strerror(errno));
                path = path_join(w->groups[g], "cpuset.mems");
                if (mems && write_file_at(AT_FDCWD, path, mems) < 0)
                        return fail(w, "%s cannot be written", path);
                if (group_write(w, g, w->online0) < 0)
                        return -1;
        }
        return 0;
}

void groups_close(World *w) {
        for (unsigned g = 0; g < GROUPS; g++) {
                for (unsigned i = 0; w->groups[g] && i < 200 && rmdir(w->groups[g]) < 0 && errno == EBUSY; i++)
                        (void) usleep(10000);
                free(w->groups[g]);
                w->groups[g] = NULL;
        }
        free(w->base);
        w->base = NULL;
}

/* What a failed sequence left: the next one is to find nothing. Where systemd made it, systemd removes it. */
static void sweep_groups(void) {
        char command[256];

        (void) snprintf(
                command, sizeof(command),
                "rmdir /sys/fs/cgroup/cpuset/qsched.slice/seqrun%d-* /sys/fs/cgroup/cpuset/qsched.slice 2>/dev/null",
                getpid());
        (void) !system(command);
}

/* Does a mask of one's own outlive a cpuset that is rewritten (Linux 6.2 and later)? */
static void probe_masks(World *w, Set before, Set after) {
        Puppet p;
        cpu_set_t one;

        if (!w->groups[0] || !after || puppet_start(w, &p, 0, NULL) < 0)
                return;
        CPU_ZERO(&one);
        CPU_SET((size_t) __builtin_ctzll(before), &one);
        (void) sched_setaffinity(p.pid, sizeof(one), &one);
        (void) group_write(w, 0, before | after);
        (void) group_write(w, 0, before);
        (void) group_write(w, 0, before | after);
        w->keeps_masks = mask_of(p.pid, p.pid, "Cpus_allowed_list") == before;
        puppet_end(&p);
}

/* --- the daemon --------------------------------------------------------------------------------------------------- */

sd_bus_message *call_message(World *w, const char *method, const char *text) {
        sd_bus_message *m = NULL;
        int r = sd_bus_message_new_method_call(w->bus, &m, "org.qsched1", "/org/qsched1", "org.qsched1.Manager",
                                               method);

        if (r >= 0)
                r = sd_bus_message_set_auto_start(m, false);
        if (r >= 0 && streq(method, "Apply"))
                r = sd_bus_message_append(m, "a(ss)a{sv}", 1, text, "", 0);
        else if (r >= 0 && text)
                r = sd_bus_message_append(m, "s", text);
        assert(r >= 0);
        return m;
}

/* 0, or the negative errno of the answer; *ret and *ret_error may be NULL. */
int call(World *w, const char *method, const char *text, char **ret, char **ret_error) {
        sd_bus_message *m = call_message(w, method, text), *answer = NULL;
        sd_bus_error e = SD_BUS_ERROR_NULL;
        const char *s = NULL;
        int r = sd_bus_call(w->bus, m, CALL_USEC, &e, &answer);

        if (r >= 0 && ret)
                r = sd_bus_message_read(answer, "s", &s);
        if (r >= 0 && ret)
                *ret = strdup(s);
        if (r < 0 && ret_error)
                *ret_error = strdup(e.message ? e.message : strerror(-r));
        sd_bus_message_unref(m);
        sd_bus_message_unref(answer);
        sd_bus_error_free(&e);
        return r < 0 ? r : 0;
}

static int status(World *w) {
        _cleanup_free_ char *text = NULL, *error = NULL;
        int r = call(w, "GetStatus", NULL, &text, &error);

        if (r < 0)
                return r;
        json_decref(w->status);
        w->status = json_loads(text, 0, NULL);
        return w->status ? 0 : -EINVAL;
}

static int64_t number(const World *w, const char *key) {
        return json_integer_value(json_object_get(w->status, key));
}

/* So many more ticks, and nothing being solved or waiting after them. */
int settle(World *w, unsigned ticks) {
        uint64_t end = now_usec() + SETTLE_USEC;
        int64_t first;
        int r = status(w);

        if (r < 0)
                return fail(w, "the daemon does not answer: %s", strerror(-r));
        first = number(w, "ticks");
        do {
                (void) usleep(20000);
                r = status(w);
                if (r < 0 || waitpid(w->daemon, NULL, WNOHANG) == w->daemon)
                        return fail(w, "the daemon has gone: %s", strerror(-r));
                if (number(w, "ticks") >= first + ticks && number(w, "queued") == 0 &&
                    streq(json_string_value(json_object_get(w->status, "state")), "idle"))
                        return 0;
        } while (now_usec() < end);
        return fail(w, "not settled after 30 s: state %s, %lld waiting",
                    json_string_value(json_object_get(w->status, "state")), (long long) number(w, "queued"));
}

int world_config(World *w) {
        _cleanup_free_ char *path = path_join(w->dir, "qschedd.conf"), *text = NULL;
        char drift[64] = "";
        const char *roles = !w->has_roles ? "" : w->roles ? "ThreadRoles=yes\n" : "ThreadRoles=no\n";

        if (w->drift)
                (void) snprintf(drift, sizeof(drift), "Drift=%s\n", w->drift);
        if (asprintf(&text,
                     "[Daemon]\nInterval=100ms\n[Placement]\nHoldOff=0\nHousekeepingCores=0\n%s[Solver]\nBudget=200ms\n"
                     "[Enforce]\nInterrupts=yes\n%s"
                     "[Device seq0]\nKind=seqdevice\nNUMANode=0\n[Device seq1]\nKind=seqdevice\nNUMANode=0\n",
                     roles, drift) < 0)
                return -ENOMEM;
        return write_file_atomic(path, text, 0644);
}

static bool knows_key(const char *key) {
        _cleanup_free_ char *command = NULL;

        return asprintf(&command, "qschedd --print-config | grep -qE '^#?%s='", key) > 0 && system(command) == 0;
}

int daemon_start(World *w) {
        _cleanup_free_ char *conf = path_join(w->dir, "qschedd.conf"), *log = path_join(w->dir, "qschedd.log");
        uint64_t end = now_usec() + SETTLE_USEC;
        pid_t pid = fork();

        if (pid == 0) {
                int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0 || dup2(fd, STDERR_FILENO) < 0)
                        _exit(126);
                (void) execlp("qschedd", "qschedd", "--config", conf, NULL);
                _exit(127);
        }
        w->daemon = pid;
        while (now_usec() < end) {
                if (status(w) >= 0)
                        return 0;
                if (waitpid(pid, NULL, WNOHANG) == pid)
                        break;
                (void) usleep(20000);
        }
        return fail(w, "the daemon did not start, see %s", log);
}

void daemon_kill(World *w, int signal, int *ret_status) {
        int s = 0;

        if (w->daemon <= 0)
                return;
        (void) kill(w->daemon, signal);
        (void) waitpid(w->daemon, &s, 0);
        w->daemon = 0;
        if (ret_status)
                *ret_status = s;
}

static int make_dirs(World *w) {
        static const char *const dirs[] = { "run", "state" }, *const names[] = { "RUNTIME_DIRECTORY",
                                                                                 "STATE_DIRECTORY" };

        for (unsigned i = 0; i < ELEMENTSOF(dirs); i++) {
                _cleanup_free_ char *path = path_join(w->dir, dirs[i]);

                if ((mkdir(path, 0755) < 0 && errno != EEXIST) || setenv(names[i], path, 1) < 0)
                        return fail(w, "%s: %s", path, strerror(errno));
        }
        return 0;
}

int world_open(World *w) {
        int r = sd_bus_open_system(&w->bus);

        if (r < 0)
                return fail(w, "no bus: %s", strerror(-r));
        w->online0 = online();
        for (unsigned i = 0; i < PUPPETS; i++)
                w->puppets[i] = (Puppet){ .group = NONE, .job = NONE };
        w->has_roles = knows_key("ThreadRoles");
        w->has_drift = knows_key("Drift");
        w->roles = true;
        w->drift = w->has_drift ? "report" : NULL;
        if (make_dirs(w) < 0 || groups_open(w) < 0 || world_config(w) < 0)
                return -1;
        probe_masks(w, w->online0 & -w->online0, w->online0 & (w->online0 - 1));
        return daemon_start(w);
}

void world_close(World *w) {
        daemon_kill(w, SIGKILL, NULL);
        for (unsigned i = 0; i < PUPPETS; i++)
                puppet_end(&w->puppets[i]);
        groups_close(w);
        sweep_groups();
        sd_bus_flush_close_unref(w->bus);
        json_decref(w->status);
}
