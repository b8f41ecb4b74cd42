/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision where CPUs are short, snapshot and jobs in, plan out: who shares and is told so, what was promised or
 * measured, whether pinning pays at all, and hundreds of ranks, which must settle.
 */
#include "decide-fixture.h"

static void three_on_two_cpus_share_and_say_so(void **state) {
        static const Shape tiny = { .packages = 1, .nodes = 1, .cores = 2, .smt = 1 };
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&tiny);
        _cleanup_(job_freep) Job *two = fixture_job("two", 2, 0, NULL, 0), *three = fixture_job("three", 3, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = fixture_decide(s, &two, 1, "auto"), *q = fixture_decide(s, &three, 1, "auto");

        fixture_check_plan(s, p, true);
        assert_true(bitset_isempty(&p->housekeeping));
        assert_null(p->messages);
        fixture_check_plan(s, q, false);
        assert_message(q, "3 ranks share 2 CPUs");
        bitset_clear(&s->owned_topology->allowed, 1);
        plan_free(q);
        q = fixture_decide(s, &two, 1, "auto");
        assert_message(q, "2 ranks share 1 CPU:"); /* those that are not allowed do not count */
}

static void priority_comes_first_when_cpus_are_short(void **state) {
        static const Shape eight = { .packages = 1, .nodes = 1, .cores = 9, .smt = 1 };
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&eight);
        Job *jobs[] = { fixture_job("low", 1, 6, NULL, 0), fixture_job("high", 1, 6, NULL, 0) };
        _cleanup_(plan_freep) Plan *p = NULL;

        jobs[0]->priority = 10;
        jobs[1]->priority = 90;
        p = fixture_decide(s, jobs, 2, "auto");
        fixture_check_plan(s, p, true);
        assert_int_equal(bitset_weight(&plan_task(p, "high/0")->cpus), 6);
        assert_int_equal(bitset_weight(&plan_task(p, "low/0")->cpus), 2);
        assert_message(p, "low/0 asks for 6 CPUs and gets 2");
        job_free(jobs[0]);
        job_free(jobs[1]);
}

/* Quota and request are promises: two of 20 CPUs on 24 share rather than get 12 each. */
static void promises_are_kept(void **state) {
        static const Shape shape = { .packages = 1, .nodes = 1, .cores = 25, .smt = 1 };
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&shape);
        _cleanup_(job_freep) Job *j = fixture_job("task", 2, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL;

        worker(s, 1, "task")->request = 20;
        worker(s, 2, "task")->quota = 19.5;
        p = fixture_decide(s, &j, 1, "auto");
        fixture_check_plan(s, p, false);
        assert_true(bitset_weight(&p->tasks[0].cpus) >= 20);
        assert_true(bitset_weight(&p->tasks[1].cpus) >= 20);
        assert_message(p, "share");
}

/* Measured use is kept while there are CPUs for it, and gives way to sets of their own on a host that is full. */
static void measured_use_is_kept_while_there_is_room(void **state) {
        static const Shape shape = { .packages = 1, .nodes = 1, .cores = 13, .smt = 1 };
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&shape);
        _cleanup_(job_freep) Job *j = fixture_job("task", 2, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL, *full = NULL, *limited = NULL;

        worker(s, 1, "task")->cpu_use = 7.4;
        worker(s, 2, "task")->cpu_use = 1;
        p = fixture_decide(s, &j, 1, "auto");
        fixture_check_plan(s, p, true);
        assert_int_equal(bitset_weight(&p->tasks[0].cpus), 8);
        s->tasks[1].cpu_use = 7;
        full = fixture_decide(s, &j, 1, "auto");
        fixture_check_plan(s, full, true);
        assert_message(full, "task/0 gets 6 CPUs, it was measured to use 7.4");
        j->ranks[0].cpus = 2;
        limited = fixture_decide(s, &j, 1, "auto");
        assert_message(limited, "task/0 gets 2 CPUs by CPUs=, it was measured to use 7.4");
}

/* Random machines, sizes and cpusets: whatever comes out is valid, and disjoint while there are CPUs enough. */
static void random_machines_hold_the_invariants(void **state) {
        unsigned seed = 7;

        for (unsigned round = 0; round < 150; round++) {
                Shape shape = { .packages = 1 + rand_r(&seed) % 3,
                                .nodes = 1 + rand_r(&seed) % 3,
                                .cores = 1 + rand_r(&seed) % 9,
                                .smt = 1 + rand_r(&seed) % 2 };
                _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&shape);
                unsigned n = 1 + rand_r(&seed) % 12, enough;
                _cleanup_(job_freep)
                        Job *j = fixture_job("job", n, rand_r(&seed) % 2 ? 0 : 1 + rand_r(&seed) % 6, NULL, 0);
                _cleanup_(plan_freep) Plan *p = NULL;

                for (unsigned i = 0; i < s->topology->n_cpus; i++)
                        if (rand_r(&seed) % 5 == 0 && bitset_weight(&s->topology->allowed) > 1)
                                bitset_clear(&s->owned_topology->allowed, i);
                enough = bitset_weight(&s->topology->allowed);
                p = fixture_decide(s, &j, 1, "auto");
                fixture_check_plan(s, p, n <= enough);
                assert_true(n <= enough || has_message(p, "share"));
        }
}

static Snapshot *crowded(const Shape *shape, unsigned n) {
        Snapshot *s = fixture_snapshot(shape);

        for (unsigned i = 0; i < n; i++)
                worker(s, (pid_t) (1000 + i), "task");
        return s;
}

/* With the work that a plan gets by default: the oracle's would take minutes here. */
static Plan *decide_as_usual(const Snapshot *s, Job *j, uint64_t seed) {
        DecideParams params;
        Plan *p = NULL;

        decide_params_default(&params);
        params.seed = seed;
        assert_int_equal(decide(s, (const Job *const *) &j, 1, &params, &p, NULL), 0);
        return p;
}

/* Everything as the plan says. */
static void carry_out(Snapshot *s, const Plan *p) {
        for (size_t i = 0; i < p->n_tasks; i++)
                for (size_t k = 0; k < s->n_tasks; k++)
                        if (s->tasks[k].pid == p->tasks[i].process.pid) {
                                assert_int_equal(bitset_copy(&s->tasks[k].cpus, &p->tasks[i].cpus), 0);
                                free(s->tasks[k].name);
                                s->tasks[k].name = strdup(p->tasks[i].name);
                        }
}

/* A plan, carried out and made anew, stays; whatever the seed. */
static void assert_settles(Snapshot *s, Job *j) {
        _cleanup_(plan_freep) Plan *first = decide_as_usual(s, j, 1);

        fixture_check_plan(s, first, false);
        carry_out(s, first);
        for (uint64_t seed = 1; seed <= 3; seed++) {
                _cleanup_(plan_freep) Plan *again = decide_as_usual(s, j, seed);

                assert_true(again->feasible);
                assert_false(again->changed);
        }
}

static const Shape two_cpus = { .packages = 1, .nodes = 1, .cores = 2, .smt = 1 };

/* A host where pinning does not pay: default pinning of three workers to two CPUs leaves one CPU to two of them. Leaving
 * alone wins, and the plan says at what cost of either. */
static void leaving_alone_wins_where_pinning_does_not_fit(void **state) {
        for (unsigned n = 3; n <= 500; n = n < 10 ? n + 1 : n * 7) {
                _cleanup_(snapshot_freep) Snapshot *s = crowded(&two_cpus, n);
                _cleanup_(job_freep) Job *j = fixture_job("task", 0, 0, NULL, 0);
                _cleanup_(plan_freep) Plan *p = NULL;
                Match m = { .kind = MATCH_COMM };

                m.pattern = strdup("task*");
                j->ranks[0].match = malloc(sizeof(Match));
                *j->ranks[0].match = m;
                p = decide_as_usual(s, j, 1);
                assert_int_equal(p->n_tasks, n);
                assert_false(p->changed);
                assert_true(p->energy_before.known);
                assert_true(fabs(p->energy.total - p->energy_before.total) <= 1e-9 * p->energy.total);
                for (size_t i = 0; i < n; i++)
                        assert_set(&p->tasks[i].cpus, "0-1");
        }
}

/* What is there is a little worse than the best plan, by less than what a change must bring: it stays, and the plan
 * tells the cost of both. */
static void staying_tells_what_the_other_plan_costs(void **state) {
        static const Shape eight = { .packages = 1, .nodes = 2, .cores = 4, .smt = 1 };
        _cleanup_(snapshot_freep) Snapshot *s = crowded(&eight, 20);
        _cleanup_(job_freep) Job *j = fixture_job("task", 20, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL;
        DecideParams params;
        double now = 0, then = 0;

        for (size_t i = 0; i < 20; i++) /* eleven on one node, nine on the other, housekeeping CPUs left out */
                assert_int_equal(bitset_parse(i < 11 ? "1-3" : "5-7", &s->tasks[i].cpus), 0);
        decide_params_default(&params);
        assert_int_equal(decide(s, (const Job *const *) &j, 1, &params, &p, NULL), 0);
        assert_false(p->changed);
        assert_message(p, "All stays where it is, at a cost of ");
        for (char **m = p->messages; *m; m++)
                if (sscanf(*m, "All stays where it is, at a cost of %lf: the best other plan costs %lf", &now, &then) ==
                    2)
                        break;
        assert_true(fabs(now - p->energy.total) < 1e-3);
        assert_true(then < now);
        params.hysteresis = 0;
        plan_free(p);
        p = NULL;
        assert_int_equal(decide(s, (const Job *const *) &j, 1, &params, &p, NULL), 0);
        assert_true(p->changed);
        assert_true(fabs(p->energy.total - then) < 1e-3);
        assert_true(fabs(p->energy_before.total - now) < 1e-3);
}

static void a_thousand_ranks_on_640_cpus(void **state) {
        static const Shape wide = { .packages = 4, .nodes = 2, .cores = 40, .smt = 2 };
        _cleanup_(snapshot_freep) Snapshot *s = crowded(&wide, 1000);
        _cleanup_(job_freep) Job *j = fixture_job("task", 1000, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL;
        unsigned on_node[8] = {};

        for (size_t i = 0; i < 1000; i++) {
                s->tasks[i].cpu_use = 0.3;
                s->tasks[i].quota = i % 10 == 0 ? 4 : NAN;
        }
        p = decide_as_usual(s, j, 1);
        fixture_check_plan(s, p, false);
        assert_message(p, "1000 ranks share");
        for (size_t i = 0; i < 1000; i++) {
                const Task *t = snapshot_task(s, p->tasks[i].process.pid);

                assert_true(isnan(t->quota) || bitset_weight(&p->tasks[i].cpus) >= 4);
                on_node[topology_cpu(s->topology, (unsigned) bitset_first(&p->tasks[i].cpus))->node]++;
        }
        for (unsigned n = 0; n < 8; n++)
                assert_in_range(on_node[n], 100, 150); /* an even spread: 125, those with a quota count four times */
        assert_settles(s, j);
}

static void five_hundred_get_a_cpu_each(void **state) {
        static const Shape wide = { .packages = 4, .nodes = 2, .cores = 40, .smt = 2 };
        _cleanup_(snapshot_freep) Snapshot *s = crowded(&wide, 500);
        _cleanup_(job_freep) Job *j = fixture_job("task", 500, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = decide_as_usual(s, j, 1);
        unsigned on_node[8] = {};

        fixture_check_plan(s, p, true);
        for (size_t i = 0; i < 500; i++)
                on_node[topology_cpu(s->topology, (unsigned) bitset_first(&p->tasks[i].cpus))->node]++;
        for (unsigned n = 0; n < 8; n++)
                assert_in_range(on_node[n], 55, 70);
        assert_settles(s, j);
}

/* Where CPUs are shared nobody gets fewer than it was measured to use, was promised, or asks for. */
static void sharing_keeps_promises(void **state) {
        static const Shape eight = { .packages = 1, .nodes = 2, .cores = 4, .smt = 1 };
        _cleanup_(snapshot_freep) Snapshot *s = crowded(&eight, 20);
        _cleanup_(job_freep) Job *j = fixture_job("task", 20, 0, NULL, 0),
                                 *three = fixture_job("three", 12, 3, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL, *q = NULL;

        s->tasks[3].cpu_use = 3.4;
        s->tasks[5].quota = 6;
        s->tasks[7].request = 2;
        p = fixture_decide(s, &j, 1, "auto");
        fixture_check_plan(s, p, false);
        for (size_t i = 0; i < 20; i++) {
                pid_t pid = p->tasks[i].process.pid;

                assert_true(bitset_weight(&p->tasks[i].cpus) >= (pid == 1003   ? 4U
                                                                 : pid == 1005 ? 6U
                                                                 : pid == 1007 ? 2U
                                                                               : 1U));
        }
        q = fixture_decide(s, &three, 1, "auto");
        fixture_check_plan(s, q, false);
        for (size_t i = 0; i < 12; i++)
                assert_int_equal(bitset_weight(&q->tasks[i].cpus), 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(three_on_two_cpus_share_and_say_so),
                cmocka_unit_test(priority_comes_first_when_cpus_are_short),
                cmocka_unit_test(promises_are_kept),
                cmocka_unit_test(measured_use_is_kept_while_there_is_room),
                cmocka_unit_test(random_machines_hold_the_invariants),
                cmocka_unit_test(leaving_alone_wins_where_pinning_does_not_fit),
                cmocka_unit_test(staying_tells_what_the_other_plan_costs),
                cmocka_unit_test(a_thousand_ranks_on_640_cpus),
                cmocka_unit_test(five_hundred_get_a_cpu_each),
                cmocka_unit_test(sharing_keeps_promises),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
