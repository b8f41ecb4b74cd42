/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats in which each of some tasks has one of some devices.
 *
 * qaplib (Burkard, Karisch, Rendl 1997): n, then two n x n matrices A and B, line breaks anywhere; value: sum a_ij
 * b_p(i)p(j), minimised. A becomes flow and B distance; a_ii b_kk, which belongs to one facility and its location, is
 * linear.
 * placement: "tasks devices pairs load-weight penalty constant"; the load of each task; the target load of each device;
 * for each task the cost on each device; for each device the distance to each; then pairs "t u w", from 0. Value: costs +
 * sum of w * distance + load-weight * sum over devices of (load - target)^2, minimised. With l_t the loads, the square is
 * sum l_t^2 x_t + 2 sum_{t<u} l_t l_u x_t x_u - 2 target sum l_t x_t + target^2. Penalty and constant say what the same
 * problem is as .qubo, see Instance.
 *
 * Decimals are brought to whole numbers exactly, each part by a power of ten of its own; what does not fit is refused.
 */
#include "policy/formats/internal.h"

#include <errno.h>
#include <math.h>

#define DIGITS_MAX 18

typedef struct Matrix {
        Number *v;
        size_t n;
        unsigned digits; /* of the one that has most */
} Matrix;

static void matrix_done(Matrix *m) {
        free(m->v);
}

/* There are at least two characters of text for each number, so the text bounds the memory. */
static int matrix_new(Scan *s, size_t n, Matrix *ret) {
        if (n > (size_t) (s->end - s->text) / 2 + 1)
                return scan_fail(s, -EINVAL, "the file is too short for %zu numbers", n);
        ret->v = calloc(n + 1, sizeof(*ret->v));
        ret->n = n;
        return ret->v ? 0 : -ENOMEM;
}

static int matrix_take(Scan *s, Matrix *m, size_t k, const char *what) {
        if (!m->v[k].exact)
                return scan_fail(s, -ERANGE, "%s has too many digits; allowed are 18", what);
        m->digits = MAX(m->digits, m->v[k].digits);
        return 0;
}

/* One line of n numbers. */
static int matrix_read_line(Scan *s, Matrix *m, size_t from, size_t n, const char *what) {
        int r = scan_line(s);

        if (r == 0)
                return scan_fail(s, -EINVAL, "the file ends where %s should follow", what);
        for (size_t k = from; k < from + n && r >= 0; k++) {
                r = scan_number(s, what, &m->v[k]);
                if (r >= 0)
                        r = matrix_take(s, m, k, what);
        }
        return r < 0 ? r : scan_line_done(s, what);
}

static int too_large(const Scan *s, const char *what) {
        return text_fail(-EOVERFLOW, s->ret_message,
                         "%s: %s are too large: brought to whole numbers, each must fit into 32 bits", s->name, what);
}

/* All numbers as whole ones, by their common power of ten. */
static int matrix_scaled(Scan *s, const Matrix *m, const char *what, int32_t **ret) {
        _cleanup_free_ int32_t *w = calloc(m->n + 1, sizeof(*w));

        if (!w)
                return -ENOMEM;
        for (size_t k = 0; k < m->n; k++) {
                int64_t v;

                if (!number_scaled(&m->v[k], m->digits, &v) || v < INT32_MIN || v > INT32_MAX)
                        return too_large(s, what);
                w[k] = (int32_t) v;
        }
        *ret = TAKE_PTR(w);
        return 0;
}

static int matrix_read(Scan *s, size_t n, const char *what, Matrix *ret) {
        int r = matrix_new(s, n, ret);

        for (size_t k = 0; k < n && r >= 0; k++) {
                r = scan_next_number(s, what, &ret->v[k]);
                if (r >= 0)
                        r = matrix_take(s, ret, k, what);
        }
        return r;
}

static int qap_build(QuboBuilder *b, uint32_t n, int32_t **flow, int32_t **distance, Qubo **ret) {
        int r = 0;

        for (uint32_t f = 0; f < n && r >= 0; f++) {
                r = qubo_add_group(b, f * n, n);
                for (uint32_t l = 0; l < n && r >= 0; l++)
                        r = qubo_add_linear(b, f * n + l,
                                            (int64_t) (*flow)[(size_t) f * n + f] * (*distance)[(size_t) l * n + l]);
        }
        if (r >= 0)
                r = qubo_set_permutation(b, TAKE_PTR(*flow), TAKE_PTR(*distance));
        return r < 0 ? r : qubo_build(b, ret);
}

static int qap_scaled(Scan *s, uint32_t n, const Matrix *a, const Matrix *b, Instance *in) {
        _cleanup_(qubo_builder_freep) QuboBuilder *builder = NULL;
        _cleanup_free_ int32_t *flow = NULL, *distance = NULL;
        int r;

        if (a->digits + b->digits > DIGITS_MAX)
                return too_large(s, "the products of both matrices");
        r = matrix_scaled(s, a, "the numbers of the first matrix", &flow);
        if (r >= 0)
                r = matrix_scaled(s, b, "the numbers of the second matrix", &distance);
        if (r >= 0)
                r = qubo_builder_new(n * n, &builder);
        if (r < 0)
                return r;
        in->scale = (RealScale){ .scale = (double) power_of_ten(a->digits + b->digits), .unit = 1, .exact = true };
        r = qap_build(builder, n, &flow, &distance, &in->q);
        return r < 0 ? build_failed(s, r) : 0;
}

int qaplib_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message) {
        Scan s = scan_begin(name, text, size, NULL, ret_message);
        _cleanup_(matrix_done) Matrix a = {}, b = {};
        uint64_t n;
        int r = scan_line(&s);

        if (r == 0)
                return scan_fail(&s, -EINVAL,
                                 "the file is empty; its first number must be how many facilities there are");
        r = scan_whole(&s, "the number of facilities", 1, (uint64_t) sqrt(FORMAT_VARIABLES_MAX), &n);
        if (r >= 0)
                r = matrix_read(&s, n * n, "a number of the first matrix", &a);
        if (r >= 0)
                r = matrix_read(&s, n * n, "a number of the second matrix", &b);
        if (r >= 0)
                r = scan_line_done(&s, "nothing behind the second matrix");
        if (r >= 0 && scan_line(&s) > 0)
                r = scan_line_done(&s, "nothing behind the second matrix");
        if (r < 0)
                return r;
        in->group = "facility";
        in->choice = "location";
        in->first = 1;
        return qap_scaled(&s, (uint32_t) n, &a, &b, in);
}

typedef struct Placement {
        uint64_t tasks, devices, pairs;
        Number load_weight, penalty, constant;
        Matrix load, target, cost, distance;
        Matrix weight; /* of pairs */
        uint32_t *ends;
        unsigned digits; /* of a value */
} Placement;

static void placement_done(Placement *p) {
        matrix_done(&p->load);
        matrix_done(&p->target);
        matrix_done(&p->cost);
        matrix_done(&p->distance);
        matrix_done(&p->weight);
        free(p->ends);
}

static int read_head(Scan *s, Placement *p) {
        int r = scan_line(s);

        if (r == 0)
                return scan_fail(
                        s, -EINVAL,
                        "the file is empty; its first line must be \"tasks devices pairs load-weight penalty constant\"");
        r = scan_whole(s, "the number of tasks", 1, FORMAT_VARIABLES_MAX, &p->tasks);
        if (r >= 0)
                r = scan_whole(s, "the number of devices", 1, FORMAT_VARIABLES_MAX / p->tasks, &p->devices);
        if (r >= 0)
                r = scan_whole(s, "the number of pairs", 0, FORMAT_COUPLINGS_MAX, &p->pairs);
        if (r >= 0)
                r = scan_number(s, "the weight of the load", &p->load_weight);
        if (r >= 0)
                r = scan_number(s, "the penalty", &p->penalty);
        if (r >= 0)
                r = scan_number(s, "the constant", &p->constant);
        return r < 0 ? r : scan_line_done(s, "\"tasks devices pairs load-weight penalty constant\"");
}

static int read_rows(Scan *s, size_t rows, size_t cols, const char *what, Matrix *ret) {
        int r = matrix_new(s, rows * cols, ret);

        for (size_t k = 0; k < rows && r >= 0; k++)
                r = matrix_read_line(s, ret, k * cols, cols, what);
        return r;
}

static int read_pair(Scan *s, Placement *p, size_t k) {
        uint64_t t, u;
        int r = scan_line(s);

        if (r == 0)
                return scan_fail(s, -EINVAL, "the file ends after %zu of %" PRIu64 " pairs", k, p->pairs);
        r = scan_whole(s, "the first task", 0, p->tasks - 1, &t);
        if (r >= 0)
                r = scan_whole(s, "the second task", 0, p->tasks - 1, &u);
        if (r >= 0 && t == u)
                return scan_fail(s, -EINVAL, "a pair of task %" PRIu64 " and itself; allowed are two different tasks",
                                 t);
        if (r >= 0)
                r = scan_number(s, "the weight of the pair", &p->weight.v[k]);
        if (r >= 0)
                r = matrix_take(s, &p->weight, k, "the weight of the pair");
        if (r < 0)
                return r;
        p->ends[2 * k] = (uint32_t) t;
        p->ends[2 * k + 1] = (uint32_t) u;
        return scan_line_done(s, "\"task task weight\"");
}

static int read_pairs(Scan *s, Placement *p) {
        int r = matrix_new(s, p->pairs, &p->weight);

        if (r < 0)
                return r;
        p->ends = calloc(2 * p->pairs + 1, sizeof(*p->ends));
        if (!p->ends)
                return -ENOMEM;
        for (size_t k = 0; k < p->pairs && r >= 0; k++)
                r = read_pair(s, p, k);
        if (r >= 0 && (r = scan_line(s)) > 0)
                return scan_fail(s, -EINVAL, "a line more than the %" PRIu64 " pairs that the first line announces",
                                 p->pairs);
        return r;
}

static int read_placement(Scan *s, Placement *p) {
        int r = read_head(s, p);

        if (r >= 0)
                r = read_rows(s, 1, p->tasks, "the load of each task", &p->load);
        if (r >= 0)
                r = read_rows(s, 1, p->devices, "the target load of each device", &p->target);
        if (r >= 0)
                r = read_rows(s, p->tasks, p->devices, "the cost on each device", &p->cost);
        if (r >= 0)
                r = read_rows(s, p->devices, p->devices, "the distance to each device", &p->distance);
        return r < 0 ? r : read_pairs(s, p);
}

/* The product of some numbers, brought to p->digits. The builder checks what fits. */
static bool product(const Placement *p, const Number *a, const Number *b, const Number *c, int64_t factor,
                    int64_t *ret) {
        unsigned digits = a->digits + (b ? b->digits : 0) + (c ? c->digits : 0);

        return !__builtin_mul_overflow(a->mantissa, b ? b->mantissa : 1, ret) &&
               !__builtin_mul_overflow(*ret, c ? c->mantissa : 1, ret) && !__builtin_mul_overflow(*ret, factor, ret) &&
               !__builtin_mul_overflow(*ret, power_of_ten(p->digits - digits), ret);
}

static int add_costs(const Placement *p, QuboBuilder *b) {
        int r = 0;

        for (uint32_t t = 0; t < p->tasks && r >= 0; t++) {
                uint32_t first = t * (uint32_t) p->devices;

                r = qubo_add_group(b, first, (uint32_t) p->devices);
                for (uint32_t d = 0; d < p->devices && r >= 0; d++) {
                        const Number *w = &p->load_weight, *l = &p->load.v[t], *target = &p->target.v[d];
                        int64_t cost, square, cross;

                        if (!product(p, &p->cost.v[first + d], NULL, NULL, 1, &cost) ||
                            !product(p, w, l, l, 1, &square) || !product(p, w, l, target, -2, &cross))
                                return -EOVERFLOW;
                        r = qubo_add_linear(b, first + d, cost);
                        if (r >= 0)
                                r = qubo_add_linear(b, first + d, square);
                        if (r >= 0)
                                r = qubo_add_linear(b, first + d, cross);
                }
        }
        for (uint32_t d = 0; d < p->devices && r >= 0; d++) {
                int64_t w;

                if (!product(p, &p->load_weight, &p->target.v[d], &p->target.v[d], 1, &w))
                        return -EOVERFLOW;
                r = qubo_add_offset(b, w);
        }
        return r;
}

static int add_loads(const Placement *p, QuboBuilder *b) {
        uint32_t n = (uint32_t) p->devices;
        int r = 0;

        for (uint32_t t = 0; t < p->tasks; t++)
                for (uint32_t u = t + 1; u < p->tasks; u++) {
                        int64_t w;

                        if (!product(p, &p->load_weight, &p->load.v[t], &p->load.v[u], 2, &w))
                                return -EOVERFLOW;
                        for (uint32_t d = 0; w != 0 && d < n && r >= 0; d++)
                                r = qubo_add_quadratic(b, t * n + d, u * n + d, w);
                        if (r < 0)
                                return r;
                }
        return 0;
}

static int add_pair(const Placement *p, QuboBuilder *b, size_t k) {
        uint32_t n = (uint32_t) p->devices;
        int r = 0;

        for (uint32_t c = 0; c < n; c++)
                for (uint32_t d = 0; d < n && r >= 0; d++) {
                        int64_t w;

                        if (!product(p, &p->weight.v[k], &p->distance.v[(size_t) c * n + d], NULL, 1, &w))
                                return -EOVERFLOW;
                        r = qubo_add_quadratic(b, p->ends[2 * k] * n + c, p->ends[2 * k + 1] * n + d, w);
                }
        return r;
}

static int placement_build(const Placement *p, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int r = qubo_builder_new((uint32_t) (p->tasks * p->devices), &b);

        if (r >= 0)
                r = add_costs(p, b);
        if (r >= 0 && p->load_weight.mantissa != 0)
                r = add_loads(p, b);
        for (size_t k = 0; k < p->pairs && r >= 0; k++)
                r = add_pair(p, b, k);
        return r < 0 ? r : qubo_build(b, ret);
}

/* Couplings that the rows would have: of loads one for each two tasks and each device, of pairs one for each two devices. */
static bool fits(const Placement *p) {
        double loads = p->load_weight.mantissa != 0 ? (double) p->tasks * (double) p->tasks / 2 * (double) p->devices
                                                    : 0;

        return loads + (double) p->pairs * (double) p->devices * (double) p->devices <= (double) FORMAT_COUPLINGS_MAX;
}

static int placement_scaled(Scan *s, Placement *p, Instance *in) {
        unsigned loads = 2 * p->load.digits, targets = p->load.digits + p->target.digits,
                 squares = 2 * p->target.digits;
        int r;

        p->digits = p->load_weight.digits + MAX(MAX(loads, targets), squares);
        p->digits = MAX(p->digits, MAX(p->cost.digits, p->weight.digits + p->distance.digits));
        if (!p->load_weight.exact || p->digits > DIGITS_MAX)
                return too_large(s, "the numbers");
        if (!fits(p))
                return build_failed(s, -EFBIG);
        in->scale = (RealScale){ .scale = (double) power_of_ten(p->digits), .unit = 1, .exact = true };
        r = placement_build(p, &in->q);
        if (r < 0)
                return build_failed(s, r);
        in->has_plain = number_scaled(&p->penalty, p->digits, &in->penalty) &&
                        number_scaled(&p->constant, p->digits, &in->constant);
        return 0;
}

int placement_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message) {
        Scan s = scan_begin(name, text, size, "#%", ret_message);
        _cleanup_(placement_done) Placement p = {};
        int r = read_placement(&s, &p);

        if (r < 0)
                return r;
        in->group = "task";
        in->choice = "device";
        in->source = strndup(text, size);
        return in->source ? placement_scaled(&s, &p, in) : -ENOMEM;
}
