/* SPDX-License-Identifier: Apache-2.0 */
/* The undo journal on a real file: what survives a restart, what a bad or full file does, that it does not grow. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "common/fileio.h"
#include "daemon/undo.h"

typedef struct Fixture {
        char dir[64];
        char *journal;
        Undo *undo;
        char **messages;
} Fixture;

static bool truncate_fails; /* stands in front of libc's, for a disk that does not even let a file be cut */

int ftruncate(int fd, off_t length) {
        if (truncate_fails) {
                errno = EIO;
                return -1;
        }
        return (int) syscall(SYS_ftruncate, fd, length);
}

static void remove_tree(const char *dir) {
        _cleanup_free_ char *command = NULL;

        assert_true(asprintf(&command, "rm -rf '%s'", dir) > 0);
        assert_int_equal(system(command), 0);
}

static int setup(void **state) {
        Fixture *f = calloc(1, sizeof(*f));

        strcpy(f->dir, "/tmp/qsched-undo-XXXXXX");
        if (!mkdtemp(f->dir))
                return -1;
        f->journal = path_join(f->dir, "undo.journal");
        *state = f;
        return undo_open(f->dir, &f->messages, &f->undo);
}

static int teardown(void **state) {
        Fixture *f = *state;

        undo_free(f->undo);
        strv_free(f->messages);
        remove_tree(f->dir);
        free(f->journal);
        free(f);
        return 0;
}

static void reopen(Fixture *f) {
        f->undo = undo_free(f->undo);
        f->messages = strv_free(f->messages);
        assert_int_equal(undo_open(f->dir, &f->messages, &f->undo), 0);
}

static off_t size_of(const Fixture *f) {
        struct stat st;

        return stat(f->journal, &st) < 0 ? -1 : st.st_size;
}

static size_t count(Undo *u) {
        size_t n;

        undo_entries(u, &n);
        return n;
}

static int note(Undo *u, uint64_t id, const char *job, pid_t tid, const char *old, const char *new) {
        Bitset o = BITSET_EMPTY, n = BITSET_EMPTY;
        int r;

        assert_int_equal(bitset_parse(old, &o), 0);
        assert_int_equal(bitset_parse(new, &n), 0);
        r = undo_note_affinity(u, id, job, (Process){ 80, 1234 }, tid, 1000 + (uint64_t) tid, &o, &n, tid % 2 == 0,
                               tid % 3 == 0 ? &o : NULL, NULL);
        bitset_done(&o);
        bitset_done(&n);
        return r;
}

static void assert_set(const Bitset *b, const char *text);

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

static void assert_set(const Bitset *b, const char *text) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(bitset_format(b, &s), 0);
        assert_string_equal(s, text);
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

/* A line that came half into the file, and could not be cut off: no other may join it. */
static void test_torn(void **state) {
        const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
        Fixture *f = *state;
        struct rlimit few = none;
        uint64_t id;

        (void) signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-7", "0-1"), 0);
        few.rlim_cur = (rlim_t) size_of(f) + 20;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
        truncate_fails = true;
        assert_int_equal(note(f->undo, id, "a", 82, "0-7", "0-1"), -ENOSPC);
        assert_int_equal(size_of(f), few.rlim_cur); /* the half line is there */
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
        assert_int_equal(note(f->undo, id, "a", 83, "0-7", "0-1"), -EIO);
        assert_int_equal(undo_commit(f->undo, id), -EIO);
        assert_int_equal(size_of(f), few.rlim_cur);
        truncate_fails = false;
        assert_int_equal(note(f->undo, id, "a", 84, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        reopen(f);
        assert_null(f->messages);
        assert_int_equal(count(f->undo), 2);
        assert_true(undo_find_tid(f->undo, 84, 1084)->committed);
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

static void test_growth(void **state) {
        Fixture *f = *state;
        off_t largest = 0;
        uint64_t id;

        for (unsigned round = 0; round < 300; round++) {
                assert_int_equal(undo_begin(f->undo, "a", &id), 0);
                for (pid_t t = 1; t <= 10; t++)
                        assert_int_equal(note(f->undo, id, "a", t, "0-7", round % 2 ? "0-1" : "2-3"), 0);
                assert_int_equal(undo_commit(f->undo, id), 0);
                largest = MAX(largest, size_of(f));
        }
        assert_true(largest < 100000); /* 3,600 lines of about 150 bytes would be 540,000 */
        assert_true(largest > 10000);
        reopen(f);
        assert_null(f->messages);
        assert_int_equal(count(f->undo), 10);
        assert_true(undo_find_tid(f->undo, 7, 1007)->committed);
        assert_set(&undo_find_tid(f->undo, 7, 1007)->new, "0-1");
        assert_set(&undo_find_tid(f->undo, 7, 1007)->old, "0-7");
}

static void test_many(void **state) {
        Fixture *f = *state;
        uint64_t id;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        for (pid_t t = 1; t <= 20000; t++)
                assert_int_equal(note(f->undo, id, "a", t, "0-127", "0-11,64-75"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        reopen(f);
        assert_int_equal(count(f->undo), 20000);
        for (pid_t t = 1; t <= 20000; t++)
                assert_int_equal(undo_find_tid(f->undo, t, 1000 + (uint64_t) t)->tid, t);
}

static void test_removed_file(void **state) {
        Fixture *f = *state;
        uint64_t id;

        for (pid_t t = 1; t <= 2; t++) {
                assert_int_equal(undo_begin(f->undo, "a", &id), 0);
                assert_int_equal(note(f->undo, id, "a", t, "0-7", "0-1"), 0);
                assert_int_equal(undo_commit(f->undo, id), 0);
                if (t == 1)
                        assert_int_equal(unlink(f->journal), 0);
        }
        reopen(f);
        assert_null(f->messages);
        assert_int_equal(count(f->undo), 2);
        assert_true(undo_find_tid(f->undo, 1, 1001)->committed);
}

static void add_text(const Fixture *f, const char *text) {
        _cleanup_close_ int fd = open(f->journal, O_WRONLY | O_APPEND);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void test_bad_lines(void **state) {
        static const char *const bad[] = {
                "rubbish\n",
                "{\"t\":7}\n",
                "[1]\n",
                "\n",
                "{\"t\":\"affinity\",\"id\":1,\"job\":\"a\",\"pid\":-5,\"start\":1,\"tid\":1,\"tid_start\":1,\"old\":\"0\",\"new\":\"1\"}\n",
                "{\"t\":\"affinity\",\"id\":1,\"job\":\"a\",\"pid\":5,\"start\":1,\"tid\":1,\"tid_start\":1,\"old\":\"\",\"new\":\"1\"}\n",
                "{\"t\":\"affinity\",\"id\":1,\"job\":\"a\",\"pid\":5,\"start\":1,\"tid\":1,\"tid_start\":1,\"old\":\"0-x\",\"new\":\"1\"}\n",
                "{\"t\":\"affinity\",\"id\":1e3,\"job\":\"a\",\"pid\":5,\"start\":1,\"tid\":1,\"tid_start\":1,\"old\":\"0\",\"new\":\"1\"}\n",
                "{\"t\":\"dir\",\"id\":1,\"job\":\"a\",\"path\":\"relative\"}\n",
                "{\"t\":\"cgroup\",\"id\":1,\"job\":\"a\",\"pid\":5,\"start\":1,\"old\":\"/x\",\"new\":\"/\",\"controller\":\"cpuset\"}\n",
                "{\"t\":\"mems\",\"id\":1,\"job\":\"a\",\"pid\":5,\"start\":1,\"path\":\"/qsched.slice/../x\",\"old\":\"\",\"new\":\"0\",\"controller\":\"cpuset\"}\n",
                "{\"t\":\"commit\"}\n",
                "{\"t\":\"affinity\",\"id\":9,\"job\":\"a\",\"pid\":5", /* cut off */
        };
        Fixture *f = *state;
        _cleanup_free_ char *aside = NULL;
        uint64_t id;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        for (unsigned i = 0; i < ELEMENTSOF(bad); i++) {
                add_text(f, bad[i]);
                reopen(f);
                assert_int_equal(strv_length(f->messages), 1);
                assert_non_null(strstr(f->messages[0], "set aside"));
                free(aside);
                assert_true(asprintf(&aside, "%s.bad-%u", f->journal, i + 1) > 0);
                assert_int_equal(access(aside, F_OK), 0);
                assert_non_null(strstr(f->messages[0], aside));
                assert_int_equal(count(f->undo), 1);
                assert_true(undo_find_tid(f->undo, 81, 1081)->committed);
                reopen(f); /* the bad lines are gone from the file itself */
                assert_null(f->messages);
                assert_int_equal(count(f->undo), 1);
        }
}

/* After a downgrade: nothing is set aside, the line outlives rewriting and the end of all entries, not the boot. */
static void test_later_version(void **state) {
        static const char line[] = "{\"t\":\"later\",\"id\":1,\"what\":[1,2]}\n";
        Fixture *f = *state;
        uint64_t id;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        add_text(f, line);
        for (int i = 0; i < 3; i++) {
                _cleanup_free_ char *text = NULL, *aside = NULL;

                reopen(f);
                assert_int_equal(strv_length(f->messages), i < 2 ? 1 : 2);
                assert_non_null(strstr(f->messages[i < 2 ? 0 : 1], "later qschedd"));
                assert_true(asprintf(&aside, "%s.bad-1", f->journal) > 0);
                assert_int_equal(access(aside, F_OK), i < 2 ? -1 : 0);
                if (i == 0)
                        assert_int_equal(undo_forget(f->undo, undo_find_tid(f->undo, 81, 1081)), 0);
                if (i == 1)
                        add_text(f, "rubbish\n"); /* has it rewritten */
                if (i == 2)
                        assert_int_equal(count(f->undo), 0);
                assert_int_equal(read_regular_file(f->journal, 1 << 20, &text, NULL), 0);
                assert_non_null(strstr(text, line));
        }
}

static void test_not_a_file(void **state) {
        Fixture *f = *state;

        for (int i = 0; i < 2; i++) {
                f->undo = undo_free(f->undo);
                assert_int_equal(unlink(f->journal), 0);
                assert_int_equal(i == 0 ? mkfifo(f->journal, 0600) : mkdir(f->journal, 0700), 0);
                reopen(f);
                assert_int_equal(strv_length(f->messages), 1);
                assert_int_equal(count(f->undo), 0);
        }
}

static void test_other_boot(void **state) {
        Fixture *f = *state;
        _cleanup_free_ char *text = NULL;
        char *boot;
        uint64_t id;

        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        assert_int_equal(note(f->undo, id, "a", 81, "0-7", "0-1"), 0);
        assert_int_equal(undo_commit(f->undo, id), 0);
        assert_int_equal(read_regular_file(f->journal, 1 << 20, &text, NULL), 0);
        boot = strstr(text, "\"boot\":\"");
        assert_non_null(boot);
        boot[8] = boot[8] == '0' ? '1' : '0';
        assert_int_equal(write_file_atomic(f->journal, text, 0600), 0);
        reopen(f);
        assert_int_equal(count(f->undo), 0);
        assert_int_equal(strv_length(f->messages), 1);
        assert_non_null(strstr(f->messages[0], "earlier boot"));
        reopen(f);
        assert_null(f->messages);
}

static void test_lock(void **state) {
        Fixture *f = *state;
        Undo *second = NULL;

        assert_int_equal(undo_open(f->dir, &f->messages, &second), -EBUSY);
        assert_null(second);
}

static void test_full_disk(void **state) {
        Fixture *f = *state;
        off_t before;
        uint64_t id;
        size_t n;
        int r = 0;

        if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
                print_message("a full disk: needs root and a mount namespace of its own\n");
                skip();
        }
        f->undo = undo_free(f->undo);
        assert_int_equal(mount("tmpfs", f->dir, "tmpfs", 0, "size=8k"), 0);
        reopen(f);
        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        for (n = 0; n < 1000 && r == 0; n++)
                r = note(f->undo, id, "a", (pid_t) n + 1, "0-7", "0-1");
        n--;
        assert_int_equal(r, -ENOSPC);
        assert_true(n > 10);
        before = size_of(f);
        assert_int_equal(count(f->undo), n); /* what could not be written is not believed either */
        assert_int_equal(note(f->undo, id, "a", 5000, "0-7", "0-1"), -ENOSPC);
        assert_int_equal(size_of(f), before);
        reopen(f);
        assert_null(f->messages); /* no half line was left */
        assert_int_equal(count(f->undo), n);

        (void) undo_abort(f->undo, id); /* all that was noted is undone: room again without any */
        assert_int_equal(count(f->undo), 0);
        assert_int_equal(size_of(f), 0);
        assert_int_equal(undo_begin(f->undo, "a", &id), 0);
        f->undo = undo_free(f->undo);
        assert_int_equal(umount(f->dir), 0);
}

static void test_write_error(void **state) {
        Fixture *f = *state;
        Undo *u = NULL;
        unsigned n_bad;
        uint64_t id;

        /* No file behind it: nothing may be changed, so nothing is noted. */
        f->undo = undo_free(f->undo);
        assert_int_equal(undo_from_text("", 0, &n_bad, &u), 0);
        assert_int_equal(undo_begin(u, "a", &id), -EBADF);
        assert_int_equal(note(u, 1, "a", 81, "0", "1"), -EBADF);
        assert_int_equal(count(u), 0);
        undo_free(u);
}

static void test_unwritable(void **state) {
        Fixture *f = *state;
        Undo *u = NULL;

        assert_int_equal(undo_open("/proc/nowhere/run", &f->messages, &u), -ENOENT);
        assert_int_equal(undo_open(f->journal, &f->messages, &u), -ENOTDIR);
        assert_null(u);
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
                cmocka_unit_test_setup_teardown(test_torn, setup, teardown),
                cmocka_unit_test_setup_teardown(test_revert_mark, setup, teardown),
                cmocka_unit_test_setup_teardown(test_forget_empties, setup, teardown),
                cmocka_unit_test_setup_teardown(test_growth, setup, teardown),
                cmocka_unit_test_setup_teardown(test_many, setup, teardown),
                cmocka_unit_test_setup_teardown(test_removed_file, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_lines, setup, teardown),
                cmocka_unit_test_setup_teardown(test_later_version, setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_a_file, setup, teardown),
                cmocka_unit_test_setup_teardown(test_other_boot, setup, teardown),
                cmocka_unit_test_setup_teardown(test_pool, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
                cmocka_unit_test_setup_teardown(test_write_error, setup, teardown),
                cmocka_unit_test_setup_teardown(test_unwritable, setup, teardown),
                cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
