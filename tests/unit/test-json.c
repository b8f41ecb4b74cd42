/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/json.h"

static void assert_json(json_t *j, const char *text) { /* takes j */
        char *got;

        assert_non_null(j);
        got = json_dumps(j, JSON_COMPACT | JSON_ENCODE_ANY);
        assert_non_null(got);
        assert_string_equal(got, text);
        free(got);
        json_decref(j);
}

static void test_sets(void **state) {
        Bitset b = BITSET_EMPTY;

        assert_json(json_bitset(&b), "\"\"");
        assert_int_equal(bitset_parse("0-3,8", &b), 0);
        assert_json(json_bitset(&b), "\"0-3,8\"");
        bitset_done(&b);
}

static void test_text(void **state) {
        assert_json(json_text(NULL), "null");
        assert_json(json_text("größer"), "\"größer\"");
        assert_json(json_text("bad \xff\xc3 byte"), "\"bad \?\? byte\"");
        assert_json(json_text("\xff\n"), "\"?\?\""); /* cut down to what is plain, once anything is wrong */
}

static void test_lists(void **state) {
        char *v[] = { (char *) "one", (char *) "t\xffo", NULL };

        assert_json(json_strv(NULL), "[]");
        assert_json(json_strv(v), "[\"one\",\"t?o\"]");
}

static void test_numbers(void **state) {
        assert_json(json_real_or_null(1.5), "1.5");
        assert_json(json_real_or_null(NAN), "null");
        assert_json(json_real_or_null(INFINITY), "null");
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sets),
                cmocka_unit_test(test_text),
                cmocka_unit_test(test_lists),
                cmocka_unit_test(test_numbers),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
