/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "common/fileio.h"
#include "common/log.h"

static void test_whole(void **state) {
        uint64_t u = 77;
        unsigned n = 77;
        pid_t pid = 77;

        assert_int_equal(text_parse_u64("18446744073709551615", &u), 0);
        assert_true(u == UINT64_MAX);
        assert_int_equal(text_parse_u64("0", &u), 0);
        assert_int_equal(u, 0);
        u = 77;
        assert_int_equal(text_parse_u64("18446744073709551616", &u), -ERANGE);
        assert_int_equal(text_parse_u64("99999999999999999999999999", &u), -ERANGE);
        static const char *const bad[] = { "", " 1", "1 ", "+1", "-1", "0x10", "1e3", "1.0", "1\n", "١" };
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(text_parse_u64(bad[i], &u), -EINVAL);
        assert_int_equal(u, 77);
        assert_int_equal(text_parse_uint("5", 1, 5, &n), 0);
        assert_int_equal(n, 5);
        assert_int_equal(text_parse_uint("6", 1, 5, &n), -ERANGE);
        assert_int_equal(text_parse_uint("0", 1, 5, &n), -ERANGE);
        assert_int_equal(text_parse_uint("4294967297", 0, UINT32_MAX, &n), -ERANGE);
        assert_int_equal(n, 5);
        assert_int_equal(text_parse_pid("1", &pid), 0);
        assert_int_equal(text_parse_pid("0", &pid), -ERANGE);
        assert_int_equal(text_parse_pid("2147483648", &pid), -ERANGE);
        assert_int_equal(pid, 1);
}

static void test_double(void **state) {
        static const struct {
                const char *text;
                double value;
        } good[] = { { "1", 1 },      { "-0.5", -.5 },  { ".5", .5 },    { "5.", 5 },
                     { "1e3", 1000 }, { "1E-3", .001 }, { "1e+2", 100 }, { "1e-999", 0 } };
        static const char *const bad[] = { "",         ".",    "-",   "e3", "1e", "1e+", "inf", "nan",   "-inf",
                                           "infinity", "0x10", "1,5", " 1", "1 ", "+1",  "--1", "1.2.3", "1f" };
        double d = 7;

        /* Where the locale says ',' nothing may change. */
        (void) setlocale(LC_ALL, "de_DE.UTF-8");
        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                assert_int_equal(text_parse_double(good[i].text, &d), 0);
                assert_true(d == good[i].value);
        }
        d = 7;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(text_parse_double(bad[i], &d), -EINVAL);
        assert_int_equal(text_parse_double("1e999", &d), -ERANGE);
        assert_int_equal(text_parse_double("-1e999", &d), -ERANGE);
        assert_true(d == 7);
        (void) setlocale(LC_ALL, "C");
}

static void test_size(void **state) {
        static const struct {
                const char *text;
                unsigned base;
                uint64_t value;
        } good[] = {
                { "0", 1024, 0 },
                { "64G", 1024, 64ULL << 30 },
                { "1.5T", 1024, 3ULL << 39 },
                { "30G", 1000, 30000000000 },
                { ".5K", 1024, 512 },
                { "1P", 1000, 1000000000000000 },
                { "16383P", 1024, 16383ULL << 50 },
                { "18446744073709551615", 1024, UINT64_MAX },
                { "9007199254740993", 1024, 9007199254740993 },
        };
        static const char *const bad[] = { "",    "G",   "64GB", "64g",  "64 G",   "-1G",
                                           "1e3", "inf", "0x10", "64GG", "1.2.3G", "1E" };
        uint64_t v = 7;

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                assert_int_equal(text_parse_size(good[i].text, good[i].base, &v), 0);
                assert_true(v == good[i].value);
        }
        v = 7;
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(text_parse_size(bad[i], 1024, &v), -EINVAL);
        assert_int_equal(text_parse_size("16384P", 1024, &v), -ERANGE);
        assert_int_equal(text_parse_size("16384.0P", 1024, &v), -ERANGE);
        assert_int_equal(text_parse_size("99999999999999999999999", 1024, &v), -ERANGE);
        assert_true(v == 7);
}

static void test_usec(void **state) {
        static const struct {
                const char *text;
                uint64_t value;
        } good[] = { { "5ms", 5000 },  { "2s", 2000000 },   { "1min", 60000000 }, { "250us", 250 },
                     { "3", 3000000 }, { "1.5s", 1500000 }, { "2h", 7200000000 }, { "0", 0 } };
        static const char *const bad[] = { "", "s", "5 ms", "5m", "-1s", "1e3s", "5MS", "infinity" };
        uint64_t v = 7;

        for (size_t i = 0; i < ELEMENTSOF(good); i++) {
                assert_int_equal(text_parse_usec(good[i].text, &v), 0);
                assert_true(v == good[i].value);
        }
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_int_equal(text_parse_usec(bad[i], &v), -EINVAL);
        assert_int_equal(text_parse_usec("99999999999999999d", &v), -ERANGE);
        assert_int_equal(text_parse_bool("Yes"), 1);
        assert_int_equal(text_parse_bool("off"), 0);
        assert_int_equal(text_parse_bool("2"), -EINVAL);
}

static void test_format(void **state) {
        char b[64];

        assert_string_equal(text_format_bytes(b, sizeof(b), 0), "0 B");
        assert_string_equal(text_format_bytes(b, sizeof(b), 1023), "1023 B");
        assert_string_equal(text_format_bytes(b, sizeof(b), 64ULL << 30), "64 GiB");
        assert_string_equal(text_format_bytes(b, sizeof(b), 64746632806), "60.3 GiB");
        assert_string_equal(text_format_bytes(b, sizeof(b), (1ULL << 40) - 1), "1 TiB");
        assert_string_equal(text_format_bytes(b, sizeof(b), UINT64_MAX), "16 EiB");
        assert_string_equal(text_format_rate(b, sizeof(b), 30e9), "30 GB/s");
        assert_string_equal(text_format_rate(b, sizeof(b), 1.25e6), "1.3 MB/s");
        assert_string_equal(text_format_rate(b, sizeof(b), 0), "0 B/s");
}

static void test_strv(void **state) {
        _cleanup_(strv_freep) char **v = NULL, **w = NULL;

        assert_int_equal(strv_length(NULL), 0);
        assert_int_equal(strv_split("  a bb\tc ", " \t", &v), 0);
        assert_int_equal(strv_length(v), 3);
        assert_string_equal(v[1], "bb");
        assert_true(strv_contains(v, "c"));
        assert_false(strv_contains(v, "b"));
        assert_int_equal(strv_extendf(&v, "%d", 7), 0);
        assert_string_equal(v[3], "7");
        assert_int_equal(strv_push(&v, NULL), -ENOMEM);
        assert_int_equal(strv_length(v), 4);
        assert_int_equal(strv_split("", " ", &w), 0);
        assert_non_null(w);
        assert_int_equal(strv_length(w), 0);
}

static void test_fail(void **state) {
        _cleanup_free_ char *m = NULL;

        assert_int_equal(text_fail(-EINVAL, &m, "one %d", 1), -EINVAL);
        assert_int_equal(text_fail(-ERANGE, &m, "two %s", "b"), -ERANGE);
        assert_string_equal(m, "two b");
        assert_int_equal(text_fail(-EIO, NULL, "x"), -EIO);
}

static void test_files(void **state) {
        char dir[] = "/tmp/test-text.XXXXXX", command[128];
        _cleanup_free_ char *file = NULL, *deep = NULL, *fifo = NULL, *text = NULL, *line = NULL, *message = NULL;
        uint64_t u;
        size_t size;

        assert_non_null(mkdtemp(dir));
        file = path_join(dir, "file");
        deep = path_join(dir, "a//b/c");
        fifo = path_join(dir, "fifo");
        assert_int_equal(mkdir_parents(deep, 0700), 0);
        assert_int_equal(mkdir_parents(deep, 0700), 0);
        assert_int_equal(write_file_atomic(file, "12 \nmore", 0640), 0);
        assert_int_equal(mkdir_parents(file, 0700), -ENOTDIR);
        assert_int_equal(read_regular_file(file, 8, &text, &size), 0);
        assert_int_equal(size, 8);
        assert_string_equal(text, "12 \nmore");
        assert_int_equal(read_line_at(AT_FDCWD, file, &line), 0);
        assert_string_equal(line, "12");
        assert_int_equal(read_u64_at(AT_FDCWD, file, &u), 0);
        assert_int_equal(u, 12);
        free(TAKE_PTR(text));
        assert_int_equal(read_regular_file(file, 7, &text, &size), -EFBIG);
        assert_int_equal(read_file_at(AT_FDCWD, file, 7, &text, &size), -EFBIG);
        assert_int_equal(read_file_at(AT_FDCWD, "/proc/self/status", 1 << 20, &text, &size), 0);
        assert_true(size > 500 && strlen(text) == size);
        assert_int_equal(read_regular_file(dir, 99, &line, NULL), -EISDIR);
        assert_int_equal(mkfifo(fifo, 0600), 0);
        assert_int_equal(read_regular_file(fifo, 99, &line, NULL), -EBADFD);
        assert_int_equal(read_file_at(AT_FDCWD, "/dev/zero", 99, &line, NULL), -EBADFD);
        assert_int_equal(read_text_file("/nowhere", 99, &line, NULL, &message), -ENOENT);
        assert_string_equal(message, "/nowhere: cannot be read: No such file or directory");
        assert_int_equal(write_file_at(AT_FDCWD, "/nowhere", "x"), -ENOENT);
        /* A failed replacement leaves the old content and nothing beside it. */
        assert_int_equal(write_file_atomic(deep, "x", 0600), -EISDIR);
        (void) snprintf(command, sizeof(command), "test $(find %s | wc -l) = 6 && rm -r %s", dir, dir);
        assert_int_equal(system(command), 0);
}

static void test_path(void **state) {
        static const char *const cases[][3] = {
                { "/a", "b", "/a/b" }, { "/a/", "b", "/a/b" }, { "/a", "/b", "/a/b" }, { "/a/", "/b", "/a/b" },
                { "", "b", "b" },      { "", "/b", "/b" },     { "/", "b", "/b" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *p = path_join(cases[i][0], cases[i][1]);

                assert_string_equal(p, cases[i][2]);
        }
}

/* A process that calls itself "x\n<0>y" must not get a line of its own. */
static void test_log(void **state) {
        char buf[256];
        int p[2], saved = dup(STDERR_FILENO);
        ssize_t n;

        assert_int_equal(pipe(p), 0);
        assert_true(dup2(p[1], STDERR_FILENO) >= 0);
        log_open("me");
        assert_int_equal(log_error_errno(-ENOENT, "task %s: %m", "x\n<0>y"), -ENOENT);
        assert_int_equal(log_internal(LOG_DEBUG, 0, "hidden"), 0);
        assert_true(dup2(saved, STDERR_FILENO) >= 0);
        (void) close(p[1]);
        n = read(p[0], buf, sizeof(buf) - 1);
        assert_true(n > 0);
        buf[n] = '\0';
        assert_string_equal(buf, "me: task x?<0>y: No such file or directory\n");
        (void) close(p[0]);
        (void) close(saved);
        assert_int_equal(log_level_from_string("debug"), LOG_DEBUG);
        assert_int_equal(log_level_from_string("Error"), LOG_ERR);
        assert_int_equal(log_level_from_string("4"), LOG_WARNING);
        assert_int_equal(log_level_from_string("8"), -EINVAL);
        assert_int_equal(log_level_from_string("loud"), -EINVAL);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole), cmocka_unit_test(test_double), cmocka_unit_test(test_size),
                cmocka_unit_test(test_usec),  cmocka_unit_test(test_format), cmocka_unit_test(test_strv),
                cmocka_unit_test(test_fail),  cmocka_unit_test(test_files),  cmocka_unit_test(test_path),
                cmocka_unit_test(test_log),
        };

        return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
