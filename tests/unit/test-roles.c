/* SPDX-License-Identifier: Apache-2.0 */
/* Threads by role: the table of degradation row by row, who has which role, isolated CPUs, random pools, [Role]. */
#include "daemon/readers/rolefile.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "common/clock.h"
#include "daemon/readers/role-threads.h"
#include "daemon/readers/tasks.h"
#include "tests/unit/fixture.h"

static const RoleThread helpers4[] = {
        /* a main thread, two of its name, and four helper roles with the interrupts */
        { 100, 100, "python", true, false },          { 100, 101, "python", false, false },
        { 100, 102, "python", false, false },         { 100, 103, "acl_thread", false, false },
        { 100, 104, "release_thread", false, false }, { 100, 105, "hcclComm_watchd", false, false },
        { 200, 200, "python", false, true },          { 200, 201, "acl_thread", false, true },
};

static Roles defaults(void) {
        Roles r;

        assert_int_equal(roles_default(&r), 0);
        return r;
}

static RoleSplit split(const Roles *r, const Topology *t, const char *pool, const RoleThread *threads, size_t n,
                       bool irq) {
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;
        RoleSplit s;

        assert_int_equal(bitset_parse(pool, &b), 0);
        assert_int_equal(roles_split(r, t, &b, threads, n, irq, 0, &s), 0);
        return s;
}

static void assert_set(const Bitset *b, const char *expected, const char *what) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(bitset_format(b, &s), 0);
        if (!streq(s, expected))
                fail_msg("%s: got \"%s\", expected \"%s\"", what, s, expected);
}

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

static int load(Roles *r, const char *text, char **message) {
        Ini *ini = NULL;
        int k = ini_parse("test.conf", text, strlen(text), &ini, message);

        assert_int_equal(k, 0);
        k = roles_from_ini(r, ini, message);
        ini_free(ini);
        return k;
}

static void test_sections(void **state) {
        _cleanup_free_ char *message = NULL;
        Roles r = defaults();
        size_t built_in = r.n_roles;

        assert_int_equal(load(&r,
                              "[Daemon]\nInterval=1s\n[Role Communication]\nCPUs=2\n[role proxies]\nComm=my_proxy* x?\n"
                              "Priority=95\n[Role compute]\nComm=\n",
                              &message),
                         0);
        assert_int_equal(r.n_roles, built_in + 1);
        assert_int_equal(roles_get(&r, "communication")->cpus, 2);
        assert_int_equal(roles_get(&r, "communication")->priority, 80); /* not given: as it was */
        assert_true(strv_contains(roles_get(&r, "communication")->comm, "hccl*"));
        assert_int_equal(roles_get(&r, "proxies")->share, ROLE_OWN);
        assert_string_equal(r.roles[role_of(&r, &(RoleThread){ 1, 2, "my_proxy_7", false, false }, "a")].name,
                            "proxies");
        assert_int_equal(role_of(&r, &(RoleThread){ 1, 2, "zzz", false, false }, "a"), 0);
        assert_int_equal(load(&r, "[Role proxies]\nShare=pool\n", &message), 0); /* a drop-in */
        assert_int_equal(roles_get(&r, "proxies")->share, ROLE_POOL);
        assert_int_equal(roles_get(&r, "proxies")->priority, 95);
        roles_done(&r);
}

static void test_bad_sections(void **state) {
        static const struct {
                const char *text, *says;
        } cases[] = {
                { "[Role]\nCPUs=1\n", "test.conf:1: [Role NAME] takes one name" },
                { "[Role a b]\nCPUs=1\n", "test.conf:1: [Role NAME] takes one name" },
                { "[Role .a]\nCPUs=1\n", "test.conf:1: [Role NAME] takes one name" },
                { "[Role a]\nCPUs=0\n", "test.conf:2:" },
                { "[Role a]\nShare=half\n", "rest, own, pool" },
                { "[Role a]\nColour=red\n", "test.conf:2:" },
                { "[Role a]\nPriority=101\n", "0 to 100" },
                { "[Role a]\nComm=ncclCommWatchdog\n", "can never match" },
        };
        Roles r = defaults();
        size_t n = r.n_roles;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *message = NULL;

                assert_int_equal(load(&r, cases[i].text, &message), -EBADMSG);
                assert_non_null(message);
                if (!strstr(message, cases[i].says))
                        fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, message, cases[i].says);
                assert_int_equal(r.n_roles, n); /* as before */
        }
        roles_done(&r);
}

static void test_too_many(void **state) {
        _cleanup_free_ char *text = NULL, *message = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);
        Roles r = defaults();

        for (unsigned i = 0; i < ROLES_MAX; i++)
                fprintf(f, "[Role r%u]\nCPUs=1\n", i);
        fclose(f);
        assert_int_equal(load(&r, text, &message), -EBADMSG);
        assert_non_null(strstr(message, "64 roles already"));
        roles_done(&r);
}

/* What --print-config would show reads back as the table itself. */
static void test_print(void **state) {
        _cleanup_free_ char *text = NULL, *plain = NULL, *message = NULL;
        Roles a = defaults(), b = defaults();
        size_t size;
        FILE *f = open_memstream(&text, &size);

        roles_print(&a, f);
        fclose(f);
        plain = calloc(1, size + 1);
        assert_non_null(plain);
        for (char *from = text, *to = plain; *from; from++) /* without the '#' of each line */
                if (*from != '#')
                        *to++ = *from;
        for (size_t i = 0; i < b.n_roles; i++)
                b.roles[i].share = ROLE_POOL;
        assert_int_equal(load(&b, plain, &message), 0);
        assert_int_equal(a.n_roles, b.n_roles);
        for (size_t i = 0; i < a.n_roles; i++) {
                assert_int_equal(a.roles[i].share, b.roles[i].share);
                assert_int_equal(strv_length(a.roles[i].comm), strv_length(b.roles[i].comm));
        }
        roles_done(&a);
        roles_done(&b);
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

static void *named(void *name) {
        assert_int_equal(prctl(PR_SET_NAME, name), 0);
        pause();
        return NULL;
}

/* A live process with named threads, and a child. */
static pid_t live_rank(pid_t *ret_child) {
        pid_t pids[2];
        int fds[2];

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pids[0] = fork();
        assert_true(pids[0] >= 0);
        if (pids[0] == 0) {
                pthread_t t;

                (void) prctl(PR_SET_NAME, "python");
                pids[1] = fork();
                if (pids[1] == 0)
                        for (prctl(PR_SET_PDEATHSIG, SIGKILL);;)
                                pause();
                if (pthread_create(&t, NULL, named, (void *) "acl_thread") != 0 ||
                    pthread_create(&t, NULL, named, (void *) "python") != 0)
                        _exit(1);
                usleep(300000);
                if (write(fds[1], &pids[1], sizeof(pids[1])) != (ssize_t) sizeof(pids[1]))
                        _exit(1);
                for (;;)
                        pause();
        }
        assert_int_equal(read(fds[0], ret_child, sizeof(*ret_child)), sizeof(*ret_child));
        close(fds[0]);
        close(fds[1]);
        return pids[0];
}

static void test_live_threads(void **state) {
        Process rank = {}, children[2] = {};
        Roles r = defaults();
        RoleThreads t;
        RoleSplit s;
        pid_t child;

        rank.pid = live_rank(&child);
        children[0].pid = child;
        children[1].pid = 0x3ffffffe; /* gone */
        assert_int_equal(process_start_time(rank.pid, &rank.start_time), 0);
        assert_int_equal(process_start_time(child, &children[0].start_time), 0);
        assert_int_equal(role_threads_read("", rank, children, 2, NULL, &t), 0);
        kill(rank.pid, SIGKILL);
        waitpid(rank.pid, NULL, 0);
        assert_int_equal(t.n_threads, 4);
        assert_true(t.threads[0].is_main);
        assert_true(t.threads[3].is_child);
        s = split(&r, NULL, "0-7", t.threads, t.n_threads, false);
        assert_int_equal(s.grants[roles_get(&r, "runtime") - r.roles].n_threads, 1);
        assert_int_equal(s.grants[0].n_threads, 2);
        assert_set(role_split_cpus(&s, 3), "0-7", "child");
        role_split_done(&s);
        role_threads_done(&t);
        assert_int_equal(role_threads_read("", rank, NULL, 0, NULL, &t), -ESRCH);
        roles_done(&r);
}

/* A /proc of files: what is read of it can be counted, and tids can come again. */

static char fake_root[] = "/tmp/test-roles.XXXXXX";

static void put_stat(const char *dir, int id, const char *comm, uint64_t start) {
        char path[128];
        FILE *f;

        (void) snprintf(path, sizeof(path), "%s/%s/%d", fake_root, dir, id);
        (void) mkdir(path, 0755);
        (void) snprintf(path, sizeof(path), "%s/%s/%d/stat", fake_root, dir, id);
        f = fopen(path, "w");
        assert_non_null(f);
        fprintf(f, "%d (%s) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %" PRIu64 " 0\n", id, comm, start);
        fclose(f);
}

static int make_fake(void **state) {
        char path[128];

        if (!mkdtemp(fake_root))
                return -1;
        (void) snprintf(path, sizeof(path), "%s/proc", fake_root);
        (void) mkdir(path, 0755);
        put_stat("proc", 100, "rank", 7);
        (void) snprintf(path, sizeof(path), "%s/proc/100/task", fake_root);
        (void) mkdir(path, 0755);
        for (int i = 0; i < 80; i++)
                put_stat("proc/100/task", 100 + i, "rank", 7);
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        return remove(path);
}

static int remove_fake(void **state) {
        return nftw(fake_root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The next read on top of t; stats that it took. */
static size_t read_again(RoleThreads *t, uint64_t start_time) {
        RoleThreads next;

        assert_int_equal(role_threads_read(fake_root, (Process){ 100, start_time }, NULL, 0, t, &next), 0);
        role_threads_done(t);
        *t = next;
        return t->n_stats;
}

/* What a steady tick costs, counted: of threads that are not young an eighth is read each time, each once in eight. */
static void test_reads(void **state) {
        RoleThreads t = {};
        size_t sum = 0;

        assert_int_equal(read_again(&t, 7), 80);
        for (unsigned i = 0; i < 8; i++) {
                size_t n = read_again(&t, 7);

                assert_int_equal(t.n_threads, 80);
                assert_in_range(n, 1, 20);
                sum += n;
        }
        assert_int_equal(sum, 80);

        put_stat("proc/100/task", 120, "acl_thread", 7);  /* renamed */
        put_stat("proc/100/task", 130, "rank", 9);        /* ended; its tid is another's */
        put_stat("proc/100/task", 500, "hccl_thread", 9); /* a new one */
        (void) read_again(&t, 7);
        assert_int_equal(t.n_threads, 81);
        assert_string_equal(t.threads[80].comm, "hccl_thread");
        for (unsigned i = 0; i < 7; i++)
                (void) read_again(&t, 7);
        assert_string_equal(t.threads[20].comm, "acl_thread");
        assert_string_equal(t.threads[21].comm, "rank");
        assert_int_equal(t.starts[30], 9);
        role_threads_done(&t);
}

/* Young threads are read each time; nothing is taken from a process that had the same number. */
static void test_reads_of_young(void **state) {
        uint64_t now = clock_usec(CLOCK_BOOTTIME) * (uint64_t) sysconf(_SC_CLK_TCK) / 1000000;
        RoleThreads t = {};

        /* Those of the test before; it may run alone. */
        put_stat("proc/100/task", 500, "hccl_thread", 9);
        put_stat("proc/100/task", 110, "rank", now);
        assert_int_equal(read_again(&t, 7), 81);
        for (unsigned i = 0; i < 8; i++) {
                size_t n = read_again(&t, 7);

                assert_in_range(n, 1, 20);
                put_stat("proc/100/task", 110, i % 2 ? "odd" : "even", now);
                assert_string_equal(t.threads[10].comm, i == 0 ? "rank" : i % 2 ? "even" : "odd");
        }
        put_stat("proc", 100, "rank", 8);
        put_stat("proc/100/task", 100, "rank", 8);
        assert_int_equal(read_again(&t, 8), 81);
        role_threads_done(&t);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_degradation),
                cmocka_unit_test(test_one_helper),
                cmocka_unit_test(test_lone_interrupts),
                cmocka_unit_test(test_seen),
                cmocka_unit_test(test_no_helper_no_split),
                cmocka_unit_test(test_roles_of_threads),
                cmocka_unit_test(test_siblings_stay_together),
                cmocka_unit_test(test_wants_more_than_half),
                cmocka_unit_test(test_main_alone),
                cmocka_unit_test(test_late_threads),
                cmocka_unit_test(test_isolated),
                cmocka_unit_test(test_empty_pool),
                cmocka_unit_test(test_random),
                cmocka_unit_test(test_sections),
                cmocka_unit_test(test_bad_sections),
                cmocka_unit_test(test_too_many),
                cmocka_unit_test(test_print),
                cmocka_unit_test(test_json),
                cmocka_unit_test(test_live_threads),
                cmocka_unit_test(test_reads),
                cmocka_unit_test(test_reads_of_young),
        };

        return cmocka_run_group_tests_name("roles", tests, make_fake, remove_fake);
}
