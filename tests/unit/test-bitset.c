/* SPDX-License-Identifier: Apache-2.0 */
#include "common/bitset.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void assert_format(const Bitset *b, const char *expected) {
        _cleanup_free_ char *s = NULL;

        assert_int_equal(bitset_format(b, &s), 0);
        assert_string_equal(s, expected);
}

static void test_parse_good(void **state) {
        static const char *const cases[][2] = {
                { "", "" },
                { "\n", "" },
                { "0", "0" },
                { "0-3,8", "0-3,8" },
                { "8,0-3\n", "0-3,8" },
                { "1,2,3,5", "1-3,5" },
                { "5-5", "5" },
                { "0-1,1-2", "0-2" },
                { "63-64", "63-64" },
                { "0-65535", "0-65535" },
                { "65535", "65535" },
                { "007", "7" },
                { "0-63,128-191", "0-63,128-191" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;

                assert_int_equal(bitset_parse(cases[i][0], &b), 0);
                assert_format(&b, cases[i][1]);
        }
}

static void test_parse_bad(void **state) {
        static const struct {
                const char *text;
                int r;
        } cases[] = {
                { "x", -EINVAL },
                { "0-", -EINVAL },
                { "-3", -EINVAL },
                { "3-1", -EINVAL },
                { "0,", -EINVAL },
                { ",0", -EINVAL },
                { "0,,1", -EINVAL },
                { " 0", -EINVAL },
                { "0 ", -EINVAL },
                { "0\n\n", -EINVAL },
                { "0-3:1/2", -EINVAL },
                { "0x3", -EINVAL },
                { "1-2-3", -EINVAL },
                { "\n0", -EINVAL },
                { "+1", -EINVAL },
                { "65536", -ERANGE },
                { "0-65536", -ERANGE },
                { "4294967296", -ERANGE },
                { "99999999999999999999999", -ERANGE },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;

                assert_int_equal(bitset_set(&b, 7), 0);
                assert_int_equal(bitset_parse(cases[i].text, &b), cases[i].r);
                assert_format(&b, "7"); /* untouched */
        }
}

static void test_members(void **state) {
        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;
        unsigned n = 0;

        assert_true(bitset_isempty(&b));
        assert_int_equal(bitset_first(&b), -1);
        assert_int_equal(bitset_set(&b, 0), 0);
        assert_int_equal(bitset_set(&b, 63), 0);
        assert_int_equal(bitset_set(&b, 64), 0);
        assert_int_equal(bitset_set(&b, 1500), 0);
        assert_int_equal(bitset_set(&b, BITSET_MAX), -ERANGE);
        assert_int_equal(bitset_set(&b, UINT32_MAX), -ERANGE);
        assert_int_equal(bitset_weight(&b), 4);
        assert_true(bitset_test(&b, 1500));
        assert_false(bitset_test(&b, 1501));
        assert_false(bitset_test(&b, UINT32_MAX));
        assert_int_equal(bitset_next(&b, 64), 1500);
        assert_int_equal(bitset_next(&b, 1500), -1);
        assert_int_equal(bitset_next(&b, INT32_MAX), -1);
        BITSET_FOREACH (i, &b)
                n += (unsigned) i;
        assert_int_equal(n, 0 + 63 + 64 + 1500);
        bitset_clear(&b, 1500);
        bitset_clear(&b, 100000);
        assert_format(&b, "0,63-64");
        bitset_zero(&b);
        assert_true(bitset_isempty(&b));
}

static void test_range(void **state) {
        for (unsigned first = 0; first < 140; first += 7)
                for (unsigned last = first; last < 200; last += 3) {
                        _cleanup_(bitset_done) Bitset b = BITSET_EMPTY;

                        assert_int_equal(bitset_set_range(&b, first, last), 0);
                        assert_int_equal(bitset_weight(&b), last - first + 1);
                        assert_int_equal(bitset_first(&b), first);
                        assert_true(bitset_test(&b, last));
                        assert_false(bitset_test(&b, last + 1));
                }
}

/* Sizes of the arrays differ from the members on purpose: trailing zero words must not matter. */
static void test_algebra(void **state) {
        _cleanup_(bitset_done) Bitset a = BITSET_EMPTY, b = BITSET_EMPTY, c = BITSET_EMPTY;

        assert_int_equal(bitset_parse("0-9,200", &a), 0);
        assert_int_equal(bitset_parse("5-20", &b), 0);
        assert_int_equal(bitset_and_weight(&a, &b), 5);
        assert_true(bitset_intersects(&a, &b));
        assert_int_equal(bitset_copy(&c, &a), 0);
        assert_true(bitset_equal(&c, &a));
        bitset_and(&c, &b);
        assert_format(&c, "5-9");
        assert_true(bitset_subset(&c, &a));
        assert_true(bitset_subset(&c, &b));
        assert_false(bitset_subset(&a, &c));
        assert_int_equal(bitset_copy(&c, &a), 0);
        bitset_andnot(&c, &b);
        assert_format(&c, "0-4,200");
        bitset_clear(&c, 200);
        assert_int_equal(bitset_parse("0-4", &b), 0);
        assert_true(bitset_equal(&b, &c));
        assert_true(bitset_equal(&c, &b));
        assert_int_equal(bitset_or(&b, &a), 0);
        assert_true(bitset_equal(&b, &a));
        bitset_zero(&a);
        assert_true(bitset_subset(&a, &BITSET_EMPTY));
        assert_true(bitset_equal(&a, &BITSET_EMPTY));
        assert_false(bitset_intersects(&a, &b));
        assert_int_equal(bitset_copy(&b, &a), 0);
        assert_true(bitset_isempty(&b));
}

static void test_affinity(void **state) {
        _cleanup_(bitset_done) Bitset old = BITSET_EMPTY, one = BITSET_EMPTY, now = BITSET_EMPTY;

        assert_int_equal(bitset_getaffinity(0, &old), 0);
        assert_false(bitset_isempty(&old));
        assert_int_equal(bitset_set(&one, (unsigned) bitset_first(&old)), 0);
        assert_int_equal(bitset_setaffinity(0, &one), 0);
        assert_int_equal(bitset_getaffinity(0, &now), 0);
        assert_true(bitset_equal(&now, &one));
        assert_int_equal(bitset_setaffinity(0, &BITSET_EMPTY), -EINVAL);
        assert_int_equal(bitset_setaffinity(0, &old), 0);
        assert_int_equal(bitset_getaffinity(0, &now), 0);
        assert_true(bitset_equal(&now, &old));
        assert_int_equal(bitset_getaffinity(INT32_MAX, &now), -ESRCH);
        assert_true(bitset_equal(&now, &old));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_parse_good), cmocka_unit_test(test_parse_bad), cmocka_unit_test(test_members),
                cmocka_unit_test(test_range),      cmocka_unit_test(test_algebra),   cmocka_unit_test(test_affinity),
        };

        return cmocka_run_group_tests_name("bitset", tests, NULL, NULL);
}
