/* SPDX-License-Identifier: Apache-2.0 */
/* The undo journal's file: what a torn, bad, foreign or full one does, and that it does not grow. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "undo-fixture.h"

static bool truncate_fails; /* stands in front of libc's, for a disk that does not even let a file be cut */

int ftruncate(int fd, off_t length) {
        if (truncate_fails) {
                errno = EIO;
                return -1;
        }
        return (int) syscall(SYS_ftruncate, fd, length);
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

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_torn, setup, teardown),
                cmocka_unit_test_setup_teardown(test_growth, setup, teardown),
                cmocka_unit_test_setup_teardown(test_many, setup, teardown),
                cmocka_unit_test_setup_teardown(test_removed_file, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bad_lines, setup, teardown),
                cmocka_unit_test_setup_teardown(test_later_version, setup, teardown),
                cmocka_unit_test_setup_teardown(test_not_a_file, setup, teardown),
                cmocka_unit_test_setup_teardown(test_other_boot, setup, teardown),
                cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
                cmocka_unit_test_setup_teardown(test_write_error, setup, teardown),
                cmocka_unit_test_setup_teardown(test_unwritable, setup, teardown),
                cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
