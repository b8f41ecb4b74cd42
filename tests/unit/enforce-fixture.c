/* SPDX-License-Identifier: Apache-2.0 */
#include "enforce-fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "common/fileio.h"
#include "daemon/readers/tasks.h"

char cpu_a[16], cpu_b[16], cpu_all[1024];

char *mask_of(pid_t tid) {
        char path[48], line[4096], *found = NULL;
        FILE *f;

        (void) snprintf(path, sizeof(path), "/proc/%d/status", tid);
        f = fopen(path, "re");
        while (f && !found && fgets(line, sizeof(line), f))
                if (strncmp(line, "Cpus_allowed_list:\t", 19) == 0) {
                        line[strcspn(line, "\n")] = '\0';
                        found = strdup(line + 19);
                }
        if (f)
                (void) fclose(f);
        return found;
}

void set_mask(pid_t tid, const char *cpus) {
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;

        assert_int_equal(bitset_parse(cpus, &b), 0);
        assert_int_equal(bitset_setaffinity(tid, &b), 0);
}

static pid_t *threads_of(pid_t pid, unsigned *ret_n) {
        char path[32];
        struct dirent *de;
        pid_t *tids = NULL;
        unsigned n = 0;
        DIR *d;

        (void) snprintf(path, sizeof(path), "/proc/%d/task", pid);
        d = opendir(path);
        while (d && (de = readdir(d)))
                if (de->d_name[0] != '.') {
                        tids = reallocarray(tids, n + 1, sizeof(*tids));
                        assert_non_null(tids);
                        tids[n++] = atoi(de->d_name);
                }
        if (d)
                (void) closedir(d);
        *ret_n = n;
        return tids;
}

pid_t newest_thread(pid_t pid) {
        _cleanup_free_ pid_t *tids = NULL;
        pid_t newest = 0;
        size_t n;

        assert_int_equal(process_threads(pid, &tids, &n), 0);
        for (size_t i = 0; i < n; i++)
                newest = MAX(newest, tids[i]);
        return newest;
}

unsigned n_threads(pid_t pid) {
        unsigned n;

        free(threads_of(pid, &n));
        return n;
}

void set_masks(pid_t pid, const char *cpus) {
        unsigned n;
        pid_t *tids = threads_of(pid, &n);

        for (unsigned i = 0; i < n; i++)
                set_mask(tids[i], cpus);
        free(tids);
}

unsigned count_masks(pid_t pid, const char *cpus) {
        unsigned n, k = 0;
        pid_t *tids = threads_of(pid, &n);

        for (unsigned i = 0; i < n; i++) {
                _cleanup_free_ char *mask = mask_of(tids[i]);

                k += mask && streq(mask, cpus);
        }
        free(tids);
        return k;
}

void assert_masks(pid_t pid, const char *cpus) {
        unsigned n;
        pid_t *tids = threads_of(pid, &n);

        assert_true(n > 0);
        for (unsigned i = 0; i < n; i++) {
                _cleanup_free_ char *mask = mask_of(tids[i]);

                if (mask)
                        assert_string_equal(mask, cpus);
        }
        free(tids);
}

int group_setup(void **state) {
        _cleanup_(bitset_done) Bitset possible = BITSET_EMPTY, all = BITSET_EMPTY;
        _cleanup_free_ char *line = NULL, *text = NULL;
        int a, b;

        /* A test that was started pinned (taskset) would see that mask as its workers' old one. */
        if (read_line_at(AT_FDCWD, "/sys/devices/system/cpu/possible", &line) < 0 ||
            bitset_parse(line, &possible) < 0 || bitset_setaffinity(0, &possible) < 0 ||
            bitset_getaffinity(0, &all) < 0)
                return -1;
        a = bitset_first(&all);
        b = bitset_next(&all, a);
        text = mask_of(getpid());
        if (!text)
                return -1;
        (void) snprintf(cpu_a, sizeof(cpu_a), "%d", a);
        (void) snprintf(cpu_b, sizeof(cpu_b), "%d", b);
        (void) snprintf(cpu_all, sizeof(cpu_all), "%s", text);
        return b < 0 ? 1 : 0;
}

static int daemon_start(Fixture *f) {
        char **messages = NULL;
        int r = undo_open(f->dir, &messages, &f->undo);

        strv_free(messages);
        if (r >= 0)
                r = enforcer_new(f->undo, &f->cgroups, &f->enforcer);
        return r;
}

int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        *state = f;
        strcpy(f->dir, "/tmp/qsched-enforce-XXXXXX");
        if (!mkdtemp(f->dir) || cgroups_read("", &f->cgroups) < 0)
                return -1;
        f->journal = path_join(f->dir, "undo.journal");
        return daemon_start(f);
}

int teardown(void **state) {
        _cleanup_free_ char *command = NULL;
        Fixture *f = *state;

        outcome_done(&f->outcome);
        enforcer_free(f->enforcer);
        undo_free(f->undo);
        cgroups_done(&f->cgroups);
        if (asprintf(&command, "rm -rf '%s'", f->dir) < 0 || system(command) != 0)
                return -1;
        free(f->journal);
        free(f);
        return 0;
}

void daemon_restart(Fixture *f) {
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        assert_int_equal(daemon_start(f), 0);
}

off_t journal_size(const Fixture *f) {
        struct stat st;

        return stat(f->journal, &st) < 0 ? -1 : st.st_size;
}

size_t journal_count(Fixture *f) {
        size_t n;

        undo_entries(f->undo, &n);
        return n;
}

Process process_now(pid_t pid) {
        Process p = { .pid = pid };

        assert_int_equal(process_start_time(pid, &p.start_time), 0);
        return p;
}

static const char *worker_path(void) {
        static char path[4096];
        const char *dir = getenv("TOP_BUILDDIR");

        (void) snprintf(path, sizeof(path), "%s/tests/helpers/worker", dir ? dir : ".");
        return path;
}

Worker worker_start(const char *arg, ...) {
        char *argv[16] = { (char *) "worker", (char *) arg };
        pid_t parent = getpid(), pid;
        unsigned n = 2;
        int fds[2];
        va_list ap;
        Worker w;

        va_start(ap, arg);
        while (arg && n < ELEMENTSOF(argv) - 1 && (argv[n] = va_arg(ap, char *)))
                n++;
        va_end(ap);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != parent || dup2(fds[1], STDOUT_FILENO) < 0)
                        _exit(1);
                (void) execv(worker_path(), argv);
                perror(worker_path());
                _exit(127);
        }
        (void) close(fds[1]);
        w.out = fds[0];
        worker_say(&w, "ready");
        w.process = process_now(pid);
        return w;
}

void worker_say(const Worker *w, const char *word) {
        char line[64] = "";
        size_t n = 0;

        while (n < sizeof(line) - 1 && read(w->out, line + n, 1) == 1 && line[n] != '\n')
                n++;
        line[n] = '\0';
        assert_string_equal(line, word);
}

void worker_end(Worker *w) {
        assert_int_equal(kill(w->process.pid, SIGTERM), 0);
        assert_int_equal(waitpid(w->process.pid, NULL, 0), w->process.pid);
        (void) close(w->out);
}

static void *sleep_thread(void *unused) {
        for (;;)
                pause();
        return NULL;
}

static void *short_thread(void *unused) {
        const struct timespec ts = { .tv_nsec = 300000 };

        (void) nanosleep(&ts, NULL);
        return NULL;
}

static void *churn_thread(void *unused) {
        for (;;) {
                pthread_t t[4];
                unsigned n = 0;

                while (n < ELEMENTSOF(t) && pthread_create(&t[n], NULL, short_thread, NULL) == 0)
                        n++;
                while (n > 0)
                        (void) pthread_join(t[--n], NULL);
        }
        return NULL;
}

static pid_t named_tid; /* of the last one */
static pthread_t named_thread;
static sem_t named_ready, named_end;

static void *named_main(void *name) {
        (void) prctl(PR_SET_NAME, name);
        named_tid = gettid();
        (void) sem_post(&named_ready);
        (void) sem_wait(&named_end);
        return NULL;
}

static void start_named(int in) {
        char name[16];

        if (read(in, name, sizeof(name)) != sizeof(name) || pthread_create(&named_thread, NULL, named_main, name) != 0)
                _exit(1);
        (void) sem_wait(&named_ready);
}

static void end_named(void) {
        (void) sem_post(&named_end);
        (void) pthread_join(named_thread, NULL);
}

static void puppet_main(int in, int out) {
        pthread_t t;
        char command;

        (void) sem_init(&named_ready, 0, 0);
        (void) sem_init(&named_end, 0, 0);

        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int fd = 3; fd < 256; fd++) /* the journal's lock among them */
                if (fd != in && fd != out)
                        (void) close(fd);
        while (read(in, &command, 1) == 1) {
                pid_t pid = 0;

                if (command == 'f') {
                        pid = fork();
                        if (pid == 0) {
                                (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
                                sleep_thread(NULL);
                        }
                } else if (command == 'n') {
                        start_named(in);
                        pid = named_tid;
                } else if (command == 'e')
                        end_named();
                else if (pthread_create(&t, NULL, command == 't' ? sleep_thread : churn_thread, NULL) != 0)
                        _exit(1);
                if (write(out, &pid, sizeof(pid)) != sizeof(pid))
                        break;
        }
        _exit(0);
}

Puppet puppet_start(void) {
        int in[2], out[2];
        Puppet p = {};
        pid_t pid;

        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void) close(in[1]);
                puppet_main(in[0], out[1]);
        }
        (void) close(in[0]);
        (void) close(out[1]);
        p.process = process_now(pid);
        p.in = in[1];
        p.out = out[0];
        return p;
}

static pid_t puppet_do(Puppet *p, char command) {
        pid_t pid;

        assert_int_equal(write(p->in, &command, 1), 1);
        assert_int_equal(read(p->out, &pid, sizeof(pid)), sizeof(pid));
        return pid;
}

pid_t puppet_fork(Puppet *p) {
        return puppet_do(p, 'f');
}

void puppet_thread(Puppet *p) {
        (void) puppet_do(p, 't');
}

pid_t puppet_named(Puppet *p, const char *name) {
        char text[17] = "n";
        pid_t pid;

        (void) snprintf(text + 1, sizeof(text) - 1, "%.15s", name);
        assert_int_equal(write(p->in, text, sizeof(text)), sizeof(text));
        assert_int_equal(read(p->out, &pid, sizeof(pid)), sizeof(pid));
        return pid;
}

void puppet_end_named(Puppet *p) {
        (void) puppet_do(p, 'e');
}

void puppet_churn(Puppet *p) {
        (void) puppet_do(p, 'x');
}

void puppet_end(Puppet *p) {
        (void) kill(p->process.pid, SIGKILL);
        assert_int_equal(waitpid(p->process.pid, NULL, 0), p->process.pid);
        (void) close(p->in);
        (void) close(p->out);
}

const Plan *plan_for(Process p, const char *cpus, const Process *children) {
        static Bitset set;
        static PlanTask task;
        static Plan plan;

        bitset_done(&set);
        assert_int_equal(bitset_parse(cpus, &set), 0);
        task = (PlanTask){ .name = (char *) "train/0", .job = (char *) "train", .process = p, .cpus = set };
        task.children = (Process *) children;
        while (children && children[task.n_children].pid > 0)
                task.n_children++;
        plan = (Plan){ .feasible = true, .tasks = &task, .n_tasks = 1 };
        return &plan;
}

int apply(Fixture *f, Process p, const char *cpus) {
        outcome_done(&f->outcome);
        return enforce_apply(f->enforcer, plan_for(p, cpus, NULL), "train", &f->outcome);
}

int revert(Fixture *f) {
        outcome_done(&f->outcome);
        return enforce_revert(f->enforcer, "train", &f->outcome);
}

void assert_message(const Fixture *f, const char *part) {
        for (char **m = f->outcome.messages; m && *m; m++)
                if (strstr(*m, part))
                        return;
        for (char **m = f->outcome.messages; m && *m; m++)
                print_error("message: %s\n", *m);
        fail_msg("no message says \"%s\"", part);
}

const char *cpuset_tree(const Fixture *f) {
        return f->cgroups.cpuset ? f->cgroups.cpuset : f->cgroups.unified_cpuset ? f->cgroups.unified : NULL;
}

bool cpuset_usable(const Fixture *f) {
        const char *shown = f->cgroups.shown[f->cgroups.cpuset ? CGROUP_CPUSET : CGROUP_UNIFIED];

        return cpuset_tree(f) && geteuid() == 0 && access(cpuset_tree(f), W_OK) == 0 && shown && streq(shown, "/");
}

void group_set(const char *dir, const char *file, const char *text) {
        _cleanup_free_ char *path = path_join(dir, file);

        assert_int_equal(write_file_at(AT_FDCWD, path, text), 0);
}

void group_add(const char *dir, pid_t pid) {
        char text[16];

        (void) snprintf(text, sizeof(text), "%d", pid);
        group_set(dir, "cgroup.procs", text);
}

/* Its path in the hierarchy that has cpuset, as /proc/PID/cgroup says (on the unified one /proc/PID/cpuset names the
 * nearest group that has the controller, which systemd takes away as it pleases). */
char *cpuset_path_of(pid_t pid) {
        char path[40], line[4096], *found = NULL;
        FILE *file;

        (void) snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                line[strcspn(line, "\n")] = '\0';
                if (strncmp(line, "0::", 3) == 0 && !found)
                        found = strdup(line + 3);
                if (strstr(line, ":cpuset:")) {
                        free(found);
                        found = strdup(strstr(line, ":cpuset:") + 8);
                        break;
                }
        }
        (void) fclose(file);
        return found;
}

void assert_cpuset_path(pid_t pid, const char *path) {
        _cleanup_free_ char *is = cpuset_path_of(pid);

        assert_string_equal(is, path);
}

int adopt(Fixture *f, Process p, OwnerKind kind, const char *cpus, char **ret_group) {
        Task task = { .pid = p.pid, .start_time = p.start_time, .cgroup = cpuset_path_of(p.pid), .owner_kind = kind };
        int r;

        outcome_done(&f->outcome);
        r = enforce_adopt(f->enforcer, "train", &task, &plan_for(p, cpus, NULL)->tasks[0], ret_group, &f->outcome);
        free(task.cgroup);
        return r;
}

static bool had_slice; /* somebody else's jobs, or what is left of them */

/* A worker in nobody's group, wherever the test runs. */
Worker homeless(const Fixture *f, const char *arg) {
        _cleanup_free_ char *slice = path_join(cpuset_tree(f), "qsched.slice");
        Worker w = worker_start(arg, NULL);

        had_slice = access(slice, F_OK) == 0;
        group_add(cpuset_tree(f), w.process.pid);
        if (f->cgroups.cpuset && f->cgroups.systemd)
                group_add(f->cgroups.systemd, w.process.pid);
        if (f->cgroups.cpuset && f->cgroups.unified)
                group_add(f->cgroups.unified, w.process.pid);
        assert_cpuset_path(w.process.pid, "/");
        return w;
}

/* systemd removes a scope a moment after its last process has left. */
void assert_no_group(Fixture *f, const char *group) {
        _cleanup_free_ char *dir = path_join(cpuset_tree(f), group + 1),
                            *slice = path_join(cpuset_tree(f), "qsched.slice");
        struct stat st;

        for (unsigned i = 0; i < 2000 && access(dir, F_OK) == 0; i++) {
                assert_int_equal(enforce_sweep(f->enforcer), 0);
                usleep(10000);
        }
        assert_int_equal(access(dir, F_OK), -1);
        /* The slice is systemd's, or ours and gone too, unless somebody else's job is in it. */
        if (sd_booted() <= 0 && !had_slice && stat(slice, &st) == 0)
                assert_true(st.st_nlink > 2);
}
