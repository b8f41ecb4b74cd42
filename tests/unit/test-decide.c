/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision from outside: snapshot and jobs in, plan out. Machines are made in code; what is asserted is what an
 * administrator would check by hand, and that the annealer's plan costs what the exact optimum costs. What is done where
 * CPUs are short is in test-decide-sharing.c.
 */
#include "decide-fixture.h"

static const Shape kunpeng = { .packages = 2, .nodes = 2, .cores = 32, .smt = 1 };

/* Two NPUs on each node; HCCS within a socket, nothing described across. */
static Snapshot *kunpeng_snapshot(void) {
        Snapshot *s = fixture_snapshot(&kunpeng);

        fixture_devices(s, "ascend", "npu", 2);
        for (unsigned a = 0; a < 8; a++)
                for (unsigned b = a + 1; b < 8; b++)
                        if (a / 4 == b / 4)
                                fixture_link(s, a, b, LINK_HCCS, 30e9);
        return s;
}

static unsigned number_of(const char *device) {
        return (unsigned) atoi(device + strcspn(device, "0123456789"));
}

/* auto against the proved optimum of the same model. */
static Plan *assert_optimal(const Snapshot *s, Job *const *jobs, size_t n) {
        Plan *p = fixture_decide(s, jobs, n, "auto");
        _cleanup_(plan_freep) Plan *exact = fixture_decide(s, jobs, n, "exact");

        assert_true(exact->feasible && exact->optimal);
        assert_true(p->feasible);
        assert_true(fabs(p->energy.total - exact->energy.total) < 1e-6);
        return p;
}

static void tp_groups_stay_in_a_socket(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 8, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;
        unsigned used = 0;

        fixture_parallel(j, 4, 2, 1, 10e9, 1e9, 0);
        p = assert_optimal(s, &j, 1);
        fixture_check_plan(s, p, true);
        for (unsigned i = 0; i < 8; i++) {
                unsigned d = number_of(p->tasks[i].devices[0]);

                assert_int_equal(d / 4, number_of(p->tasks[i / 4 * 4].devices[0]) / 4);
                assert_int_equal(topology_cpu(s->topology, (unsigned) bitset_first(&p->tasks[i].cpus))->node, d / 2);
                assert_int_equal(bitset_weight(&p->tasks[i].cpus), 15);
                assert_int_equal(bitset_weight(&p->tasks[i].irq_cpus), 1);
                used |= 1U << d;
        }
        assert_int_equal(used, 0xff);
        assert_set(&p->housekeeping, "0,32,64,96");
}

/* Nobody describes a link: the NUMA distance between their devices keeps a group together all the same. */
static void groups_stay_together_without_links(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&kunpeng);
        _cleanup_(job_freep) Job *j = fixture_job("train", 8, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;

        fixture_devices(s, "ascend", "npu", 2);
        fixture_parallel(j, 4, 2, 1, 10e9, 1e9, 0);
        p = assert_optimal(s, &j, 1);
        for (unsigned i = 0; i < 8; i++)
                assert_int_equal(number_of(p->tasks[i].devices[0]) / 4, number_of(p->tasks[i / 4 * 4].devices[0]) / 4);
}

static void a_node_mostly_taken_away(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 8, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;

        for (unsigned i = 35; i < 64; i++)
                bitset_clear(&s->owned_topology->allowed, i);
        fixture_parallel(j, 4, 2, 1, 10e9, 1e9, 0);
        p = assert_optimal(s, &j, 1);
        fixture_check_plan(s, p, true);
        for (unsigned i = 0; i < 8; i++)
                assert_int_equal(bitset_weight(&p->tasks[i].cpus), 10);
}

static void a_failed_device_is_never_used(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *eight = fixture_job("train", 8, 0, "ascend", 1),
                                 *seven = fixture_job("train", 7, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL, *q = NULL;

        s->devices[3].health = HEALTH_CRITICAL;
        p = fixture_decide(s, &eight, 1, "auto");
        assert_false(p->feasible);
        assert_message(p, "8 ranks ask for 8 ascend devices, 7 can be used: npu3 is critical");
        q = assert_optimal(s, &seven, 1);
        fixture_check_plan(s, q, true);
        for (unsigned i = 0; i < 7; i++)
                assert_string_not_equal(q->tasks[i].devices[0], "npu3");
}

static void an_alarm_comes_last_and_is_said(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *seven = fixture_job("train", 7, 0, "ascend", 1),
                                 *eight = fixture_job("train", 8, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL, *q = NULL;

        s->devices[2].health = HEALTH_ALARM;
        p = assert_optimal(s, &seven, 1);
        for (unsigned i = 0; i < 7; i++)
                assert_string_not_equal(p->tasks[i].devices[0], "npu2");
        q = assert_optimal(s, &eight, 1);
        assert_message(q, "is on npu2, whose health is alarm");
}

static void housekeeping_that_is_not_there(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 2, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL;
        DecideParams params;

        decide_params_default(&params);
        assert_int_equal(bitset_parse("3,200-201", &params.housekeeping), 0);
        assert_int_equal(decide(s, (const Job *const *) &j, 1, &params, &p, NULL), 0);
        assert_set(&p->housekeeping, "3");
        assert_message(p, "Housekeeping CPUs 200-201 are not online and allowed here");
        bitset_done(&params.housekeeping);
}

static void a_hot_device_comes_last(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 7, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;

        s->devices[5].temperature = 95;
        p = assert_optimal(s, &j, 1);
        fixture_check_plan(s, p, true);
        for (unsigned i = 0; i < 7; i++)
                assert_string_not_equal(p->tasks[i].devices[0], "npu5");
}

static void a_foreign_task_keeps_its_cpus_and_device(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 4, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;
        Task *t = fixture_task(s, 500, "64-79", "0-127");

        t->devices = calloc(1, sizeof(unsigned));
        t->devices[0] = 4;
        t->n_devices = 1;
        fixture_parallel(j, 2, 2, 1, 10e9, 1e9, 0);
        p = assert_optimal(s, &j, 1);
        fixture_check_plan(s, p, true);
        for (unsigned i = 0; i < 4; i++) {
                assert_string_not_equal(p->tasks[i].devices[0], "npu4");
                assert_false(bitset_intersects(&p->tasks[i].cpus, &t->cpus));
        }
}

/* 16 dies, 8 nodes of 40 cores x 2, nobody knows where a die hangs: even shares, two to a node, none on node 0 only. */
static void unknown_places_are_neutral(void **state) {
        static const Shape a3 = { .packages = 4, .nodes = 2, .cores = 40, .smt = 2 };
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&a3);
        _cleanup_(job_freep) Job *j = fixture_job("serve", 16, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;
        unsigned on_node[8] = {};

        fixture_devices(s, "ascend", "npu", 2);
        for (size_t i = 0; i < s->n_devices; i++)
                s->devices[i].node = TOPOLOGY_NONE;
        p = fixture_decide(s, &j, 1, "auto");
        fixture_check_plan(s, p, true);
        for (size_t i = 0; i < 16; i++) {
                assert_int_equal(bitset_weight(&p->tasks[i].cpus), 38);
                on_node[topology_cpu(s->topology, (unsigned) bitset_first(&p->tasks[i].cpus))->node]++;
        }
        for (unsigned n = 0; n < 8; n++)
                assert_int_equal(on_node[n], 2);
}

static void a_cpuset_is_a_wall(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 0, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL;
        Match m = { .kind = MATCH_COMM };

        m.pattern = strdup("task*");
        j->ranks[0].match = malloc(sizeof(Match));
        *j->ranks[0].match = m;
        fixture_task(s, 10, "5", "5");
        fixture_task(s, 11, "0-127", "0-127");
        fixture_task(s, 12, "40-47", "40-47");
        p = assert_optimal(s, &j, 1);
        fixture_check_plan(s, p, true);
        assert_int_equal(p->n_tasks, 3);
        assert_set(&plan_task(p, "train/0")->cpus, "5");
}

static void min_cpus_that_cannot_be_had(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 8, 0, NULL, 0), *wide = fixture_job("wide", 1, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL, *q = NULL, *r = NULL;

        j->ranks[0].min_cpus = 20;
        p = fixture_decide(s, &j, 1, "auto");
        assert_false(p->feasible);
        assert_message(p, "8 ranks need at least 160 CPUs (MinCPUs=), 128 can be given");
        j->ranks[0].count = PLACEMENT_RANKS_MAX + 1;
        plan_free(p);
        p = fixture_decide(s, &j, 1, "auto");
        assert_false(p->feasible);
        assert_message(p, "1025 ranks are asked for, one host's plan takes at most 1024");
        wide->ranks[0].min_cpus = 129;
        q = fixture_decide(s, &wide, 1, "auto");
        assert_false(q->feasible);
        assert_message(q, "needs at least 129 CPUs (MinCPUs=), it may use 128");
        wide->ranks[0].min_cpus = 40; /* more than a node has: straddles, and may */
        r = fixture_decide(s, &wide, 1, "auto");
        fixture_check_plan(s, r, true);
        assert_true(bitset_weight(&r->tasks[0].cpus) >= 40);
}

static void explicit_cpus_may_straddle(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 2, 60, NULL, 0);
        _cleanup_(plan_freep) Plan *p = assert_optimal(s, &j, 1);

        fixture_check_plan(s, p, true);
        for (size_t i = 0; i < 2; i++) {
                unsigned socket = (unsigned) bitset_first(&p->tasks[i].cpus) / 64;

                assert_int_equal(bitset_weight(&p->tasks[i].cpus), 60);
                BITSET_FOREACH (cpu, &p->tasks[i].cpus)
                        assert_int_equal((unsigned) cpu / 64, socket);
        }
}

static void what_is_good_stays(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("task", 4, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *first = fixture_decide(s, &j, 1, "auto"), *again = NULL;

        for (size_t i = 0; i < first->n_tasks; i++) {
                _cleanup_free_ char *list = NULL;
                Task *t;

                assert_int_equal(bitset_format(&first->tasks[i].cpus, &list), 0);
                t = fixture_task(s, 100 + (pid_t) i, list, "0-127");
                t->job = strdup("task");
                free(t->name);
                t->name = strdup(first->tasks[i].name);
        }
        again = fixture_decide(s, &j, 1, "auto");
        assert_false(again->changed);
        assert_true(again->energy_before.known);
        assert_true(fabs(again->energy.total - again->energy_before.total) < 1e-9);
        for (size_t i = 0; i < 4; i++)
                assert_true(bitset_equal(&again->tasks[i].cpus, &first->tasks[i].cpus));
}

/* Workers that may use more than they were given have an energy before, though they cannot stay as they are. */
static void unpinned_workers_are_priced(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("task", 2, 4, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;

        for (pid_t pid = 1; pid <= 2; pid++)
                fixture_task(s, pid, "0-127", "0-127")->job = strdup("task");
        p = fixture_decide(s, &j, 1, "auto");
        assert_true(p->changed && p->energy_before.known);
        assert_true(p->energy_before.total > p->energy.total);
        assert_int_equal(bitset_weight(&p->tasks[0].cpus), 4);
}

/* kubelet's static policy: 4-15 may go to guaranteed pods. A pod in the shared pool keeps all of it, a guaranteed one
 * its own, what is neither gets none of them. */
static void kubelets_cpus_are_not_ours(void **state) {
        static const Shape shape = { .packages = 1, .nodes = 1, .cores = 16, .smt = 1 };
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&shape);
        _cleanup_(job_freep) Job *j = fixture_job("task", 4, 0, NULL, 0);
        _cleanup_(plan_freep) Plan *p = NULL;

        for (pid_t pid = 1; pid <= 4; pid++)
                worker(s, pid, "task");
        assert_int_equal(bitset_parse("4-15", &s->reserved), 0);
        for (size_t i = 0; i < 3; i++)
                s->tasks[i].owner_kind = OWNER_POD;
        for (size_t i = 0; i < 2; i++) {
                assert_int_equal(bitset_parse("0-11", &s->tasks[i].allowed_cpus), 0);
                assert_int_equal(bitset_parse("0-11", &s->tasks[i].cpus), 0);
                s->tasks[i].request = 3;
        }
        assert_int_equal(bitset_parse("12-15", &s->tasks[2].allowed_cpus), 0);
        assert_int_equal(bitset_parse("12-15", &s->tasks[2].cpus), 0);
        s->tasks[2].request = 4;
        p = fixture_decide(s, &j, 1, "auto");
        fixture_check_plan(s, p, false);
        assert_set(&p->tasks[0].cpus, "0-11");
        assert_set(&p->tasks[1].cpus, "0-11");
        assert_set(&p->tasks[2].cpus, "12-15");
        assert_false(bitset_intersects(&p->tasks[3].cpus, &s->reserved));
}

static void terms_add_up(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = kunpeng_snapshot();
        _cleanup_(job_freep) Job *j = fixture_job("train", 6, 9, "ascend", 1);
        _cleanup_(plan_freep) Plan *p = NULL;
        double by_term = 0, by_task = 0;

        fixture_parallel(j, 2, 3, 1, 8e9, 2e9, 0);
        s->devices[1].temperature = 80;
        p = fixture_decide(s, &j, 1, "sa");
        for (size_t i = 0; i < PLACEMENT_TERM_MAX; i++)
                by_term += p->energy.terms[i];
        for (size_t i = 0; i < p->n_tasks; i++)
                by_task += p->tasks[i].energy.total;
        assert_true(fabs(by_term - p->energy.total) < 1e-9);
        assert_true(fabs(by_task - p->energy.total) < 1e-9);
        assert_true(isnan(p->lower_bound) || p->lower_bound <= p->energy.total + 1e-9);
}

static bool has_reason(const PlanTask *t, const char *part) {
        for (char **r = t->reasons; r && *r; r++)
                if (strstr(*r, part))
                        return true;
        return false;
}

static const Shape eight_cpus = { .packages = 1, .nodes = 2, .cores = 4, .smt = 1 };

/* Somebody else has set its CPUs, across nodes, as no plan would: that is all there is for it, and the other rank goes
 * around it. */
static void a_fixed_task_is_planned_where_it_is(void **state) {
        static const char left_to_them[] = "somebody else has set them, and they are left to them until its job is";
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&eight_cpus);
        _cleanup_(job_freep) Job *j = fixture_job("task", 2, 2, NULL, 0);
        _cleanup_(plan_freep) Plan *ours = NULL, *p = NULL;

        worker(s, 1, "task");
        worker(s, 2, "task");
        assert_int_equal(bitset_parse("1-5", &s->tasks[0].cpus), 0);
        ours = fixture_decide(s, &j, 1, "auto");
        assert_true(plan_task(ours, "task/0")->changed);
        assert_false(has_reason(plan_task(ours, "task/0"), left_to_them));
        s->tasks[0].fixed = true;
        p = assert_optimal(s, &j, 1);
        fixture_check_plan(s, p, true);
        assert_int_equal(plan_task(p, "task/0")->process.pid, 1);
        assert_true(plan_task(p, "task/0")->fixed);
        assert_false(plan_task(p, "task/0")->changed);
        assert_set(&plan_task(p, "task/0")->cpus, "1-5");
        assert_int_equal(strv_length(plan_task(p, "task/0")->reasons), 1); /* no other to be compared with */
        assert_true(has_reason(plan_task(p, "task/0"), left_to_them));
        assert_false(plan_task(p, "task/1")->fixed);
        assert_set(&plan_task(p, "task/1")->cpus, "6-7");
        assert_false(has_reason(plan_task(p, "task/1"), left_to_them));
}

/* It holds the device of the other node. */
static void a_fixed_task_stays_although_elsewhere_is_cheaper(void **state) {
        _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&eight_cpus);
        _cleanup_(job_freep) Job *j = fixture_job("task", 1, 0, "ascend", 1);
        _cleanup_(plan_freep) Plan *ours = NULL, *p = NULL;
        Task *t = worker(s, 1, "task");

        fixture_devices(s, "ascend", "npu", 1);
        t->devices = calloc(1, sizeof(unsigned));
        assert_non_null(t->devices);
        t->devices[0] = 1;
        t->n_devices = 1;
        assert_int_equal(bitset_parse("1-3", &t->cpus), 0);
        ours = assert_optimal(s, &j, 1);
        assert_true(ours->tasks[0].changed);
        assert_true(bitset_first(&ours->tasks[0].cpus) >= 4);
        t->fixed = true;
        p = assert_optimal(s, &j, 1);
        assert_string_equal(p->tasks[0].devices[0], "npu1");
        assert_set(&p->tasks[0].cpus, "1-3");
        assert_false(p->tasks[0].changed || p->changed);
        assert_true(p->energy.total > ours->energy.total);
}

/* auto beside the oracle on small machines, with devices, traffic and memory. */
static void small_machines_get_their_optimum(void **state) {
        unsigned seed = 3;

        for (unsigned round = 0; round < 40; round++) {
                Shape shape = {
                        .packages = 1 + rand_r(&seed) % 2, .nodes = 2, .cores = 2 + rand_r(&seed) % 6, .smt = 1
                };
                _cleanup_(snapshot_freep) Snapshot *s = fixture_snapshot(&shape);
                unsigned n = 2 + rand_r(&seed) % 4;
                _cleanup_(job_freep) Job *j = fixture_job("job", n, 0, round % 2 ? "ascend" : NULL, round % 2);
                _cleanup_(plan_freep) Plan *p = NULL;

                fixture_devices(s, "ascend", "npu", 3);
                if (round % 4 == 1)
                        fixture_parallel(j, n, 1, 1, 1e9 * (1 + rand_r(&seed) % 9), 0, 0);
                j->ranks[0].memory = round % 3 ? 0 : (uint64_t) (1 + rand_r(&seed) % 60) << 30;
                p = assert_optimal(s, &j, 1);
                assert_true(isnan(p->lower_bound) || p->lower_bound <= p->energy.total + 1e-6);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tp_groups_stay_in_a_socket),
                cmocka_unit_test(groups_stay_together_without_links),
                cmocka_unit_test(a_node_mostly_taken_away),
                cmocka_unit_test(a_failed_device_is_never_used),
                cmocka_unit_test(an_alarm_comes_last_and_is_said),
                cmocka_unit_test(housekeeping_that_is_not_there),
                cmocka_unit_test(a_hot_device_comes_last),
                cmocka_unit_test(a_foreign_task_keeps_its_cpus_and_device),
                cmocka_unit_test(unknown_places_are_neutral),
                cmocka_unit_test(a_cpuset_is_a_wall),
                cmocka_unit_test(min_cpus_that_cannot_be_had),
                cmocka_unit_test(explicit_cpus_may_straddle),
                cmocka_unit_test(what_is_good_stays),
                cmocka_unit_test(unpinned_workers_are_priced),
                cmocka_unit_test(kubelets_cpus_are_not_ours),
                cmocka_unit_test(terms_add_up),
                cmocka_unit_test(a_fixed_task_is_planned_where_it_is),
                cmocka_unit_test(a_fixed_task_stays_although_elsewhere_is_cheaper),
                cmocka_unit_test(small_machines_get_their_optimum),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
