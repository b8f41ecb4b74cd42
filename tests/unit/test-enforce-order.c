/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Orders that do not go through: several changes in one transaction, groups' CPUs and controllers among them, what could
 * not be put back, processes that cannot be read, and what the journal sheds while the daemon runs.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"
#include "enforce-fixture.h"

/* Part of an order: the outcome is the test's, like the manager's. */
static int order_apply(Fixture *f, Process p, const char *cpus) {
        Outcome one = {};
        int r = enforce_apply(f->enforcer, plan_for(p, cpus, NULL), NULL, &one);

        assert_int_equal(outcome_absorb(&f->outcome, &one), 0);
        return r;
}

static void recover(Fixture *f) {
        daemon_restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
}

static unsigned count_lines(const Fixture *f, const char *kind) {
        _cleanup_free_ char *text = NULL;
        unsigned n = 0;

        assert_int_equal(read_regular_file(f->journal, 1 << 20, &text, NULL), 0);
        for (const char *s = text; (s = strstr(s, kind)); s++)
                n++;
        return n;
}

static void test_rollback(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL), v = worker_start("--threads=2", NULL);
        uint64_t id;

        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(enforce_begin(f->enforcer, "train", &id), 0);
        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), -EBUSY);
        assert_int_equal(order_apply(f, w.process, cpu_b), 0);
        assert_int_equal(order_apply(f, v.process, cpu_b), 0);
        assert_masks(w.process.pid, cpu_b);
        assert_masks(v.process.pid, cpu_b);
        assert_int_equal(revert(f), -EBUSY);
        assert_int_equal(enforce_sweep(f->enforcer), -EBUSY);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_rollback(f->enforcer, -EIO, &f->outcome), -EIO);
        assert_int_equal(f->outcome.n_written, 5);
        assert_message(f, "5 changes were put back");
        assert_masks(w.process.pid, cpu_a); /* what stood before the order, not before all of them */
        assert_masks(v.process.pid, cpu_all);
        assert_int_equal(journal_count(f), 3);
        assert_false(undo_committed(f->undo, id));
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
        worker_end(&v);
}

static void test_commit(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL), v = worker_start("--threads=2", NULL);
        uint64_t id;

        assert_int_equal(enforce_commit(f->enforcer), -EINVAL);
        assert_int_equal(enforce_begin(f->enforcer, "train", &id), 0);
        assert_int_equal(order_apply(f, w.process, cpu_a), 0);
        assert_int_equal(order_apply(f, v.process, cpu_b), 0);
        assert_int_equal(count_lines(f, "\"begin\""), 1);
        assert_int_equal(count_lines(f, "\"commit\""), 0);
        recover(f); /* as if killed here */
        assert_masks(w.process.pid, cpu_all);
        assert_masks(v.process.pid, cpu_all);
        assert_false(undo_committed(f->undo, id));

        assert_int_equal(enforce_begin(f->enforcer, "train", &id), 0);
        assert_int_equal(order_apply(f, w.process, cpu_a), 0);
        assert_int_equal(order_apply(f, v.process, cpu_b), 0);
        assert_int_equal(enforce_commit(f->enforcer), 0);
        recover(f);
        assert_masks(w.process.pid, cpu_a);
        assert_masks(v.process.pid, cpu_b);
        assert_true(undo_committed(f->undo, id));
        assert_false(undo_committed(f->undo, id + 1));
        worker_end(&w);
        worker_end(&v);
}

/* Nothing to change is no transaction on disk. */
static void test_empty(void **state) {
        Fixture *f = *state;

        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(enforce_commit(f->enforcer), 0);
        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(enforce_rollback(f->enforcer, -EIO, &f->outcome), -EIO);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(journal_size(f), 0);
}

static void cut_short(Fixture *f, const Worker *w) {
        assert_int_equal(apply(f, w->process, cpu_a), 0);
        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(order_apply(f, w->process, cpu_b), 0);
        daemon_restart(f);
        outcome_done(&f->outcome);
}

/* The start that may not put back leaves it to the next one. */
static void test_recover_refused(void **state) {
        Fixture *f = *state;
        Worker w;

        if (geteuid() != 0) {
                print_message("a start without the right to put back: needs root to give it up\n");
                skip();
        }
        w = worker_start("--threads=3", NULL);
        cut_short(f, &w);
        assert_int_equal(seteuid(65534), 0);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(f->outcome.n_refused, 3);
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(journal_count(f), 3);
        recover(f);
        assert_int_equal(f->outcome.n_written, 3);
        assert_masks(w.process.pid, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

static rlim_t limit_files(rlim_t n) {
        struct rlimit limit;
        rlim_t before;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        before = limit.rlim_cur;
        limit.rlim_cur = n;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        return before;
}

/* One file more may be opened: enough for the list of CPUs, not for a process. */
static rlim_t limit_to_one(void) {
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        assert_true(fd >= 0);
        (void) close(fd);
        return limit_files((rlim_t) fd + 1);
}

static void test_recover_failed(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL);
        rlim_t before;
        int r;

        cut_short(f, &w);
        before = limit_to_one();
        r = enforce_recover(f->enforcer, &f->outcome);
        (void) limit_files(before);
        assert_int_equal(r, -EMFILE);
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(journal_count(f), 3);
        recover(f);
        assert_masks(w.process.pid, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

/* One thread cannot be read: it alone is left to the next start. */
static void test_recover_odd_thread(void **state) {
        Fixture *f = *state;
        char path[64];
        Worker w;

        if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                print_message("a thread that cannot be read: needs root and a mount namespace of its own\n");
                skip();
        }
        w = worker_start("--threads=3", NULL);
        cut_short(f, &w);
        (void) snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", w.process.pid, w.process.pid);
        assert_int_equal(mount("/proc/self/mem", path, NULL, MS_BIND, NULL), 0); /* reads give EIO */
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), -EIO);
        assert_int_equal(umount(path), 0);
        assert_int_equal(count_masks(w.process.pid, cpu_a), 2);
        assert_int_equal(count_masks(w.process.pid, cpu_b), 1);
        assert_int_equal(journal_count(f), 3);
        recover(f);
        assert_int_equal(f->outcome.n_written, 1);
        assert_masks(w.process.pid, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

static void test_rollback_failed(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL);
        rlim_t before;

        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(order_apply(f, w.process, cpu_b), 0);
        before = limit_to_one();
        outcome_done(&f->outcome);
        assert_int_equal(enforce_rollback(f->enforcer, -ENOSPC, &f->outcome), -ENOSPC);
        (void) limit_files(before);
        assert_message(f, "the next start tries again");
        assert_message(f, "0 changes were put back");
        assert_masks(w.process.pid, cpu_b);
        recover(f);
        assert_masks(w.process.pid, cpu_all);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
}

/* A process that cannot be read costs nobody else his place. */
static void test_odd_process(void **state) {
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;
        Fixture *f = *state;
        char path[40];
        Worker w, v;

        if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                print_message("a process that cannot be read: needs root and a mount namespace of its own\n");
                skip();
        }
        w = worker_start("--threads=2", NULL);
        v = worker_start("--threads=2", NULL);
        (void) snprintf(path, sizeof(path), "/proc/%d/cgroup", w.process.pid);
        assert_int_equal(mount("/proc/self/mem", path, NULL, MS_BIND, NULL), 0); /* reads give EIO */
        assert_int_equal(bitset_parse(cpu_b, &cpus), 0);
        PlanTask tasks[] = {
                { .name = (char *) "train/0", .job = (char *) "train", .process = w.process, .cpus = cpus },
                { .name = (char *) "train/1", .job = (char *) "train", .process = v.process, .cpus = cpus },
        };
        assert_int_equal(enforce_apply(f->enforcer, &(Plan){ .feasible = true, .tasks = tasks, .n_tasks = 2 }, NULL,
                                       &f->outcome),
                         0);
        assert_int_equal(umount(path), 0);
        assert_int_equal(f->outcome.n_refused, 1);
        assert_int_equal(f->outcome.n_written, 2);
        assert_message(f, "train/0: pid");
        assert_message(f, strerror(EIO));
        assert_masks(w.process.pid, cpu_all);
        assert_masks(v.process.pid, cpu_b);
        assert_int_equal(journal_count(f), 2);
        worker_end(&w);
        worker_end(&v);
}

static void test_odd_all(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=2", NULL);
        rlim_t before = limit_to_one();
        int r = apply(f, w.process, cpu_b);

        (void) limit_files(before);
        assert_int_equal(r, 0);
        assert_int_equal(f->outcome.n_refused, 1);
        assert_message(f, strerror(EMFILE));
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

/* At each tick: what has ended goes, what lives stays, and the file is left alone when nothing has. */
static void test_sweep(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL), v = worker_start("--threads=2", NULL);
        off_t size;

        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(apply(f, v.process, cpu_b), 0);
        size = journal_size(f);
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_int_equal(journal_size(f), size);
        worker_end(&w);
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_int_equal(journal_count(f), 2);
        assert_non_null(undo_find_tid(f->undo, v.process.pid, v.process.start_time));
        daemon_restart(f);
        assert_int_equal(journal_count(f), 2);
        worker_end(&v);
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_int_equal(journal_size(f), 0);
}

static uint64_t now_usec(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000U + (uint64_t) ts.tv_nsec / 1000U;
}

/* A directory that stays busy is no reason for a tick to wait. */
static void test_sweep_busy(void **state) {
        Fixture *f = *state;
        char dirs[20][96];
        uint64_t id, start;

        if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                print_message("directories that are busy: needs root and a mount namespace of its own\n");
                skip();
        }
        assert_int_equal(undo_begin(f->undo, "train", &id), 0);
        for (unsigned i = 0; i < ELEMENTSOF(dirs); i++) {
                _cleanup_free_ char *procs = NULL;

                (void) snprintf(dirs[i], sizeof(dirs[i]), "%s/busy-%u", f->dir, i);
                assert_int_equal(mkdir(dirs[i], 0755), 0);
                assert_int_equal(mount("tmpfs", dirs[i], "tmpfs", 0, "size=4k"), 0);
                procs = path_join(dirs[i], "cgroup.procs");
                assert_int_equal(mknod(procs, S_IFREG | 0600, 0), 0);
                assert_int_equal(undo_note_dir(f->undo, id, "train", dirs[i], NULL), 0);
        }
        assert_int_equal(undo_commit(f->undo, id), 0);
        start = now_usec();
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_true(now_usec() - start < 100000); /* 20 times 10 waits of 2 ms would be 400 */
        assert_int_equal(journal_count(f), 20);
        for (unsigned i = 0; i < ELEMENTSOF(dirs); i++)
                assert_int_equal(umount(dirs[i]), 0);
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_int_equal(journal_size(f), 0);
}

/* A number alone is no thread: it may be another process's by now. */
static void test_has_thread(void **state) {
        Worker w = worker_start("--threads=2", NULL), v = worker_start("--threads=1", NULL);
        _cleanup_(identity_done) Identity i = { .pidfd = -1, .proc_fd = -1 };

        assert_int_equal(identity_open(w.process, &i), 0);
        assert_true(identity_has_thread(&i, w.process.pid));
        assert_false(identity_has_thread(&i, v.process.pid));
        worker_end(&v);
        assert_false(identity_has_thread(&i, v.process.pid));
        worker_end(&w);
        assert_false(identity_has_thread(&i, w.process.pid));
}

static void test_absorb(void **state) {
        Outcome all = {}, one = {};

        for (unsigned i = 0; i < 40; i++) {
                const Process p = { .pid = (pid_t) i + 1 };

                for (unsigned k = 0; k < i % 4; k++)
                        assert_int_equal(outcome_add_path(&one, CHANGE_DONE, "a", p, "/x", NULL, NULL), 0);
                assert_int_equal(outcome_absorb(&all, &one), 0);
                assert_int_equal(one.n_changes, 0);
                assert_int_equal(outcome_add_path(&all, CHANGE_REFUSED, "b", p, "/y", NULL, NULL), 0);
                assert_true(all.n_allocated >= all.n_changes);
        }
        assert_int_equal(all.n_changes, 60 + 40);
        assert_int_equal(all.n_written, 60);
        assert_int_equal(all.n_refused, 40);
        assert_int_equal(all.changes[99].process.pid, 40);
        outcome_done(&all);
}

static void assert_group_cpus(const Fixture *f, const char *group, const char *cpus) {
        _cleanup_free_ char *dir = path_join(cpuset_tree(f), group + 1), *path = path_join(dir, "cpuset.cpus"),
                            *is = NULL;

        assert_int_equal(read_line_at(AT_FDCWD, path, &is), 0);
        assert_string_equal(is, cpus);
}

/* Not one note fits any more: the group, too, is as it was. */
static void test_cpus_full_disk(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL, *filler = NULL;
        char block[4096] = "";
        Worker w;
        int fd;

        SKIP_UNLESS_USABLE(f);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                print_message("a full disk: needs a mount namespace of its own\n");
                skip();
        }
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        assert_int_equal(mount("tmpfs", f->dir, "tmpfs", 0, "size=64k"), 0);
        daemon_restart(f);
        w = homeless(f, "--threads=2");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        while (journal_size(f) % 4096 < 4000) /* up to the end of its page */
                assert_int_equal(undo_begin(f->undo, "train", &(uint64_t){ 0 }), 0);
        filler = path_join(f->dir, "filler");
        fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        while (write(fd, block, sizeof(block)) > 0)
                ;
        (void) close(fd);
        assert_int_equal(apply(f, w.process, cpu_a), -ENOSPC);
        assert_message(f, "undo journal");
        assert_group_cpus(f, group, cpu_b);
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(unlink(filler), 0);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        assert_int_equal(umount(f->dir), 0);
        daemon_restart(f);
}

/* Killed right after the group got its new CPUs, before any mask was touched. */
static void test_cpus_killed(void **state) {
        Fixture *f = *state;
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;
        _cleanup_free_ char *group = NULL;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        assert_int_equal(bitset_parse(cpu_a, &cpus), 0);
        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(group_set_cpus(f->enforcer, &f->enforcer->transaction, w.process, &cpus, &f->outcome), 1);
        assert_group_cpus(f, group, cpu_a);
        daemon_restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
        assert_group_cpus(f, group, cpu_b);
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(revert(f), 0);
        assert_cpuset_path(w.process.pid, "/");
        assert_masks(w.process.pid, cpu_all);
        assert_no_group(f, group);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
}

/* What `run` does: adopted, then the plan for all fails: the process is out again too. */
static void test_adopt_rolled_back(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL;
        Worker w, v;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        v = worker_start("--threads=2", NULL);
        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        assert_cpuset_path(w.process.pid, group);
        assert_int_equal(apply(f, v.process, cpu_a), 0);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_rollback(f->enforcer, -ENOSPC, &f->outcome), -ENOSPC);
        assert_cpuset_path(w.process.pid, "/");
        assert_masks(w.process.pid, cpu_all);
        assert_masks(v.process.pid, cpu_all);
        assert_no_group(f, group);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
        worker_end(&v);
}

/* Where cpuset is not handed down by the root (a directory plays that: what is written can be read there), it is while
 * we need it, and no longer, unless somebody else has come to use it. */
static void test_control(void **state) {
        Fixture *f = *state;
        Cgroups real = f->cgroups;

        if (sd_booted() > 0) {
                print_message("groups of our own on the unified hierarchy: only where systemd is not pid 1\n");
                skip();
        }
        for (unsigned used = 0; used < 2; used++) {
                _cleanup_free_ char *root = NULL, *control = NULL, *other = NULL, *group = NULL, *line = NULL;
                Worker w = worker_start("--threads=2", NULL);
                Task task = { .pid = w.process.pid, .start_time = w.process.start_time, .cgroup = (char *) "/" };

                assert_true(asprintf(&root, "%s/root-%u", f->dir, used) > 0);
                assert_int_equal(mkdir(root, 0755), 0);
                control = path_join(root, "cgroup.subtree_control");
                assert_int_equal(write_file_atomic(control, "cpu memory", 0600), 0);
                f->cgroups = (Cgroups){ .unified = root, .unified_cpuset = true };
                outcome_done(&f->outcome);
                (void) enforce_adopt(f->enforcer, "train", &task, &plan_for(w.process, cpu_b, NULL)->tasks[0], &group,
                                     &f->outcome);
                f->cgroups = real;
                assert_int_equal(read_line_at(AT_FDCWD, control, &line), 0);
                assert_int_equal(strncmp(line, "+cpuset", 7), 0);
                assert_masks(w.process.pid, cpu_b); /* by affinity: this root has no groups */
                if (used) {
                        other = path_join(root, "other");
                        assert_int_equal(mkdir(other, 0755), 0);
                        free(control);
                        control = path_join(other, "cpuset.cpus");
                        assert_int_equal(write_file_atomic(control, "0\n", 0600), 0);
                        free(control);
                        control = path_join(root, "cgroup.subtree_control");
                }
                daemon_restart(f); /* it is noted on disk */
                assert_int_equal(revert(f), 0);
                assert_masks(w.process.pid, cpu_all);
                assert_int_equal(journal_count(f), 0);
                free(line);
                line = NULL;
                assert_int_equal(read_line_at(AT_FDCWD, control, &line), 0);
                assert_int_equal(strncmp(line, used ? "+cpuset" : "-cpuset", 7), 0);
                worker_end(&w);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_rollback, setup, teardown),
                cmocka_unit_test_setup_teardown(test_commit, setup, teardown),
                cmocka_unit_test_setup_teardown(test_empty, setup, teardown),
                cmocka_unit_test_setup_teardown(test_recover_refused, setup, teardown),
                cmocka_unit_test_setup_teardown(test_recover_failed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_recover_odd_thread, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rollback_failed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_odd_process, setup, teardown),
                cmocka_unit_test_setup_teardown(test_odd_all, setup, teardown),
                cmocka_unit_test_setup_teardown(test_sweep, setup, teardown),
                cmocka_unit_test_setup_teardown(test_sweep_busy, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cpus_full_disk, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cpus_killed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_rolled_back, setup, teardown),
                cmocka_unit_test_setup_teardown(test_control, setup, teardown),
                cmocka_unit_test(test_has_thread),
                cmocka_unit_test(test_absorb),
        };

        if (group_setup(NULL) != 0) {
                printf("1..0 # SKIP needs two CPUs\n");
                return 77;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
