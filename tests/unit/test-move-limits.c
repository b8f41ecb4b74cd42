/* SPDX-License-Identifier: Apache-2.0 */
/* What stops a move before a chunk: pressure, nodes without room or not allowed, a cgroup near its limit. */
#include <sys/stat.h>

#include "common/fileio.h"
#include "daemon/readers/psi.h"
#include "tests/unit/move-fixture.h"

static void raise_pressure(void) {
        if (kernel.moves == 4)
                put_pressure("proc/pressure/memory", 12.5);
}

static void test_stops_on_pressure(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *sentence = NULL;
        const MoveReport *r;

        put_pages(PID, 100000, 100000);
        kernel.before = raise_pressure;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_PRESSURE);
        assert_int_equal(kernel.moves, 5); /* the one that was under way */
        assert_true(r->moved > 0 && r->moved < 100000);
        assert_non_null(strstr(r->why, "12.5 %"));
        sentence = move_report_sentence(r);
        assert_non_null(strstr(sentence, "stopped: tasks of the host waited"));
}

static void test_stops_on_pressure_of_the_group(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *dir = path_join(kernel.root, "cg/a");
        MoveParams p = move_params_default;
        const MoveReport *r;

        put_pages(PID, 1000, 1000);
        put_pressure("cg/a/memory.pressure", 50);
        p.group_dir = dir;
        m = new_move("1", &p);
        r = run(m);
        assert_int_equal(r->stop, MOVE_PRESSURE);
        assert_int_equal(kernel.moves, 0);
        assert_non_null(strstr(r->why, "its cgroup"));
}

static void test_no_psi_is_said(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *path = path_join(kernel.root, "proc/pressure/memory");
        const MoveReport *r;

        put_pages(PID, 1000, 1000);
        assert_int_equal(unlink(path), 0);
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_false(r->pressure_known);
}

static void test_node_without_room(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 1000, 1000);
        put_node(1, 16 << 20, 800 << 10); /* 800 MiB of 16 GiB: below the twentieth that stays free */
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_NODE_FULL);
        assert_int_equal(kernel.moves, 0);
        assert_true(r->left > 0);
}

/* Where nothing is to be moved, nothing is in the way. */
static void test_all_there_on_a_full_node(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 1000, 1000);
        put_node(0, 16 << 20, 100);
        put_pressure("proc/pressure/memory", 90);
        m = new_move("0", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_int_equal(r->already, 1000);
        assert_int_equal(r->calls, 0);
}

/* Dropping page cache would take longer than any bound: it is no room, but it is told. */
static void test_page_cache_is_told(void **state) {
        static const struct {
                unsigned cache_mib, dirty_mib;
                const char *says;
        } cases[] = { { 4000, 0, "3.9 GiB of page cache there can go" },
                      { 4000, 3800, "200 MiB of page cache" },
                      { 4000, 4000, NULL },
                      { 1, 0, NULL } };

        put_pages(PID, 1000, 1000);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                const MoveReport *r;

                put("sys/devices/system/node/node1/meminfo",
                    "Node 1 MemTotal: %u kB\nNode 1 MemFree: %u kB\nNode 1 Inactive(file): %u kB\nNode 1 Dirty: %u kB\n",
                    16 << 20, 700 << 10, cases[i].cache_mib << 10, cases[i].dirty_mib << 10);
                m = new_move("1", NULL);
                r = run(m);
                assert_int_equal(r->stop, MOVE_NODE_FULL);
                assert_int_equal(kernel.moves, 0);
                if (!strstr(r->why, cases[i].says ? cases[i].says : "meminfo)"))
                        fail_msg("%s", r->why);
                assert_int_equal(!cases[i].says, !strstr(r->why, "page cache"));
        }
}

static void fill_node(void) {
        put_node(1, 16 << 20, kernel.moves < 3 ? 8 << 20 : 100);
}

static void test_node_fills_up(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 10000, 10000);
        kernel.before = fill_node;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_NODE_FULL);
        assert_int_equal(kernel.moves, 4);
        assert_true(r->left > 0);
}

/* Of two targets the one with more room; what is on the other is where it should be. */
static void test_two_targets(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 1000, 1000);
        put_node(2, 16 << 20, 4 << 20);
        put_status(PID, "0-2");
        for (unsigned i = 0; i < 300; i++)
                kernel.node[i] = 2;
        m = new_move("1-2", NULL);
        r = run(m);
        assert_int_equal(r->already, 300);
        assert_int_equal(r->moved, 700);
        assert_int_equal(kernel.node[299], 2);
        assert_int_equal(kernel.node[300], 1);
}

static void test_node_denied(void **state) {
        static const struct {
                const char *name, *nodes, *mems, *says;
        } cases[] = {
                { "outside its cpuset.mems", "1", "0", "not in the process's cpuset.mems, which is 0" },
                { "no such node", "7", "0-7", "node 7 has no memory here" },
                { "without memory", "3", "0-7", "node 3 has no memory here" },
        };

        put_pages(PID, 1000, 1000);
        put_node(3, 0, 0);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                const MoveReport *r;

                put_status(PID, cases[i].mems);
                m = new_move(cases[i].nodes, NULL);
                r = run(m);
                assert_int_equal(r->stop, MOVE_NODE_DENIED);
                if (!strstr(r->why, cases[i].says))
                        fail_msg("%s: \"%s\"", cases[i].name, r->why);
                assert_int_equal(kernel.moves, 0);
        }
}

static void test_group_near_its_limit(void **state) {
        static const struct {
                const char *name, *dir, *limit, *usage, *stat;
                bool full;
        } cases[] = {
                { "v2, room", "a", "memory.max", "memory.current", "anon 1\n", false },
                { "v2, full", "a", "memory.max", "memory.current", NULL, true },
                { "v2, full of page cache", "a", "memory.max", "memory.current", "inactive_file 500000\n", false },
                { "v2, its parent is full", "a/b/c", "memory.max", "memory.current", NULL, true },
                { "v1, full", "v1", "memory.limit_in_bytes", "memory.usage_in_bytes", NULL, true },
                { "v1, full of page cache", "v1", "memory.limit_in_bytes", "memory.usage_in_bytes",
                  "inactive_file 0\ntotal_inactive_file 500000\n", false },
        };

        put_pages(PID, 100, 100);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                _cleanup_free_ char *dir = NULL, *limit = NULL, *usage = NULL, *stat = NULL;
                MoveParams p = move_params_default;
                char top[8] = "";
                const MoveReport *r;

                memcpy(top, cases[i].dir, strcspn(cases[i].dir, "/"));
                assert_true(asprintf(&dir, "%s/cg%zu/%s", kernel.root, i, cases[i].dir) > 0);
                assert_true(asprintf(&limit, "cg%zu/%s/%s", i, top, cases[i].limit) > 0);
                assert_true(asprintf(&usage, "cg%zu/%s/%s", i, top, cases[i].usage) > 0);
                assert_true(asprintf(&stat, "cg%zu/%s/memory.stat", i, top) > 0);
                put(limit, "1000000\n");
                put(usage, "%u\n", i == 0 ? 500000 : 990000);
                put(stat, "%s", strempty(cases[i].stat));
                p.group_dir = dir;
                m = new_move("1", &p);
                for (unsigned n = 0; n < 100; n++)
                        kernel.node[n] = 0;
                r = run(m);
                if ((r->stop == MOVE_GROUP_FULL) != cases[i].full)
                        fail_msg("%s: %s", cases[i].name, r->why);
        }
}

static void test_no_limit_of_the_group(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *dir = path_join(kernel.root, "cg/a");
        MoveParams p = move_params_default;

        put_pages(PID, 100, 100);
        put("cg/a/memory.max", "max\n");
        put("cg/a/memory.current", "990000\n");
        p.group_dir = dir;
        m = new_move("1", &p);
        assert_int_equal(run(m)->stop, MOVE_DONE);
}

static void test_psi(void **state) {
        static const char *const bad[] = { "",
                                           "some",
                                           "some avg10=1.00",
                                           "some avg10=x avg60=0 total=0",
                                           "some avg10=-1 avg60=0.00 avg300=0.00 total=0",
                                           "some avg10=101 avg60=0 total=0",
                                           "full avg10=0.00 avg60=0.00 avg300=0.00 total=0",
                                           "some avg10=0 avg60=0 total=0\nfull avg10=0.00\n" };
        Psi p;

        assert_int_equal(psi_parse("some avg10=1.50 avg60=0.25 avg300=0.00 total=123456\n"
                                   "full avg10=0.75 avg60=0.10 avg300=0.00 total=99\n",
                                   &p),
                         0);
        assert_true(p.some_avg10 == 1.5 && p.some_avg60 == 0.25 && p.full_avg10 == 0.75 && p.full_avg60 == 0.1);
        assert_int_equal(p.some_total, 123456);
        assert_int_equal(p.full_total, 99);
        assert_int_equal(psi_parse("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n", &p), 0);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                if (psi_parse(bad[i], &p) != -EBADMSG)
                        fail_msg("%s", bad[i]);
        assert_int_equal(psi_memory("/nonexistent", &p), -ENODATA);
        assert_int_equal(psi_memory(kernel.root, &p), 0);
        assert_int_equal(psi_memory_group("/nonexistent", &p), -ENODATA);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                with_tree(test_stops_on_pressure),
                with_tree(test_stops_on_pressure_of_the_group),
                with_tree(test_no_psi_is_said),
                with_tree(test_node_without_room),
                with_tree(test_all_there_on_a_full_node),
                with_tree(test_page_cache_is_told),
                with_tree(test_node_fills_up),
                with_tree(test_two_targets),
                with_tree(test_node_denied),
                with_tree(test_group_near_its_limit),
                with_tree(test_no_limit_of_the_group),
                with_tree(test_psi),
        };

        return cmocka_run_group_tests_name("move-limits", tests, NULL, NULL);
}
