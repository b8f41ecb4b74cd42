/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page moves: steps, chunks, what is counted. The last tests ask the real kernel about processes of their own. That pages
 * really move is proved in the four-node guest (tests/vm/memory.bats).
 */
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "daemon/readers/tasks.h"
#include "tests/unit/move-fixture.h"

static void test_all_move(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 100000, 30000);
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_int_equal(r->moved, 100000);
        assert_int_equal(r->seen, 100000);
        for (unsigned i = 0; i < kernel.n_pages; i++)
                assert_int_equal(kernel.node[i], 1);
        assert_true(r->pressure_known);
        assert_int_equal(move_pages_step(m), 0); /* over stays over */
}

/* Doubled while cheap, and never longer than the bound although each page costs 10 us. */
static void test_chunk_grows_to_the_bound(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 100000, 100000);
        m = new_move("1", NULL);
        r = run(m);
        assert_true(kernel.largest >= 1000); /* 10 ms and more */
        assert_true(r->stall_max_usec <= 20000);
        assert_int_equal(r->overruns, 0);
        assert_int_equal(r->calls, kernel.moves);
        assert_int_equal(r->stall_usec, kernel.moves * kernel.per_call + 100000 * kernel.per_page);
}

static void become_slow(void) {
        if (kernel.moves == 8)
                kernel.per_page = 400;
}

/* Pages become forty times as dear on the way: one call is too long, the next ones are not. */
static void test_chunk_shrinks(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 60000, 60000);
        kernel.before = become_slow;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->moved, 60000);
        assert_int_equal(r->overruns, 1);
        assert_true(r->chunk <= 50);
}

/* What each call costs whatever its size is no reason for small ones. */
static void test_fixed_cost(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;

        put_pages(PID, 100000, 100000);
        kernel.per_call = 90000;
        kernel.per_page = 1;
        m = new_move("1", NULL);
        assert_int_equal(run(m)->moved, 100000);
        assert_true(kernel.moves < 60);
}

static void test_bound_is_a_parameter(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        MoveParams p = move_params_default;

        p.stall_usec = 1000;
        put_pages(PID, 20000, 20000);
        m = new_move("1", &p);
        assert_true(run(m)->stall_max_usec <= 1000);
        assert_true(kernel.largest <= 100);
}

static void test_every_status_is_counted(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        const MoveReport *r;

        put_pages(PID, 1000, 100);
        for (unsigned i = 0; i < 1000; i++)
                kernel.trait[i] = i % 10 == 1   ? BUSY
                                  : i % 10 == 2 ? SHARED
                                  : i % 10 == 3 ? ABSENT
                                  : i % 10 == 4 ? REFUSES
                                                : FREE;
        for (unsigned i = 0; i < 1000; i += 10)
                kernel.node[i] = 1;
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

        put_pages(PID, 3000, 3000);
        for (unsigned i = 0; i < 3000; i += 100)
                kernel.trait[i] = STUCK;
        m = new_move("1", NULL);
        r = run(m);
        assert_int_equal(r->stop, MOVE_DONE);
        assert_int_equal(r->moved + r->busy, 3000);
        assert_true(r->busy >= 30);
        assert_true(r->busy <= 30 * 16); /* those in its last small chunk are given up with it */
}

static void test_all_stuck_ends(void **state) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;

        put_pages(PID, 3000, 3000);
        for (unsigned i = 0; i < 3000; i++)
                kernel.trait[i] = STUCK;
        m = new_move("1", NULL);
        assert_int_equal(run(m)->busy, 3000);
}

static void test_kernel_says_no(void **state) {
        static const struct {
                int error;
                MoveStop stop;
        } cases[] = { { ESRCH, MOVE_GONE },       { EACCES, MOVE_NODE_DENIED }, { ENODEV, MOVE_NODE_DENIED },
                      { ENOMEM, MOVE_NODE_FULL }, { EPERM, MOVE_REFUSED },      { EINVAL, MOVE_REFUSED } };

        put_pages(PID, 1000, 1000);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(move_pages_freep) MovePages *m = NULL;
                const MoveReport *r;

                memset(kernel.node, 0, sizeof(kernel.node));
                kernel.moves = 0;
                kernel.fail_with = -cases[i].error;
                kernel.fail_after = 2;
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

        put_pages(PID, 10000, 10000);
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

        put_pages(PID, PAGES_MAX, PAGES_MAX);
        for (unsigned i = 0; i < PAGES_MAX; i += 2)
                kernel.node[i] = 1;
        kernel.per_query = 10;
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
                kernel.moves = 0;
                kernel.per_page = seed >> 24;
                kernel.per_query = seed % 3;
                p.stall_usec = 500 + (seed >> 12) % 20000;
                put_pages(PID, n, 1 + (seed >> 16) % 700);
                for (unsigned i = 0; i < n; i++) {
                        seed = seed * 1664525U + 1013904223U;
                        kernel.trait[i] = (seed >> 8) % odd ? FREE : (Trait) ((seed >> 16) % (REFUSES + 1));
                        kernel.node[i] = (seed >> 20) % 4 == 0;
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

        put_pages(PID, 10, 10);
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

static void test_same_space(void **state) {
        static char stack[2][64 << 10] __attribute__((aligned(16)));
        pid_t fork_a = child_with_memory(1), fork_b = child_with_memory(1);
        pid_t vm_a = clone(wait_for_end, stack[0] + sizeof(stack[0]), CLONE_VM | SIGCHLD, NULL);
        pid_t vm_b = clone(wait_for_end, stack[1] + sizeof(stack[1]), CLONE_VM | SIGCHLD, NULL);
        const struct {
                pid_t a, b;
                bool same;
        } cases[] = { { vm_a, vm_b, true },
                      { getpid(), vm_a, true },
                      { fork_a, vm_a, false },
                      { fork_a, fork_b, false },
                      { fork_a, fork_a, true } };
        bool got[ELEMENTSOF(cases)];

        assert_true(vm_a > 0 && vm_b > 0);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                got[i] = move_ops_kernel.same_space(NULL, cases[i].a, cases[i].b);
        end(vm_a);
        end(vm_b);
        end(fork_a);
        end(fork_b);
        if (!got[4]) {
                print_message("kcmp is not allowed here\n");
                skip();
        }
        for (size_t i = 0; i < ELEMENTSOF(cases); i++)
                assert_int_equal(got[i], cases[i].same);
}

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
                with_tree(test_kernel_says_no),
                with_tree(test_cancel),
                with_tree(test_walk_budget),
                with_tree(test_random),
                cmocka_unit_test(test_mappings),
                with_tree(test_passed_over),
                cmocka_unit_test(test_report),
                cmocka_unit_test(test_bad_arguments),
                cmocka_unit_test(test_real_query),
                cmocka_unit_test(test_real_exit),
                cmocka_unit_test(test_same_space),
        };

        return cmocka_run_group_tests_name("move-pages", tests, NULL, NULL);
}
