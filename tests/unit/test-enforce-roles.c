/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's pool split between its threads by role: real processes, masks as /proc says them. */
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/enforce-internal.h"
#include "enforce-fixture.h"

static char cpus_ab[32]; /* the pool: both CPUs */
static Roles roles;
static Topology machine; /* of which nothing is known but what is isolated */

static int roles_setup(void **state) {
        Fixture *f;
        int r = setup(state);

        f = *state;
        if (r == 0)
                enforcer_set_roles(f->enforcer, &roles, NULL);
        return r;
}

static void assert_mask(pid_t tid, const char *cpus) {
        _cleanup_free_ char *mask = mask_of(tid);

        assert_non_null(mask);
        assert_string_equal(mask, cpus);
}

static void assert_quiet(Fixture *f, Process p, const char *cpus) {
        off_t size = journal_size(f);

        assert_int_equal(apply(f, p, cpus), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_int_equal(journal_size(f), size);
}

static void restart(Fixture *f) {
        daemon_restart(f);
        enforcer_set_roles(f->enforcer, &roles, NULL);
}

/* Compute has one core of two, helpers the other; each old mask comes back. */
static void test_two_cores(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t acl = puppet_named(&p, "acl_thread");
        const UndoEntry *e;

        puppet_thread(&p);
        set_mask(acl, cpu_a);
        usleep(30000); /* start times have ticks of 10 ms: one that starts in the tick of the apply may be born of it */
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_written, 3);
        assert_mask(p.process.pid, cpu_a);
        assert_mask(acl, cpu_b);
        assert_int_equal(count_masks(p.process.pid, cpu_a), 2);
        e = undo_find_tid(f->undo, p.process.pid, p.process.start_time);
        assert_non_null(e);
        assert_int_equal(bitset_weight(&e->pool), 2);

        for (int i = 0; i < 3; i++)
                assert_quiet(f, p.process, cpus_ab);
        restart(f);
        assert_quiet(f, p.process, cpus_ab);
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_mask(acl, cpu_a);
        assert_int_equal(count_masks(p.process.pid, cpu_all), 2);
        assert_int_equal(journal_count(f), 0);
        puppet_end(&p);
}

/* No helpers, no split, and nothing about a pool in the journal. */
static void test_no_helpers(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=4", NULL);
        const UndoEntry *e;

        assert_int_equal(apply(f, w.process, cpus_ab), 0);
        assert_masks(w.process.pid, cpus_ab);
        e = undo_find_tid(f->undo, w.process.pid, w.process.start_time);
        assert_true(e && bitset_isempty(&e->pool));
        assert_quiet(f, w.process, cpus_ab);
        worker_end(&w);
}

/* Born of a compute thread with its mask, noted with that thread's old one; then back to it. */
static void test_late_helper(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t release;

        set_mask(p.process.pid, cpu_b);
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_mask(p.process.pid, cpus_ab);
        release = puppet_named(&p, "release_thread");
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_written, 2);
        assert_mask(p.process.pid, cpu_a);
        assert_mask(release, cpu_b);
        assert_quiet(f, p.process, cpus_ab);
        assert_int_equal(revert(f), 0);
        assert_mask(p.process.pid, cpu_b);
        assert_mask(release, cpu_b);
        puppet_end(&p);
}

/* A helper that comes and goes: the others do not move each time. */
static void test_come_and_go(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();

        (void) puppet_named(&p, "acl_thread");
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        for (int i = 0; i < 3; i++) {
                pid_t acl;

                puppet_end_named(&p);
                assert_int_equal(apply(f, p.process, cpus_ab), 0);
                assert_int_equal(f->outcome.n_written, 0);
                assert_mask(p.process.pid, cpu_a);
                acl = puppet_named(&p, "acl_thread");
                assert_int_equal(apply(f, p.process, cpus_ab), 0);
                assert_int_equal(f->outcome.n_written, 1);
                assert_mask(acl, cpu_b);
                assert_mask(p.process.pid, cpu_a);
        }
        assert_int_equal(enforce_sweep(f->enforcer), 0); /* the process lives */
        assert_quiet(f, p.process, cpus_ab);
        puppet_end(&p);
        assert_non_null(enforcer_split(f->enforcer, p.process));
        assert_int_equal(enforce_sweep(f->enforcer), 0);
        assert_null(enforcer_split(f->enforcer, p.process));
}

/* Children born of a thread with one core get the whole pool, and their parent's old mask back. */
static void test_children(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        Process children[2] = {};
        pid_t child, born;

        (void) puppet_named(&p, "acl_thread");
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_mask(p.process.pid, cpu_a);
        child = puppet_fork(&p);
        assert_mask(child, cpu_a);
        children[0] = process_now(child);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_apply(f->enforcer, plan_for(p.process, cpus_ab, children), "train", &f->outcome), 0);
        assert_int_equal(f->outcome.n_written, 1);
        assert_mask(child, cpus_ab);
        born = puppet_fork(&p); /* not known to the next revert but by its mask */
        assert_mask(born, cpu_a);
        assert_int_equal(revert(f), 0);
        assert_mask(child, cpu_all);
        assert_mask(born, cpu_all);
        assert_masks(p.process.pid, cpu_all);
        puppet_end(&p);
}

/* Threads born since of a helper bear the helper's mask, not the main thread's: they come back too. */
static void test_revert_born_of_helper(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t acl = puppet_named(&p, "acl_thread"), born;

        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        puppet_thread(&p);
        born = newest_thread(p.process.pid);
        set_mask(born, cpu_b); /* as if acl_thread had started it */
        assert_mask(acl, cpu_b);
        assert_int_equal(revert(f), 0);
        assert_mask(born, cpu_all);
        assert_masks(p.process.pid, cpu_all);
        puppet_end(&p);
}

/* A taskset of one thread is drift, also when it is to another of our masks, or to the pool. */
static void test_drift(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t acl = puppet_named(&p, "acl_thread");

        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        set_mask(acl, cpu_a);
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_drift, 1);
        assert_int_equal(f->outcome.n_written, 0);
        assert_int_equal(f->outcome.changes[0].tid, acl);
        set_mask(acl, cpus_ab);
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_drift, 1);
        assert_mask(acl, cpus_ab);
        assert_int_equal(revert(f), 0);
        assert_mask(acl, cpus_ab); /* theirs */
        assert_mask(p.process.pid, cpu_all);
        puppet_end(&p);
}

/* Roles switched off and on again: masks follow at the next apply. */
static void test_off_and_on(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t acl = puppet_named(&p, "acl_thread");

        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_mask(acl, cpu_b);
        enforcer_set_roles(f->enforcer, NULL, NULL);
        assert_null(enforcer_split(f->enforcer, p.process));
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_written, 2);
        assert_masks(p.process.pid, cpus_ab);
        assert_quiet(f, p.process, cpus_ab);
        enforcer_set_roles(f->enforcer, &roles, NULL);
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_written, 2);
        assert_mask(acl, cpu_b);
        assert_int_equal(revert(f), 0);
        assert_masks(p.process.pid, cpu_all);
        puppet_end(&p);
}

static void isolate(const char *cpus) {
        bitset_done(&machine.isolated);
        assert_int_equal(bitset_parse(cpus, &machine.isolated), 0);
}

/* isolcpus: the kernel does not balance there. One thread per core … */
static void test_isolated(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t other;

        isolate(cpus_ab);
        enforcer_set_roles(f->enforcer, &roles, &machine);
        puppet_thread(&p);
        other = newest_thread(p.process.pid);
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_mask(p.process.pid, cpu_a);
        assert_mask(other, cpu_b);
        assert_quiet(f, p.process, cpus_ab);

        /* … or it is left alone, with a sentence. */
        puppet_thread(&p);
        assert_quiet(f, p.process, cpus_ab);
        assert_message(f, "is left as it is: 3 threads for 2 isolated cores");
        assert_int_equal(revert(f), 0);
        assert_masks(p.process.pid, cpu_all);
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_written, 0);
        assert_message(f, "is left as it is");
        assert_masks(p.process.pid, cpu_all);
        assert_int_equal(journal_count(f), 0);
        puppet_end(&p);
}

/* Of a pool with isolated CPUs beside others the isolated ones are left out. */
static void test_partly_isolated(void **state) {
        Fixture *f = *state;
        Worker w = worker_start("--threads=3", NULL);

        isolate(cpu_b);
        enforcer_set_roles(f->enforcer, &roles, &machine);
        assert_int_equal(apply(f, w.process, cpus_ab), 0);
        assert_masks(w.process.pid, cpu_a);
        assert_quiet(f, w.process, cpus_ab);
        assert_int_equal(revert(f), 0);
        assert_masks(w.process.pid, cpu_all);
        worker_end(&w);
}

/* The pool is another one while a thread's part of it stays: the journal learns of it, nothing is written. */
static void test_same_part(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        const UndoEntry *e;

        (void) puppet_named(&p, "acl_thread");
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(apply(f, p.process, cpu_a), 0);
        assert_int_equal(f->outcome.n_written, 1);
        e = undo_find_tid(f->undo, p.process.pid, p.process.start_time);
        assert_true(e && bitset_isempty(&e->pool));
        assert_quiet(f, p.process, cpu_a);
        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(f->outcome.n_written, 1);
        e = undo_find_tid(f->undo, p.process.pid, p.process.start_time);
        assert_true(e && bitset_weight(&e->pool) == 2);
        assert_quiet(f, p.process, cpus_ab);
        puppet_end(&p);
}

/* Killed between note and commit: back to what the plan before gave, thread by thread, with its pool. */
static void test_not_committed(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        pid_t acl = puppet_named(&p, "acl_thread");
        const UndoEntry *e;

        assert_int_equal(apply(f, p.process, cpus_ab), 0);
        assert_int_equal(enforce_begin(f->enforcer, "train", NULL), 0);
        assert_int_equal(apply(f, p.process, cpu_b), 0);
        assert_masks(p.process.pid, cpu_b);
        restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
        assert_mask(p.process.pid, cpu_a);
        assert_mask(acl, cpu_b);
        e = undo_find_tid(f->undo, p.process.pid, p.process.start_time);
        assert_true(e && bitset_weight(&e->pool) == 2);
        assert_quiet(f, p.process, cpus_ab);
        assert_int_equal(revert(f), 0);
        assert_masks(p.process.pid, cpu_all);
        puppet_end(&p);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_two_cores, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_no_helpers, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_late_helper, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_come_and_go, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_children, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_revert_born_of_helper, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_drift, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_off_and_on, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_isolated, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_partly_isolated, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_same_part, roles_setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_committed, roles_setup, teardown),
        };
        int r;

        if (group_setup(NULL) != 0) {
                printf("1..0 # SKIP needs two CPUs\n");
                return 77;
        }
        (void) snprintf(cpus_ab, sizeof(cpus_ab), atoi(cpu_b) == atoi(cpu_a) + 1 ? "%s-%s" : "%s,%s", cpu_a, cpu_b);
        if (roles_default(&roles) < 0)
                return 1;
        r = cmocka_run_group_tests(tests, NULL, NULL);
        roles_done(&roles);
        bitset_done(&machine.isolated);
        return r;
}
