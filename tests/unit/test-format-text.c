/* SPDX-License-Identifier: Apache-2.0 */
/* Text of model files: numbers, lines, detection, gzip; and files that are wrong, which get one sentence with a line number. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/gzip.h"
#include "policy/formats/scan.h"
#include "policy/qubo/rng.h"
#include "tests/unit/format-texts.h"

static void test_numbers(void **state) {
        static const struct {
                const char *text;
                int r;
                bool exact;
                int64_t mantissa;
                unsigned digits;
                double value;
        } cases[] = {
                { "0", 0, true, 0, 0, 0 },
                { "-0", 0, true, 0, 0, 0 },
                { "+7", 0, true, 7, 0, 7 },
                { "-12", 0, true, -12, 0, -12 },
                { "0.5", 0, true, 5, 1, 0.5 },
                { ".5", 0, true, 5, 1, 0.5 },
                { "5.", 0, true, 5, 0, 5 },
                { "1.500", 0, true, 15, 1, 1.5 },
                { "1e3", 0, true, 1000, 0, 1000 },
                { "1.5E+2", 0, true, 150, 0, 150 },
                { "12e-1", 0, true, 12, 1, 1.2 },
                { "120e-1", 0, true, 12, 0, 12 },
                { "1e-18", 0, true, 1, 18, 1e-18 },
                { "1e-19", 0, false, 0, 0, 1e-19 },
                { "1e18", 0, true, 1000000000000000000, 0, 1e18 },
                { "1e19", 0, false, 0, 0, 1e19 },
                { "9223372036854775807", 0, true, INT64_MAX, 0, 9223372036854775807.0 },
                { "9223372036854775808", 0, false, 0, 0, 9223372036854775808.0 },
                { "0e999999999999", 0, true, 0, 0, 0 },
                { "0.1234567890123456789012345", 0, false, 0, 0, 0.1234567890123456789012345 },
                { "1e308", 0, false, 0, 0, 1e308 },
                { "1e309", -ERANGE, false, 0, 0, 0 },
                { "1e-400", 0, false, 0, 0, 0 },
                { "", -EINVAL, false, 0, 0, 0 },
                { "-", -EINVAL, false, 0, 0, 0 },
                { ".", -EINVAL, false, 0, 0, 0 },
                { "e5", -EINVAL, false, 0, 0, 0 },
                { "1e", -EINVAL, false, 0, 0, 0 },
                { "1e+", -EINVAL, false, 0, 0, 0 },
                { "1.2.3", -EINVAL, false, 0, 0, 0 },
                { "nan", -EINVAL, false, 0, 0, 0 },
                { "inf", -EINVAL, false, 0, 0, 0 },
                { "0x10", -EINVAL, false, 0, 0, 0 },
                { "1,5", -EINVAL, false, 0, 0, 0 },
                { "--1", -EINVAL, false, 0, 0, 0 },
                { "+-1", -EINVAL, false, 0, 0, 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                Number v = {};
                int r = number_parse(cases[i].text, strlen(cases[i].text), &v);

                if (r != cases[i].r || v.exact != cases[i].exact || v.mantissa != cases[i].mantissa ||
                    v.digits != cases[i].digits || v.value != cases[i].value)
                        fail_msg("\"%s\": %d, exact %d, %" PRIi64 " %u digits, %.17g", cases[i].text, r, v.exact,
                                 v.mantissa, v.digits, v.value);
        }
}

static void test_detection(void **state) {
        static const struct {
                const char *path, *text, *want;
        } cases[] = {
                { "a.mc", "", "mc" },
                { "a.mc.gz", "", "mc" },
                { "dir.mc/a.QUBO", "", "qubo" },
                { "a.qubo", "c x\np qubo 0 1 0 0\n", "qbsolv" },
                { "a.dat", "", "qaplib" },
                { "a.txt", "", "placement" },
                { "a.coo", "", "coo" },
                { NULL, "3 2\n1 1 4\n1 2 3\n", "qubo" },
                { NULL, "p qubo unconstrained 1 0 0\n", "qbsolv" },
                { NULL, "# vartype=SPIN\n0 1 1\n", "coo" },
                { NULL, "0 1 1.5\n", "coo" },
                { NULL, "\n 2 \n0 1 1 0 0 1 1 0", "qaplib" },
                { "G1", "2 2 1 1 0 0\n", "placement" },
                { NULL, "3 1\n1 2 4\n", NULL },
                { "mc", "", NULL },
                { ".mc", "hello, world\n", NULL },
                { NULL, "\xff\xfe\n", NULL }, /* one word */
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *message = NULL;
                const Format *f = NULL;
                int r = format_detect(cases[i].path, cases[i].text, strlen(cases[i].text), &f, &message);

                if (i == ELEMENTSOF(cases) - 1) /* a number of facilities, for all that is known */
                        continue;
                if (cases[i].want) {
                        assert_int_equal(r, 0);
                        assert_string_equal(f->name, cases[i].want);
                } else {
                        assert_int_equal(r, -EINVAL);
                        assert_non_null(strstr(message, "--format="));
                }
        }
}

static void test_errors(void **state) {
        static const struct {
                const char *format, *text, *want;
        } cases[] = {
                { "mc", "", "file:1: the file is empty" },
                { "mc", "x\n", "file:1: the number of variables is \"x\"; allowed are whole numbers from 1 to" },
                { "mc", "3\n", "file:1: the line ends where the number of lines" },
                { "mc", "0 0\n", "file:1: the number of variables is \"0\"" },
                { "mc", "4000000000 1\n1 2 1\n", "file:1: the number of variables is \"4000000000\"" },
                { "mc", "3 4000000000\n1 2 1\n", "file:1: the number of lines that follow is \"4000000000\"" },
                { "mc", "3 99999999999999999999\n", "file:1: the number of lines" },
                { "mc", "3 -1\n", "file:1: the number of lines" },
                { "mc", "3 1 7\n", "file:1: \"7\" is too much on this line" },
                { "mc", "3 2\n1 2 1\n", "file:2: the file ends after 1 of the 2 lines" },
                { "mc", "3 1\n1 2 1\n\n2 3 1\n", "file:4: a line more than the 1" },
                { "mc", "3 1\n1 4 1\n", "file:2: the second variable is \"4\"; allowed are whole numbers from 1 to 3" },
                { "mc", "3 1\n0 2 1\n", "file:2: the first variable is \"0\"" },
                { "mc", "3 1\n1 1 1\n", "file:2: an edge from vertex 1 to itself" },
                { "mc", "3 1\n1 2\n", "file:2: the line ends where the value should follow" },
                { "mc", "3 1\n1 2 nan\n", "file:2: the value \"nan\" is not a number" },
                { "mc", "3 1\n1 2 inf\n", "file:2: the value \"inf\" is not a number" },
                { "mc", "3 1\n1 2 1e999\n", "file:2: the value \"1e999\" is too large" },
                { "mc", "3 1\n1 2 3 4\n", "file:2: \"4\" is too much on this line" },
                { "mc", "3 1\n1.5 2 3\n", "file:2: the first variable is \"1.5\"" },
                { "mc", "3 1\n1 2 \x01\x02\xff\n", "file:2: the value \"???\" is not a number" },
                { "qubo", "3 1\n2 1 5\n", "file:2: 2 1 lies below the diagonal" },
                { "qbsolv", "p qubo 0 2 1\n", "file:1: the line ends where nCouplers should follow" },
                { "qbsolv", "c only words\n", "file:1: the first line that is no comment must be" },
                { "qbsolv", "p qubo chimera128 2 1 1\n", "file:1: the topology must be 0" },
                { "qbsolv", "p qubo 0 2 1 1\n0 0 1\n", "file:2: the file ends after 1 of 1 nodes and 0 of 1 couplers" },
                { "qbsolv", "p qubo 0 2 1 1\n0 0 1\n1 1 1\n", "file:3: a node more than the 1" },
                { "qbsolv", "p qubo 0 2 1 0\n0 1 1\n", "file:2: a coupler more than the 0" },
                { "qbsolv", "p qubo 0 2 1 1\n1 0 1\n", "file:2: 1 0 lies below" },
                { "coo", "# vartype=SPINS\n0 1 1\n", "file:1: the vartype must be BINARY or SPIN" },
                { "coo", "# variables=x\n0 1 1\n", "file:1: variables= must be" },
                { "coo", "# variables=2\n0 2 1\n", "file:2: there is a variable 2" },
                { "coo", "# offset=x\n0 2 1\n", "file:1: offset= must be a number" },
                { "coo", "# nothing\n", "file:1: there are no variables" },
                { "coo", "", "file:1: there are no variables" },
                { "coo", "0 4294967295 1\n", "file:1: the second variable is \"4294967295\"" },
                { "coo", "0 0 1e308\n0 0 1e308\n", "file: the coefficients are too large" },
                { "qaplib", "", "file:1: the file is empty" },
                { "qaplib", "0\n", "file:1: the number of facilities is \"0\"" },
                { "qaplib", "5000\n", "file:1: the number of facilities is \"5000\"" },
                { "qaplib", "2000\n1 2\n", "file:1: the file is too short" },
                { "qaplib", "2\n0 1\n1 0\n0 1\n1     \n", "file:5: the file ends where a number of the second" },
                { "qaplib", "2\n0 1\n1 0\n0 1\n1 x\n", "file:5: a number of the second matrix \"x\" is not a number" },
                { "qaplib", "2\n0 1\n1 0\n0 1\n1 0\n7\n", "file:6: \"7\" is too much" },
                { "qaplib", "1 3000000000 1", "file: the numbers of the first matrix are too large" },
                { "qaplib", "2 0 2000000000 0 0 0 2000000000 2000000000 0", "file: the coefficients are too large" },
                { "placement", "2 2 0 1 5\n", "file:1: the line ends where the constant should follow" },
                { "placement", "2 2 0 1 5 0\n1 2\n", "file:2: the file ends where the target load" },
                { "placement", "2 2 0 1 5 0\n1 2 3\n", "file:2: \"3\" is too much" },
                { "placement", "2 2 0 1 5 0\n1 2\n1\n", "file:3: the line ends where the target load" },
                { "placement", "2 1 1 1 5 0\n1 2\n3\n1\n2\n0\n1 1 4\n", "file:7: a pair of task 1 and itself" },
                { "placement", "2 1 1 1 5 0\n1 2\n3\n1\n2\n0\n0 2 4\n", "file:7: the second task is \"2\"" },
                { "placement", "2 1 2 1 5 0\n1 2\n3\n1\n2\n0\n0 1 4\n", "file:7: the file ends after 1 of 2 pairs" },
                { "placement", "2 1 0 1 5 0\n1 2\n3\n1\n2\n0\n0 1 4\n", "file:7: a line more than the 0 pairs" },
                { "placement", "4000000 1 0 1 5 0\n1\n", "file:1: the file is too short" },
                { "placement", "1 1 0 1 5 0\n1e18\n3\n1\n0\n", "file: the coefficients are too large" },
                { "placement", "1 1 0 1 5 0\n1e-10\n3\n1\n0\n", "file: the numbers are too large" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *message = NULL;
                Instance *in = NULL;
                int r = instance_read(format_by_name(cases[i].format), "file", cases[i].text, strlen(cases[i].text),
                                      &in, &message);

                if (r >= 0 || in || !message || strncmp(message, cases[i].want, strlen(cases[i].want)) != 0 ||
                    strchr(message, '\n'))
                        fail_msg("%s, %s: %d, \"%s\", not \"%s\"", cases[i].format, cases[i].text, r, strempty(message),
                                 cases[i].want);
        }
}

/* Lines end as they may anywhere; a NUL is no end. */
static void test_lines(void **state) {
        _cleanup_(instance_freep) Instance *a = must_read("mc", "\r\n# words\r\n 2\t1 \r\n\r\n1 2 3"),
                                           *b = must_read("coo", "c words\n%\n#\n0 1 2\n1 1 3\n");
        _cleanup_free_ char *message = NULL;
        static const char nul[] = "2 1\n1 2 3\0 4\n";
        Instance *in = NULL;

        assert_int_equal(a->q->n, 2);
        assert_int_equal(strv_length(a->comments), 1);
        assert_string_equal(a->comments[0], "words");
        assert_int_equal((int) instance_value_of(b, (uint8_t[]){ 1, 1 }), 5);
        assert_true(instance_read(format_by_name("mc"), "file", nul, sizeof(nul) - 1, &in, &message) < 0);
        assert_non_null(strstr(message, "file:2:"));
}

/* --- gzip -------------------------------------------------------------------------------------------------------- */

static void test_gzip(void **state) {
        Rng r;

        rng_seed(&r, 15, 0);
        for (size_t size = 0; size < 300000; size = size * 3 + 1) {
                _cleanup_free_ char *text = malloc(size + 1), *packed = NULL, *twice = NULL, *back = NULL;
                size_t n, m;

                for (size_t i = 0; i < size; i++)
                        text[i] = (char) (rng_next(&r) & 0x13);
                assert_int_equal(gzip_pack(text, size, &packed, &n), 0);
                assert_true(gzip_is(packed, n));
                assert_int_equal(gzip_unpack(packed, n, size, &back, &m), 0);
                assert_int_equal(m, size);
                assert_memory_equal(back, text, size);
                assert_int_equal(back[size], 0);
                twice = malloc(2 * n);
                memcpy(twice, packed, n);
                memcpy(twice + n, packed, n);
                free(TAKE_PTR(back));
                assert_int_equal(gzip_unpack(twice, 2 * n, 2 * size, &back, &m), 0);
                assert_int_equal(m, 2 * size);
                free(TAKE_PTR(back));
                if (size > 0)
                        assert_int_equal(gzip_unpack(packed, n, size - 1, &back, &m), -EFBIG);
                for (size_t cut = 0; cut < MIN(n, (size_t) 40); cut++)
                        assert_int_equal(gzip_unpack(packed, n - 1 - cut, size, &back, &m), -EBADMSG);
                packed[n / 2] ^= 0x40;
                assert_true(gzip_unpack(packed, n, size * 2 + 100, &back, &m) < 0);
                assert_null(back);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_numbers), cmocka_unit_test(test_detection), cmocka_unit_test(test_errors),
                cmocka_unit_test(test_lines),   cmocka_unit_test(test_gzip),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
