/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of moves, on the table of pages of move-fixture.h: who comes when, who does not come twice, who is called off. */
#include "daemon/move-queue.h"

#include "daemon/readers/tasks.h"
#include "tests/unit/move-fixture.h"

static struct {
        char text[512];
        int refuse; /* begin() of refuse_pid fails with it */
        pid_t refuse_pid;
        unsigned begun;
} seen;

static int on_begin(void *userdata, const MoveItem *item, char **ret_group_dir) {
        seen.begun++;
        return item->process.pid == seen.refuse_pid ? seen.refuse : 0;
}

static void on_ended(void *userdata, const MoveItem *item) {
        size_t n = strlen(seen.text);

        (void) snprintf(seen.text + n, sizeof(seen.text) - n, "%s%d:%s", n ? " " : "", (int) item->process.pid,
                        move_stop_names[item->report.stop]);
        assert_true(item->ended);
}

static MoveQueue *new_queue(void) {
        const MoveHooks hooks = { on_begin, on_ended, NULL };
        MoveParams params = move_params_default;
        MoveQueue *q;

        memset(&seen, 0, sizeof(seen));
        assert_int_equal(move_queue_new(&fake_ops, &hooks, &q), 0);
        params.root = kernel.root;
        move_queue_set_params(q, &params);
        return q;
}

static void make_process(pid_t pid, unsigned n_pages) {
        put_status(pid, "0-1");
        put_pages(pid, n_pages, n_pages);
}

static int add_as(MoveQueue *q, const char *job, pid_t pid, const char *nodes, bool first, bool again) {
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;

        assert_int_equal(bitset_parse(nodes, &b), 0);
        return move_queue_add(q,
                              &(MoveItem){ .job = (char *) job,
                                           .task = (char *) "t",
                                           .process = { pid, 1 },
                                           .nodes = b,
                                           .uid = TASK_ANY_USER,
                                           .first = first },
                              again);
}

static int add(MoveQueue *q, pid_t pid) {
        return add_as(q, "j", pid, "1", true, false);
}

static void drain(MoveQueue *q) {
        unsigned steps = 0;
        uint64_t rest;

        while (move_queue_step(q, &rest) > 0)
                assert_true(++steps < 100000);
}

static void test_in_order(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();
        const MoveReport *r;

        for (pid_t pid = 1; pid <= 3; pid++) {
                make_process(pid, 1000);
                assert_int_equal(add(q, pid), 1);
        }
        drain(q);
        assert_string_equal(seen.text, "1:done 2:done 3:done");
        assert_int_equal(move_queue_size(q), 3);
        r = move_queue_report(q, move_queue_item(q, 0));
        assert_int_equal(r->moved, 1000); /* the others find the same pages there already */
        assert_int_equal(r->n_found, 1);
        assert_int_equal(r->found[0], 1000);
        assert_int_equal(move_queue_report(q, move_queue_item(q, 2))->already, 1000);
}

/* At no time are two on: the pages asked about are those of one process until it has ended. */
static void test_one_at_a_time(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();
        unsigned changes = 0;
        pid_t last = 0;
        uint64_t rest;

        for (pid_t pid = 1; pid <= 3; pid++) {
                make_process(pid, 20000);
                assert_int_equal(add(q, pid), 1);
        }
        while (move_queue_step(q, &rest) > 0) {
                changes += kernel.last != last;
                last = kernel.last;
        }
        assert_int_equal(changes, 3);
}

static void test_authority_comes_first(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();

        for (pid_t pid = 1; pid <= 4; pid++)
                make_process(pid, 10);
        assert_int_equal(add_as(q, "user", 1, "1", false, false), 1);
        assert_int_equal(add_as(q, "user", 2, "1", false, false), 1);
        assert_int_equal(add_as(q, "admin", 3, "1", true, false), 1);
        assert_int_equal(add_as(q, "admin", 4, "1", true, false), 1);
        drain(q);
        assert_string_equal(seen.text, "3:done 4:done 1:done 2:done");
}

static void test_rest_is_as_long_as_the_step(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();
        uint64_t before, rest, longest = 0;

        make_process(1, 100000);
        assert_int_equal(add(q, 1), 1);
        do {
                before = kernel.clock;
                rest = 0;
                if (move_queue_step(q, &rest) == 0)
                        break;
                assert_true(rest >= kernel.clock - before);
                longest = MAX(longest, rest);
        } while (rest > 0);
        assert_true(longest > 5000);
        assert_true(longest <= 25000); /* a step is no longer than the stall bound and its query */
}

static void test_not_twice(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();

        make_process(1, 100);
        assert_int_equal(add(q, 1), 1);
        assert_int_equal(add(q, 1), 0); /* waits */
        drain(q);
        assert_int_equal(add(q, 1), 0);                          /* is there */
        assert_int_equal(add_as(q, "j", 1, "1", true, true), 0); /* also for who asks again */
        assert_int_equal(add_as(q, "j", 1, "0", true, false), 1);
        drain(q);
        assert_string_equal(seen.text, "1:done 1:done");
        assert_int_equal(move_queue_size(q), 1);
        assert_int_equal(kernel.node[0], 0);
}

static void test_other_nodes_replace_what_is_on(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();
        uint64_t rest;

        make_process(1, 100000);
        assert_int_equal(add(q, 1), 1);
        for (unsigned i = 0; i < 6; i++)
                assert_int_equal(move_queue_step(q, &rest), 1);
        assert_true(kernel.moves > 0);
        assert_int_equal(add_as(q, "j", 1, "0", true, false), 1);
        drain(q);
        assert_string_equal(seen.text, "1:cancelled 1:done");
        assert_int_equal(move_queue_size(q), 1);
}

static void raise_pressure(void) {
        put_pressure("proc/pressure/memory", 50);
}

/* An order tries again what was stopped, a tick does not. */
static void test_again(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();

        make_process(1, 10000);
        kernel.before = raise_pressure;
        assert_int_equal(add(q, 1), 1);
        drain(q);
        assert_string_equal(seen.text, "1:pressure");
        assert_int_equal(add(q, 1), 0);
        kernel.before = NULL;
        put_pressure("proc/pressure/memory", 0);
        assert_int_equal(add_as(q, "j", 1, "1", true, true), 1);
        drain(q);
        assert_string_equal(seen.text, "1:pressure 1:done");
        assert_int_equal(move_queue_size(q), 1);
}

static void test_address_space_once(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();

        for (pid_t pid = 99; pid <= 102; pid++) {
                make_process(pid, 100);
                assert_int_equal(add(q, pid), 1);
        }
        drain(q);
        assert_string_equal(seen.text, "99:done 100:done"); /* 101 and 102 are of 100's */
        assert_int_equal(move_queue_size(q), 2);
        assert_int_equal(seen.begun, 2);
}

static bool is_of(const MoveItem *item, const void *what) {
        return streq(item->job, what);
}

static void test_drop(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();
        uint64_t rest;

        for (pid_t pid = 1; pid <= 4; pid++) {
                make_process(pid, 50000);
                assert_int_equal(add_as(q, pid % 2 ? "odd" : "even", pid, "1", true, false), 1);
        }
        for (unsigned i = 0; i < 6; i++)
                assert_int_equal(move_queue_step(q, &rest), 1);
        assert_non_null(move_queue_report(q, move_queue_item(q, 0)));
        move_queue_drop(q, is_of, "odd"); /* 1 is on, 3 waits */
        assert_string_equal(seen.text, "1:cancelled");
        assert_int_equal(move_queue_size(q), 2);
        drain(q);
        assert_string_equal(seen.text, "1:cancelled 2:done 4:done");
        move_queue_drop(q, is_of, "even");
        assert_int_equal(move_queue_size(q), 0);
        assert_int_equal(move_queue_step(q, &rest), 0);
        assert_int_equal(add_as(q, "even", 2, "1", true, false), 1); /* forgotten */
}

static void test_refused(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();

        for (pid_t pid = 1; pid <= 3; pid++) {
                make_process(pid, 10);
                assert_int_equal(add(q, pid), 1);
        }
        seen.refuse_pid = 1;
        seen.refuse = -EPERM;
        drain(q);
        assert_string_equal(seen.text, "1:refused 2:done 3:done");
        assert_int_equal(move_queue_item(q, 0)->report.error, EPERM);
        assert_non_null(strstr(move_queue_item(q, 0)->report.why, "another user's"));
        seen.refuse = -ESRCH;
        assert_int_equal(add_as(q, "j", 1, "1", true, true), 1);
        drain(q);
        assert_string_equal(seen.text, "1:refused 2:done 3:done 1:gone");
}

/* Processes that come and go leave a bounded list; those that live are never forgotten. */
static void test_bounded(void **state) {
        _cleanup_(move_queue_freep) MoveQueue *q = new_queue();
        uint64_t start;
        Bitset b = BITSET_EMPTY;

        assert_int_equal(process_start_time(getpid(), &start), 0);
        make_process(getpid(), 1);
        assert_int_equal(bitset_set(&b, 1), 0);
        assert_int_equal(move_queue_add(q,
                                        &(MoveItem){ .job = (char *) "me",
                                                     .task = (char *) "t",
                                                     .process = { getpid(), start },
                                                     .nodes = b,
                                                     .uid = TASK_ANY_USER },
                                        false),
                         1);
        bitset_done(&b);
        drain(q);
        seen.refuse = -ESRCH;
        for (unsigned i = 0; i < 3000; i++) {
                seen.refuse_pid = (pid_t) (0x30000000 + i);
                assert_int_equal(add(q, seen.refuse_pid), 1);
                drain(q);
                seen.text[0] = '\0';
        }
        assert_in_range(move_queue_size(q), 1000, 2100);
        assert_int_equal(move_queue_item(q, 0)->process.pid, getpid());
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                with_tree(test_in_order),
                with_tree(test_one_at_a_time),
                with_tree(test_authority_comes_first),
                with_tree(test_rest_is_as_long_as_the_step),
                with_tree(test_not_twice),
                with_tree(test_other_nodes_replace_what_is_on),
                with_tree(test_again),
                with_tree(test_address_space_once),
                with_tree(test_drop),
                with_tree(test_refused),
                with_tree(test_bounded),
        };

        return cmocka_run_group_tests_name("move-queue", tests, NULL, NULL);
}
