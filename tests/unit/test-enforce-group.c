/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Enforcement and cpusets: foreign ones that narrow or exclude, that shrink and grow under a task, and groups of our own
 * for what `run` starts. Needs root and a cpuset hierarchy that is whole (v1, or unified; with systemd as pid 1 the
 * groups of ours are scopes).
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"
#include "enforce-fixture.h"

static char foreign[128]; /* a cpuset that is not ours, per test */

static void foreign_make(const Fixture *f, const char *cpus, pid_t pid) {
        (void) snprintf(foreign, sizeof(foreign), "%s/qsched-test-%d", cpuset_tree(f), getpid());
        assert_int_equal(mkdir(foreign, 0755), 0);
        if (f->cgroups.cpuset) {
                _cleanup_free_ char *path = path_join(cpuset_tree(f), "cpuset.mems"), *mems = NULL;

                assert_int_equal(read_line_at(AT_FDCWD, path, &mems), 0);
                group_set(foreign, "cpuset.mems", mems);
        } else
                group_set(cpuset_tree(f), "cgroup.subtree_control", "+cpuset");
        group_set(foreign, "cpuset.cpus", cpus);
        group_add(foreign, pid);
}

static void foreign_remove(Worker *w) {
        worker_end(w);
        for (unsigned i = 0; i < 100 && rmdir(foreign) < 0; i++) /* the dead leave it a moment later */
                usleep(10000);
        assert_int_equal(access(foreign, F_OK), -1);
}

static void test_outside(void **state) {
        Fixture *f = *state;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = worker_start("--threads=3", NULL);
        foreign_make(f, cpu_a, w.process.pid);
        assert_masks(w.process.pid, cpu_a);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(apply(f, w.process, cpu_b), 0);
                assert_int_equal(f->outcome.n_refused, 3);
                assert_int_equal(f->outcome.n_written, 0);
                assert_int_equal(f->outcome.changes[0].error, EINVAL);
                assert_int_equal(strv_length(f->outcome.messages), 1);
                assert_message(f, strrchr(foreign, '/'));
                assert_message(f, "allows only");
                assert_int_equal(journal_size(f), 0);
        }
        assert_masks(w.process.pid, cpu_a);
        foreign_remove(&w);
}

static void test_narrowed(void **state) {
        Fixture *f = *state;
        off_t size;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = worker_start("--threads=2", NULL);
        foreign_make(f, cpu_a, w.process.pid);
        assert_int_equal(apply(f, w.process, cpu_all), 0);
        assert_int_equal(f->outcome.n_written, 2);
        assert_int_equal(f->outcome.changes[0].result, CHANGE_NARROWED);
        assert_true(bitset_test(&f->outcome.changes[0].got, (unsigned) atoi(cpu_a)));
        assert_int_equal(bitset_weight(&f->outcome.changes[0].got), 1);
        assert_message(f, "leaves it");
        size = journal_size(f);
        assert_int_equal(apply(f, w.process, cpu_all), 0);
        assert_int_equal(f->outcome.n_same, 2);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_int_equal(journal_size(f), size);
        foreign_remove(&w);
}

/* Its old mask was its whole cpuset: after revert it has what the cpuset has, also when that is widened later. */
static void test_follows(void **state) {
        Fixture *f = *state;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = worker_start("--threads=3", NULL);
        foreign_make(f, cpu_a, w.process.pid);
        set_masks(w.process.pid, cpu_a); /* remembered by the kernel as its own wish, unlike a mask never set */
        assert_int_equal(apply(f, w.process, cpu_all), 0);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_a);
        group_set(foreign, "cpuset.cpus", cpu_all);
        assert_masks(w.process.pid, cpu_all);
        foreign_remove(&w);
}

static void test_follows_pinned(void **state) {
        Fixture *f = *state;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = worker_start("--threads=3", NULL);
        foreign_make(f, cpu_all, w.process.pid);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_masks(w.process.pid, cpu_b);
        group_set(foreign, "cpuset.cpus",
                  cpu_b); /* shrunk to what we wrote: no drift, and nothing is left to put back but the wish */
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_same, 3);
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_masks(w.process.pid, cpu_b);
        group_set(foreign, "cpuset.cpus", cpu_all);
        assert_masks(w.process.pid, cpu_all);
        foreign_remove(&w);
}

static void test_old_outside_now(void **state) {
        Fixture *f = *state;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = worker_start("--threads=2", NULL);
        foreign_make(f, cpu_all, w.process.pid);
        set_masks(w.process.pid, cpu_a);
        assert_int_equal(apply(f, w.process, cpu_all), 0);
        group_set(foreign, "cpuset.cpus", cpu_b); /* narrowed since: what we wrote, cut */
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(apply(f, w.process, cpu_all), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_refused, 0);
        assert_masks(w.process.pid, cpu_b); /* its old mask has no CPU here: all that its cpuset has */
        assert_int_equal(journal_count(f), 0);
        foreign_remove(&w);
}

/* Kernels before 6.2 give every thread the whole cpuset when that is written; done here by hand for those after. */
static void test_rewritten(void **state) {
        Fixture *f = *state;
        off_t size;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = worker_start("--threads=3", NULL);
        foreign_make(f, cpu_all, w.process.pid);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        group_set(foreign, "cpuset.cpus", cpu_a);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_refused, 3);
        size = journal_size(f);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(journal_size(f), size);
        group_set(foreign, "cpuset.cpus", cpu_all);
        set_masks(w.process.pid, cpu_all);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_int_equal(f->outcome.n_written, 3);
        assert_masks(w.process.pid, cpu_b);

        set_masks(w.process.pid, cpu_all); /* the same, but the cpuset has not changed: somebody's taskset */
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_drift, 3);
        assert_masks(w.process.pid, cpu_all);
        foreign_remove(&w);
}

static void write_group(const char *dir, const char *file, const char *text) {
        _cleanup_free_ char *path = path_join(dir, file);

        assert_int_equal(write_file_at(AT_FDCWD, path, text), 0);
}

/* An administrator keeps our processes to a part of the machine by the slice's own cpuset. */
static void test_slice_that_is_limited(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *slice = NULL, *path = NULL, *group = NULL, *is = NULL;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        if (!f->cgroups.cpuset)
                skip();
        slice = path_join(cpuset_tree(f), "qsched.slice");
        if (mkdir(slice, 0755) < 0) {
                print_message("# skipped: %s is there already\n", slice);
                free(slice); /* skip() jumps over the cleanup */
                slice = NULL;
                skip();
        }
        write_group(slice, "cpuset.mems", "0");
        write_group(slice, "cpuset.cpus", cpu_b);

        w = homeless(f, "--threads=1");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        assert_non_null(strstr(group, "/qsched.slice/"));
        path = path_join(slice, "cpuset.cpus");
        assert_int_equal(read_line_at(AT_FDCWD, path, &is), 0);
        assert_string_equal(is, cpu_b);

        assert_int_equal(revert(f), 0);
        assert_cpuset_path(w.process.pid, "/");
        assert_no_group(f, group);
        assert_int_equal(access(slice, F_OK), 0); /* not of our making */
        assert_int_equal(rmdir(slice), 0);
}

/* The note of a wall is written before the wall: a kill in between leaves one that says what is not so. */
static void test_a_wall_that_was_not_built(void **state) {
        Fixture *f = *state;
        _cleanup_(bitset_done) Bitset old = BITSET_EMPTY, other = BITSET_EMPTY;
        _cleanup_free_ char *group = NULL, *dir = NULL, *path = NULL, *mems = NULL;
        const char *controller;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=1");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        dir = path_join(cpuset_tree(f), group + 1);
        path = path_join(dir, "cpuset.mems");
        assert_int_equal(read_line_at(AT_FDCWD, path, &mems), 0);
        assert_int_equal(bitset_parse(mems, &old), 0);
        assert_int_equal(bitset_parse("63", &other), 0);
        controller = f->cgroups.cpuset ? "cpuset" : "unified";
        assert_int_equal(undo_note_mems(f->undo, "train", w.process, controller, group, &old, &other), 0);
        daemon_restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
        assert_null(undo_find_mems(f->undo, group));

        /* One that is neither what was before nor the wall is somebody's: its note stays, for that to be told. */
        assert_int_equal(undo_note_mems(f->undo, "train", w.process, controller, group, &other, &other), 0);
        daemon_restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
        assert_non_null(undo_find_mems(f->undo, group));
        assert_int_equal(revert(f), 0);
        assert_null(undo_find_mems(f->undo, group));
        assert_no_group(f, group);
}

static void test_adopt(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL, *expected = NULL, *dir = NULL, *mems = NULL, *mems_root = NULL, *path = NULL;
        off_t size;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=3");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        assert_true(asprintf(&expected, "/qsched.slice/%strain-%d.scope",
                             sd_booted() > 0 && !f->cgroups.cpuset ? "qsched-" : "", w.process.pid) > 0);
        assert_string_equal(group, expected);
        assert_cpuset_path(w.process.pid, expected);
        assert_masks(w.process.pid, cpu_b);
        assert_null(f->outcome.messages);
        /* The group (with systemd and a cpuset tree of its own: the scope too) and three masks. */
        assert_int_equal(f->outcome.n_changes, sd_booted() > 0 && f->cgroups.cpuset ? 5 : 4);
        assert_true(bitset_weight(&f->outcome.changes[f->outcome.n_changes - 1].old) > 1);

        /* Memory is left wide. */
        dir = path_join(cpuset_tree(f), group + 1);
        path = path_join(dir, f->cgroups.cpuset ? "cpuset.mems" : "cpuset.mems.effective");
        assert_int_equal(read_line_at(AT_FDCWD, path, &mems), 0);
        free(path);
        path = path_join(cpuset_tree(f), f->cgroups.cpuset ? "cpuset.mems" : "cpuset.mems.effective");
        assert_int_equal(read_line_at(AT_FDCWD, path, &mems_root), 0);
        assert_string_equal(mems, mems_root);

        /* A new plan takes the group along, and a second time changes nothing. */
        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(f->outcome.n_refused, 0);
        assert_masks(w.process.pid, cpu_a);
        size = journal_size(f);
        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(journal_size(f), size);

        daemon_restart(f);
        assert_int_equal(revert(f), 0);
        assert_cpuset_path(w.process.pid, "/");
        assert_masks(w.process.pid, cpu_all);
        assert_no_group(f, group);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
}

/* Theirs until the job is applied again; the plan of that may have it elsewhere. */
static void test_yielded_and_taken_back(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL, *dir = NULL;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        if (sd_booted() > 0)
                skip(); /* the group is systemd's to write */
        w = homeless(f, "--threads=2");
        enforcer_set_drift(f->enforcer, DRIFT_YIELD);
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_a, &group), 0);
        dir = path_join(cpuset_tree(f), group + 1);
        group_set(dir, "cpuset.cpus", cpu_b);
        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_non_null(undo_find_yield(f->undo, w.process));
        assert_masks(w.process.pid, cpu_b);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(enforce_apply(f->enforcer, plan_for(w.process, cpu_a, NULL), "train", &f->outcome), 0);
        assert_int_equal(enforce_commit(f->enforcer), 0);
        assert_masks(w.process.pid, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_no_group(f, group);
        worker_end(&w);
}

static void test_adopt_own_mask(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        set_masks(w.process.pid, cpu_a);
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_a);
        assert_no_group(f, group);
        worker_end(&w);
}

/* The leader ends, a child lives on in our group: it is put back too, and the group goes. */
static void test_adopt_orphan(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL;
        Worker w, child;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=1");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        child = homeless(f, "--threads=1");
        _cleanup_free_ char *dir = path_join(cpuset_tree(f), group + 1);
        group_add(dir, child.process.pid);
        worker_end(&w);
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_cpuset_path(child.process.pid, group);
        assert_int_equal(revert(f), 0);
        assert_cpuset_path(child.process.pid, "/");
        assert_masks(child.process.pid, cpu_all);
        assert_no_group(f, group);
        assert_int_equal(journal_count(f), 0);
        worker_end(&child);
}

static void test_adopt_ended(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        worker_end(&w);
        for (unsigned i = 0; i < 500 && journal_count(f) > 0; i++) {
                assert_int_equal(enforce_sweep(f->enforcer), 0);
                usleep(10000);
        }
        assert_no_group(f, group);
        assert_int_equal(journal_count(f), 0);
}

static void test_adopt_stays(void **state) {
        static const OwnerKind kinds[] = { OWNER_POD, OWNER_CONTAINER, OWNER_SLURM, OWNER_UNIT };
        Fixture *f = *state;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                _cleanup_free_ char *group = NULL;

                assert_int_equal(adopt(f, w.process, kinds[i], cpu_b, &group), 0);
                assert_string_equal(group, "/");
                assert_cpuset_path(w.process.pid, "/");
                assert_masks(w.process.pid, cpu_b);
                assert_int_equal(revert(f), 0);
                assert_masks(w.process.pid, cpu_all);
        }
        worker_end(&w);
}

static void test_adopt_foreign_group(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        foreign_make(f, cpu_all, w.process.pid);
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        assert_string_equal(group, strrchr(foreign, '/'));
        assert_cpuset_path(w.process.pid, strrchr(foreign, '/'));
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        foreign_remove(&w);
}

/* Killed within an adoption: the next start takes the process out again. */
static void test_adopt_killed(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *journal = NULL, *group = NULL;
        const char *commit;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        assert_int_equal(read_regular_file(f->journal, 1 << 20, &journal, NULL), 0);
        commit = strstr(journal, "{\"t\":\"commit\"");
        assert_non_null(commit);
        assert_int_equal(truncate(f->journal, commit - journal), 0); /* as if killed before the mark */
        daemon_restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
        assert_cpuset_path(w.process.pid, "/");
        assert_masks(w.process.pid, cpu_all);
        assert_no_group(f, group);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
}

/* Somebody took it out of our group: it stays where they put it. */
static void test_adopt_taken(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *group = NULL;
        Worker w;

        SKIP_UNLESS_USABLE(f);
        w = homeless(f, "--threads=2");
        assert_int_equal(adopt(f, w.process, OWNER_NONE, cpu_b, &group), 0);
        foreign_make(f, cpu_all, w.process.pid);
        assert_int_equal(revert(f), 0);
        assert_cpuset_path(w.process.pid, strrchr(foreign, '/'));
        assert_masks(w.process.pid, cpu_all);
        assert_no_group(f, group);
        foreign_remove(&w);
}

/* The journal fills up at some step of an adoption: nothing of it stays. */
static void test_adopt_full_disk(void **state) {
        Fixture *f = *state;
        unsigned n_failed = 0;

        SKIP_UNLESS_USABLE(f);
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                print_message("a full disk: needs a mount namespace of its own\n");
                skip();
        }
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        assert_int_equal(mount("tmpfs", f->dir, "tmpfs", 0, "size=4k"), 0);
        daemon_restart(f);
        for (unsigned n = 20; n < 36; n++) {
                _cleanup_free_ char *group = NULL, *threads = NULL, *expected = NULL;
                Worker w;
                int r;

                assert_true(asprintf(&threads, "--threads=%u", n) > 0);
                w = homeless(f, threads);
                r = adopt(f, w.process, OWNER_NONE, cpu_b, &group);
                if (r < 0) {
                        assert_int_equal(r, -ENOSPC);
                        assert_message(f, "undo journal");
                        n_failed++;
                } else {
                        assert_masks(w.process.pid, cpu_b);
                        assert_int_equal(revert(f), 0);
                }
                assert_true(asprintf(&expected, "/qsched.slice/train-%d.scope", w.process.pid) > 0);
                assert_cpuset_path(w.process.pid, "/");
                assert_masks(w.process.pid, cpu_all);
                assert_no_group(f, expected);
                assert_int_equal(journal_count(f), 0);
                worker_end(&w);
        }
        assert_in_range(n_failed, 1, 15);
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        assert_int_equal(umount(f->dir), 0);
        daemon_restart(f);
}

/* What the kernel says of an empty cpuset is "No space left on device": which file is empty, and what is above, is said. */
static void test_empty_cpuset(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *message = NULL, *other = NULL;
        char dir[256], child[300], pid[16];
        Worker w = worker_start("--threads=1", NULL);

        if (!f->cgroups.cpuset)
                skip();
        (void) snprintf(dir, sizeof(dir), "%s/qsched-test-empty-%d", f->cgroups.cpuset, getpid());
        (void) snprintf(child, sizeof(child), "%s/below", dir);
        (void) snprintf(pid, sizeof(pid), "%d", w.process.pid);
        assert_int_equal(mkdir(dir, 0755), 0);
        assert_int_equal(mkdir(child, 0755), 0);
        assert_int_equal(group_write(dir, "cgroup.procs", pid, &f->outcome), -ENOSPC);
        assert_int_equal(strv_length(f->outcome.messages), 1);
        assert_true(
                asprintf(&message,
                         "Process %s cannot be moved into %s: %s/cpuset.cpus is empty (above it, %s/cpuset.cpus has "
                         "\"%s\"); write there what its processes may use",
                         pid, dir, dir, f->cgroups.cpuset, cpu_all) > 0);
        assert_string_equal(f->outcome.messages[0], message);
        assert_int_equal(group_write(child, "cpuset.cpus", cpu_a, &f->outcome), -EACCES);
        assert_int_equal(strv_length(f->outcome.messages), 2);
        assert_true(asprintf(&other,
                             "%s/cpuset.cpus cannot be set to \"%s\": Permission denied; it has \"\", above it "
                             "%s/cpuset.cpus has \"\"",
                             child, cpu_a, dir) > 0);
        assert_string_equal(f->outcome.messages[1], other);
        worker_end(&w);
        assert_int_equal(rmdir(child), 0);
        assert_int_equal(rmdir(dir), 0);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_outside, setup, teardown),
                cmocka_unit_test_setup_teardown(test_narrowed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_follows, setup, teardown),
                cmocka_unit_test_setup_teardown(test_follows_pinned, setup, teardown),
                cmocka_unit_test_setup_teardown(test_rewritten, setup, teardown),
                cmocka_unit_test_setup_teardown(test_old_outside_now, setup, teardown),
                cmocka_unit_test_setup_teardown(test_slice_that_is_limited, setup, teardown),
                cmocka_unit_test_setup_teardown(test_a_wall_that_was_not_built, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt, setup, teardown),
                cmocka_unit_test_setup_teardown(test_yielded_and_taken_back, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_own_mask, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_orphan, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_ended, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_stays, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_foreign_group, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_killed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_taken, setup, teardown),
                cmocka_unit_test_setup_teardown(test_adopt_full_disk, setup, teardown),
                cmocka_unit_test_setup_teardown(test_empty_cpuset, setup, teardown),
        };

        if (group_setup(NULL) != 0) {
                printf("1..0 # SKIP needs two CPUs\n");
                return 77;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
