/* SPDX-License-Identifier: Apache-2.0 */
/* What the undo journal says of each change, and what becomes of that by commit, abort, revert and a restart. */
#include "undo-fixture.h"

static void note_part(Undo *u, uint64_t id, const char *new, const char *pool) {
        _cleanup_(bitset_done) Bitset old = BITSET_EMPTY, n = BITSET_EMPTY, p = BITSET_EMPTY;

        assert_int_equal(bitset_parse("0-31", &old), 0);
        assert_int_equal(bitset_parse(new, &n), 0);
        assert_int_equal(bitset_parse(pool, &p), 0);
        assert_int_equal(undo_note_affinity(u, id, "one", (Process){ 80, 1234 }, 81, 1081, &old, &n, true, NULL, &p),
                         0);
}

static void assert_part(const Undo *u, const char *new, const char *pool) {
        const UndoEntry *e = undo_find_tid(u, 81, 1081);

        assert_non_null(e);
        assert_set(&e->new, new);
        assert_set(&e->pool, pool);
}

static void test_restart(void **state) {
        Fixture *f = *state;
        const UndoEntry *e;
        uint64_t a, b;

        assert_int_equal(undo_begin(f->undo, "train", &a), 0);
        assert_int_equal(note(f->undo, a, "train", 80, "0-7", "0-1"), 0);
        assert_int_equal(note(f->undo, a, "train", 83, "0-7", "0-1"), 0);
        assert_int_equal(undo_note_cgroup(f->undo, a, "train", (Process){ 80, 1234 }, "cpuset", "/", "/qsched.slice/x"),
                         0);
        assert_int_equal(undo_note_dir(f->undo, a, "train", "/sys/fs/cgroup/cpuset/qsched.slice/x", NULL), 0);
        assert_int_equal(undo_commit(f->undo, a), 0);
        assert_int_equal(undo_begin(f->undo, "other", &b), 0);
        assert_true(b > a);
        assert_int_equal(note(f->undo, b, "other", 90, "2", "3"), 0);
        reopen(f);

        assert_null(f->messages);
        assert_int_equal(count(f->undo), 5);
        e = undo_find_tid(f->undo, 83, 1083);
        assert_non_null(e);
        assert_true(e->committed);
        assert_false(e->all);
        assert_string_equal(e->job, "train");
        assert_int_equal(e->process.pid, 80);
        assert_set(&e->old, "0-7");
        assert_set(&e->new, "0-1");
        assert_true(undo_find_tid(f->undo, 80, 1080)->all);
        assert_null(undo_find_tid(f->undo, 83, 1084)); /* another thread that got the number */
        assert_false(undo_find_tid(f->undo, 90, 1090)->committed);
        e = undo_find_cgroup(f->undo, (Process){ 80, 1234 }, "cpuset");
        assert_non_null(e);
        assert_string_equal(e->old_path, "/");
        assert_null(undo_find_cgroup(f->undo, (Process){ 80, 1235 }, "cpuset"));

        assert_int_equal(undo_begin(f->undo, "third", &a), 0);
        assert_true(a > b);
}

static void test_first_old_wins(void **state) {
        Fixture *f = *state;
        const UndoEntry *e;
        uint64_t id;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-1", "2-3"), 0);
        for (int i = 0; i < 2; i++) {
                e = undo_find_tid(f->undo, 81, 1081);
                assert_set(&e->old, "0-7");
                assert_set(&e->new, "2-3");
                assert_set(&e->before, "0-1");
                assert_false(e->committed);
                reopen(f);
        }
        assert_int_equal(undo_commit(f->undo, id), 0);
        e = undo_find_tid(f->undo, 81, 1081);
        assert_true(e->committed);
        assert_true(bitset_isempty(&e->before));
        assert_int_equal(count(f->undo), 1);
}

static void test_abort(void **state) {
        Fixture *f = *state;
        uint64_t id;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-1", "2-3"), 0);
        assert_int_equal(note(f->undo, id, "a", 82, "0-7", "2-3"), 0);
        assert_int_equal(undo_abort(f->undo, id), 0);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(count(f->undo), 1);
                assert_set(&undo_find_tid(f->undo, 81, 1081)->new, "0-1");
                assert_set(&undo_find_tid(f->undo, 81, 1081)->old, "0-7");
                assert_true(undo_find_tid(f->undo, 81, 1081)->committed);
                assert_null(undo_find_tid(f->undo, 82, 1082));
                reopen(f);
        }
}

/* One of three could not be put back: it stays as it is for the next start, and only it. */
static void test_abort_restored(void **state) {
        Fixture *f = *state;
        uint64_t first, id;

        assert_int_equal(undo_begin(f->undo, "a", &first), 0);
        assert_int_equal(note(f->undo, first, "a", 81, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, first), 0);
        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        for (pid_t t = 81; t <= 83; t++)
                assert_int_equal(note(f->undo, id, "a", t, t == 81 ? "0-1" : "0-7", "2-3"), 0);
        undo_restored(f->undo, undo_find_tid(f->undo, 81, 1081));
        undo_restored(f->undo, undo_find_tid(f->undo, 82, 1082));
        assert_int_equal(undo_abort_restored(f->undo, id), 0);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(count(f->undo), 2);
                assert_set(&undo_find_tid(f->undo, 81, 1081)->new, "0-1");
                assert_true(undo_find_tid(f->undo, 81, 1081)->committed);
                assert_set(&undo_find_tid(f->undo, 83, 1083)->new, "2-3");
                assert_set(&undo_find_tid(f->undo, 83, 1083)->old, "0-7");
                assert_false(undo_find_tid(f->undo, 83, 1083)->committed);
                assert_true(undo_committed(f->undo, first));
                assert_false(undo_committed(f->undo, id));
                reopen(f);
        }
        undo_restored(f->undo, undo_find_tid(f->undo, 83, 1083));
        assert_int_equal(undo_abort_restored(f->undo, id), 0);
        reopen(f);
        assert_int_equal(count(f->undo), 1);
}

/* An id says of which order an entry is, also when what stood before it is in force again, and after a rewrite. */
static void test_committed(void **state) {
        Fixture *f = *state;
        uint64_t next = undo_next_id(f->undo), id;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(id, next);
        assert_int_equal(note(f->undo, id, "a", 81, "0-7", "0-1"), 0);
        assert_false(undo_committed(f->undo, id));
        assert_int_equal(undo_commit(f->undo, id), 0);
        assert_int_equal(undo_begin(f->undo, "a", &next), 0);
        for (unsigned i = 0; i < 600; i++) {
                assert_int_equal(note(f->undo, next, "a", 81, "0-1", "2-3"), 0);
                assert_int_equal(note(f->undo, next, "a", 90, "0-7", "2-3"), 0);
                assert_int_equal(undo_forget(f->undo, undo_find_tid(f->undo, 90, 1090)), 0);
        }
        assert_true(size_of(f) < 60000); /* it was rewritten meanwhile */
        reopen(f);
        assert_false(undo_committed(f->undo, next));
        assert_int_equal(undo_abort(f->undo, next), 0);
        for (int i = 0; i < 2; i++) {
                assert_true(undo_committed(f->undo, id));
                assert_false(undo_committed(f->undo, next));
                assert_set(&undo_find_tid(f->undo, 81, 1081)->new, "0-1");
                reopen(f);
        }
}

/* The CPUs of a group of ours: known until the commit or the abort, over a restart. */
static void test_cpus(void **state) {
        static const char *const olds[] = { "0-3", "" };
        Fixture *f = *state;
        uint64_t id;

        for (unsigned i = 0; i < 4; i++) {
                _cleanup_(bitset_done) Bitset old = BITSET_EMPTY, new = BITSET_EMPTY;
                const UndoEntry *e;

                if (*olds[i / 2])
                        assert_int_equal(bitset_parse(olds[i / 2], &old), 0);
                assert_int_equal(bitset_parse("4-7", &new), 0);
                assert_int_equal(undo_begin(f->undo, "a", &id), 0);
                assert_int_equal(undo_note_cpus(f->undo, id, "a", (Process){ 80, 1234 }, "cpuset", "/qsched.slice/x",
                                                &old, &new),
                                 0);
                reopen(f);
                assert_null(f->messages);
                e = undo_find_cpus(f->undo, "/qsched.slice/x");
                assert_non_null(e);
                assert_false(e->committed);
                assert_int_equal(e->process.pid, 80);
                assert_set(&e->old, olds[i / 2]);
                assert_set(&e->new, "4-7");
                assert_int_equal(i % 2 ? undo_commit(f->undo, id) : undo_abort(f->undo, id), 0);
                assert_null(undo_find_cpus(f->undo, "/qsched.slice/x"));
                reopen(f);
                assert_int_equal(count(f->undo), 0);
        }
}

/* A wall stands with its note and outlives commits; a revert that was cut short ends it. */
static void test_mems(void **state) {
        _cleanup_(bitset_done) Bitset old = BITSET_EMPTY, new = BITSET_EMPTY;
        Fixture *f = *state;
        const UndoEntry *e;
        uint64_t id;

        assert_int_equal(bitset_set(&new, 3), 0);
        assert_int_equal(undo_note_mems(f->undo, "a", (Process){ 80, 1234 }, "unified", "/qsched.slice/x", &old, &new),
                         0);
        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        reopen(f);
        assert_null(f->messages);
        assert_null(undo_find_cpus(f->undo, "/qsched.slice/x"));
        e = undo_find_mems(f->undo, "/qsched.slice/x");
        assert_non_null(e);
        assert_true(e->committed);
        assert_true(undo_is_of_process(e));
        assert_string_equal(e->controller, "unified");
        assert_set(&e->old, "");
        assert_set(&e->new, "3");
        assert_int_equal(undo_revert(f->undo, "a"), 0);
        reopen(f);
        assert_false(undo_find_mems(f->undo, "/qsched.slice/x")->committed);
        assert_int_equal(undo_forget(f->undo, undo_find_mems(f->undo, "/qsched.slice/x")), 0);
        reopen(f);
        assert_int_equal(count(f->undo), 0);
}

/* What is somebody else's now outlives a start, with since when, until it is taken back; lines of before `since` load. */
static void test_yields(void **state) {
        Fixture *f = *state;
        const UndoEntry *e;

        assert_int_equal(undo_note_yield(f->undo, "a", (Process){ 80, 1234 }, 1300), 0);
        assert_int_equal(
                undo_note_yield_irq(f->undo, "a", &(UndoIrq){ .irq = 41, .device = "0000:c1:00.0", .name = "x" }), 0);
        reopen(f);
        assert_null(f->messages);
        e = undo_find_yield(f->undo, (Process){ 80, 1234 });
        assert_non_null(e);
        assert_int_equal(e->since, 1300);
        assert_false(undo_is_of_process(e));
        assert_null(undo_find_yield(f->undo, (Process){ 80, 1235 }));
        e = undo_find_yield_irq(f->undo, &(UndoIrq){ .irq = 41, .device = "0000:c1:00.0", .name = "x" });
        assert_non_null(e);
        assert_int_equal(undo_forget(f->undo, e), 0);
        assert_int_equal(undo_forget(f->undo, undo_find_yield(f->undo, (Process){ 80, 1234 })), 0);
        reopen(f);
        assert_int_equal(count(f->undo), 0);
}

static void test_a_yield_of_before(void **state) {
        static const char line[] = "{\"t\":\"yield\",\"job\":\"a\",\"pid\":80,\"start\":1234}\n"
                                   "{\"t\":\"yield\",\"job\":\"a\",\"pid\":81,\"start\":1234,\"since\":-1}\n";
        _cleanup_(undo_freep) Undo *u = NULL;
        unsigned n_bad;

        assert_int_equal(undo_from_text(line, strlen(line), &n_bad, &u), 0);
        assert_int_equal(n_bad, 1);
        assert_non_null(undo_find_yield(u, (Process){ 80, 1234 }));
        assert_null(undo_find_yield(u, (Process){ 81, 1234 }));
}

static void test_revert_mark(void **state) {
        Fixture *f = *state;
        uint64_t id;

        for (int i = 0; i < 2; i++) {
                assert_int_equal(undo_begin(f->undo, i ? "b" : "a", &id), 0);
                assert_int_equal(note(f->undo, id, i ? "b" : "a", 81 + i, "0-7", "0-1"), 0);
                assert_int_equal(undo_commit(f->undo, id), 0);
        }
        assert_int_equal(undo_revert(f->undo, "a"), 0);
        for (int i = 0; i < 2; i++) {
                assert_false(undo_find_tid(f->undo, 81, 1081)->committed);
                assert_true(undo_find_tid(f->undo, 82, 1082)->committed);
                reopen(f);
        }
        assert_int_equal(undo_revert(f->undo, NULL), 0);
        reopen(f);
        assert_false(undo_find_tid(f->undo, 82, 1082)->committed);
}

static void test_forget_empties(void **state) {
        Fixture *f = *state;
        const UndoEntry *e;
        uint64_t id;
        size_t n;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        for (pid_t t = 1; t <= 5; t++)
                assert_int_equal(note(f->undo, id, "a", t, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        e = undo_entries(f->undo, &n);
        assert_int_equal(n, 5);
        /* Pointers to the others stay good while one forgets. */
        assert_int_equal(undo_forget(f->undo, &e[3]), 0);
        assert_int_equal(undo_forget(f->undo, &e[1]), 0);
        assert_int_equal(e[4].tid, 5);
        reopen(f);
        e = undo_entries(f->undo, &n);
        assert_int_equal(n, 3);
        assert_int_equal(e[0].tid, 1);
        assert_int_equal(e[1].tid, 3);
        assert_int_equal(e[2].tid, 5);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(undo_forget(f->undo, &e[i]), 0);
        assert_int_equal(size_of(f), 0);
}

/* The pool goes with the mask: over a reopen, back with an abort, forward with a commit; none where it is the mask. */
static void test_pool(void **state) {
        Fixture *f = *state;
        uint64_t id;

        assert_int_equal(undo_begin(f->undo, "one", &id), 0);
        note_part(f->undo, id, "0-3", "0-7");
        assert_int_equal(undo_commit(f->undo, id), 0);
        reopen(f);
        assert_part(f->undo, "0-3", "0-7");
        assert_int_equal(undo_begin(f->undo, "one", &id), 0);
        note_part(f->undo, id, "8-15", "8-15");
        assert_part(f->undo, "8-15", "");
        reopen(f);
        assert_part(f->undo, "8-15", "");
        assert_int_equal(undo_abort(f->undo, id), 0);
        assert_part(f->undo, "0-3", "0-7");
        reopen(f);
        assert_part(f->undo, "0-3", "0-7");
        assert_int_equal(undo_begin(f->undo, "one", &id), 0);
        note_part(f->undo, id, "8-11", "8-15");
        assert_int_equal(undo_commit(f->undo, id), 0);
        reopen(f);
        assert_part(f->undo, "8-11", "8-15");
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_restart, setup, teardown),
                cmocka_unit_test_setup_teardown(test_first_old_wins, setup, teardown),
                cmocka_unit_test_setup_teardown(test_abort, setup, teardown),
                cmocka_unit_test_setup_teardown(test_abort_restored, setup, teardown),
                cmocka_unit_test_setup_teardown(test_committed, setup, teardown),
                cmocka_unit_test_setup_teardown(test_cpus, setup, teardown),
                cmocka_unit_test_setup_teardown(test_mems, setup, teardown),
                cmocka_unit_test_setup_teardown(test_yields, setup, teardown),
                cmocka_unit_test(test_a_yield_of_before),
                cmocka_unit_test_setup_teardown(test_revert_mark, setup, teardown),
                cmocka_unit_test_setup_teardown(test_forget_empties, setup, teardown),
                cmocka_unit_test_setup_teardown(test_pool, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
