/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random sequences of apply, revert, kill -9 in the middle of an apply or a revert, births and a cpuset that changes,
 * each step compared with a model: nothing (every thread as it was at the start), or the plan of the last apply that
 * was committed. QSCHED_ROUNDS says how many sequences; a failure prints its seed.
 */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/fileio.h"
#include "enforce-fixture.h"

#define STEPS 16U

typedef struct Model {
        Puppet puppet;
        const char *plan;   /* NULL: nothing applied */
        const char *cpuset; /* NULL: not in a cpuset of the test's */
        const char *own;    /* the main thread's mask at the start, and what is born has it */
        char group[128];
        unsigned seed;
} Model;

static unsigned pick(Model *m, unsigned n) {
        return (unsigned) rand_r(&m->seed) % n;
}

static const char *some_cpus(Model *m) {
        const char *const sets[] = { cpu_a, cpu_b, cpu_all };

        return sets[pick(m, ELEMENTSOF(sets))];
}

/* What a mask comes to inside the cpuset; the kernel gives the whole of it where nothing is left. */
static char *inside(const Model *m, const char *cpus) {
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY, c = BITSET_EMPTY;
        char *text;

        assert_int_equal(bitset_parse(cpus, &b), 0);
        if (m->cpuset) {
                assert_int_equal(bitset_parse(m->cpuset, &c), 0);
                if (bitset_intersects(&b, &c))
                        bitset_and(&b, &c);
                else
                        assert_int_equal(bitset_copy(&b, &c), 0);
        }
        assert_int_equal(bitset_format(&b, &text), 0);
        return text;
}

static bool matches(const Model *m, const char *plan) {
        _cleanup_free_ char *expected = inside(m, plan ? plan : m->own);

        return count_masks(m->puppet.process.pid, expected) == n_threads(m->puppet.process.pid);
}

static void check(const Model *m) {
        _cleanup_free_ char *expected = inside(m, m->plan ? m->plan : m->own);

        assert_masks(m->puppet.process.pid, expected);
}

static void group_write(const Model *m, const char *file, const char *text) {
        _cleanup_free_ char *path = path_join(m->group, file);

        assert_int_equal(write_file_at(AT_FDCWD, path, text), 0);
}

static void enter_cpuset(Fixture *f, Model *m) {
        _cleanup_free_ char *path = path_join(f->cgroups.cpuset, "cpuset.mems"), *mems = NULL;
        char pid[16];

        (void) snprintf(m->group, sizeof(m->group), "%s/qsched-random-%d", f->cgroups.cpuset, getpid());
        (void) snprintf(pid, sizeof(pid), "%d", m->puppet.process.pid);
        assert_int_equal(mkdir(m->group, 0755), 0);
        assert_int_equal(read_line_at(AT_FDCWD, path, &mems), 0);
        group_write(m, "cpuset.mems", mems);
        group_write(m, "cpuset.cpus", cpu_all);
        group_write(m, "cgroup.procs", pid);
        m->cpuset = cpu_all;
}

static bool reachable(const Model *m, const char *plan) {
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY, c = BITSET_EMPTY;

        if (!m->cpuset)
                return true;
        assert_int_equal(bitset_parse(plan, &b), 0);
        assert_int_equal(bitset_parse(m->cpuset, &c), 0);
        return bitset_intersects(&b, &c);
}

static void step_apply(Fixture *f, Model *m) {
        const char *plan = some_cpus(m);

        if (!reachable(m, plan))
                return;
        assert_int_equal(apply(f, m->puppet.process, plan), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_int_equal(f->outcome.n_refused, 0);
        m->plan = plan;
        check(m);
        assert_int_equal(apply(f, m->puppet.process, plan), 0);
        assert_int_equal(f->outcome.n_written, 0);
}

static void step_revert(Fixture *f, Model *m) {
        assert_int_equal(revert(f), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        assert_int_equal(journal_count(f), 0);
        m->plan = NULL;
}

/* Killed somewhere in it: after the next start all of it has happened, or nothing (a revert that began is ended). */
static void step_kill(Fixture *f, Model *m, bool reverting) {
        const char *plan = reverting ? NULL : some_cpus(m);
        pid_t pid;

        if (plan && !reachable(m, plan))
                return;
        f->enforcer = enforcer_free(f->enforcer);
        f->undo = undo_free(f->undo);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                char **messages = NULL;
                Outcome o;

                if (undo_open(f->dir, &messages, &f->undo) < 0 || enforcer_new(f->undo, &f->cgroups, &f->enforcer) < 0)
                        _exit(1);
                if (reverting)
                        (void) enforce_revert(f->enforcer, NULL, &o);
                else
                        (void) enforce_apply(f->enforcer, plan_for(m->puppet.process, plan, NULL), "train", &o);
                _exit(0);
        }
        usleep(pick(m, 6000));
        (void) kill(pid, SIGKILL);
        (void) waitpid(pid, NULL, 0);
        daemon_restart(f);
        outcome_done(&f->outcome);
        assert_int_equal(enforce_recover(f->enforcer, &f->outcome), 0);
        assert_int_equal(f->outcome.n_drift, 0);
        if (journal_count(f) == 0)
                m->plan = NULL;
        else if (plan && !matches(m, m->plan))
                m->plan = plan;
}

static void step_cpuset(Fixture *f, Model *m) {
        if (!m->cpuset)
                return;
        m->cpuset = some_cpus(m);
        group_write(m, "cpuset.cpus", m->cpuset);
        if (!m->plan || !reachable(m, m->plan))
                return;
        assert_int_equal(apply(f, m->puppet.process, m->plan), 0); /* as the next tick does */
        assert_int_equal(f->outcome.n_drift, 0);
}

static void trace(const Model *m, const char *what) {
        if (getenv("QSCHED_TRACE"))
                print_message("  %s: plan %s cpuset %s\n", what, strempty(m->plan), strempty(m->cpuset));
}

static void step(Fixture *f, Model *m) {
        static const char *const names[] = { "apply",         "apply",         "revert", "kill an apply",
                                             "kill an apply", "kill a revert", "cpuset", "birth" };
        unsigned what = pick(m, ELEMENTSOF(names));

        trace(m, names[what]);
        switch (what) {
        case 0:
        case 1: step_apply(f, m); break;
        case 2: step_revert(f, m); break;
        case 3:
        case 4: step_kill(f, m, false); break;
        case 5: step_kill(f, m, true); break;
        case 6: step_cpuset(f, m); break;
        default: puppet_thread(&m->puppet); break;
        }
        trace(m, "now");
        check(m);
}

static void sequence(Fixture *f, unsigned seed) {
        Model m = { .puppet = puppet_start(), .seed = seed, .own = cpu_all };
        bool narrow = seed % 2 == 0 && f->cgroups.cpuset && geteuid() == 0;

        print_message("seed %u\n", seed);
        if (narrow)
                enter_cpuset(f, &m);
        else if (seed % 4 == 1) {
                m.own = cpu_a;
                set_mask(m.puppet.process.pid, cpu_a);
        }
        for (unsigned i = 0; i < 30; i++)
                puppet_thread(&m.puppet);
        check(&m);
        for (unsigned i = 0; i < STEPS; i++)
                step(f, &m);
        step_revert(f, &m);
        check(&m);
        if (narrow) {
                m.cpuset = cpu_all;
                group_write(&m, "cpuset.cpus", cpu_all);
                check(&m);
        }
        puppet_end(&m.puppet);
        for (unsigned i = 0; narrow && i < 100 && rmdir(m.group) < 0; i++)
                usleep(10000);
}

/* Found by a sequence: a thread that has, before anything is placed, the very mask that its rank is to get was taken for
 * one that inherited it, and got its process's old mask back. */
static void test_equal_by_chance(void **state) {
        Fixture *f = *state;
        Puppet p = puppet_start();
        _cleanup_free_ char *main_mask = NULL, *other_mask = NULL;
        pid_t tid;

        puppet_thread(&p);
        tid = newest_thread(p.process.pid);
        set_mask(tid, cpu_a);
        usleep(50000); /* threads' ages are told in ticks of 10 ms */
        assert_int_equal(apply(f, p.process, cpu_a), 0);
        assert_masks(p.process.pid, cpu_a);
        assert_int_equal(revert(f), 0);
        main_mask = mask_of(p.process.pid);
        other_mask = mask_of(tid);
        assert_string_equal(main_mask, cpu_all);
        assert_string_equal(other_mask, cpu_a);
        puppet_end(&p);
}

static void test_sequences(void **state) {
        const char *rounds = getenv("QSCHED_ROUNDS");
        unsigned n = rounds ? (unsigned) atoi(rounds) : 16;

        for (unsigned seed = getenv("QSCHED_SEED") ? (unsigned) atoi(getenv("QSCHED_SEED")) : 1; seed <= n; seed++)
                sequence(*state, seed);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_equal_by_chance, setup, teardown),
                cmocka_unit_test_setup_teardown(test_sequences, setup, teardown),
        };

        if (group_setup(NULL) != 0) {
                printf("1..0 # SKIP needs two CPUs\n");
                return 77;
        }
        return cmocka_run_group_tests(tests, NULL, NULL);
}
