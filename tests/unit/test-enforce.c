/* SPDX-License-Identifier: Apache-2.0 */
/* Apply, revert, recover on real processes with real threads; what is asserted is what /proc says. */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/fileio.h"
#include "enforce-fixture.h"

static void test_all_threads(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=5", NULL);
        off_t size;

        assert_masks(w.process.pid, cpu_all);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(n_threads(w.process.pid), 5);
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(f->outcome.n_written, 5);
        assert_int_equal(f->outcome.n_changes, 5);
        assert_int_equal(f->outcome.changes[0].result, CHANGE_DONE);
        assert_null(f->outcome.messages);

        size = journal_size(f);
        assert_true(size > 0);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(f->outcome.n_same, 5);
        assert_int_equal(f->outcome.n_changes, 0);
        assert_int_equal(journal_size(f), size);
        daemon_restart(f);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_same, 5);

        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_written, 5);
        assert_masks(w.process.pid, cpu_all);
        assert_int_equal(journal_size(f), 0);
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_written, 0);
        worker_end(&w);
}

static void test_late_threads(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=2", "--late=3:0.3", NULL);
        off_t size;

        assert_int_equal(apply(f, w.process, cpu_a), 0);
        worker_say(&w, "late");
        assert_int_equal(n_threads(w.process.pid), 5);
        assert_masks(w.process.pid, cpu_a);
        /* They are noted, with their process's old mask, not the one they inherited; once. */
        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(f->outcome.n_written, 0);
        size = journal_size(f);
        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(journal_size(f), size);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_written, 5);
        assert_masks(w.process.pid, cpu_b);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

static void test_born_since(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t before = puppet_fork(&p), child;

        puppet_thread(&p);
        assert_int_equal(apply(f, p.process, cpu_a), 0);
        assert_int_equal(f->outcome.n_written, 2);
        child = puppet_fork(&p);
        puppet_thread(&p);
        assert_masks(p.process.pid, cpu_a);
        assert_masks(child, cpu_a);
        assert_masks(before, cpu_all); /* was not in the plan */
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_written, 4);
        assert_masks(p.process.pid, cpu_all);
        assert_masks(child, cpu_all);
        puppet_end(&p);
}

static void test_children(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t own = puppet_fork(&p), child = puppet_fork(&p);
        Process children[] = { process_now(own), process_now(child), {} };
        off_t size;

        set_mask(own, cpu_b);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(enforce_apply(f->enforcer, plan_for(p.process, cpu_a, children), NULL, &f->outcome),
                                 0);
                assert_int_equal(f->outcome.n_written, i == 0 ? 3 : 0);
                size = i == 0 ? journal_size(f) : size;
                outcome_done(&f->outcome);
        }
        assert_int_equal(journal_size(f), size);
        assert_masks(p.process.pid, cpu_a);
        assert_masks(own, cpu_a);
        assert_masks(child, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_masks(p.process.pid, cpu_all);
        assert_masks(own, cpu_b);
        assert_masks(child, cpu_all);
        puppet_end(&p);
}

/* A child forked from what we pinned, then named in a new plan: its old mask is its parent's. */
static void test_inherited_child(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        Process children[2] = {};

        assert_int_equal(apply(f, p.process, cpu_a), 0);
        children[0] = process_now(puppet_fork(&p));
        assert_masks(children[0].pid, cpu_a);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_apply(f->enforcer, plan_for(p.process, cpu_b, children), "train", &f->outcome), 0);
        assert_masks(children[0].pid, cpu_b);
        assert_int_equal(revert(f), 0);
        assert_masks(children[0].pid, cpu_all);
        puppet_end(&p);
}

static void test_old_masks_differ(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t tid;

        puppet_thread(&p);
        set_mask(p.process.pid, cpu_a);
        assert_int_equal(count_masks(p.process.pid, cpu_all), 1);
        assert_int_equal(apply(f, p.process, cpu_b), 0);
        assert_int_equal(apply(f, p.process, cpu_all), 0);
        assert_int_equal(apply(f, p.process, cpu_b), 0);
        assert_masks(p.process.pid, cpu_b);
        tid = f->outcome.changes[f->outcome.n_changes - 1].tid;
        assert_int_equal(revert(f), 0);
        assert_int_equal(count_masks(p.process.pid, cpu_a), 1);
        assert_int_equal(count_masks(p.process.pid, cpu_all), 1);
        assert_true(tid > 0);
        puppet_end(&p);
}

static void test_same_by_itself(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL);

        set_masks(w.process.pid, cpu_b);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(f->outcome.n_same, 3);
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_masks(w.process.pid, cpu_b);
        worker_end(&w);
}

/* Never written by us, because they were right by themselves or by birth: a taskset on them is drift all the same. */
static void test_drift_of_the_unwritten(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=2", "--late=1:0.3", NULL);

        set_masks(w.process.pid, cpu_b);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        set_mask(w.process.pid, cpu_a);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_drift, 1);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(count_masks(w.process.pid, cpu_a), 1);
        set_mask(w.process.pid, cpu_b);

        worker_say(&w, "late");
        usleep(2100000); /* no passer-by */
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        set_mask(newest_thread(w.process.pid), cpu_a);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_drift, 1);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(count_masks(w.process.pid, cpu_a), 1);
        worker_end(&w);
}

static void test_drift(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL);
        off_t size;

        assert_int_equal(apply(f, w.process, cpu_b), 0);
        set_mask(w.process.pid, cpu_a); /* somebody's taskset */
        size = journal_size(f);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(f->outcome.n_drift, 1);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(f->outcome.changes[0].tid, w.process.pid);
        assert_int_equal(f->outcome.changes[0].act, DRIFT_LEFT);
        assert_int_equal(count_masks(w.process.pid, cpu_a), 1);
        assert_int_equal(journal_size(f), size);

        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_drift, 1);
        assert_int_equal(f->outcome.n_written, 2);
        assert_message(f, "left alone");
        assert_int_equal(count_masks(w.process.pid, cpu_a), 1);
        assert_int_equal(count_masks(w.process.pid, cpu_all), 2);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
}

static void test_put_back_by_hand(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=2", NULL);

        assert_int_equal(apply(f, w.process, cpu_b), 0);
        set_masks(w.process.pid, cpu_all);
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_masks(w.process.pid, cpu_all);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
}

static void test_gone_and_reused(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=2", NULL), other = worker_start("--threads=2", NULL);
        Process before = { .pid = other.process.pid, .start_time = other.process.start_time - 1 };
        _cleanup_(bitset_done) Bitset old = BITSET_EMPTY, new = BITSET_EMPTY;
        uint64_t id;

        assert_int_equal(apply(f, before, cpu_b), 0); /* the plan was made for the pid's former owner */
        assert_int_equal(f->outcome.n_gone, 1);
        assert_masks(other.process.pid, cpu_all);

        assert_int_equal(bitset_parse(cpu_a, &old), 0);
        assert_int_equal(bitset_parse(cpu_all, &new), 0);
        assert_int_equal(undo_begin(f->undo, "train", &id), 0);
        assert_int_equal(undo_note_affinity(f->undo, id, "train", before, before.pid, before.start_time, &old, &new,
                                            false, NULL, NULL),
                         0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        assert_int_equal(apply(f, w.process, cpu_b), 0);
        worker_end(&w);
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_gone, 2);
        assert_int_equal(f->outcome.n_written, 0);
        assert_masks(other.process.pid, cpu_all);
        assert_int_equal(journal_count(f), 0);
        worker_end(&other);
}

static void recover(Fixture *f) {
        daemon_restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
}

static void kill_once(Fixture *f, const Worker *w, const char *cpus, off_t after) {
        pid_t pid;

        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                char **messages = NULL;
                Outcome o;

                if (undo_open(f->dir, &messages, &f->undo) < 0 || enforcer_new(f->undo, &f->cgroups, &f->enforcer) < 0)
                        _exit(1);
                (void) enforce_apply(f->enforcer, plan_for(w->process, cpus, NULL), "train", &o);
                _exit(0);
        }
        while (journal_size(f) < after && waitpid(pid, NULL, WNOHANG) == 0)
                ;
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
}

/* kill -9 between two changes, as often as it takes to hit; returns how many threads have the new mask. */
static unsigned kill_half_way(Fixture *f, const Worker *w, const char *before, const char *cpus) {
        unsigned n_all = n_threads(w->process.pid), n;

        for (unsigned i = 0; i < 20; i++) {
                kill_once(f, w, cpus, journal_size(f) + 20000);
                n = count_masks(w->process.pid, cpus);
                if (n > 0 && n < n_all)
                        return n;
                recover(f);
                assert_int_equal(before ? apply(f, w->process, before) : revert(f), 0);
        }
        fail_msg("20 applies ended before they could be killed");
        return 0;
}

static void test_killed(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=500", NULL);
        unsigned n;

        set_mask(w.process.pid, cpu_a);
        n = kill_half_way(f, &w, NULL, cpu_b);
        recover(f);
        assert_in_range(f->outcome.n_written, n, n + 1);
        assert_message(f, "cut short");
        assert_int_equal(count_masks(w.process.pid, cpu_all), 499);
        assert_int_equal(count_masks(w.process.pid, cpu_a), 1);
        assert_int_equal(journal_count(f), 0);
        worker_end(&w);
}

/* What was committed stays, and what was before that is still known. */
static void test_killed_on_top(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=500", NULL);

        assert_int_equal(apply(f, w.process, cpu_a), 0);
        (void) kill_half_way(f, &w, cpu_a, cpu_b);
        recover(f);
        assert_masks(w.process.pid, cpu_a);
        assert_int_equal(journal_count(f), 500);
        recover(f);
        assert_int_equal(f->outcome.n_written, 0);
        assert_masks(w.process.pid, cpu_a);
        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(f->outcome.n_same, 500);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

/* Threads born since the committed plan have no entry yet: a change of them goes back to that plan too. */
static void test_killed_inherited(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=2", "--late=400:0.3", NULL);

        assert_int_equal(apply(f, w.process, cpu_a), 0);
        worker_say(&w, "late");
        assert_int_equal(n_threads(w.process.pid), 402);
        (void) kill_half_way(f, &w, cpu_a, cpu_b);
        recover(f);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_masks(w.process.pid, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

static void test_recover_dead(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL), v = worker_start("--threads=2", NULL);

        assert_int_equal(apply(f, w.process, cpu_a), 0);
        assert_int_equal(apply(f, v.process, cpu_b), 0);
        assert_int_equal(journal_count(f), 5);
        worker_end(&w);
        recover(f);
        assert_int_equal(journal_count(f), 2);
        assert_masks(v.process.pid, cpu_b);
        worker_end(&v);
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_int_equal(journal_count(f), 0);
}

static void test_full_disk(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=200", NULL);

        if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                print_message("a full disk: needs root and a mount namespace of its own\n");
                worker_end(&w);
                skip();
        }
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        assert_int_equal(mount("tmpfs", f->dir, "tmpfs", 0, "size=12k"), 0);
        daemon_restart(f);
        assert_int_equal(apply(f, w.process, cpu_b), -ENOSPC);
        assert_message(f, "undo journal");
        assert_message(f, "No space left");
        assert_true(f->outcome.n_written > 20); /* written and put back */
        assert_masks(w.process.pid, cpu_all);
        assert_int_equal(journal_count(f), 0);

        /* Room for a few: a small job fits, then a large one does not, and the small one stands. */
        Worker small = worker_start("--threads=3", NULL);
        assert_int_equal(apply(f, small.process, cpu_a), 0);
        assert_int_equal(apply(f, w.process, cpu_b), -ENOSPC);
        assert_masks(w.process.pid, cpu_all);
        assert_masks(small.process.pid, cpu_a);
        assert_int_equal(journal_count(f), 3);
        recover(f);
        assert_masks(small.process.pid, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_masks(small.process.pid, cpu_all);
        worker_end(&small);
        worker_end(&w);
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        assert_int_equal(umount(f->dir), 0);
        daemon_restart(f);
}

/* Threads that come and go all the time: nobody else's thread is touched, and all of it comes back. */
static void test_churn(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();

        for (unsigned i = 0; i < 3; i++)
                puppet_churn(&p);
        for (unsigned i = 0; i < 20; i++) {
                assert_int_equal(apply(f, p.process, i % 2 ? cpu_a : cpu_b), 0);
                assert_int_equal(f->outcome.n_drift, 0);
                assert_int_equal(f->outcome.n_refused, 0);
        }
        usleep(50000); /* one that was being born in between may be seen, if it lasts shorter than this */
        assert_masks(p.process.pid, cpu_a);
        assert_true(journal_count(f) < 200);
        assert_int_equal(revert(f), 0);
        usleep(50000);
        assert_masks(p.process.pid, cpu_all);
        assert_int_equal(journal_count(f), 0);
        puppet_end(&p);
}

static pid_t kernel_thread(const char *comm) {
        DIR *d = opendir("/proc");
        struct dirent *de;
        pid_t found = 0;

        assert_non_null(d);
        while (found == 0 && (de = readdir(d))) {
                _cleanup_free_ char *path = NULL, *line = NULL;

                assert_true(asprintf(&path, "/proc/%s/comm", de->d_name) > 0);
                if (read_line_at(AT_FDCWD, path, &line) >= 0 && streq(line, comm))
                        found = atoi(de->d_name);
        }
        (void) closedir(d);
        return found;
}

/* PF_NO_SETAFFINITY: the kernel says EINVAL though the CPUs are allowed. Counted, said, and not noted. */
static void test_immovable(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *before = NULL, *after = NULL;
        pid_t pid = kernel_thread("ksoftirqd/0");

        if (pid == 0 || geteuid() != 0) {
                print_message("a thread that refuses: needs root and to see ksoftirqd/0\n");
                skip();
        }
        before = mask_of(pid);
        assert_int_equal(apply(f, process_now(pid), cpu_b), 0);
        assert_int_equal(f->outcome.n_refused, 1);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(f->outcome.changes[0].result, CHANGE_REFUSED);
        assert_int_equal(f->outcome.changes[0].error, EINVAL);
        assert_message(f, "ksoftirqd/0");
        assert_int_equal(journal_count(f), 0);
        after = mask_of(pid);
        assert_string_equal(after, before);
}

static void test_not_permitted(void **state) {
        Fixture *f = *state;
        Worker w;
        int r;

        if (geteuid() != 0) {
                print_message("somebody else's process: needs root to have one\n");
                skip();
        }
        w = worker_start("--threads=3", NULL);
        assert_int_equal(seteuid(65534), 0);
        r = apply(f, w.process, cpu_b);
        assert_int_equal(seteuid(0), 0);
        assert_int_equal(r, 0);
        assert_int_equal(f->outcome.n_refused, 3);
        assert_int_equal(f->outcome.changes[0].error, EPERM);
        assert_int_equal(strv_length(f->outcome.messages), 1);
        assert_message(f, "not permitted");
        assert_int_equal(journal_count(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

static void test_json(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=2", "--name=odd \xff name", NULL);
        const char *result = NULL, *old = NULL, *wanted = NULL, *got = NULL, *comm = NULL;
        int pid = 0, written = -1, same = -1;
        json_t *o;

        assert_int_equal(apply(f, w.process, cpu_b), 0);
        assert_int_equal(outcome_to_json(&f->outcome, &o), 0);
        assert_int_equal(json_unpack(o, "{s:i, s:i, s:[{s:s, s:i, s:s, s:s, s:s, s:s}, {}]}", "written", &written,
                                     "unchanged", &same, "changes", "result", &result, "pid", &pid, "old", &old,
                                     "wanted", &wanted, "got", &got, "comm", &comm),
                         0);
        assert_int_equal(written, 2);
        assert_int_equal(same, 0);
        assert_string_equal(result, "done");
        assert_int_equal(pid, w.process.pid);
        assert_string_equal(old, cpu_all);
        assert_string_equal(wanted, cpu_b);
        assert_string_equal(got, cpu_b);
        assert_string_equal(comm, "odd ? name");
        json_decref(o);
        worker_end(&w);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_all_threads, setup, teardown),
                cmocka_unit_test_setup_teardown(test_late_threads, setup, teardown),
                cmocka_unit_test_setup_teardown(test_born_since, setup, teardown),
                cmocka_unit_test_setup_teardown(test_children, setup, teardown),
                cmocka_unit_test_setup_teardown(test_inherited_child, setup, teardown),
                cmocka_unit_test_setup_teardown(test_old_masks_differ, setup, teardown),
                cmocka_unit_test_setup_teardown(test_same_by_itself, setup, teardown),
                cmocka_unit_test_setup_teardown(test_drift_of_the_unwritten, setup, teardown),
                cmocka_unit_test_setup_teardown(test_drift, setup, teardown),
                cmocka_unit_test_setup_teardown(test_put_back_by_hand, setup, teardown),
                cmocka_unit_test_setup_teardown(test_gone_and_reused, setup, teardown),
                cmocka_unit_test_setup_teardown(test_killed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_killed_on_top, setup, teardown),
                cmocka_unit_test_setup_teardown(test_killed_inherited, setup, teardown),
                cmocka_unit_test_setup_teardown(test_recover_dead, setup, teardown),
                cmocka_unit_test_setup_teardown(test_churn, setup, teardown),
                cmocka_unit_test_setup_teardown(test_immovable, setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_permitted, setup, teardown),
                cmocka_unit_test_setup_teardown(test_json, setup, teardown),
                cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        };

        if (group_setup(NULL) != 0) {
                printf("1..0 # SKIP needs two CPUs\n");
                return 77;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
