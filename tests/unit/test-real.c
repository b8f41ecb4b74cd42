/* SPDX-License-Identifier: Apache-2.0 */
/* The double form: exact at powers of ten and of two, rounded within the bound that is stated. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/real.h"
#include "policy/qubo/rng.h"

typedef struct Case {
        const char *name;
        double w[4]; /* offset, linear 0, linear 1, quadratic */
        double scale;
        int64_t unit, whole[4];
        bool exact;
} Case;

static const Case cases[] = {
        { "whole numbers", { 5, -3, 0, 7 }, 1, 1, { 5, -3, 0, 7 }, true },
        { "nothing", { 0, 0, 0, 0 }, 1, 1, { 0, 0, 0, 0 }, true },
        { "one decimal", { .5, .1, .2, -.3 }, 10, 1, { 5, 1, 2, -3 }, true },
        { "three decimals", { 0, 1.005, 2.675, -1e-3 }, 1000, 1, { 0, 1005, 2675, -1 }, true },
        { "a sixteenth", { 0, .0625, 1, 0 }, 10000, 1, { 0, 625, 10000, 0 }, true },
        { "many binary digits", { 0, 0x1p-30, 0, 3 * 0x1p-30 }, 0x1p30, 1, { 0, 1, 0, 3 }, true },
        { "a common factor", { 1e12, 3e12, 2e12, -1e12 }, 1, 1000000000000, { 1, 3, 2, -1 }, true },
        { "a third", { 0, 1.0 / 3, 0, 1 }, 0, 1, {}, false },
        { "a wide range", { 0, 1e12, 0, 1.5 }, 0, 1, {}, false },
        { "tiny", { 0, 1e-310, 0, 3e-320 }, 0, 1, {}, false },
        { "huge", { 1e300, 1e299, -7e299, 3e298 }, 0, 1, {}, false },
};

static int build(const double w[static 4], RealQubo **ret) {
        int e = real_new(2, ret);

        assert_int_equal(e, 0);
        e |= real_add_offset(*ret, w[0]) | real_add_linear(*ret, 0, w[1]);
        return e | real_add_quadratic(*ret, 1, 1, w[2]) | real_add_quadratic(*ret, 1, 0, w[3]);
}

static void check_points(const Case *c, const RealQubo *r, const Qubo *q, const RealScale *s) {
        for (unsigned bits = 0; bits < 4; bits++) {
                uint8_t x[2] = { bits & 1, bits >> 1 };
                long double value = real_energy(r, x);
                double got = real_value(s, qubo_energy(q, x));

                if (fabsl(got - value) > s->error + 1e-15L * fabsl(value))
                        fail_msg("%s: %g is not %Lg within %g", c->name, got, value, s->error);
        }
}

static void test_cases(void **state) {
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const Case *c = &cases[i];
                _cleanup_(real_freep) RealQubo *r = NULL;
                _cleanup_(qubo_freep) Qubo *q = NULL;
                RealScale s;

                assert_int_equal(build(c->w, &r), 0);
                assert_int_equal(real_quantise(r, &q, &s), 0);
                if (s.exact != c->exact || s.unit != c->unit || (c->exact && s.scale != c->scale))
                        fail_msg("%s: scale %g, unit %lld", c->name, s.scale, (long long) s.unit);
                check_points(c, r, q, &s);
                assert_true(c->exact ? s.error == 0 : s.error > 0);
                if (!c->exact)
                        continue;
                assert_int_equal(q->offset, c->whole[0]);
                assert_int_equal(q->linear[0], c->whole[1]);
                assert_int_equal(q->linear[1], c->whole[2]);
                assert_int_equal(q->row[1] ? q->val[0] : 0, c->whole[3]);
        }
}

/* Ten times .1 is one; in doubles alone it is not. */
static void test_terms_are_whole_before_they_add_up(void **state) {
        _cleanup_(real_freep) RealQubo *r = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        RealScale s;

        assert_int_equal(real_new(1, &r), 0);
        for (unsigned k = 0; k < 10; k++)
                assert_int_equal(real_add_linear(r, 0, .1), 0);
        assert_int_equal(real_add_linear(r, 0, -1), 0);
        assert_int_equal(real_quantise(r, &q, &s), 0);
        assert_true(s.exact);
        assert_int_equal(q->linear[0], 0);
}

static void test_refusals(void **state) {
        _cleanup_(real_freep) RealQubo *r = NULL;
        _cleanup_(qubo_freep) Qubo *q = NULL;
        RealScale s;

        assert_int_equal(real_new(UINT32_MAX, &r), -EOVERFLOW);
        assert_int_equal(real_new(2, &r), 0);
        assert_int_equal(real_add_linear(r, 2, 1), -EINVAL);
        assert_int_equal(real_add_quadratic(r, 0, 2, 1), -EINVAL);
        assert_int_equal(real_add_quadratic(r, 0, UINT32_MAX, 1), -EINVAL);
        assert_int_equal(real_add_linear(r, 0, NAN), -EINVAL);
        assert_int_equal(real_add_offset(r, -INFINITY), -EINVAL);
        for (unsigned k = 0; k < 3; k++)
                assert_int_equal(real_add_linear(r, 0, 1e308), 0);
        assert_int_equal(real_quantise(r, &q, &s), -EOVERFLOW);
        assert_null(q);
}

static void test_targets(void **state) {
        static const struct {
                RealScale s;
                double value;
                int64_t target;
        } targets[] = {
                { { .scale = 10, .unit = 1 }, .3, 3 },
                { { .scale = 10, .unit = 1 }, -.3, -3 },
                { { .scale = 100, .unit = 1 }, 1.15, 115 },
                { { .scale = 10, .unit = 1 }, .39, 3 },
                { { .scale = 10, .unit = 1 }, -.31, -4 },
                { { .scale = 1, .unit = 1000 }, 2999, 2 },
                { { .scale = 1, .unit = 1000 }, -2999, -3 },
                { { .scale = 1, .unit = 1 }, 1e300, INT64_MAX },
                { { .scale = 1, .unit = 1 }, -1e300, INT64_MIN },
        };

        for (size_t i = 0; i < ELEMENTSOF(targets); i++)
                assert_int_equal(real_target(&targets[i].s, targets[i].value), targets[i].target);
}

/* Decimals of up to six digits after the point are always exact; any doubles stay within the error. */
static void test_random(void **state) {
        static const double ten[] = { 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6 };
        Rng rng;

        for (unsigned m = 0; m < 2000; m++) {
                _cleanup_(real_freep) RealQubo *r = NULL;
                _cleanup_(qubo_freep) Qubo *q = NULL;
                bool decimals = m % 2;
                uint8_t x[20];
                RealScale s;

                rng_seed(&rng, 77, m);
                assert_int_equal(real_new(20, &r), 0);
                for (unsigned k = 0; k < 200; k++) {
                        double w = (double) ((int64_t) (rng_next(&rng) % 2000001) - 1000000);

                        w = decimals ? w / ten[m / 2 % 7] : w / (double) (1 + rng_below(&rng, 1000000));
                        assert_int_equal(real_add_quadratic(r, rng_below(&rng, 20), rng_below(&rng, 20), w), 0);
                }
                assert_int_equal(real_quantise(r, &q, &s), 0);
                assert_true(s.exact == decimals);
                for (unsigned k = 0; k < 20; k++) {
                        long double value;

                        for (unsigned i = 0; i < 20; i++)
                                x[i] = rng_next(&rng) >> 63;
                        value = real_energy(r, x);
                        assert_true(fabsl(real_value(&s, qubo_energy(q, x)) - value) <= s.error + 1e-9L);
                        assert_true(s.error < 1);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_cases),    cmocka_unit_test(test_terms_are_whole_before_they_add_up),
                cmocka_unit_test(test_refusals), cmocka_unit_test(test_targets),
                cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
