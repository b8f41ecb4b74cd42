/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantising the double form. A decimal of the input is what the file meant if the double nearest to a whole number
 * over 10^k is the one that was given; that is asked of each term. Dyadic numbers (2^-k) are exact in double itself.
 * What does not fit so is added up per pair in long double and rounded once, at a scale that is a power of two, so that
 * scaling itself costs nothing.
 */
#include "policy/qubo/real.h"

#include <errno.h>
#include <float.h>
#include <math.h>

#define CONSTANT REAL_CONSTANT /* both ends of a term without a variable */
#define DIGITS_MAX 18          /* 10^18 < 2^63 */
#define BINARY_MAX 1000        /* 2^1023 is the largest a double holds */
#define WHOLE_MAX 9.0e15       /* below 2^53, where doubles are whole */
#define ROUNDED_MAX 0x1p30L    /* what the largest rounded coefficient comes to, at most */
#define ROUNDED_OFFSET 0x1p58L /* and the offset */

typedef struct Term {
        uint32_t i, j; /* i == j: linear, or CONSTANT */
        double w;
} Term;

struct RealQubo {
        uint32_t n;
        size_t n_terms, allocated;
        Term *terms;
};

int real_new(uint32_t n, RealQubo **ret) {
        RealQubo *r;

        if (n == QUBO_NO_GROUP)
                return -EOVERFLOW;
        r = calloc(1, sizeof(*r));
        if (!r)
                return -ENOMEM;
        r->n = n;
        *ret = r;
        return 0;
}

RealQubo *real_free(RealQubo *r) {
        if (!r)
                return NULL;
        free(r->terms);
        free(r);
        return NULL;
}

static int add(RealQubo *r, uint32_t i, uint32_t j, double w) {
        if (!isfinite(w))
                return -EINVAL;
        if (w == 0)
                return 0;
        if (r->n_terms == r->allocated) {
                size_t want = MAX(r->allocated * 2, (size_t) 256);
                Term *p = reallocarray(r->terms, want, sizeof(*p));

                if (!p)
                        return -ENOMEM;
                r->terms = p;
                r->allocated = want;
        }
        r->terms[r->n_terms++] = (Term){ .i = i, .j = j, .w = w };
        return 0;
}

int real_add_offset(RealQubo *r, double w) {
        return add(r, CONSTANT, CONSTANT, w);
}

int real_add_linear(RealQubo *r, uint32_t i, double w) {
        return i < r->n ? add(r, i, i, w) : -EINVAL;
}

int real_add_quadratic(RealQubo *r, uint32_t i, uint32_t j, double w) {
        return i < r->n && j < r->n ? add(r, MIN(i, j), MAX(i, j), w) : -EINVAL;
}

size_t real_terms(const RealQubo *r) {
        return r->n_terms;
}

void real_term(const RealQubo *r, size_t k, uint32_t *ret_i, uint32_t *ret_j, double *ret_w) {
        *ret_i = r->terms[k].i;
        *ret_j = r->terms[k].j;
        *ret_w = r->terms[k].w;
}

long double real_energy(const RealQubo *r, const uint8_t *x) {
        long double e = 0;

        for (size_t k = 0; k < r->n_terms; k++) {
                const Term *t = &r->terms[k];

                if (t->i == CONSTANT || (x[t->i] && x[t->j]))
                        e += t->w;
        }
        return e;
}

/* The whole number that w is at this scale, if it is one. Both are whole in double, so the quotient is the nearest. */
static bool is_whole(double w, double scale, int64_t *ret) {
        double m = round(w * scale);

        if (!(fabs(m) <= WHOLE_MAX) || m / scale != w)
                return false;
        *ret = (int64_t) m;
        return true;
}

static uint64_t divisor(uint64_t a, uint64_t b) {
        while (b) {
                uint64_t t = a % b;

                a = b;
                b = t;
        }
        return a;
}

/* The greatest common divisor of all terms, or 0: not all are whole at this scale. 1 if there are none. */
static uint64_t common(const RealQubo *r, double scale) {
        uint64_t g = 0;

        for (size_t k = 0; k < r->n_terms; k++) {
                int64_t m;

                if (!is_whole(r->terms[k].w, scale, &m))
                        return 0;
                g = g == 1 ? 1 : divisor((uint64_t) llabs(m), g);
        }
        return MAX(g, UINT64_C(1));
}

static int builder_term(QuboBuilder *b, const Term *t, int64_t m) {
        return t->i == CONSTANT ? qubo_add_offset(b, m) : qubo_add_quadratic(b, t->i, t->j, m);
}

static int build_whole(const RealQubo *r, double scale, int64_t unit, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int e = qubo_builder_new(r->n, &b);

        for (size_t k = 0; k < r->n_terms && e >= 0; k++) {
                int64_t m = 0;

                (void) is_whole(r->terms[k].w, scale, &m);
                e = builder_term(b, &r->terms[k], m / unit);
        }
        return e < 0 ? e : qubo_build(b, ret);
}

/* 0: the terms are not whole, or their sums do not fit. */
static int try_scale(const RealQubo *r, double scale, Qubo **ret, RealScale *ret_scale) {
        int64_t g = (int64_t) common(r, scale), unit = 1;
        int e;

        if (g == 0)
                return 0;
        /* As the input stands, if it fits: energies then look like its own. */
        e = build_whole(r, scale, unit, ret);
        if (e == -EOVERFLOW && g > 1)
                e = build_whole(r, scale, unit = g, ret);
        if (e < 0)
                return e == -EOVERFLOW ? 0 : e;
        *ret_scale = (RealScale){ .scale = scale, .unit = unit, .exact = true };
        return 1;
}

static int term_cmp(const void *a, const void *b) {
        const Term *x = a, *y = b;
        int c = CMP(x->i, y->i);

        if (c == 0)
                c = CMP(x->j, y->j);
        /* Equal pairs are summed in one order, whatever order they came in: the smallest first. */
        if (c == 0)
                c = CMP(fabs(x->w), fabs(y->w));
        return c != 0 ? c : CMP(x->w, y->w);
}

/* The sum of the terms of one pair; *k moves behind them. */
static long double pair_sum(const Term *terms, size_t n, size_t *k) {
        const Term *first = &terms[*k];
        long double sum = 0;

        for (; *k < n && terms[*k].i == first->i && terms[*k].j == first->j; ++*k)
                sum += terms[*k].w;
        return sum;
}

/* The largest power of two at which everything fits; 0: there is nothing to scale. */
static int rounding_scale(const Term *terms, size_t n, int *ret) {
        long double most = 0;
        int exponent;

        for (size_t k = 0; k < n;) {
                bool constant = terms[k].i == CONSTANT;
                long double sum = fabsl(pair_sum(terms, n, &k));

                most = MAX(most, constant ? sum / (ROUNDED_OFFSET / ROUNDED_MAX) : sum);
        }
        if (most > DBL_MAX)
                return -EOVERFLOW;
        (void) frexpl(most, &exponent); /* most < 2^exponent */
        *ret = most == 0 ? 0 : MIN(30 - exponent, BINARY_MAX);
        return 0;
}

static int quantise_rounded(const RealQubo *r, Qubo **ret, RealScale *ret_scale) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        _cleanup_free_ Term *terms = calloc(r->n_terms + 1, sizeof(*terms));
        long double error = 0;
        int e, exponent;

        if (!terms)
                return -ENOMEM;
        memcpy(terms, r->terms, r->n_terms * sizeof(*terms));
        qsort(terms, r->n_terms, sizeof(*terms), term_cmp);
        e = rounding_scale(terms, r->n_terms, &exponent);
        if (e >= 0)
                e = qubo_builder_new(r->n, &b);
        for (size_t k = 0; k < r->n_terms && e >= 0;) {
                const Term *t = &terms[k];
                long double sum = ldexpl(pair_sum(terms, r->n_terms, &k), exponent), m = roundl(sum);

                error += fabsl(sum - m);
                e = builder_term(b, t, (int64_t) m);
        }
        if (e >= 0)
                e = qubo_build(b, ret);
        if (e < 0)
                return e;
        /* A little more than the sum, which is rounded too. */
        error = ldexpl(error, -exponent) * (1 + 1e-9L);
        *ret_scale = (RealScale){ .scale = ldexp(1, exponent),
                                  .unit = 1,
                                  .error = nextafter((double) error, INFINITY) };
        return 0;
}

/* The power of two that makes all terms whole. */
static int binary_digits(const RealQubo *r) {
        int digits = 0;

        for (size_t k = 0; k < r->n_terms; k++) {
                int exponent;
                int64_t bits = (int64_t) ldexp(frexp(r->terms[k].w, &exponent), DBL_MANT_DIG);

                digits = MAX(digits, DBL_MANT_DIG - exponent - __builtin_ctzll((uint64_t) bits));
        }
        return digits;
}

int real_quantise(const RealQubo *r, Qubo **ret, RealScale *ret_scale) {
        double scale = 1;
        int e = 0, digits;

        for (unsigned k = 0; k <= DIGITS_MAX && e == 0; k++, scale *= 10)
                e = try_scale(r, scale, ret, ret_scale);
        digits = binary_digits(r);
        if (e == 0 && digits > 0 && digits <= BINARY_MAX)
                e = try_scale(r, ldexp(1, digits), ret, ret_scale);
        if (e != 0)
                return MIN(e, 0);
        return quantise_rounded(r, ret, ret_scale);
}

double real_value(const RealScale *s, int64_t energy) {
        return (double) ((long double) energy * (long double) s->unit / s->scale);
}

int64_t real_target(const RealScale *s, double value) {
        long double m = roundl((long double) value * s->scale);

        /* A decimal that names a whole number exactly is that number, however it came out in binary. */
        if ((double) m / s->scale != value)
                m = floorl((long double) value * s->scale);
        m = floorl(m / (long double) s->unit);
        if (isnan(m) || m <= -0x1p62L)
                return INT64_MIN;
        return m >= 0x1p62L ? INT64_MAX : (int64_t) m;
}
