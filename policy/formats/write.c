/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers. Formats of terms take any instance, as a minimisation over bits: E = offset + sum l_i x_i + sum w_ij x_i x_j,
 * with s = -1 if the instance maximises, so that its value is s E. They differ in what a value of theirs is of it:
 *
 * qbsolv has no offset: E - offset. coo: E, the offset in a comment of our own.
 * qubo counts pairs twice and maximises: -k (E - offset) with k = 1 where all w_ij are even, else 2.
 * mc: 1 bit = side of the cut, x_i x_j = (x_i + x_j - [cut]) / 2, so k (offset - E) is the cut with weights k w_ij / 2
 * between i and j, and -k (l_i + sum_j w_ij / 2) between i and one more vertex, whose side is 0 (Barahona, Juenger,
 * Reinelt 1989); it is there only if one of these is not zero.
 *
 * A file of tasks or facilities can only be written as what it is.
 */
#include <errno.h>
#include <math.h>

#include "policy/formats/plain.h"

typedef struct Sheet { /* what is being written */
        const Plain *p;
        FILE *f;
        long double off_diagonal, diagonal; /* factors of what is printed */
        uint32_t first;
} Sheet;

static void print_term(void *userdata, uint32_t i, uint32_t j, long double w) {
        const Sheet *s = userdata;

        fprintf(s->f, "%" PRIu32 " %" PRIu32 " ", i + s->first, j + s->first);
        plain_print(s->p, s->f, w * (i == j ? s->diagonal : s->off_diagonal));
        fputc('\n', s->f);
}

/* *ret_plain is the caller's. */
static int sheet_open(const Instance *in, Plain **ret_plain, Sheet *s, Written *ret, char **ret_message) {
        int r = plain_new(in, ret_plain, ret_message);

        if (r < 0)
                return r;
        s->p = *ret_plain;
        s->f = open_memstream(&ret->text, &ret->size);
        return s->f ? 0 : -ENOMEM;
}

static int finish(FILE *f, Written *ret) {
        if (fclose(f) == 0)
                return 0;
        written_done(ret);
        return -ENOMEM;
}

static long double sense(const Instance *in) {
        return in->maximise ? -1 : 1;
}

int qubo_write(const Instance *in, Written *ret, char **ret_message) {
        _cleanup_(plain_freep) Plain *p = NULL;
        Sheet s = { .first = 1, .off_diagonal = -0.5L, .diagonal = -1 };
        int r = sheet_open(in, &p, &s, ret, ret_message);
        long double k = 1;

        if (r < 0)
                return r;
        /* Of a placement file it is written down what values its .qubo has. */
        if (p->exact && (in->has_plain || !plain_pairs_even(p)))
                k = 2;
        s.off_diagonal *= k;
        s.diagonal *= k;
        fprintf(s.f, "%" PRIu32 " %zu\n", in->q->n, plain_count(p, PART_ALL));
        plain_each(p, PART_ALL, print_term, &s);
        ret->factor = (double) (-k * sense(in));
        ret->constant = plain_value(p, k * p->offset);
        return finish(s.f, ret);
}

/* "key=value" means something in coo. */
static void print_comments(const Instance *in, FILE *f, const char *mark, bool keys) {
        for (char **c = in->comments; c && *c; c++)
                if (keys || !strchr(*c, '='))
                        fprintf(f, "%s %s\n", mark, *c);
}

int qbsolv_write(const Instance *in, Written *ret, char **ret_message) {
        _cleanup_(plain_freep) Plain *p = NULL;
        Sheet s = { .off_diagonal = 1, .diagonal = 1 };
        int r = sheet_open(in, &p, &s, ret, ret_message);

        if (r < 0)
                return r;
        print_comments(in, s.f, "c", true);
        fprintf(s.f, "p qubo 0 %" PRIu32 " %zu %zu\n", in->q->n, plain_count(p, PART_LINEAR),
                plain_count(p, PART_PAIRS));
        plain_each(p, PART_LINEAR, print_term, &s);
        plain_each(p, PART_PAIRS, print_term, &s);
        ret->factor = (double) sense(in);
        ret->constant = plain_value(p, -p->offset);
        return finish(s.f, ret);
}

int coo_write(const Instance *in, Written *ret, char **ret_message) {
        _cleanup_(plain_freep) Plain *p = NULL;
        Sheet s = { .off_diagonal = 1, .diagonal = 1 };
        int r = sheet_open(in, &p, &s, ret, ret_message);

        if (r < 0)
                return r;
        fprintf(s.f, "# vartype=BINARY\n# variables=%" PRIu32 "\n", in->q->n);
        if (p->offset != 0) {
                fputs("# offset=", s.f);
                plain_print(p, s.f, p->offset);
                fputc('\n', s.f);
        }
        print_comments(in, s.f, "#", false);
        plain_each(p, PART_ALL, print_term, &s);
        ret->factor = (double) sense(in);
        return finish(s.f, ret);
}

/* Twice what the edge to the added vertex weighs, by variable. */
static void add_field(void *userdata, uint32_t i, uint32_t j, long double w) {
        int64_t *field = userdata;

        field[i] -= i == j ? 2 * (int64_t) w : (int64_t) w;
        if (i != j)
                field[j] -= (int64_t) w;
}

static void print_fields(const Sheet *s, const int64_t *field, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                if (field[i] != 0) {
                        fprintf(s->f, "%" PRIu32 " %" PRIu32 " ", i + 1, n + 1);
                        plain_print(s->p, s->f, (long double) field[i] * s->off_diagonal);
                        fputc('\n', s->f);
                }
}

int mc_write(const Instance *in, Written *ret, char **ret_message) {
        _cleanup_(plain_freep) Plain *p = NULL;
        _cleanup_free_ int64_t *field = calloc((size_t) in->q->n + 1, sizeof(*field));
        int r = plain_new(in, &p, ret_message);
        Sheet s = { .p = p, .first = 1 };
        size_t fields = 0;
        bool even = true;

        if (r < 0)
                return r;
        if (!field)
                return -ENOMEM;
        if (!p->exact)
                return text_fail(
                        -EINVAL, ret_message,
                        "the decimals of the %s file cannot be added up exactly, as mc needs; coo, qbsolv and qubo can have them",
                        in->format->name);
        plain_each(p, PART_ALL, add_field, field);
        for (uint32_t i = 0; i < in->q->n; i++) {
                fields += field[i] != 0;
                even = even && field[i] % 2 == 0;
        }
        s.off_diagonal = even && plain_pairs_even(p) ? 0.5L : 1;
        s.f = open_memstream(&ret->text, &ret->size);
        if (!s.f)
                return -ENOMEM;
        fprintf(s.f, "%" PRIu32 " %zu\n", in->q->n + (fields > 0), plain_count(p, PART_PAIRS) + fields);
        plain_each(p, PART_PAIRS, print_term, &s);
        print_fields(&s, field, in->q->n);
        ret->factor = (double) (-2 * s.off_diagonal * sense(in));
        ret->constant = plain_value(p, 2 * s.off_diagonal * p->offset);
        return finish(s.f, ret);
}

static void print_matrix(FILE *f, const int32_t *m, uint32_t n, const Plain *p) {
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = 0; j < n; j++) {
                        if (j > 0)
                                fputc(' ', f);
                        plain_print(p, f, m[(size_t) i * n + j]);
                        if (j + 1 == n)
                                fputc('\n', f);
                }
}

static int cannot(const Instance *in, const char *format, const char *why, char **ret_message) {
        return text_fail(-EINVAL, ret_message, "a file of format %s cannot be written as %s: %s", in->format->name,
                         format, why);
}

/* All decimals of the value go to the distances. */
int qaplib_write(const Instance *in, Written *ret, char **ret_message) {
        const Qubo *q = in->q;
        Plain whole = { .exact = true }, decimals = { .exact = true };
        FILE *f;

        if (!q->permutation || !q->flow)
                return cannot(in, "qaplib", "it is no quadratic assignment of one device for each task", ret_message);
        while ((double) power_of_ten(decimals.digits) != in->scale.scale)
                decimals.digits++;
        f = open_memstream(&ret->text, &ret->size);
        if (!f)
                return -ENOMEM;
        fprintf(f, "%" PRIu32 "\n\n", q->n_groups);
        print_matrix(f, q->flow, q->n_groups, &whole);
        fputc('\n', f);
        print_matrix(f, q->distance, q->n_groups, &decimals);
        ret->factor = 1;
        return finish(f, ret);
}

int placement_write(const Instance *in, Written *ret, char **ret_message) {
        if (!in->source)
                return cannot(in, "placement", "its loads, costs and distances are not known", ret_message);
        ret->text = strdup(in->source);
        if (!ret->text)
                return -ENOMEM;
        ret->size = strlen(ret->text);
        ret->factor = 1;
        return 0;
}
