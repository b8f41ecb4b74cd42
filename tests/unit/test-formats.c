/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Model files: what each format's text is worth at every point, computed here from the numbers that were written into
 * it, and conversions between all formats.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/fileio.h"
#include "common/gzip.h"
#include "policy/formats/scan.h"
#include "policy/qubo/rng.h"
#include "tests/unit/format-texts.h"

#define N_MAX 12U
#define ROUNDS 60U

static void bits_of(uint32_t point, uint32_t n, uint8_t *x) {
        for (uint32_t i = 0; i < n; i++)
                x[i] = point >> i & 1;
}

/* cmocka's compares in single precision. */
static void check_close(double v, double want, double least) {
        if (!(fabs(v - want) <= least * fmax(1e-300, fabs(want))) && !(fabs(v - want) <= least))
                fail_msg("%.17g, not %.17g", v, want);
}

static int64_t small(Rng *r) {
        return (int64_t) rng_below(r, 41) - 20;
}

/* Terms that a file lists, by whoever evaluates them. */
typedef struct List {
        uint32_t n, m;
        uint32_t i[200], j[200];
        int64_t w[200];
} List;

static void list_random(Rng *r, List *l, bool diagonal, bool twice) {
        *l = (List){ .n = 1 + rng_below(r, N_MAX) };
        for (uint32_t i = 0; i < l->n; i++)
                for (uint32_t j = diagonal ? i : i + 1; j < l->n; j++)
                        for (uint32_t k = rng_below(r, 3); k > 0 && l->m < 199; k = twice ? k - 1 : 0) {
                                l->i[l->m] = i;
                                l->j[l->m] = j;
                                l->w[l->m++] = small(r);
                        }
}

static char *list_text(const List *l, uint32_t first, const char *head, double scale) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        fputs(head, f);
        for (uint32_t k = 0; k < l->m; k++)
                if (scale == 1)
                        fprintf(f, "%u %u %" PRIi64 "\n", l->i[k] + first, l->j[k] + first, l->w[k]);
                else
                        fprintf(f, "%u %u %.10g\n", l->i[k] + first, l->j[k] + first, (double) l->w[k] / scale);
        assert_int_equal(fclose(f), 0);
        return text;
}

typedef enum Kind { KIND_MC, KIND_QUBO, KIND_QBSOLV, KIND_COO, KIND_SPIN, N_KINDS } Kind;
static const char *const kind_formats[] = { "mc", "qubo", "qbsolv", "coo", "coo" };

static int64_t list_value(const List *l, Kind kind, const uint8_t *x) {
        int64_t v = 0;

        for (uint32_t k = 0; k < l->m; k++) {
                uint32_t i = l->i[k], j = l->j[k];

                switch (kind) {
                case KIND_MC: v += x[i] != x[j] ? l->w[k] : 0; break;
                case KIND_QUBO: v += (i == j ? 1 : 2) * l->w[k] * x[i] * x[j]; break;
                case KIND_SPIN: v += l->w[k] * (2 * x[i] - 1) * (i == j ? 1 : 2 * x[j] - 1); break;
                default: v += l->w[k] * x[i] * x[j];
                }
        }
        return v;
}

static char *list_file(const List *l, Kind kind, double scale) {
        char head[200];
        uint32_t nodes = 0;

        for (uint32_t k = 0; k < l->m; k++)
                nodes += l->i[k] == l->j[k];
        switch (kind) {
        case KIND_MC:
        case KIND_QUBO: snprintf(head, sizeof(head), "%u %u\n", l->n, l->m); break;
        case KIND_QBSOLV:
                snprintf(head, sizeof(head), "c words\nc\np qubo 0 %u %u %u\n", l->n, nodes, l->m - nodes);
                break;
        default:
                snprintf(head, sizeof(head), "# words\n# vartype=%s\n# variables = %u\n",
                         kind == KIND_SPIN ? "SPIN" : "BINARY", l->n);
        }
        return list_text(l, kind == KIND_MC || kind == KIND_QUBO ? 1 : 0, head, scale);
}

static void test_values(void **state) {
        Rng r;
        List l;

        rng_seed(&r, 11, 0);
        for (unsigned round = 0; round < ROUNDS * N_KINDS; round++) {
                Kind kind = (Kind) (round % N_KINDS);
                double scale = round / N_KINDS % 3 == 2 ? 1000 : 1;
                _cleanup_(instance_freep) Instance *in = NULL;
                _cleanup_free_ char *text = NULL;
                uint8_t x[N_MAX];

                list_random(&r, &l, kind != KIND_MC, kind == KIND_COO || kind == KIND_SPIN);
                text = list_file(&l, kind, scale);
                in = must_read(kind_formats[kind], text);
                assert_int_equal(in->q->n, l.n);
                assert_true(in->scale.exact);
                assert_int_equal(in->maximise, kind == KIND_MC || kind == KIND_QUBO);
                for (uint32_t p = 0; p < 1U << l.n; p++) {
                        int64_t want;

                        bits_of(p, l.n, x);
                        want = list_value(&l, kind, x);
                        check_close((double) instance_value_of(in, x), (double) want / scale, 1e-12);
                        assert_true(qubo_energy(in->q, x) <= instance_target(in, (double) want / scale));
                        assert_true(qubo_energy(in->q, x) > instance_target(in, (double) want / scale) - 1);
                }
        }
}

/* --- conversions ------------------------------------------------------------------------------------------------- */

/* All feasible points of `from`: their values in both. The text may have one variable more, which is 0. */
static void check_converted(const Instance *from, const Instance *to, const Written *w) {
        uint32_t n = from->q->n;

        assert_true(n <= 16 && (to->q->n == n || to->q->n == n + 1));
        for (uint32_t p = 0; p < 1U << n; p++) {
                uint8_t x[20] = {};
                double a, b;

                bits_of(p, n, x);
                if (!qubo_feasible(from->q, x))
                        continue;
                a = (double) instance_value_of(from, x) * w->factor + w->constant;
                b = (double) instance_value_of(to, x);
                if (fabs(a - b) > 1e-9 * (1 + fabs(a)))
                        fail_msg("%s to %s: %.15g, not %.15g\n%s", from->format->name, to->format->name, b, a, w->text);
        }
}

static void convert_to(const Instance *in, const Format *f, bool may_fail) {
        _cleanup_(written_done) Written w = {};
        _cleanup_free_ char *message = NULL;
        _cleanup_(instance_freep) Instance *back = NULL;
        int r = instance_write(in, f, &w, &message);

        if (r < 0 && may_fail) {
                assert_int_equal(r, -EINVAL);
                assert_non_null(message);
                assert_null(strchr(message, '\n'));
                assert_null(w.text);
                return;
        }
        if (r < 0)
                fail_msg("%s to %s: %s", in->format->name, f->name, strempty(message));
        assert_int_equal(strlen(w.text), w.size);
        back = must_read(f->name, w.text);
        check_converted(in, back, &w);
        if (f == in->format) /* what is read back is worth the same */
                assert_true(fabs(w.factor) == 1 || w.factor == 2);
}

static void convert_to_all(const Instance *in) {
        for (const Format *f = formats; f->name; f++) {
                bool assigns = streq(f->name, "qaplib") || streq(f->name, "placement");

                convert_to(in, f, (assigns && in->format != f) || (streq(f->name, "mc") && in->real));
        }
}

static void test_conversions(void **state) {
        Rng r;
        List l;

        rng_seed(&r, 12, 0);
        for (unsigned round = 0; round < ROUNDS * N_KINDS; round++) {
                Kind kind = (Kind) (round % N_KINDS);
                _cleanup_(instance_freep) Instance *in = NULL;
                _cleanup_free_ char *text = NULL;

                list_random(&r, &l, kind != KIND_MC, false);
                l.n = MAX(l.n, 1U);
                text = list_file(&l, kind, round % 4 == 3 ? 100 : 1);
                in = must_read(kind_formats[kind], text);
                convert_to_all(in);
        }
}

/* Third parts are no decimals that could be added up exactly; integers beyond 32 bits have a common factor or none. */
static void test_odd_numbers(void **state) {
        static const char *const texts[] = {
                "0 0 0.33333333333333331\n0 1 -0.66666666666666663\n1 1 1e-7\n",
                "0 0 123456789.123456789\n0 1 -3.25e-5\n1 2 0.1\n",
                "0 0 3000000000\n0 1 -6000000000\n1 1 9000000000\n",
                "0 0 3000000001\n0 1 -6000000007\n1 1 9000000000\n",
                "0 0 1e300\n0 1 -1e300\n1 1 5e299\n",
                "0 0 1e-300\n0 1 -1e-300\n1 1 5e-301\n",
                "# offset=1e-3\n0 0 0.5\n0 1 -0.25\n",
                "# vartype=SPIN\n0 0 0.1\n0 1 0.2\n1 2 0.3\n2 2 -0.7\n",
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_(instance_freep) Instance *in = must_read("coo", texts[i]);
                _cleanup_free_ char *value = NULL;
                uint8_t x[3] = { 1, 1, 1 };
                double want = 0, v;

                if (i != 7) {
                        if (i == 6)
                                want = 1e-3;
                        for (const char *s = strchr(texts[i], '#') ? strchr(texts[i], '\n') + 1 : texts[i]; *s;
                             s = strchr(s, '\n') + 1) {
                                assert_int_equal(sscanf(s, "%*u %*u %lf", &v), 1);
                                want += v;
                        }
                        v = (double) instance_value_of(in, x);
                        if (!(fabs(v / want - 1) < 1e-12))
                                fail_msg("%s: %.17g, not %.17g", texts[i], v, want);
                } else
                        check_close((double) instance_value_of(in, x), -0.1, 1e-15);
                value = instance_format_value(in, instance_value_of(in, x));
                assert_int_equal(text_parse_double(value, &v), 0);
                if (!(fabs(v / (double) instance_value_of(in, x) - 1) < 1e-12))
                        fail_msg("%s: %s is not %.17Lg", texts[i], value, instance_value_of(in, x));
                convert_to_all(in);
        }
}

/* --- tasks and devices ------------------------------------------------------------------------------------------- */

static void test_qaplib(void **state) {
        Rng r;

        rng_seed(&r, 13, 0);
        for (unsigned round = 0; round < ROUNDS; round++) {
                uint32_t n = 1 + rng_below(&r, 4);
                int64_t a[16], b[16], scale = round % 3 == 2 ? 10 : 1;
                _cleanup_(instance_freep) Instance *in = NULL;
                _cleanup_free_ char *text = NULL;
                size_t size;
                FILE *f = open_memstream(&text, &size);

                fprintf(f, "  %u\n\n", n);
                for (uint32_t k = 0; k < n * n; k++)
                        fprintf(f, "%.10g%s", (double) (a[k] = small(&r)) / (double) scale,
                                rng_below(&r, 3) ? " " : "\r\n\n");
                for (uint32_t k = 0; k < n * n; k++)
                        fprintf(f, "%s%.10g", rng_below(&r, 4) ? " " : " \n ", (double) (b[k] = small(&r)) / 100);
                assert_int_equal(fclose(f), 0);
                in = must_read("qaplib", text);
                assert_true(in->q->permutation && in->q->n_groups == n && !in->maximise);
                for (uint32_t p = 0; p < 1U << (n * n); p++) {
                        uint8_t x[16];
                        uint32_t at[4] = {};
                        int64_t want = 0;

                        bits_of(p, n * n, x);
                        if (!qubo_feasible(in->q, x))
                                continue;
                        for (uint32_t i = 0; i < n; i++)
                                for (uint32_t k = 0; k < n; k++)
                                        if (x[i * n + k])
                                                at[i] = k;
                        for (uint32_t i = 0; i < n; i++)
                                for (uint32_t j = 0; j < n; j++)
                                        want += a[i * n + j] * b[at[i] * n + at[j]];
                        check_close((double) instance_value_of(in, x), (double) want / (double) (100 * scale), 1e-12);
                }
                convert_to_all(in);
        }
}

typedef struct Tasks {
        uint32_t tasks, devices, pairs;
        int64_t load[5], target[4], cost[20], distance[16], weight, pair_w[8];
        uint32_t t[8], u[8];
} Tasks;

static char *tasks_text(Rng *r, Tasks *p, double scale) {
        char *text = NULL;
        size_t size;
        FILE *f = open_memstream(&text, &size);

        *p = (Tasks){ .tasks = 2 + rng_below(r, 3),
                      .devices = 1 + rng_below(r, 3),
                      .pairs = rng_below(r, 8),
                      .weight = rng_below(r, 3) };
        fprintf(f, "%u %u %u %" PRIi64 " 500 0\n", p->tasks, p->devices, p->pairs, p->weight);
        for (uint32_t t = 0; t < p->tasks; t++)
                fprintf(f, "%.10g ", (double) (p->load[t] = rng_below(r, 9)) / scale);
        fputc('\n', f);
        for (uint32_t d = 0; d < p->devices; d++)
                fprintf(f, "%.10g ", (double) (p->target[d] = rng_below(r, 9)) / scale);
        for (uint32_t k = 0; k < p->tasks * p->devices; k++)
                fprintf(f, "%s%.10g", k % p->devices ? " " : "\n", (double) (p->cost[k] = small(r)) / scale);
        for (uint32_t k = 0; k < p->devices * p->devices; k++)
                fprintf(f, "%s%" PRIi64, k % p->devices ? " " : "\n", p->distance[k] = rng_below(r, 5));
        for (uint32_t k = 0; k < p->pairs; k++) {
                p->t[k] = rng_below(r, p->tasks);
                p->u[k] = (p->t[k] + 1 + rng_below(r, p->tasks - 1)) % p->tasks;
                fprintf(f, "\n%u %u %.10g", p->t[k], p->u[k], (double) (p->pair_w[k] = small(r)) / scale);
        }
        fputc('\n', f);
        assert_int_equal(fclose(f), 0);
        return text;
}

static double tasks_value(const Tasks *p, const uint32_t *at, double scale) {
        int64_t cost = 0, square = 0;

        for (uint32_t t = 0; t < p->tasks; t++)
                cost += p->cost[t * p->devices + at[t]];
        for (uint32_t k = 0; k < p->pairs; k++)
                cost += p->pair_w[k] * p->distance[at[p->t[k]] * p->devices + at[p->u[k]]];
        for (uint32_t d = 0; d < p->devices; d++) {
                int64_t load = -p->target[d];

                for (uint32_t t = 0; t < p->tasks; t++)
                        load += at[t] == d ? p->load[t] : 0;
                square += load * load;
        }
        return (double) cost / scale + (double) (p->weight * square) / (scale * scale);
}

static void test_placement(void **state) {
        Rng r;

        rng_seed(&r, 14, 0);
        for (unsigned round = 0; round < ROUNDS; round++) {
                double scale = round % 3 == 2 ? 10 : 1;
                Tasks p;
                _cleanup_free_ char *text = tasks_text(&r, &p, scale);
                _cleanup_(instance_freep) Instance *in = must_read(NULL, text);

                assert_string_equal(in->format->name, "placement");
                assert_int_equal(in->q->n_groups, p.tasks);
                for (uint32_t point = 0; point < 1U << in->q->n; point++) {
                        uint8_t x[16];
                        uint32_t at[5] = {};

                        bits_of(point, in->q->n, x);
                        if (!qubo_feasible(in->q, x))
                                continue;
                        for (uint32_t v = 0; v < in->q->n; v++)
                                if (x[v])
                                        at[v / p.devices] = v % p.devices;
                        check_close((double) instance_value_of(in, x), tasks_value(&p, at, scale), 1e-9);
                }
                convert_to_all(in);
        }
}

static void test_solution(void **state) {
        _cleanup_(instance_freep) Instance *plain = must_read("mc", "3 1\n1 2 5\n"),
                                           *spin = must_read("coo", "# vartype=SPIN\n0 1 1\n"),
                                           *qap = must_read("qaplib", "2 0 1 1 0 0 3 3 0");
        _cleanup_free_ char *a = instance_solution(plain, (uint8_t[]){ 1, 0, 0 }),
                            *b = instance_solution(spin, (uint8_t[]){ 1, 0 }),
                            *c = instance_solution(qap, (uint8_t[]){ 0, 1, 1, 0 });

        assert_string_equal(a, "# variable value\n1 1\n2 0\n3 0\n");
        assert_string_equal(b, "# variable value\n0 1\n1 -1\n");
        assert_string_equal(c, "# facility location\n1 2\n2 1\n");
}

/* The instances that come with the sources are read, and are what their folder says. */
static void test_instances(void **state) {
        static const struct {
                const char *path, *format;
                uint32_t n, groups;
        } cases[] = {
                { "gset/G1.mc.gz", "mc", 800, 0 },
                { "bqp/bqp50-1.qubo.gz", "qubo", 50, 0 },
                { "qaplib/nug15.dat.gz", "qaplib", 225, 15 },
                { "qaplib/tai100b.dat.gz", "qaplib", 10000, 100 },
                { "placement/place_16x8.txt.gz", "placement", 128, 16 },
        };
        const char *top = getenv("TOP_SRCDIR");

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_free_ char *path = NULL, *packed = NULL, *text = NULL, *message = NULL;
                _cleanup_(instance_freep) Instance *in = NULL;
                size_t n, size;

                assert_true(asprintf(&path, "%s/tests/data/instances/%s", top ?: ".", cases[i].path) > 0);
                assert_int_equal(read_regular_file(path, FILEIO_MAX_DEFAULT, &packed, &n), 0);
                assert_int_equal(gzip_unpack(packed, n, FILEIO_MAX_DEFAULT, &text, &size), 0);
                assert_int_equal(instance_read(NULL, path, text, size, &in, &message), 0);
                assert_string_equal(in->format->name, cases[i].format);
                assert_int_equal(in->q->n, cases[i].n);
                assert_int_equal(in->q->n_groups, cases[i].groups);
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),      cmocka_unit_test(test_conversions),
                cmocka_unit_test(test_odd_numbers), cmocka_unit_test(test_qaplib),
                cmocka_unit_test(test_placement),   cmocka_unit_test(test_solution),
                cmocka_unit_test(test_instances),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
