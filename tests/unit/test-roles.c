/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool split between threads by role, a pure function: the table of degradation row by row, who has which role,
 * siblings, isolated CPUs, random pools, and the split as JSON.
 */
#include "roles-fixture.h"
#include "tests/unit/fixture.h"

static const RoleThread helpers4[] = {
        /* a main thread, two of its name, and four helper roles with the interrupts */
        { 100, 100, "python", true, false },          { 100, 101, "python", false, false },
        { 100, 102, "python", false, false },         { 100, 103, "acl_thread", false, false },
        { 100, 104, "release_thread", false, false }, { 100, 105, "hcclComm_watchd", false, false },
        { 200, 200, "python", false, true },          { 200, 201, "acl_thread", false, true },
};

static void assert_grant(const RoleSplit *s, Roles *r, const char *role, const char *expected) {
        assert_set(&s->grants[roles_get(r, role) - r->roles].cpus, expected, role);
}

/* The table in policy/roles.h, one core per CPU, four helper roles. */
static void test_degradation(void **state) {
        static const struct {
                const char *name, *pool, *compute, *runtime, *communication, *interrupts, *release;
                bool said; /* that some share */
        } rows[] = {
                { "1 core: all share", "4", "4", "4", "4", "4", "4", true },
                { "2 cores: compute, helpers", "4-5", "4", "5", "5", "5", "5", true },
                { "3 cores: compute has two", "4-6", "4-5", "6", "6", "6", "6", true },
                { "4 cores: the first helper alone", "4-7", "4-5", "7", "6", "6", "6", true },
                { "5 cores", "3-7", "3-5", "7", "6", "6", "6", true },
                { "6 cores: two helpers alone", "2-7", "2-4", "7", "6", "5", "5", true },
                { "7 cores", "1-7", "1-4", "7", "6", "5", "5", true },
                { "8 cores: one each", "0-7", "0-3", "7", "6", "5", "4", false },
                { "9 cores: more for compute", "0-8", "0-4", "8", "7", "6", "5", false },
                { "16 cores", "0-15", "0-11", "15", "14", "13", "12", false },
                { "holes in the pool", "0,2,4,6,8,10,12,14", "0,2,4,6", "14", "12", "10", "8", false },
        };
        Roles r = defaults();

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                RoleSplit s = split(&r, NULL, rows[i].pool, helpers4, ELEMENTSOF(helpers4), true);

                assert_set(role_split_cpus(&s, 0), rows[i].compute, rows[i].name);
                assert_set(role_split_cpus(&s, 1), rows[i].compute, rows[i].name);
                assert_set(role_split_cpus(&s, 3), rows[i].runtime, rows[i].name);
                assert_set(role_split_cpus(&s, 4), rows[i].release, rows[i].name);
                assert_set(role_split_cpus(&s, 5), rows[i].communication, rows[i].name);
                assert_set(role_split_cpus(&s, 6), rows[i].pool, rows[i].name);
                assert_set(role_split_cpus(&s, 7), rows[i].pool, rows[i].name);
                assert_set(&s.irq_cpus, rows[i].interrupts, rows[i].name);
                assert_int_equal(strv_length(s.messages), rows[i].said);
                role_split_done(&s);
        }
        roles_done(&r);
}

/* Interrupts without helpers beside them: a core of four, none of three; on two with a helper they share its core. */
static void test_lone_interrupts(void **state) {
        static const struct {
                const char *pool, *compute, *irq;
                size_t n;
        } rows[] = {
                { "0-1", "0-1", "", 3 }, { "0-2", "0-2", "", 3 }, { "0-3", "0-2", "3", 3 }, { "0-1", "0", "1", 4 }
        };
        Roles r = defaults();

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                RoleSplit s = split(&r, NULL, rows[i].pool, helpers4, rows[i].n, true);

                assert_set(role_split_cpus(&s, 0), rows[i].compute, rows[i].pool);
                assert_set(&s.irq_cpus, rows[i].irq, rows[i].pool);
                role_split_done(&s);
        }
        roles_done(&r);
}

/* What has been there counts as if it were. */
static void test_seen(void **state) {
        _cleanup_(bitset_done) Bitset pool = BITSET_EMPTY;
        Roles r = defaults();
        RoleSplit a, b;

        assert_int_equal(bitset_parse("0-7", &pool), 0);
        assert_int_equal(roles_split(&r, NULL, &pool, helpers4, 5, false, 0, &a), 0);
        assert_int_equal(roles_split(&r, NULL, &pool, helpers4, 3, false, a.seen, &b), 0);
        assert_int_equal(a.seen, b.seen);
        assert_set(role_split_cpus(&a, 0), "0-5", "compute");
        assert_set(role_split_cpus(&b, 0), "0-5", "compute");
        assert_grant(&b, &r, "runtime", "7");
        role_split_done(&a);
        role_split_done(&b);
        roles_done(&r);
}

static void test_one_helper(void **state) {
        static const struct {
                const char *pool, *compute, *helper;
        } rows[] = { { "0", "0", "0" }, { "0-1", "0", "1" }, { "0-2", "0-1", "2" }, { "0-7", "0-6", "7" } };
        static const RoleThread threads[] = { { 1, 1, "main", true, false },
                                              { 1, 2, "NCCL Progress 0", false, false } };
        Roles r = defaults();

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                RoleSplit s = split(&r, NULL, rows[i].pool, threads, 2, false);

                assert_set(role_split_cpus(&s, 0), rows[i].compute, rows[i].pool);
                assert_set(role_split_cpus(&s, 1), rows[i].helper, rows[i].pool);
                assert_true(bitset_isempty(&s.irq_cpus));
                role_split_done(&s);
        }
        roles_done(&r);
}

static void test_no_helper_no_split(void **state) {
        Roles r = defaults();
        RoleSplit s = split(&r, NULL, "0-7", helpers4, 3, false);

        for (size_t i = 0; i < 3; i++)
                assert_set(role_split_cpus(&s, i), "0-7", "compute");
        assert_grant(&s, &r, "runtime", "0-7");
        assert_null(s.messages);
        role_split_done(&s);
        roles_done(&r);
}

/* A program called like a helper is none, nor are threads that have its name. */
static void test_roles_of_threads(void **state) {
        static const struct {
                const char *name, *main_comm;
                RoleThread t;
                const char *role;
        } cases[] = {
                { "main thread", "python", { 1, 1, "python", true, false }, "compute" },
                { "main thread named like a helper", "hccl_test", { 1, 1, "hccl_test", true, false }, "compute" },
                { "unnamed thread of such a program", "hccl_test", { 1, 2, "hccl_test", false, false }, "compute" },
                { "acl_thread", "python", { 1, 2, "acl_thread", false, false }, "runtime" },
                { "release_thread", "python", { 1, 2, "release_thread", false, false }, "release" },
                { "watchdog of HCCL", "python", { 1, 2, "hcclComm_watchd", false, false }, "communication" },
                { "proxy of NCCL", "python", { 1, 2, "NCCL Service  0", false, false }, "communication" },
                { "watchdog of NCCL", "python", { 1, 2, "ncclCommWatchdo", false, false }, "communication" },
                { "unknown name", "python", { 1, 2, "tokio-runtime-w", false, false }, "compute" },
                { "backward", "python", { 1, 2, "backward_thread", false, false }, "compute" },
                { "no name", "python", { 1, 2, NULL, false, false }, "compute" },
                { "main thread unknown", NULL, { 1, 2, "acl_thread", false, false }, "runtime" },
                { "data loader", "python", { 2, 2, "pt_data_worker", false, true }, "children" },
                { "thread of a data loader", "python", { 2, 3, "acl_thread", false, true }, "children" },
        };
        Roles r = defaults();

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const char *got = r.roles[role_of(&r, &cases[i].t, cases[i].main_comm)].name;

                if (!streq(got, cases[i].role))
                        fail_msg("%s: got %s, expected %s", cases[i].name, got, cases[i].role);
        }
        roles_done(&r);
}

/* CPUs 0,1 are siblings and so on: fixture's numbers run through threads first. */
static void test_siblings_stay_together(void **state) {
        Topology *t = fixture_topology(&(Shape){ .packages = 1, .nodes = 1, .cores = 8, .smt = 2 });
        Roles r = defaults();
        RoleSplit s = split(&r, t, "0-15", helpers4, ELEMENTSOF(helpers4), true);

        assert_int_equal(s.n_cores, 8);
        assert_grant(&s, &r, "compute", "0-7");
        assert_grant(&s, &r, "runtime", "14-15");
        assert_grant(&s, &r, "release", "8-9");
        role_split_done(&s);
        s = split(&r, t, "6-7", helpers4, ELEMENTSOF(helpers4), false); /* one core: two CPUs are no reason to split */
        assert_grant(&s, &r, "compute", "6-7");
        assert_grant(&s, &r, "runtime", "6-7");
        role_split_done(&s);
        s = split(&r, t, "1,4-5,8-9,12", helpers4, 4, false); /* half cores at both ends */
        assert_int_equal(s.n_cores, 4);
        assert_grant(&s, &r, "compute", "1,4-5,8-9");
        assert_grant(&s, &r, "runtime", "12");
        role_split_done(&s);
        roles_get(&r, "runtime")->cpus = 3; /* rounded up to whole cores */
        s = split(&r, t, "0-15", helpers4, 4, false);
        assert_grant(&s, &r, "runtime", "12-15");
        role_split_done(&s);
        roles_done(&r);
        topology_free(t);
}

static void test_wants_more_than_half(void **state) {
        Roles r = defaults();
        RoleSplit s;

        roles_get(&r, "runtime")->cpus = 6;
        s = split(&r, NULL, "0-7", helpers4, 4, false); /* alone: half of the pool */
        assert_grant(&s, &r, "compute", "0-3");
        assert_grant(&s, &r, "runtime", "4-7");
        role_split_done(&s);
        s = split(&r, NULL, "0-7", helpers4, ELEMENTSOF(helpers4), false); /* the others find one core */
        assert_grant(&s, &r, "runtime", "5-7");
        assert_grant(&s, &r, "communication", "4");
        assert_grant(&s, &r, "release", "4");
        assert_grant(&s, &r, "compute", "0-3");
        role_split_done(&s);
        roles_done(&r);
}

static void test_main_alone(void **state) {
        Roles r = defaults();
        Role *main = roles_get(&r, "main");
        RoleSplit s;

        main->main = true;
        main->priority = 100;
        s = split(&r, NULL, "0-7", helpers4, 4, false);
        assert_set(role_split_cpus(&s, 0), "7", "main");
        assert_set(role_split_cpus(&s, 1), "0-5", "compute");
        assert_set(role_split_cpus(&s, 3), "6", "runtime");
        role_split_done(&s);
        roles_done(&r);
}

static void test_late_threads(void **state) {
        Roles r = defaults();
        RoleSplit s = split(&r, NULL, "0-7", helpers4, 4, false);

        assert_set(role_split_late(&s, &r, &(RoleThread){ 1, 9, "acl_thread", false, false }), "7", "late acl_thread");
        assert_set(role_split_late(&s, &r, &(RoleThread){ 1, 9, "python", false, false }), "0-6", "late compute");
        /* Its role had none: with the compute threads until it is split again. */
        assert_set(role_split_late(&s, &r, &(RoleThread){ 1, 9, "hccl0", false, false }), "0-6", "late helper");
        assert_set(role_split_late(&s, &r, &(RoleThread){ 9, 9, "x", false, true }), "0-7", "late child");
        role_split_done(&s);
        roles_done(&r);
}

static void test_isolated(void **state) {
        Topology *t = fixture_topology(&(Shape){ .packages = 1, .nodes = 1, .cores = 8, .smt = 2 });
        Roles r = defaults();
        RoleSplit s;

        assert_int_equal(bitset_set_range(&t->isolated, 8, 15), 0);
        s = split(&r, t, "4-11", helpers4, 6, false); /* mixed: without them */
        assert_false(s.isolated);
        for (size_t i = 0; i < 6; i++)
                assert_false(bitset_intersects(role_split_cpus(&s, i), &t->isolated));
        assert_int_equal(strv_length(s.messages), 2);
        assert_non_null(strstr(s.messages[0], "CPUs 8-11 of the pool are isolated"));
        role_split_done(&s);

        s = split(&r, t, "8-15", helpers4, 4, true); /* four cores, four threads */
        assert_true(s.isolated);
        assert_false(s.refused);
        assert_set(role_split_cpus(&s, 0), "8", "main");
        assert_set(role_split_cpus(&s, 3), "10", "runtime");
        assert_set(role_split_cpus(&s, 1), "12", "compute");
        assert_set(role_split_cpus(&s, 2), "14", "compute");
        assert_null(role_split_late(&s, &r, &helpers4[1]));
        assert_true(bitset_isempty(&s.irq_cpus));
        role_split_done(&s);

        s = split(&r, t, "8-15", helpers4, 3, true); /* a core is left for interrupts */
        assert_set(&s.irq_cpus, "14-15", "interrupts");
        role_split_done(&s);

        s = split(&r, t, "8-15", helpers4, 8, false); /* more threads than cores */
        assert_true(s.refused);
        for (size_t i = 0; i < 8; i++)
                assert_int_equal(bitset_weight(role_split_cpus(&s, i)), 1);
        assert_non_null(strstr(s.messages[0], "8 threads for 4 isolated cores"));
        role_split_done(&s);
        roles_done(&r);
        topology_free(t);
}

static void test_empty_pool(void **state) {
        Bitset empty = BITSET_EMPTY;
        Roles r = defaults();
        RoleSplit s;

        assert_int_equal(roles_split(&r, NULL, &empty, helpers4, 1, false, 0, &s), -EINVAL);
        roles_done(&r);
}

static unsigned roll(unsigned *seed, unsigned n) {
        *seed = *seed * 1664525U + 1013904223U;
        return (*seed >> 8) % n;
}

static void check_invariants(const Roles *r, const Topology *t, const Bitset *pool, const RoleThread *threads, size_t n,
                             const RoleSplit *s) {
        unsigned own = 0;

        for (size_t i = 0; i < n; i++) {
                const Bitset *cpus = role_split_cpus(s, i);

                assert_false(bitset_isempty(cpus));
                assert_true(bitset_subset(cpus, pool));
                if (s->isolated)
                        assert_int_equal(bitset_weight(cpus), 1);
                else if (bitset_weight(pool) > bitset_and_weight(pool, &t->isolated))
                        assert_false(bitset_intersects(cpus, &t->isolated));
        }
        for (size_t i = 0; i < s->n_grants; i++) {
                assert_false(bitset_isempty(&s->grants[i].cpus));
                assert_true(bitset_subset(&s->grants[i].cpus, pool));
                if (s->isolated || !s->grants[i].own || s->n_cores == 1)
                        continue;
                own += !s->grants[i].shared;
                assert_false(bitset_intersects(&s->grants[i].cpus, &s->grants[0].cpus)); /* compute is [0] */
                BITSET_FOREACH (os, &s->grants[i].cpus)                                  /* whole cores */
                        BITSET_FOREACH (other, pool)
                                if (topology_cpu(t, (unsigned) os)->core == topology_cpu(t, (unsigned) other)->core)
                                        assert_int_equal(bitset_test(&s->grants[i].cpus, (unsigned) other),
                                                         !bitset_test(&t->isolated, (unsigned) other));
                for (size_t k = i + 1; k < s->n_grants; k++) /* alone, or with those that share */
                        if (s->grants[k].own && !(s->grants[k].shared && s->grants[i].shared))
                                assert_false(bitset_intersects(&s->grants[i].cpus, &s->grants[k].cpus));
        }
        assert_true(own <= s->n_cores / 2);
        (void) r;
}

static void test_random(void **state) {
        static const char *const names[] = { "python",          "acl_thread", "release_thread",  "nccl1",
                                             "hcclComm_watchd", "x",          "NCCL Progress 1", NULL };
        Topology *t = fixture_topology(&(Shape){ .packages = 2, .nodes = 2, .cores = 6, .smt = 2 });
        Roles r = defaults();
        unsigned seed = 1;

        for (unsigned round = 0; round < 2000; round++) {
                _cleanup_(bitset_done) Bitset pool = BITSET_EMPTY;
                RoleThread threads[40];
                size_t n = 1 + roll(&seed, 40);
                RoleSplit a, b;

                bitset_zero(&t->isolated);
                if (round % 3 == 0)
                        assert_int_equal(bitset_set_range(&t->isolated, 24, 24 + 2 * roll(&seed, 12) + 1), 0);
                do
                        for (unsigned os = 0; os < 48; os++)
                                if (roll(&seed, 1 + round % 12) == 0)
                                        assert_int_equal(bitset_set(&pool, os), 0);
                while (bitset_isempty(&pool));
                if (round % 5 == 0 && bitset_intersects(&pool, &t->isolated))
                        bitset_and(&pool, &t->isolated);
                for (size_t i = 0; i < n; i++)
                        threads[i] = (RoleThread){ 1, (pid_t) (i + 1), names[roll(&seed, ELEMENTSOF(names))], i == 0,
                                                   i > 0 && roll(&seed, 6) == 0 };
                for (size_t i = 0; i < r.n_roles; i++)
                        r.roles[i].cpus = 1 + roll(&seed, 5);
                assert_int_equal(roles_split(&r, t, &pool, threads, n, round % 2, 0, &a), 0);
                check_invariants(&r, t, &pool, threads, n, &a);
                assert_int_equal(roles_split(&r, t, &pool, threads, n, round % 2, 0, &b), 0);
                for (size_t i = 0; i < n; i++)
                        assert_true(bitset_equal(role_split_cpus(&a, i), role_split_cpus(&b, i)));
                role_split_done(&a);
                role_split_done(&b);
        }
        roles_done(&r);
        topology_free(t);
}

static void test_json(void **state) {
        _cleanup_free_ char *text = NULL;
        Roles r = defaults();
        RoleSplit s = split(&r, NULL, "0-7", helpers4, 4, true);
        json_t *json;

        assert_int_equal(role_split_to_json(&s, &r, &json), 0);
        text = json_dumps(json, JSON_COMPACT);
        assert_string_equal(text,
                            "[{\"role\":\"compute\",\"cpus\":\"0-5\",\"threads\":3,\"own\":false,\"shared\":false},"
                            "{\"role\":\"runtime\",\"cpus\":\"7\",\"threads\":1,\"own\":true,\"shared\":false},"
                            "{\"role\":\"interrupts\",\"cpus\":\"6\",\"threads\":0,\"own\":true,\"shared\":false}]");
        json_decref(json);
        role_split_done(&s);
        roles_done(&r);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_degradation),
                cmocka_unit_test(test_lone_interrupts),
                cmocka_unit_test(test_seen),
                cmocka_unit_test(test_one_helper),
                cmocka_unit_test(test_no_helper_no_split),
                cmocka_unit_test(test_roles_of_threads),
                cmocka_unit_test(test_siblings_stay_together),
                cmocka_unit_test(test_wants_more_than_half),
                cmocka_unit_test(test_main_alone),
                cmocka_unit_test(test_late_threads),
                cmocka_unit_test(test_isolated),
                cmocka_unit_test(test_empty_pool),
                cmocka_unit_test(test_random),
                cmocka_unit_test(test_json),
        };

        return cmocka_run_group_tests_name("roles", tests, NULL, NULL);
}
