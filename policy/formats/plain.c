/* SPDX-License-Identifier: Apache-2.0 */
/* Terms over plain variables. Memory: the model without its structure, or 16 bytes for each term of the double form. */
#include "policy/formats/plain.h"

#include <errno.h>
#include <math.h>

#define WHOLE_MAX 9.0e18L

static int term_cmp(const void *a, const void *b) {
        const PlainTerm *x = a, *y = b;

        return x->i != y->i ? CMP(x->i, y->i) : CMP(x->j, y->j);
}

static int take_terms(Plain *p, const RealQubo *real) {
        size_t n = real_terms(real), m = 0;

        p->terms = calloc(n + 1, sizeof(*p->terms));
        if (!p->terms)
                return -ENOMEM;
        for (size_t k = 0; k < n; k++) {
                PlainTerm t;

                real_term(real, k, &t.i, &t.j, &t.w);
                if (t.i == REAL_CONSTANT)
                        p->offset += t.w;
                else
                        p->terms[p->n_terms++] = t;
        }
        qsort(p->terms, p->n_terms, sizeof(*p->terms), term_cmp);
        for (size_t k = 0; k < p->n_terms; k++)
                if (m > 0 && term_cmp(&p->terms[m - 1], &p->terms[k]) == 0)
                        p->terms[m - 1].w += p->terms[k].w;
                else
                        p->terms[m++] = p->terms[k];
        p->n_terms = m;
        return 0;
}

static int lower_groups(const Instance *in, Plain *p, char **ret_message) {
        const char *name = in->format->name;
        int64_t used;
        int r;

        r = qubo_to_penalty(in->q, in->has_plain && in->penalty > 0 ? in->penalty : 0, &p->lowered, &used);
        if (r == -EFBIG)
                return text_fail(r, ret_message, "as a plain model the %s file would have more than %zu couplings",
                                 name, FORMAT_COUPLINGS_MAX);
        if (r == -EOVERFLOW)
                return text_fail(r, ret_message,
                                 "the penalties that a plain model needs for the %s file do not fit into 32 bits",
                                 name);
        p->q = p->lowered;
        return r;
}

static unsigned scale_digits(const Instance *in, bool *ret_exact) {
        for (unsigned k = 0; k <= 18 && in->scale.exact; k++)
                if ((double) power_of_ten(k) == in->scale.scale)
                        return *ret_exact = true, k;
        *ret_exact = false;
        return 0;
}

int plain_new(const Instance *in, Plain **ret, char **ret_message) {
        _cleanup_(plain_freep) Plain *p = calloc(1, sizeof(*p));
        int r = 0;

        if (!p)
                return -ENOMEM;
        p->q = in->q;
        p->unit = in->scale.unit;
        p->digits = scale_digits(in, &p->exact);
        if (!p->exact)
                r = take_terms(p, in->real);
        else if (in->q->n_groups > 0)
                r = lower_groups(in, p, ret_message);
        if (r < 0)
                return r;
        if (p->exact)
                p->offset = (long double) p->q->offset * p->unit;
        *ret = TAKE_PTR(p);
        return 0;
}

Plain *plain_free(Plain *p) {
        if (!p)
                return NULL;
        qubo_free(p->lowered);
        free(p->terms);
        free(p);
        return NULL;
}

static void each_exact(const Plain *p, Part part, PlainEach each, void *userdata) {
        const Qubo *q = p->q;

        for (uint32_t i = 0; i < q->n; i++) {
                if ((part & PART_LINEAR) && q->linear[i] != 0)
                        each(userdata, i, i, (long double) q->linear[i] * p->unit);
                for (size_t k = q->row[i]; (part & PART_PAIRS) && k < q->row[i + 1]; k++)
                        if (q->col[k] > i && q->val[k] != 0)
                                each(userdata, i, q->col[k], (long double) q->val[k] * p->unit);
        }
}

void plain_each(const Plain *p, Part part, PlainEach each, void *userdata) {
        if (p->exact) {
                each_exact(p, part, each, userdata);
                return;
        }
        for (size_t k = 0; k < p->n_terms; k++) {
                const PlainTerm *t = &p->terms[k];

                if (t->w != 0 && (part & (t->i == t->j ? PART_LINEAR : PART_PAIRS)))
                        each(userdata, t->i, t->j, t->w);
        }
}

static void count(void *userdata, uint32_t i, uint32_t j, long double w) {
        ++*(size_t *) userdata;
}

size_t plain_count(const Plain *p, Part part) {
        size_t n = 0;

        plain_each(p, part, count, &n);
        return n;
}

static void look_even(void *userdata, uint32_t i, uint32_t j, long double w) {
        if (fmodl(w, 2) != 0)
                *(bool *) userdata = false;
}

bool plain_pairs_even(const Plain *p) {
        bool even = true;

        plain_each(p, PART_PAIRS, look_even, &even);
        return even;
}

double plain_value(const Plain *p, long double w) {
        return (double) (w / power_of_ten(p->digits));
}

/* The shortest that is read as the same double. */
static void print_shortest(FILE *f, double v) {
        char buf[40];

        for (int n = 15; n <= 17; n++) {
                snprintf(buf, sizeof(buf), "%.*g", n, v);
                if (strtod(buf, NULL) == v)
                        break;
        }
        fputs(buf, f);
}

void plain_print(const Plain *p, FILE *f, long double w) {
        uint64_t v, ten;
        unsigned digits = p->digits;

        if (!p->exact || w != truncl(w) || fabsl(w) > WHOLE_MAX) {
                print_shortest(f, plain_value(p, w));
                return;
        }
        v = (uint64_t) fabsl(w);
        for (; digits > 0 && v % 10 == 0; digits--)
                v /= 10;
        ten = (uint64_t) power_of_ten(digits);
        fprintf(f, "%s%" PRIu64, w < 0 ? "-" : "", v / ten);
        if (digits > 0)
                fprintf(f, ".%0*" PRIu64, (int) digits, v % ten);
}
