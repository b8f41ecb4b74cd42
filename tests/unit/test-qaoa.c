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

/* Numbers of either sign in all lanes, and as a canary a chunk behind that no kernel may touch. */
#define CHUNKS 96U
#define FLOATS (CHUNKS * 2 * QAOA_LANES)

static float *numbers(uint64_t seed, size_t n) {
        float *a = aligned_alloc(64, (n + 2 * QAOA_LANES) * sizeof(*a));
        Rng rng;

        rng_seed(&rng, seed, n);
        for (size_t i = 0; i < n + 2 * QAOA_LANES; i++)
                a[i] = (float) ((double) rng_below(&rng, 2000001) - 1000000) * 1e-6F;
        return a;
}

typedef struct Pair {
        float *amplitude, *other;
        const float *energy;
        double moments[2];
} Pair;

static void call_kernel(const Kernels *k, unsigned which, Pair *p) {
        switch (which) {
        case 0: k->qaoa_phase(p->amplitude, p->energy, CHUNKS, 1234.5F, 0.75F, false); break;
        case 1: k->qaoa_phase(p->amplitude, p->energy, CHUNKS, -0.37F, 1.5F, true); break;
        case 2: k->qaoa_rx(p->amplitude, 1, 5, CHUNKS, 0.3F); break;
        case 3: k->qaoa_rx(p->amplitude, 3, 4, CHUNKS, -2.5F); break;
        case 4: k->qaoa_rx_low(p->amplitude, 3, CHUNKS, 0.7F); break;
        case 5: k->qaoa_rx_low(p->amplitude, 2, CHUNKS, 0.7F); break;
        case 6: k->qaoa_rx_low(p->amplitude, 1, CHUNKS, 0.7F); break;
        case 7: k->qaoa_mix(p->amplitude, 1, 32, CHUNKS, -0.3F, 0.2F); break;
        case 8: k->qaoa_mix(p->amplitude, 6, 4, CHUNKS, -0.3F, 0.2F); break;
        case 9: k->qaoa_mix(p->amplitude, 1, 96, CHUNKS, -0.3F, 0.2F); break;
        case 10: k->qaoa_turn(p->other, p->amplitude, CHUNKS / QAOA_LANES); break;
        case 11: k->qaoa_turn_back(p->other, p->amplitude, CHUNKS / QAOA_LANES); break;
        case 12: k->qaoa_moments(p->amplitude, p->energy, CHUNKS, p->moments); break;
        }
}

#define N_CALLS 13U

static void test_kernels_agree(void **state) {
        const Kernels *plain = NULL;

        for (const Kernels *const *k = kernels_all; *k; k++)
                plain = *k;
        for (const Kernels *const *k = kernels_all; *k; k++) {
                if (!(*k)->supported()) {
                        print_message("kernels not run here: %s\n", (*k)->name);
                        continue;
                }
                for (unsigned call = 0; call < N_CALLS; call++) {
                        _cleanup_free_ float *energy = numbers(1, CHUNKS * QAOA_LANES);
                        _cleanup_free_ float *a = numbers(2, FLOATS), *b = numbers(2, FLOATS);
                        _cleanup_free_ float *c = numbers(3, FLOATS), *d = numbers(3, FLOATS);
                        Pair p = { .amplitude = a, .other = c, .energy = energy };
                        Pair q = { .amplitude = b, .other = d, .energy = energy };

                        call_kernel(*k, call, &p);
                        call_kernel(plain, call, &q);
                        assert_memory_equal(a, b, (FLOATS + 2 * QAOA_LANES) * sizeof(*a));
                        assert_memory_equal(c, d, (FLOATS + 2 * QAOA_LANES) * sizeof(*c));
                        assert_memory_equal(p.moments, q.moments, sizeof(p.moments));
                }
        }
}

static void test_turning_is_undone(void **state) {
        _cleanup_free_ float *a = numbers(5, FLOATS), *b = numbers(6, FLOATS), *c = numbers(7, FLOATS);
        size_t row = CHUNKS / QAOA_LANES;

        kernels_best()->qaoa_turn(b, a, row);
        /* Amplitude 9 of row 3: the second lane of its second chunk. */
        assert_true(b[9 * 2 * QAOA_LANES + 3] == a[(3 * row + 1) * 2 * QAOA_LANES + 1]);
        kernels_best()->qaoa_turn_back(c, b, row);
        assert_memory_equal(a, c, FLOATS * sizeof(*a));
}

static void check_sound(const Qubo *q, const SolveResult *r, int64_t least) {
        assert_true(qubo_feasible(q, r->x));
        assert_true(qubo_energy(q, r->x) == r->energy);
        assert_true(r->energy >= least);
        assert_false(r->proved);
        assert_string_equal(r->solver, "qaoa");
}

static void test_solver_finds_the_optimum(void **state) {
        unsigned found = 0, models = 0;

        for (size_t k = 0; k < ELEMENTSOF(shapes); k++)
                for (unsigned m = 0; m < MODELS_PER_SHAPE; m++) {
                        _cleanup_(qubo_freep) Qubo *q = NULL;
                        SolveParams p = { .seed = m, .sweeps = 150 };
                        SolveResult r = {};
                        int64_t least;
                        Rng rng;

                        rng_seed(&rng, 70 + k, m);
                        assert_int_equal(model_random(&rng, &shapes[k], &q), 0);
                        least = model_brute_force(q);
                        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &r), 0);
                        check_sound(q, &r, least);
                        assert_true(r.sweeps <= p.sweeps);
                        found += r.energy == least;
                        models++;
                        solve_result_done(&r);
                }
        print_message("qaoa found the optimum of %u of %u models\n", found, models);
        assert_true(found * 100 >= models * 99);
}

static int model_of(uint64_t seed, uint32_t qubits, uint32_t groups, uint32_t size, Qubo **ret) {
        Rng rng;

        rng_seed(&rng, 90, seed);
        return model_large(&rng, qubits, groups, size, ret);
}

/* The angles follow from the expectations, and they from every rounding: one bit's difference would be seen. */
static void test_same_on_all_instruction_sets(void **state) {
        for (unsigned m = 0; m < 4; m++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;
                SolveResult r = {}, first = {};

                assert_int_equal(model_of(m, m % 2 ? 12 : 1, m % 2 ? 0 : 5, 5, &q), 0);
                for (const Kernels *const *k = kernels_all; *k; k++) {
                        SolveParams p = { .seed = 3, .sweeps = 60, .kernels = *k };

                        if (!(*k)->supported())
                                continue;
                        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &r), 0);
                        if (!first.x) {
                                first = r;
                                r = (SolveResult){};
                                continue;
                        }
                        assert_memory_equal(r.x, first.x, q->n);
                        assert_true(r.sweeps == first.sweeps && r.flips == first.flips);
                        solve_result_done(&r);
                }
                solve_result_done(&first);
        }
}

static void count_improvement(void *userdata, int64_t energy) {
        int64_t *last = userdata;

        assert_true(energy < *last);
        *last = energy;
}

static uint64_t ticking_clock(void *userdata) {
        uint64_t *now = userdata;

        return ++*now;
}

static void test_limits(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;
        atomic_bool stop = true;
        SolveResult r = {}, again = {};
        int64_t last = INT64_MAX;
        uint64_t now = 0;
        SolveParams p = { .seed = 5, .sweeps = 300, .improved = count_improvement, .improved_userdata = &last };

        assert_int_equal(model_of(17, 14, 0, 0, &q), 0);
        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &r), 0);
        check_sound(q, &r, INT64_MIN);
        assert_true(last == r.energy);

        p = (SolveParams){ .seed = 5, .sweeps = 300 };
        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &again), 0);
        assert_memory_equal(r.x, again.x, q->n);
        assert_true(r.flips == again.flips && r.sweeps == again.sweeps && r.flips == 14 * 16384 * r.sweeps);
        solve_result_done(&again);

        /* No more is done once the target is there. */
        p = (SolveParams){ .seed = 5, .sweeps = UINT64_MAX, .has_target = true, .target = r.energy };
        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &again), 0);
        assert_true(again.energy <= r.energy);
        solve_result_done(&again);

        p = (SolveParams){ .seed = 6, .sweeps = UINT64_MAX, .start = r.x, .stop = &stop };
        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &again), 0);
        assert_true(again.energy == r.energy && again.sweeps == 0);
        solve_result_done(&again);

        p = (SolveParams){ .seed = 6, .sweeps = UINT64_MAX, .stop = &stop };
        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &again), 0);
        check_sound(q, &again, INT64_MIN);
        solve_result_done(&again);

        p = (SolveParams){ .seed = 6, .budget_usec = 200, .clock = ticking_clock, .userdata = &now };
        assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &again), 0);
        check_sound(q, &again, INT64_MIN);
        assert_true(now >= 200 && now <= 205);
        solve_result_done(&again);
        solve_result_done(&r);
}

/* Whatever the moment at which the limit is hit: the clock jumps past the budget at its n-th question. */
static void test_cut_anywhere(void **state) {
        _cleanup_(qubo_freep) Qubo *q = NULL;

        assert_int_equal(model_of(18, 2, 4, 9, &q), 0);
        for (uint64_t budget = 1; budget < 300; budget += 1 + budget / 20) {
                SolveResult r = {};
                uint64_t now = 0;
                SolveParams p = { .seed = budget, .budget_usec = budget, .clock = ticking_clock, .userdata = &now };

                assert_int_equal(qubo_solve(q, &solver_qaoa, &p, &r), 0);
                check_sound(q, &r, INT64_MIN);
                solve_result_done(&r);
        }
}

static void test_fits(void **state) {
        static const struct {
                uint32_t qubits, groups, size;
                bool fits;
        } cases[] = {
                { 24, 0, 0, true },     { 25, 0, 0, false },    { 24, 30, 1, true }, { 0, 6, 16, true },
                { 1, 6, 16, false },    { 0, 15, 3, true },     { 0, 16, 3, false }, { 8, 1, 65536, true },
                { 9, 1, 65536, false }, { 0, 1, 65537, false }, { 0, 3, 256, true }, { 0, 100, 1, true },
                { 0, 8, 8, true },      { 0, 0, 0, true },
        };

        for (size_t k = 0; k < ELEMENTSOF(cases); k++) {
                _cleanup_(qubo_freep) Qubo *q = NULL;

                assert_int_equal(model_of(k, cases[k].qubits, cases[k].groups, cases[k].size, &q), 0);
                assert_int_equal(solver_qaoa.fits(q), cases[k].fits);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_layers_are_exact),
                cmocka_unit_test(test_every_pass),
                cmocka_unit_test(test_kernels_agree),
                cmocka_unit_test(test_turning_is_undone),
                cmocka_unit_test(test_solver_finds_the_optimum),
                cmocka_unit_test(test_same_on_all_instruction_sets),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_cut_anywhere),
                cmocka_unit_test(test_fits),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
