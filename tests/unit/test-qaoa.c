/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated QAOA circuit against a plain one in double precision whose mixers are exponentials of the Hamiltonians'
 * matrices, by their series; the kernels of every instruction set against each other, bit by bit; the solver against brute
 * force.
 */
#include <complex.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/qubo/qaoa-state.h"
#include "tests/unit/qubo-models.h"

typedef double complex Complex;

typedef struct Item {
        uint32_t first, size;
        bool qubit;
} Item;

typedef struct Reference {
        const Qubo *q;
        Item items[64];
        unsigned n_items;
        size_t points;
        uint8_t *x; /* points x n */
        Complex *a;
} Reference;

static void reference_init(Reference *r, const Qubo *q) {
        *r = (Reference){ .q = q, .points = 1 };
        for (uint32_t v = 0; v < q->n;) {
                uint32_t g = q->group_of[v], size = g == QUBO_NO_GROUP ? 1 : q->group_size[g];

                r->items[r->n_items++] = (Item){ .first = v,
                                                 .size = MAX(size, g == QUBO_NO_GROUP ? 2U : 1U),
                                                 .qubit = g == QUBO_NO_GROUP };
                r->points *= r->items[r->n_items - 1].size;
                v += size;
        }
        r->x = calloc(r->points * (q->n + 1), 1);
        r->a = calloc(r->points, sizeof(*r->a));
        for (size_t p = 0; p < r->points; p++) {
                size_t left = p;

                for (unsigned i = 0; i < r->n_items; i++, left /= r->items[i - 1].size) {
                        uint32_t c = (uint32_t) (left % r->items[i].size);

                        if (r->items[i].qubit)
                                r->x[p * q->n + r->items[i].first] = (uint8_t) c;
                        else
                                r->x[p * q->n + r->items[i].first + c] = 1;
                }
                r->a[p] = 1 / sqrt((double) r->points);
        }
}

static void reference_done(Reference *r) {
        free(r->x);
        free(r->a);
}

/* exp(i angle A), A the complete graph's adjacency matrix: on one-hot bits, the sum of (X_j X_k + Y_j Y_k) / 2. */
static void exponential(uint32_t d, double angle, Complex *m) {
        Complex term[256], next[256];

        assert_true(d <= 16);
        for (uint32_t i = 0; i < d * d; i++)
                m[i] = term[i] = i % (d + 1) == 0;
        for (unsigned k = 1; k < 200; k++) {
                for (uint32_t i = 0; i < d; i++)
                        for (uint32_t j = 0; j < d; j++) {
                                next[i * d + j] = 0;
                                for (uint32_t l = 0; l < d; l++)
                                        if (l != j)
                                                next[i * d + j] += term[i * d + l] * I * angle / k;
                        }
                for (uint32_t i = 0; i < d * d; i++)
                        m[i] += term[i] = next[i];
        }
}

/* Of a group too wide for the series, by the closed form that it bears out for the others. */
static void reference_mix(Reference *r, uint32_t d, size_t stride, double beta) {
        Complex m[256], in[16], all = 0;
        bool wide = d > ELEMENTSOF(in);

        if (!wide)
                exponential(d, 2 * beta / d, m);
        for (size_t p = 0; p < r->points; p++) {
                if (p / stride % d != 0)
                        continue;
                all = 0;
                for (uint32_t j = 0; j < d; j++)
                        all += r->a[p + j * stride];
                for (uint32_t j = 0; j < d && !wide; j++)
                        in[j] = r->a[p + j * stride];
                for (uint32_t j = 0; j < d; j++) {
                        Complex sum = wide ? r->a[p + j * stride] + (cexp(2 * I * beta) - 1) / d * all : 0;

                        for (uint32_t k = 0; k < d && !wide; k++)
                                sum += m[j * d + k] * in[k];
                        r->a[p + j * stride] = sum;
                }
        }
}

static void reference_layer(Reference *r, double gamma, double beta) {
        size_t stride = 1;

        for (size_t p = 0; p < r->points; p++)
                r->a[p] *= cexp(-I * fmod(gamma * (double) qubo_energy(r->q, r->x + p * r->q->n), 2 * M_PI));
        for (unsigned i = 0; i < r->n_items; i++) {
                reference_mix(r, r->items[i].size, stride, beta);
                stride *= r->items[i].size;
        }
}

/* The largest difference of any amplitude, once the common phase is taken off. */
static double difference(const Reference *r, const QaoaState *s) {
        Complex overlap = 0;
        double most = 0;

        for (unsigned pass = 0; pass < 2; pass++)
                for (size_t p = 0; p < r->points; p++) {
                        double a[2];
                        Complex z;

                        qaoa_amplitude(s, r->x + p * r->q->n, a);
                        z = a[0] + I * a[1];
                        if (pass == 0)
                                overlap += z * conj(r->a[p]);
                        else
                                most = MAX(most, cabs(z * conj(overlap) / cabs(overlap) - r->a[p]));
                }
        return most;
}

static double reference_expectation(const Reference *r) {
        double sum = 0;

        for (size_t p = 0; p < r->points; p++)
                sum += creal(r->a[p] * conj(r->a[p])) * (double) qubo_energy(r->q, r->x + p * r->q->n);
        return sum;
}

static const RandomShape shapes[] = {
        { .n_max = 0, .size_max = 1, .range = 5 },
        { .n_max = 1, .size_max = 1, .range = 5 },
        { .n_max = 3, .size_max = 1, .density = 100, .range = 5 },
        { .n_max = 9, .size_max = 1, .density = 100, .range = 5 },
        { .n_max = 13, .size_max = 1, .density = 50, .range = 1 },
        { .n_max = 14, .n_groups = 14, .size_max = 1, .density = 50, .range = 9 },
        { .n_max = 14, .n_groups = 14, .size_max = 2, .density = 50, .range = 9 },
        { .n_max = 16, .n_groups = 16, .size_max = 4, .density = 50, .range = 9 },
        { .n_max = 16, .n_groups = 2, .size_max = 4, .density = 50, .range = 9 },
        { .n_max = 20, .n_groups = 4, .size_max = 11, .density = 50, .range = 9 },
        { .n_max = 20, .n_groups = 4, .size_max = 11, .density = 100, .range = INT32_MAX },
        { .n_max = 16, .n_groups = 1, .size_max = 16, .density = 50, .range = 9 },
        { .n_max = 12, .n_groups = 2, .size_max = 4, .density = 100, .range = 0 },
};

#define MODELS_PER_SHAPE 40

/* Fixed sizes that need every kind of pass. */
static const struct {
        uint32_t qubits, groups, size;
} large[] = { { 16, 0, 0 }, { 17, 0, 0 }, { 5, 4, 6 },   { 2, 9, 3 },    { 0, 5, 8 },
              { 0, 4, 13 }, { 1, 2, 90 }, { 0, 2, 130 }, { 3, 1, 2000 }, { 1, 1, 2000 } };

static void check_model(const Qubo *q, Rng *rng) {
        static const double angles[] = { 0, 0.4, -0.7, 1.2, M_PI / 2, 1.5, 3, -4.5 };
        _cleanup_(qaoa_state_freep) QaoaState *s = NULL;
        double gamma[3], beta[3], expectation, deviation;
        SolveParams p = {};
        unsigned layers = 1 + rng_below(rng, 3);
        Reference r;
        Limit l;

        limit_init(&l, &p);
        assert_int_equal(qaoa_state_new(q, kernels_best(), &l, &s), 0);
        reference_init(&r, q);
        assert_int_equal(qaoa_state_shape(s)->amplitudes, r.points);
        deviation = qaoa_state_energies(s)->deviation;
        for (unsigned i = 0; i < layers; i++) {
                gamma[i] = angles[rng_below(rng, 6)] / MAX(deviation, 1.0);
                beta[i] = angles[rng_below(rng, ELEMENTSOF(angles))];
                reference_layer(&r, gamma[i], beta[i]);
        }
        assert_int_equal(qaoa_run(s, layers, gamma, beta), 0);
        assert_true(difference(&r, s) * sqrt((double) r.points) < 3e-5);
        assert_int_equal(qaoa_expectation(s, &expectation), 0);
        assert_true(fabs(expectation - reference_expectation(&r)) <= 1e-5 * (deviation + 1));
        assert_true(fabs(qaoa_probability(s, INFINITY) - 1) < 1e-5);
        assert_int_equal(qaoa_state_layers(s), layers);
        reference_done(&r);
}

static void test_layers_are_exact(void **state) {
        for (size_t k = 0; k < ELEMENTSOF(shapes); k++)
                for (unsigned m = 0; m < MODELS_PER_SHAPE; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        Rng rng;

                        rng_seed(&rng, k, m);
                        assert_int_equal(model_random(&rng, &shapes[k], &q), 0);
                        check_model(q, &rng);
                }
}

static int model_large(Rng *rng, uint32_t qubits, uint32_t groups, uint32_t size, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t n = qubits + groups * size;
        int e = qubo_builder_new(n, &b);

        for (uint32_t g = 0; g < groups; g++)
                e |= qubo_add_group(b, qubits / 2 + g * size, size);
        for (uint32_t i = 0; i < n; i++)
                e |= qubo_add_linear(b, i, (int64_t) rng_below(rng, 21) - 10);
        for (uint32_t k = 0; k < 4 * n; k++)
                e |= qubo_add_quadratic(b, rng_below(rng, n), rng_below(rng, n), (int64_t) rng_below(rng, 21) - 10);
        return e < 0 ? e : qubo_build(b, ret);
}

static void test_every_pass(void **state) {
        for (size_t k = 0; k < ELEMENTSOF(large); k++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;
                Rng rng;

                rng_seed(&rng, 50, k);
                assert_int_equal(model_large(&rng, large[k].qubits, large[k].groups, large[k].size, &q), 0);
                check_model(q, &rng);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_layers_are_exact),
                cmocka_unit_test(test_every_pass),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
