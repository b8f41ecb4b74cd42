/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page moves. The kernel is a table of pages here, with a clock that runs by what each call costs, and the machine a
 * directory with a fake /proc and /sys of two to three nodes; the last tests ask the real kernel about processes of
 * their own. That pages really move is proved in the four-node guest (tests/vm/memory.bats).
 */
#include "daemon/move-pages-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "common/fileio.h"
#include "daemon/readers/psi.h"
#include "daemon/readers/tasks.h"

#define PID 4242
#define BASE UINT64_C(0x10000000)
#define PAGES_MAX 200000

typedef enum Trait { FREE, BUSY, SHARED, ABSENT, STUCK, REFUSES } Trait; /* STUCK: the rest of its call is not tried */

static struct {
        char root[64];
        uint64_t clock, per_page, per_call, per_query;
        int node[PAGES_MAX];
        Trait trait[PAGES_MAX];
        unsigned n_pages;
        unsigned moves, queries;
        size_t largest;
        long fail_with;       /* moves fail with this … */
        unsigned fail_after;  /* … after so many */
        void (*before)(void); /* each move */
} k;

static uint64_t page_size(void) {
        return (uint64_t) sysconf(_SC_PAGESIZE);
}

static uint64_t fake_now(void *userdata) {
        return k.clock;
}

static long fake_query(size_t n, void *const *pages, int *status) {
        k.queries++;
        k.clock += k.per_query * n;
        for (size_t i = 0; i < n; i++) {
                uint64_t p = ((uint64_t) (uintptr_t) pages[i] - BASE) / page_size();

                status[i] = p >= k.n_pages || k.trait[p] == ABSENT ? -ENOENT : k.node[p];
        }
        return 0;
}

static long fake_move(void *userdata, pid_t pid, size_t n, void *const *pages, const int *nodes, int *status) {
        assert_int_equal(pid, PID);
        assert_true(n > 0);
        if (!nodes)
                return fake_query(n, pages, status);
        if (k.before)
                k.before();
        if (k.fail_with && k.moves >= k.fail_after)
                return k.fail_with;
        k.moves++;
        k.largest = MAX(k.largest, n);
        k.clock += k.per_call;
        for (size_t i = 0; i < n; i++) {
                uint64_t p = ((uint64_t) (uintptr_t) pages[i] - BASE) / page_size();

                assert_true(p < k.n_pages);
                switch (k.trait[p]) {
                case STUCK: return (long) (n - i);
                case BUSY: status[i] = -EBUSY; break;
                case SHARED: status[i] = -EACCES; break;
                case REFUSES: status[i] = -EIO; break;
                case ABSENT: status[i] = -ENOENT; break;
                case FREE:
                        k.clock += k.per_page;
                        k.node[p] = nodes[i];
                        status[i] = nodes[i];
                        break;
                }
        }
        return 0;
}

static const MoveOps fake_ops = { fake_now, fake_move, NULL };

static void put(const char *path, const char *format, ...) _printf_(2, 3);
static void put(const char *path, const char *format, ...) {
        _cleanup_free_ char *full = NULL, *text = NULL, *dir = NULL;
        va_list ap;
        FILE *f;

        va_start(ap, format);
        assert_true(vasprintf(&text, format, ap) >= 0);
        va_end(ap);
        full = path_join(k.root, path);
        dir = strdup(full);
        *strrchr(dir, '/') = '\0';
        assert_int_equal(mkdir_parents(dir, 0755), 0);
        f = fopen(full, "we");
        assert_non_null(f);
        fputs(text, f);
        fclose(f);
}

static void put_node(unsigned node, uint64_t total_kb, uint64_t free_kb) {
        char path[80];

        (void) snprintf(path, sizeof(path), "sys/devices/system/node/node%u/meminfo", node);
        put(path, "Node %u MemTotal:       %" PRIu64 " kB\nNode %u MemFree:        %" PRIu64 " kB\n", node, total_kb,
            node, free_kb);
}

static void put_pressure(const char *path, double avg10) {
        put(path, "some avg10=%.2f avg60=0.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
            avg10);
}

static void put_status(const char *mems) {
        put("proc/4242/status", "Name:\tx\nUid:\t0\t0\t0\t0\nCpus_allowed_list:\t0-3\nMems_allowed_list:\t%s\n", mems);
}

static int setup(void **state) {
        memset(&k, 0, sizeof(k));
        strcpy(k.root, "/tmp/qsched-move-XXXXXX");
        assert_non_null(mkdtemp(k.root));
        k.per_page = 10;
        k.per_call = 50;
        put_node(0, 16 << 20, 8 << 20);
        put_node(1, 16 << 20, 8 << 20);
        put_pressure("proc/pressure/memory", 0);
        put_status("0-1");
        return 0;
}

static int teardown(void **state) {
        _cleanup_free_ char *command = NULL;

        assert_true(asprintf(&command, "rm -rf '%s'", k.root) >= 0);
        return system(command);
}

/* n pages, all on node 0, in mappings of at most `each`, with a guard between. */
static void put_pages(unsigned n, unsigned each) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        k.n_pages = n;
        for (unsigned i = 0; i < n; i += each)
                fprintf(f, "%" PRIx64 "-%" PRIx64 " rw-p 00000000 00:00 0 \n", BASE + i * page_size(),
                        BASE + MIN(i + each, n) * page_size());
        fprintf(f, "7f0000000000-7f8000000000 ---p 00000000 00:00 0 \n");
        fclose(f);
        put("proc/4242/maps", "%s", text);
}

static MovePages *new_move(const char *nodes, const MoveParams *params) {
        MoveParams p = params ? *params : move_params_default;
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;
        MovePages *m;

        p.root = k.root;
        assert_int_equal(bitset_parse(nodes, &b), 0);
        assert_int_equal(move_pages_new((Process){ PID, 1 }, &b, &p, &fake_ops, &m), 0);
        return m;
}

static void check_sum(const MoveReport *r) {
        assert_int_equal(r->seen, r->moved + r->already + r->busy + r->shared + r->absent + r->failed + r->left);
}

static const MoveReport *run(MovePages *m) {
        unsigned steps = 0;

        while (move_pages_step(m) > 0)
                assert_true(++steps < 1000000);
        check_sum(move_pages_report(m));
        return move_pages_report(m);
}

static void test_all_move(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(100000, 30000);
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_int_equal(r->moved, 100000);
        assert_int_equal(r->seen, 100000);
        for (unsigned i = 0; i < k.n_pages; i++)
                assert_int_equal(k.node[i], 1);
        assert_true(r->pressure_known);
        assert_int_equal(move_pages_step(m), 0); /* over stays over */
}

/* Doubled while cheap, and never longer than the bound although each page costs 10 us. */
static void test_chunk_grows_to_the_bound(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(100000, 100000);
        m = new_move("1", NULL);
        r = run(m);
        assert_true(k.largest >= 1000); /* 10 ms and more */
        assert_true(r->stall_max_usec <= 20000);
        assert_int_equal(r->overruns, 0);
        assert_int_equal(r->calls, k.moves);
        assert_int_equal(r->stall_usec, k.moves * k.per_call + 100000 * k.per_page);
}

static void become_slow(void) {
        if (k.moves == 8)
                k.per_page = 400;
}

/* Pages become forty times as dear on the way: one call is too long, the next ones are not. */
static void test_chunk_shrinks(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(60000, 60000);
        k.before = become_slow;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->moved, 60000);
        assert_int_equal(r->overruns, 1);
        assert_true(r->chunk <= 50);
}

/* What each call costs whatever its size is no reason for small ones. */
static void test_fixed_cost(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;

        put_pages(100000, 100000);
        k.per_call = 90000;
        k.per_page = 1;
        m = new_move("1", NULL);
        assert_int_equal(run(m)->moved, 100000);
        assert_true(k.moves < 60);
}

static void test_bound_is_a_parameter(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        MoveParams p = move_params_default;

        p.stall_usec = 1000;
        put_pages(20000, 20000);
        m = new_move("1", &p);
        assert_true(run(m)->stall_max_usec <= 1000);
        assert_true(k.largest <= 100);
}

static void test_every_status_is_counted(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(1000, 100);
        for (unsigned i = 0; i < 1000; i++)
                k.trait[i] = i % 10 == 1   ? BUSY
                             : i % 10 == 2 ? SHARED
                             : i % 10 == 3 ? ABSENT
                             : i % 10 == 4 ? REFUSES
                                           : FREE;
        for (unsigned i = 0; i < 1000; i += 10)
                k.node[i] = 1;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_int_equal(r->already, 100);
        assert_int_equal(r->busy, 100);
        assert_int_equal(r->shared, 100);
        assert_int_equal(r->absent, 100);
        assert_int_equal(r->failed, 100);
        assert_int_equal(r->moved, 500);
        assert_int_equal(r->left, 0);
}

/* The kernel stops a call at what it cannot move and says nothing of the rest. */
static void test_stuck_pages_do_not_hold_up_the_rest(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(3000, 3000);
        for (unsigned i = 0; i < 3000; i += 100)
                k.trait[i] = STUCK;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_int_equal(r->moved + r->busy, 3000);
        assert_true(r->busy >= 30);
        assert_true(r->busy <= 30 * 16); /* those in its last small chunk are given up with it */
}

static void test_all_stuck_ends(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;

        put_pages(3000, 3000);
        for (unsigned i = 0; i < 3000; i++)
                k.trait[i] = STUCK;
        m = new_move("1", NULL);
        assert_int_equal(run(m)->busy, 3000);
}

static void raise_pressure(void) {
        if (k.moves == 4)
                put_pressure("proc/pressure/memory", 12.5);
}

static void test_stops_on_pressure(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *sentence = NULL;
        const MoveReport *r;

        put_pages(100000, 100000);
        k.before = raise_pressure;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_PRESSURE);
        assert_int_equal(k.moves, 5); /* the one that was under way */
        assert_true(r->moved > 0 && r->moved < 100000);
        assert_non_null(strstr(r->why, "12.5 %"));
        sentence = move_report_sentence(r);
        assert_non_null(strstr(sentence, "stopped: tasks of the host waited"));
}

static void test_stops_on_pressure_of_the_group(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *dir = path_join(k.root, "cg/a");
        MoveParams p = move_params_default;
        const MoveReport *r;

        put_pages(1000, 1000);
        put_pressure("cg/a/memory.pressure", 50);
        p.group_dir = dir;
        m = new_move("1", &p);
        r = run(m);
        assert_int_equal(r->stop, MOVE_PRESSURE);
        assert_int_equal(k.moves, 0);
        assert_non_null(strstr(r->why, "its cgroup"));
}

static void test_no_psi_is_said(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *path = path_join(k.root, "proc/pressure/memory");
        const MoveReport *r;

        put_pages(1000, 1000);
        assert_int_equal(unlink(path), 0);
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_false(r->pressure_known);
}

static void test_node_without_room(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(1000, 1000);
        put_node(1, 16 << 20, 800 << 10); /* 800 MiB of 16 GiB: below the twentieth that stays free */
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_NODE_FULL);
        assert_int_equal(k.moves, 0);
        assert_int_equal(k.queries, 0); /* nothing was looked for in vain */
}

static void fill_node(void) {
        put_node(1, 16 << 20, k.moves < 3 ? 8 << 20 : 100);
}

static void test_node_fills_up(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(10000, 10000);
        k.before = fill_node;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_NODE_FULL);
        assert_int_equal(k.moves, 4);
        assert_true(r->left > 0);
}

/* Of two targets the one with more room; what is on the other is where it should be. */
static void test_two_targets(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(1000, 1000);
        put_node(2, 16 << 20, 4 << 20);
        put_status("0-2");
        for (unsigned i = 0; i < 300; i++)
                k.node[i] = 2;
        m = new_move("1-2", NULL);
        r = run(m);
        assert_int_equal(r->already, 300);
        assert_int_equal(r->moved, 700);
        assert_int_equal(k.node[299], 2);
        assert_int_equal(k.node[300], 1);
}

static void test_node_denied(void **state) {
        static const struct {
                const char *name, *nodes, *mems, *says;
        } cases[] = {
                { "outside its cpuset.mems", "1", "0", "not in the process's cpuset.mems, which is 0" },
                { "no such node", "7", "0-7", "node 7 has no memory here" },
                { "without memory", "3", "0-7", "node 3 has no memory here" },
        };

        put_pages(1000, 1000);
        put_node(3, 0, 0);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                const MoveReport *r;

                put_status(cases[i].mems);
                m = new_move(cases[i].nodes, NULL);
                r = run(m);
                assert_int_equal(r->stop, MOVE_NODE_DENIED);
                if (!strstr(r->why, cases[i].says))
                        fail_msg("%s: \"%s\"", cases[i].name, r->why);
                assert_int_equal(k.moves, 0);
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

        put_pages(100, 100);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                _cleanup_free_ char *dir = NULL, *limit = NULL, *usage = NULL, *stat = NULL;
                MoveParams p = move_params_default;
                char top[8] = "";
                const MoveReport *r;

                memcpy(top, cases[i].dir, strcspn(cases[i].dir, "/"));
                assert_true(asprintf(&dir, "%s/cg%zu/%s", k.root, i, cases[i].dir) > 0);
                assert_true(asprintf(&limit, "cg%zu/%s/%s", i, top, cases[i].limit) > 0);
                assert_true(asprintf(&usage, "cg%zu/%s/%s", i, top, cases[i].usage) > 0);
                assert_true(asprintf(&stat, "cg%zu/%s/memory.stat", i, top) > 0);
                put(limit, "1000000\n");
                put(usage, "%u\n", i == 0 ? 500000 : 990000);
                put(stat, "%s", strempty(cases[i].stat));
                p.group_dir = dir;
                m = new_move("1", &p);
                for (unsigned n = 0; n < 100; n++)
                        k.node[n] = 0;
                r = run(m);
                if ((r->stop == MOVE_GROUP_FULL) != cases[i].full)
                        fail_msg("%s: %s", cases[i].name, r->why);
        }
}

static void test_no_limit_of_the_group(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        _cleanup_free_ char *dir = path_join(k.root, "cg/a");
        MoveParams p = move_params_default;

        put_pages(100, 100);
        put("cg/a/memory.max", "max\n");
        put("cg/a/memory.current", "990000\n");
        p.group_dir = dir;
        m = new_move("1", &p);
        assert_int_equal(run(m)->stop, MOVE_DONE);
}

static void test_kernel_says_no(void **state) {
        static const struct {
                int error;
                MoveStop stop;
        } cases[] = { { ESRCH, MOVE_GONE },       { EACCES, MOVE_NODE_DENIED }, { ENODEV, MOVE_NODE_DENIED },
                      { ENOMEM, MOVE_NODE_FULL }, { EPERM, MOVE_REFUSED },      { EINVAL, MOVE_REFUSED } };

        put_pages(1000, 1000);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                const MoveReport *r;

                memset(k.node, 0, sizeof(k.node));
                k.moves = 0;
                k.fail_with = -cases[i].error;
                k.fail_after = 2;
                m = new_move("1", NULL);
                r = run(m);
                assert_int_equal(r->stop, cases[i].stop);
                assert_int_equal(r->moved, 32 + 64);
                assert_true(r->left > 0);
                assert_non_null(r->why);
        }
}

static void test_cancel(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(10000, 10000);
        m = new_move("1", NULL);
        for (unsigned i = 0; i < 10; i++)
                assert_int_equal(move_pages_step(m), 1);
        move_pages_cancel(m);
        r = move_pages_report(m);
        assert_int_equal(r->stop, MOVE_CANCELLED);
        check_sum(r);
        assert_int_equal(move_pages_step(m), 0);
}

static void test_walk_budget(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        MoveParams p = move_params_default;
        const MoveReport *r;

        put_pages(PAGES_MAX, PAGES_MAX);
        for (unsigned i = 0; i < PAGES_MAX; i += 2)
                k.node[i] = 1;
        k.per_query = 10;
        p.walk_usec = 100000;
        m = new_move("1", &p);
        r = run(m);
        assert_int_equal(r->stop, MOVE_BUDGET);
        assert_true(r->walk_usec < 140000);
        assert_int_equal(r->left, 0); /* what was found has been moved */
        assert_true(r->moved > 1000);
        assert_true(r->walk_max_usec <= 20000);
}

/* Whatever the pages are like, all are accounted for, and it ends. */
static void test_random(void **state) {
        unsigned seed = 7;

        for (unsigned round = 0; round < 60; round++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                MoveParams p = move_params_default;
                unsigned n, odd, calls = 0;
                const MoveReport *r;

                seed = seed * 1664525U + 1013904223U;
                n = 1 + (seed >> 8) % 5000;
                odd = 1 + (seed >> 4) % 40;
                k.moves = 0;
                k.per_page = seed >> 24;
                k.per_query = seed % 3;
                p.stall_usec = 500 + (seed >> 12) % 20000;
                put_pages(n, 1 + (seed >> 16) % 700);
                for (unsigned i = 0; i < n; i++) {
                        seed = seed * 1664525U + 1013904223U;
                        k.trait[i] = (seed >> 8) % odd ? FREE : (Trait) ((seed >> 16) % (REFUSES + 1));
                        k.node[i] = (seed >> 20) % 4 == 0;
                }
                m = new_move("1", &p);
                while (move_pages_step(m) > 0 && calls++ < 1000000)
                        if (calls == 40 && round % 7 == 0)
                                move_pages_cancel(m);
                r = move_pages_report(m);
                check_sum(r);
                assert_true(r->stop == MOVE_DONE || (round % 7 == 0 && r->stop == MOVE_CANCELLED));
                if (r->stop == MOVE_DONE)
                        assert_int_equal(r->seen, n);
                assert_true(r->moved + r->already <= n);
        }
}

static void test_mappings(void **state) {
        static const struct {
                const char *line;
                MappingKind kind;
        } cases[] = {
                { "5581a0000000-5581a0021000 rw-p 00000000 00:00 0                          [heap]", MAPPING_MOVABLE },
                { "7f12a0000000-7f12a0021000 rw-p 00000000 00:00 0 ", MAPPING_MOVABLE },
                { "7f12a0000000-7f12a0021000 r-xp 00002000 fe:00 123   /usr/lib/libc.so.6", MAPPING_MOVABLE },
                { "7f12a0000000-7f12a0021000 rw-s 00000000 00:18 7     /dev/shm/a b", MAPPING_MOVABLE },
                { "7f12a0000000-7f12a0021000 rw-s 00000000 00:01 7     /dev/zero (deleted)", MAPPING_MOVABLE },
                { "7f12a0000000-7f12a0021000 rw-s 00000000 00:01 7     /memfd:x (deleted)", MAPPING_MOVABLE },
                { "7f12a0000000-7f12a0021000 ---p 00000000 00:00 0", MAPPING_RESERVED },
                { "7f12a0000000-7f12a0021000 rw-s 00000000 00:05 9     /dev/davinci0", MAPPING_DEVICE },
                { "7f12a0000000-7f12a0021000 rw-s 00000000 00:0e 9     anon_inode:[io_uring]", MAPPING_DEVICE },
                { "7f12a0000000-7f12a0200000 rw-p 00000000 00:0f 9     /anon_hugepage (deleted)", MAPPING_HUGE },
                { "7ffd1a000000-7ffd1a002000 r-xp 00000000 00:00 0     [vdso]", MAPPING_SPECIAL },
                { "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]", MAPPING_SPECIAL },
                { "", MAPPING_SPECIAL },
                { "x-y rw-p", MAPPING_SPECIAL },
                { "2000-1000 rw-p 00000000 00:00 0", MAPPING_SPECIAL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Mapping m;

                if (mapping_parse(cases[i].line, &m) != cases[i].kind)
                        fail_msg("%s", cases[i].line);
        }
}

static void test_passed_over(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;

        put_pages(10, 10);
        put("proc/4242/maps", "7f12a0000000-7f12a0200000 rw-p 00000000 00:0f 9     /anon_hugepage (deleted)\n");
        m = new_move("1", NULL);
        assert_int_equal(run(m)->passed_over, 2 << 20);
        assert_int_equal(move_pages_report(m)->seen, 0);
}

static void test_report(void **state) {
        MoveReport r = { .process = { 7, 1 },
                         .stop = MOVE_DONE,
                         .moved = 256,
                         .already = 512,
                         .busy = 1,
                         .shared = 3,
                         .seen = 772,
                         .page_size = 4096,
                         .calls = 2,
                         .stall_max_usec = 1500,
                         .why = (char *) "done" };
        _cleanup_free_ char *sentence = move_report_sentence(&r);
        json_t *json;

        assert_string_equal(sentence, "1 MiB moved, 2 MiB were there already, 1 page busy, 3 pages shared with other "
                                      "processes; longest stall 1.5 ms");
        assert_int_equal(move_report_to_json(&r, &json), 0);
        assert_int_equal(json_integer_value(json_object_get(json, "bytes_moved")), 1 << 20);
        assert_string_equal(json_string_value(json_object_get(json, "stop")), "done");
        assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "pages"), "busy")), 1);
        json_decref(json);
}

static void test_bad_arguments(void **state) {
        Bitset none = BITSET_EMPTY;
        _cleanup_(bitset_done) Bitset zero = BITSET_EMPTY;
        uint64_t start;
        MovePages *m;

        assert_int_equal(bitset_set(&zero, 0), 0);
        assert_int_equal(process_start_time(getpid(), &start), 0);
        assert_int_equal(move_pages_new((Process){ getpid(), start }, &none, NULL, NULL, &m), -EINVAL);
        assert_int_equal(move_pages_new((Process){ getpid(), start + 1 }, &zero, NULL, NULL, &m), -ESRCH);
        assert_int_equal(move_pages_new((Process){ 0x3ffffffe, start }, &zero, NULL, NULL, &m), -ESRCH);
}

/* A child with memory of its own; sizes in MiB. */
static pid_t child_with_memory(unsigned mib) {
        int fds[2];
        char c;
        pid_t pid;

        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                char *p = mmap(NULL, (size_t) mib << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                memset(p, 1, (size_t) mib << 20);
                if (write(fds[1], "r", 1) != 1)
                        _exit(1);
                for (;;)
                        pause();
        }
        assert_int_equal(read(fds[0], &c, 1), 1);
        close(fds[0]);
        close(fds[1]);
        return pid;
}

static Process process_of(pid_t pid) {
        Process p = { .pid = pid };

        assert_int_equal(process_start_time(pid, &p.start_time), 0);
        return p;
}

static void end(pid_t pid) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
}

static int real_new(Process p, MovePages **ret) {
        _cleanup_(bitset_done) Bitset zero = BITSET_EMPTY;
        MoveParams params = move_params_default;

        params.pressure_max = 100; /* the machine that tests may be busy */
        params.reserve = 0;
        params.walk_usec = 1000000; /* sanitizers map terabytes */
        assert_int_equal(bitset_set(&zero, 0), 0);
        return move_pages_new(p, &zero, &params, NULL, ret);
}

/* Every page that the kernel has of it is found, and on a machine whose memory is on node 0 all are there. */
static void test_real_query(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;
        pid_t pid;

        if (access("/sys/devices/system/node/node0", F_OK) != 0 ||
            access("/sys/devices/system/node/node1", F_OK) == 0) {
                print_message("needs a machine with the one node 0\n");
                skip();
        }
        pid = child_with_memory(64);
        assert_int_equal(real_new(process_of(pid), &m), 0);
        while (move_pages_step(m) > 0)
                ;
        end(pid);
        r = move_pages_report(m);
        if (r->stop == MOVE_REFUSED && (r->error == EPERM || r->error == EACCES || r->error == ENOSYS)) {
                print_message("move_pages is not allowed here: %s\n", r->why);
                skip();
        }
        check_sum(r);
        assert_true(r->stop == MOVE_DONE || r->stop == MOVE_BUDGET);
        assert_true(r->already * r->page_size >= 64U << 20);
        assert_true(r->already * r->page_size < 512U << 20); /* no reserved address space was counted */
        assert_int_equal(r->moved, 0);
}

static void test_real_exit(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        pid_t pid = child_with_memory(16);

        assert_int_equal(real_new(process_of(pid), &m), 0);
        assert_int_equal(move_pages_step(m), 1);
        assert_int_equal(move_pages_step(m), 1);
        end(pid);
        while (move_pages_step(m) > 0)
                ;
        assert_int_equal(move_pages_report(m)->stop, MOVE_GONE);
}

static int wait_for_end(void *arg) {
        for (;;)
                pause();
        return 0;
}

static void test_spaces(void **state) {
        static char stack[2][64 << 10] __attribute__((aligned(16)));
        pid_t fork_a = child_with_memory(1), fork_b = child_with_memory(1);
        pid_t vm_a = clone(wait_for_end, stack[0] + sizeof(stack[0]), CLONE_VM | SIGCHLD, NULL);
        pid_t vm_b = clone(wait_for_end, stack[1] + sizeof(stack[1]), CLONE_VM | SIGCHLD, NULL);
        const Process list[] = {
                { .pid = fork_a }, { .pid = vm_a }, { .pid = fork_b }, { .pid = vm_b }, { .pid = fork_a }
        };
        size_t *got, n;

        assert_true(vm_a > 0 && vm_b > 0);
        assert_int_equal(move_spaces(list, ELEMENTSOF(list), &got, &n), 0);
        end(vm_a);
        end(vm_b);
        end(fork_a);
        end(fork_b);
        if (n == 4) {
                free(got);
                print_message("kcmp is not allowed here\n");
                skip();
        }
        assert_int_equal(n, 3); /* one of the two that share this test's memory, once fork_a */
        assert_int_equal(got[0], 0);
        assert_int_equal(got[1], 1);
        assert_int_equal(got[2], 2);
        free(got);
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
        assert_int_equal(psi_memory(k.root, &p), 0);
        assert_int_equal(psi_memory_group("/nonexistent", &p), -ENODATA);
}

#define with_tree(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
        static const struct CMUnitTest tests[] = {
                with_tree(test_all_move),
                with_tree(test_chunk_grows_to_the_bound),
                with_tree(test_chunk_shrinks),
                with_tree(test_fixed_cost),
                with_tree(test_bound_is_a_parameter),
                with_tree(test_every_status_is_counted),
                with_tree(test_stuck_pages_do_not_hold_up_the_rest),
                with_tree(test_all_stuck_ends),
                with_tree(test_stops_on_pressure),
                with_tree(test_stops_on_pressure_of_the_group),
                with_tree(test_no_psi_is_said),
                with_tree(test_node_without_room),
                with_tree(test_node_fills_up),
                with_tree(test_two_targets),
                with_tree(test_node_denied),
                with_tree(test_group_near_its_limit),
                with_tree(test_no_limit_of_the_group),
                with_tree(test_kernel_says_no),
                with_tree(test_cancel),
                with_tree(test_walk_budget),
                with_tree(test_random),
                with_tree(test_passed_over),
                with_tree(test_psi),
                cmocka_unit_test(test_mappings),
                cmocka_unit_test(test_report),
                cmocka_unit_test(test_bad_arguments),
                cmocka_unit_test(test_real_query),
                cmocka_unit_test(test_real_exit),
                cmocka_unit_test(test_spaces),
        };

        return cmocka_run_group_tests_name("move-pages", tests, NULL, NULL);
}
