/* SPDX-License-Identifier: Apache-2.0 */
#include "common/ini.h"

#include <errno.h>
#include <setjmp.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "common/bitset.h"

static Ini *parse(const char *text) {
        _cleanup_free_ char *message = NULL;
        Ini *ini = NULL;

        if (ini_parse("t", text, strlen(text), &ini, &message) < 0)
                fail_msg("%s", strempty(message));
        return ini;
}

static void test_structure(void **state) {
        _cleanup_(ini_freep)
                Ini *ini = parse("\xef\xbb\xbf# head\r\n\r\n  [Device npu0]  ; which\r\nKind = ascend # it is\r\n"
                                 "[link a:1 B]\nType=HCCS\n\n[Empty]\n[Last]\nx=1");

        assert_int_equal(ini->n_sections, 4);
        assert_string_equal(ini->sections[0].type, "Device");
        assert_string_equal(ini->sections[0].args[0], "npu0");
        assert_int_equal(ini->sections[0].line, 3);
        assert_string_equal(ini->sections[0].items[0].key, "Kind");
        assert_string_equal(ini->sections[0].items[0].value, "ascend");
        assert_int_equal(ini->sections[0].items[0].line, 4);
        assert_string_equal(ini->sections[1].type, "link");
        assert_string_equal(ini->sections[1].args[0], "a:1");
        assert_string_equal(ini->sections[1].args[1], "B");
        assert_null(ini->sections[1].args[2]);
        assert_null(ini->sections[2].args);
        assert_int_equal(ini->sections[2].n_items, 0);
        assert_string_equal(ini->sections[3].items[0].value, "1");
        assert_int_equal(ini->sections[3].items[0].line, 10);
}

static void test_find(void **state) {
        _cleanup_(ini_freep) Ini *ini = parse("[Job]\nName=a\n\n[ranks x]\nCount=2\n[Ranks y]\n");
        _cleanup_free_ char *message = NULL;
        const IniSection *s = ini_find_section(ini, "Ranks");

        assert_non_null(s);
        assert_string_equal(s->args[0], "x"); /* the first of them, in whatever case */
        assert_null(ini_find_section(ini, "Traffic"));
        assert_int_equal(ini_find_item(s, "count")->line, 5);
        assert_null(ini_find_item(s, "Name")); /* in another section */
        assert_string_equal(ini_find_value(s, "Count"), "2");
        assert_null(ini_find_value(s, "CPUs"));
        assert_int_equal(ini_item_line(s, "Count"), 5);
        assert_int_equal(ini_item_line(s, "CPUs"), 4);
        assert_int_equal(ini_fail(&message, ini, s->line, "no %s", "good"), -EBADMSG);
        assert_string_equal(message, "t:4: no good");
}

/* What iniparser alone would cut, fold, join or lose. */
static void test_values(void **state) {
        static const char *const cases[][2] = {
                { "a", "a" },
                { "  a b  ", "a b" },
                { "", "" },
                { "\"\"", "" },
                { "''", "''" },
                { "\"  a  \"", "  a  " },
                { "\"a ; b # c\" # d", "a ; b # c" },
                { "a;b#c", "a;b#c" },
                { "a ;b", "a" },
                { "a\t# b", "a" },
                { " # only a comment", "" },
                { "#a", "#a" },
                { "a=b:c", "a=b:c" },
                { "cmdline:*x*", "cmdline:*x*" },
                { "c:\\dir\\", "c:\\dir\\" },
                { "\"c:\\dir\\\"", "c:\\dir\\" },
                { "say \"hi\"", "say \"hi\"" },
                { "it's", "it's" },
                { "it's \"both\" '\"", "it's \"both\" '\"" },
                { "'quoted'", "'quoted'" },
                { "%s%n%d", "%s%n%d" },
                { "[x]", "[x]" },
                { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(ini_freep) Ini *ini = NULL;
                char text[256];

                (void) snprintf(text, sizeof(text), "[S]\nKeY=%s\nnext=1\n", cases[i][0]);
                ini = parse(text);
                assert_string_equal(ini->sections[0].items[0].key, "KeY");
                assert_string_equal(ini->sections[0].items[0].value, cases[i][1]);
                assert_string_equal(ini->sections[0].items[1].value, "1");
        }
}

static void test_bad(void **state) {
        static const char *const cases[][2] = {
                { "x=1\n", "t:1: x= stands before the first [Section]" },
                { "[S]\nnonsense\n", "t:2: not a [Section], a Key=Value or a comment: \"nonsense\"" },
                { "[S]\n=1\n", "t:2: a key is 1 to 64 letters" },
                { "[S]\nä=1\n", "t:2: not a [Section], a Key=Value" },
                { "[S]\na b=1\n", "t:2: not a [Section], a Key=Value" },
                { "[S\nx=1\n", "t:1: not a section heading" },
                { "[S] x\n", "t:1: not a section heading" },
                { "[[S]]\n", "t:1: not a section heading" },
                { "[]\n", "t:1: a section heading starts with a word" },
                { "[a:b]\n", "t:1: a section heading starts with a word" },
                { "[S]\nx=1\nX=2\n", "t:3: X= is given twice in this section, first in line 2" },
                { "[S a]\n[T]\n[s a]\n", "t:3: section [s a] is there twice, first in line 1" },
                { "[S]\nx=\"abc\n", "t:2: the value of x has no closing quote" },
                { "[S]\nx=\"abc\" d\n", "t:2: characters follow the closing quote of the value of x" },
                { "[S]\nx=\x01\n", "t:2: byte 0x01 in column 3 is not text" },
                { "[S]\n# \x7f\n", "t:2: byte 0x7f in column 3" },
                { "[S]\nx=a\rb\n", "t:2: byte 0x0d in column 4" },
                { "[S]\nx=\xc0\x80\n", "t:2: byte 0xc0 in column 3" },
                { "[S]\nx=\xed\xa0\x80\n", "t:2: byte 0xed in column 3" },
                { "[S]\nx=\xf4\x90\x80\x80\n", "t:2: byte 0xf4 in column 3" },
                { "[S]\nx=\xe2\x82", "t:2: byte 0xe2 in column 3" },
                { "\x7f"
                  "ELF\x02",
                  "t:1: byte 0x7f in column 1" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(ini_freep) Ini *ini = NULL;
                _cleanup_free_ char *message = NULL;

                assert_int_equal(ini_parse("t", cases[i][0], strlen(cases[i][0]), &ini, &message), -EBADMSG);
                assert_null(ini);
                if (!message || strncmp(message, cases[i][1], strlen(cases[i][1])) != 0)
                        fail_msg("\"%s\" instead of \"%s\"", strempty(message), cases[i][1]);
        }
}

static void test_nul(void **state) {
        static const char text[] = "[S]\nx=a\0b\n";
        _cleanup_(ini_freep) Ini *ini = NULL;
        _cleanup_free_ char *message = NULL;

        assert_int_equal(ini_parse("t", text, sizeof(text) - 1, &ini, &message), -EBADMSG);
        assert_non_null(strstr(message, "t:2: byte 0x00 in column 4"));
}

/* A value of n times 'a'. */
static int parse_long_value(size_t n, Ini **ret, char **ret_message) {
        _cleanup_free_ char *text = malloc(n + 6);

        memcpy(text, "[S]\nx=", 6);
        memset(text + 6, 'a', n);
        return ini_parse("t", text, n + 6, ret, ret_message);
}

static void test_limits(void **state) {
        _cleanup_(ini_freep) Ini *ini = NULL, *none = NULL;
        _cleanup_free_ char *message = NULL;

        assert_int_equal(parse_long_value(INI_VALUE_MAX, &ini, &message), 0);
        assert_int_equal(strlen(ini->sections[0].items[0].value), INI_VALUE_MAX);
        assert_int_equal(parse_long_value(INI_VALUE_MAX + 1, &none, &message), -EBADMSG);
        assert_string_equal(message, "t:2: the value of x is longer than 900 bytes");
        assert_int_equal(parse_long_value(INI_FILE_MAX, &none, &message), -EFBIG);
        assert_string_equal(message, "t: more than 4 MiB of text");
}

static void test_many(void **state) {
        _cleanup_(ini_freep) Ini *ini = NULL, *none = NULL;
        _cleanup_free_ char *text = NULL, *message = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        for (unsigned i = 0; i < 10000; i++)
                fprintf(f, "[Device d%u]\nKind=k%u\n", i, i);
        fflush(f);
        assert_int_equal(ini_parse("t", text, size, &ini, &message), 0);
        assert_int_equal(ini->n_sections, 10000);
        assert_string_equal(ini->sections[9999].items[0].value, "k9999");
        for (unsigned i = 10000; i < 20000; i++)
                fprintf(f, "[Device d%u]\nKind=k%u\n", i, i);
        fclose(f);
        assert_int_equal(ini_parse("t", text, size, &none, &message), -EBADMSG);
        assert_string_equal(message, "t:30001: too many sections and keys, at most 30000 are allowed");
}

static void test_load(void **state) {
        char dir[] = "/tmp/test-ini.XXXXXX", path[64];
        _cleanup_(ini_freep) Ini *ini = NULL;
        _cleanup_free_ char *message = NULL;
        FILE *f;

        assert_non_null(mkdtemp(dir));
        assert_int_equal(ini_load(dir, &ini, &message), -EISDIR);
        assert_non_null(strstr(message, "is a directory"));
        (void) snprintf(path, sizeof(path), "%s/x", dir);
        assert_int_equal(ini_load(path, &ini, &message), -ENOENT);
        assert_non_null(strstr(message, "/x: cannot be read: No such file"));
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_int_equal(ini_load(path, &ini, &message), -EBADFD);
        assert_int_equal(unlink(path), 0);
        f = fopen(path, "w");
        assert_int_equal(ftruncate(fileno(f), 100 << 20), 0);
        assert_int_equal(ini_load(path, &ini, &message), -EFBIG);
        assert_non_null(strstr(message, "larger than 4096 KiB"));
        assert_int_equal(ftruncate(fileno(f), 0), 0);
        fputs("[A]\nb=c\n", f);
        fclose(f);
        assert_int_equal(ini_load(path, &ini, &message), 0);
        assert_string_equal(ini->label, path);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(rmdir(dir), 0);
}

typedef struct Target {
        bool flag;
        unsigned count;
        int cores, color;
        double ratio, rate;
        uint64_t time, size;
        char *name, **words;
        Bitset cpus;
} Target;

static const char *const colors[] = { "red", "green", NULL };
static const char *const autos[] = { "auto", NULL };
static const ConfigItem items[] = {
        { "A", "Flag", CONFIG_BOOL, 0, 0, "yes", offsetof(Target, flag), NULL, "" },
        { "A", "Count", CONFIG_UINT, 1, 1024, "4", offsetof(Target, count), NULL, "" },
        { "A", "Cores", CONFIG_INT, 0, 8, "auto", offsetof(Target, cores), autos, "" },
        { "A", "Color", CONFIG_ENUM, 0, 0, "green", offsetof(Target, color), colors, "" },
        { "A", "Ratio", CONFIG_DOUBLE, 0, 1, "0.05", offsetof(Target, ratio), NULL, "" },
        { "A", "Rate", CONFIG_RATE, 0, 1e15, "30G", offsetof(Target, rate), NULL, "" },
        { "A", "Time", CONFIG_USEC, 1000, 60e6, "5ms", offsetof(Target, time), NULL, "" },
        { "A", "Size", CONFIG_SIZE, 0, 0x1p50, "64G", offsetof(Target, size), NULL, "" },
        { "A", "Name", CONFIG_STRING, 0, 0, "x", offsetof(Target, name), NULL, "" },
        { "A", "Words", CONFIG_STRV, 0, 0, "a b", offsetof(Target, words), NULL, "" },
        { "A", "Cpus", CONFIG_BITSET, 0, 0, "0-3", offsetof(Target, cpus), NULL, "" },
        { "B", "Count", CONFIG_UINT, 0, 1, NULL, offsetof(Target, count), NULL, "" },
        {},
};

static void assert_defaults(const Target *t) {
        assert_true(t->flag);
        assert_int_equal(t->count, 4);
        assert_int_equal(t->cores, -1);
        assert_int_equal(t->color, 1);
        assert_true(t->ratio == 0.05 && t->rate == 30e9);
        assert_true(t->time == 5000 && t->size == 64ULL << 30);
        assert_string_equal(t->name, "x");
        assert_int_equal(strv_length(t->words), 2);
        assert_int_equal(bitset_weight(&t->cpus), 4);
}

static void test_table(void **state) {
        _cleanup_(ini_freep) Ini *ini = parse(
                "[a]\nflag=no\nCOUNT=1024\nCores=8\nColor=RED\nRatio=1\nRate=1.5K\nTime=1min\nSize=1K\n"
                "Name=\"long name\"\nWords=c  d e\nCpus=\n");
        _cleanup_free_ char *message = NULL;
        Target t = {};

        assert_int_equal(config_defaults(items, "A", &t), 0);
        assert_defaults(&t);
        assert_int_equal(config_section_fill(ini, &ini->sections[0], items, &t, &message), 0);
        assert_false(t.flag);
        assert_true(t.count == 1024 && t.cores == 8 && t.color == 0 && t.ratio == 1 && t.rate == 1500 &&
                    t.time == 60000000);
        assert_int_equal(t.size, 1024);
        assert_string_equal(t.name, "long name");
        assert_int_equal(strv_length(t.words), 3);
        assert_true(bitset_isempty(&t.cpus));
        config_done(items, "A", &t);
        assert_null(t.name);
}

/* Each bad line comes after good ones: none of them may have been taken. */
static void test_table_bad(void **state) {
        static const char *const cases[][2] = {
                { "Count=0", "t:4: Count=0 is out of range, allowed: 1 to 1024" },
                { "Count=1025", "t:4: Count=1025 is out of range, allowed: 1 to 1024" },
                { "Count=99999999999999999999", "t:4: Count=99999999999999999999 is out of range" },
                { "Count=-1", "t:4: Count=-1 is not a whole number, allowed: 1 to 1024" },
                { "Count=1e2", "t:4: Count=1e2 is not a whole number" },
                { "Count=0x10", "t:4: Count=0x10 is not a whole number" },
                { "Count=", "t:4: Count= has no value, allowed: 1 to 1024" },
                { "Cores=-1", "t:4: Cores=-1 is out of range, allowed: 0 to 8, auto" },
                { "Cores=9", "t:4: Cores=9 is out of range" },
                { "Color=blue", "t:4: Color=blue is not one of: red, green" },
                { "Flag=maybe", "t:4: Flag=maybe is not yes or no" },
                { "Ratio=nan", "t:4: Ratio=nan is not a number, allowed: 0 to 1" },
                { "Ratio=inf", "t:4: Ratio=inf is not a number, allowed: 0 to 1" },
                { "Ratio=1e999", "t:4: Ratio=1e999 is out of range, allowed: 0 to 1" },
                { "Ratio=-0.1", "t:4: Ratio=-0.1 is out of range" },
                { "Rate=fast",
                  "t:4: Rate=fast is not bytes per second (K M G T P are powers of 1000), allowed: 0 B/s to 1 PB/s" },
                { "Time=1us", "t:4: Time=1us is out of range, allowed: 1ms to 1min" },
                { "Time=5 ms", "t:4: Time=5 ms is not a time (us ms s min h d), allowed: 1ms to 1min" },
                { "Size=2P", "t:4: Size=2P is out of range, allowed: 0 B to 1 PiB" },
                { "Cpus=3-1", "t:4: Cpus=3-1 is not a list of numbers such as 0-3,8" },
                { "Nope=1",
                  "t:4: [A] has no key Nope=, allowed: Flag, Count, Cores, Color, Ratio, Rate, Time, Size, Name, Words, Cpus" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_(ini_freep) Ini *ini = NULL;
                _cleanup_free_ char *message = NULL;
                char text[256];
                Target t = {};

                (void) snprintf(text, sizeof(text), "[A]\nName=other\nWords=z\n%s\n", cases[i][0]);
                ini = parse(text);
                assert_int_equal(config_defaults(items, "A", &t), 0);
                assert_int_equal(config_section_fill(ini, &ini->sections[0], items, &t, &message), -EBADMSG);
                if (!message || strncmp(message, cases[i][1], strlen(cases[i][1])) != 0)
                        fail_msg("\"%s\" instead of \"%s\"", strempty(message), cases[i][1]);
                assert_defaults(&t);
                config_done(items, "A", &t);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_structure), cmocka_unit_test(test_find), cmocka_unit_test(test_values),
                cmocka_unit_test(test_bad),       cmocka_unit_test(test_nul),  cmocka_unit_test(test_limits),
                cmocka_unit_test(test_many),      cmocka_unit_test(test_load), cmocka_unit_test(test_table),
                cmocka_unit_test(test_table_bad),
        };

        return cmocka_run_group_tests_name("ini", tests, NULL, NULL);
}
