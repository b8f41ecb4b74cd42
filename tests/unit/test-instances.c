/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every instance of tests/data/instances: read, solved with a budget of sweeps, compared with the best value known. Nearly
 * all reach it; those of which only a part of the way is asked say how much.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <zlib.h>

#include "common/text.h"
#include "policy/formats/format.h"
#include "policy/qubo/solver.h"

#define FILE_MAX ((size_t) 16 << 20)

/* Sweeps that are enough, by folder or file, the first that fits; and per cent off the best value where more would take too long. */
static const struct {
        const char *name;
        uint64_t sweeps;
        double off;
} budgets[] = {
        { "gset/G14.mc", 2000, .5 },    { "gset/G22.mc", 2000, .2 },
        { "gset/G32.mc", 2000, 1 },     { "gset/", 4000, 0 },
        { "placement/", 4000, 0 },      { "qaplib/tai50a", 100000, 2 },
        { "qaplib/sko100", 100000, 1 }, { "qaplib/tai100b", 400000, 2 },
        { "qaplib/", 1000000, 0 },      { "", 100000, 0 },
};

static char *read_text(const char *path, size_t *ret_size) {
        char *text = calloc(FILE_MAX + 1, 1);
        gzFile f = gzopen(path, "rb");
        int n;

        assert_non_null(text);
        if (!f)
                fail_msg("%s: %s", path, strerror(errno));
        n = gzread(f, text, FILE_MAX);
        gzclose(f);
        assert_true(n > 0);
        *ret_size = (size_t) n;
        return text;
}

static char *path_of(const char *name) {
        const char *top = getenv("TOP_SRCDIR");
        char *path = NULL;

        assert_true(asprintf(&path, "%s/tests/data/instances/%s", top ?: ".", name) > 0);
        return path;
}

static Instance *read_instance(const char *name) {
        _cleanup_free_ char *with_end = NULL, *path = NULL, *text = NULL, *message = NULL;
        Instance *in = NULL;
        size_t size;

        assert_true(asprintf(&with_end, "%s.gz", name) > 0);
        path = path_of(with_end);
        text = read_text(path, &size);
        if (instance_read(format_by_suffix(name), name, text, size, &in, &message) < 0)
                fail_msg("%s", message);
        return in;
}

static void solve_one(const char *name, double best) {
        Instance *in = read_instance(name);
        SolveParams p = { .seed = 1 };
        SolveResult r = {};
        size_t k = 0;
        double value;

        while (strncmp(name, budgets[k].name, strlen(budgets[k].name)) != 0)
                k++;
        p.sweeps = budgets[k].sweeps;
        p.has_target = true;
        p.target = instance_target(in, best);
        assert_int_equal(qubo_solve(in->q, solver_by_name("auto"), &p, &r), 0);
        value = (double) instance_value(in, r.energy);
        assert_true(value == (double) instance_value_of(in, r.x));
        if (in->maximise ? value > best : value < best)
                fail_msg("%s: %.0f is better than the best value known, %.0f: look into it", name, value, best);
        if (fabs(value - best) > budgets[k].off / 100 * fabs(best))
                fail_msg("%s: %.0f, the best is %.0f (%.2f %% off) by %s", name, value, best,
                         100 * fabs(value - best) / fabs(best), r.solver);
        solve_result_done(&r);
        instance_free(in);
}

static void solve_all(const char *folder) {
        _cleanup_free_ char *path = path_of("best_known.tsv");
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        char line[512], name[64];
        unsigned n = 0;
        double best;

        assert_non_null(f);
        while (fgets(line, sizeof(line), f))
                if (sscanf(line, "%63s %*s %*s %lf", name, &best) == 2 && strncmp(name, folder, strlen(folder)) == 0) {
                        solve_one(name, best);
                        n++;
                }
        assert_true(n > 0);
}

static void test_gset(void **state) {
        solve_all("gset/");
}

static void test_dense(void **state) {
        solve_all("bqp/");
        solve_all("be/");
        solve_all("gka/");
}

static void test_qaplib(void **state) {
        solve_all("qaplib/");
}

/* best_known.tsv has values of the form with penalties; these are costs. */
static void test_placement(void **state) {
        solve_one("placement/place_16x8.txt", 419);
        solve_one("placement/place_64x16_nolb.txt", 938);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_gset),
                cmocka_unit_test(test_dense),
                cmocka_unit_test(test_qaplib),
                cmocka_unit_test(test_placement),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
