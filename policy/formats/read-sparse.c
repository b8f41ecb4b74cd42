/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats that list terms, one a line. Pairs that occur twice add up in all of them.
 *
 * mc: "n m", then m lines "i j w", from 1; value: the weight of the cut, maximised. An edge is cut if x_i + x_j - 2 x_i x_j
 * is 1, so the energy is the sum of w (2 x_i x_j - x_i - x_j). A third number may be missing on no line.
 * qubo (OR-Library, Beasley 1998; Biq Mac): "n nnz", then nnz lines "i j q", from 1, i <= j; value: sum q_ii x_i +
 * 2 sum q_ij x_i x_j, maximised.
 * qbsolv (D-Wave's qbsolv, "format of input file"): 'c' comments, "p qubo 0 maxNodes nNodes nCouplers", then nNodes lines
 * "i i v" and nCouplers lines "i j v", i < j, from 0; value: the sum of v x_i x_j, minimised.
 * coo (D-Wave's dimod): '#', '%' and 'c' comments, lines "i j v" from 0, minimised; "# vartype=SPIN" makes variables -1
 * and 1. Ours, which dimod passes over: "# variables=N" for variables behind the last that is named, "# offset=V".
 */
#include "policy/formats/internal.h"

#include <errno.h>

int build_failed(const Scan *s, int r) {
        switch (r) {
        case -EOVERFLOW:
                return text_fail(
                        r, s->ret_message,
                        "%s: the coefficients are too large: each must fit into 32 bits and all together into 61",
                        s->name);
        case -EFBIG:
                return text_fail(r, s->ret_message, "%s: the model is too large: at most %zu couplings are allowed",
                                 s->name, FORMAT_COUPLINGS_MAX);
        default: return r;
        }
}

int sink_open(Scan *s, Sink *k, uint64_t n) {
        if (n > FORMAT_VARIABLES_MAX)
                return scan_fail(s, -EFBIG, "%" PRIu64 " variables; allowed are at most %" PRIu32, n,
                                 FORMAT_VARIABLES_MAX);
        k->n = (uint32_t) n;
        return k->want_real ? real_new(k->n, &k->real) : qubo_builder_new(k->n, &k->whole);
}

/* Real terms are summed later, so that only their number can be too large here. */
static int sink_result(Scan *s, Sink *k, int r) {
        if (r == -EOVERFLOW && k->whole)
                return SINK_DECIMALS;
        if (r == -EINVAL)
                return scan_fail(s, -ERANGE, "the number is too large");
        return r;
}

static int add_whole(Sink *k, uint32_t i, uint32_t j, const Number *w, int factor) {
        int64_t v;

        if (!number_is_whole(w) || __builtin_mul_overflow(w->mantissa, (int64_t) factor, &v))
                return SINK_DECIMALS;
        return qubo_add_quadratic(k->whole, i, j, v);
}

int sink_add(Scan *s, Sink *k, uint32_t i, uint32_t j, const Number *w, int factor) {
        int r;

        if (++k->n_terms > 4 * FORMAT_COUPLINGS_MAX)
                return scan_fail(s, -EFBIG, "more than %zu terms, which is the most that is allowed",
                                 FORMAT_COUPLINGS_MAX);
        if (k->whole)
                r = add_whole(k, i, j, w, factor);
        else
                r = real_add_quadratic(k->real, i, j, w->value * factor);
        return sink_result(s, k, r);
}

int sink_add_offset(Scan *s, Sink *k, const Number *w, int factor) {
        int64_t v;
        int r = SINK_DECIMALS;

        if (!k->whole)
                r = real_add_offset(k->real, w->value * factor);
        else if (number_is_whole(w) && !__builtin_mul_overflow(w->mantissa, (int64_t) factor, &v))
                r = qubo_add_offset(k->whole, v);
        return sink_result(s, k, r);
}

static void sink_done(Sink *k) {
        qubo_builder_free(k->whole);
        real_free(k->real);
}

static int read_whole(Scan s, Pass pass, Instance *in) {
        _cleanup_(sink_done) Sink k = {};
        int r = pass(&s, &k, in);

        if (r != 0)
                return r;
        r = qubo_build(k.whole, &in->q);
        if (r == -EOVERFLOW)
                return SINK_DECIMALS;
        in->scale = (RealScale){ .scale = 1, .unit = 1, .exact = true };
        return r < 0 ? build_failed(&s, r) : 0;
}

static int read_real(Scan s, Pass pass, Instance *in) {
        _cleanup_(sink_done) Sink k = { .want_real = true };
        int r = pass(&s, &k, in);

        if (r < 0)
                return r;
        r = real_quantise(k.real, &in->q, &in->scale);
        if (r < 0)
                return build_failed(&s, r);
        in->real = TAKE_PTR(k.real);
        return 0;
}

int read_by_pass(Scan *s, Pass pass, Instance *in) {
        int r;

        s->comment = comment_keep;
        s->userdata = in;
        r = read_whole(*s, pass, in);
        if (r == SINK_DECIMALS) {
                in->comments = strv_free(in->comments);
                r = read_real(*s, pass, in);
        }
        return r;
}

/* Header "n m" of both 1-based formats. */
static int read_header(Scan *s, const char *entries, uint64_t *ret_n, uint64_t *ret_m) {
        int r = scan_line(s);

        if (r == 0)
                return scan_fail(s, -EINVAL,
                                 "the file is empty; its first line must be the numbers of variables and %s", entries);
        if (r >= 0)
                r = scan_whole(s, "the number of variables", 1, FORMAT_VARIABLES_MAX, ret_n);
        if (r >= 0)
                r = scan_whole(s, "the number of lines that follow", 0, FORMAT_COUPLINGS_MAX, ret_m);
        return r < 0 ? r : scan_line_done(s, "\"variables lines\"");
}

typedef struct Term {
        uint32_t i, j; /* from 0 */
        Number w;
} Term;

static int read_term(Scan *s, uint32_t first, uint32_t n, Term *ret) {
        uint64_t last = (uint64_t) n - 1 + first, i, j;
        int r;

        r = scan_whole(s, "the first variable", first, last, &i);
        if (r >= 0)
                r = scan_whole(s, "the second variable", first, last, &j);
        if (r >= 0)
                r = scan_number(s, "the value", &ret->w);
        if (r >= 0)
                r = scan_line_done(s, "\"variable variable value\"");
        if (r < 0)
                return r;
        ret->i = (uint32_t) i - first;
        ret->j = (uint32_t) j - first;
        return 0;
}

/* Fewer or more lines than the header says: a file that was cut short, or is none. */
static int count_failed(Scan *s, uint64_t want, uint64_t have) {
        if (have < want)
                return scan_fail(s, -EINVAL,
                                 "the file ends after %" PRIu64 " of the %" PRIu64 " lines that its header announces",
                                 have, want);
        return scan_fail(s, -EINVAL, "a line more than the %" PRIu64 " that the header announces", want);
}

static int mc_term(Scan *s, Sink *k, const Term *t) {
        int r;

        if (t->i == t->j)
                return scan_fail(s, -EINVAL, "an edge from vertex %" PRIu32 " to itself, which no cut can have",
                                 t->i + 1);
        r = sink_add(s, k, t->i, t->j, &t->w, 2);
        if (r == 0)
                r = sink_add(s, k, t->i, t->i, &t->w, -1);
        return r == 0 ? sink_add(s, k, t->j, t->j, &t->w, -1) : r;
}

static int qubo_term(Scan *s, Sink *k, const Term *t) {
        if (t->i > t->j)
                return scan_fail(s, -EINVAL,
                                 "%" PRIu32 " %" PRIu32 " lies below the diagonal; allowed are pairs i <= j", t->i + 1,
                                 t->j + 1);
        return sink_add(s, k, t->i, t->j, &t->w, t->i == t->j ? -1 : -2);
}

static int pass_counted(Scan *s, Sink *k, const char *entries, int (*term)(Scan *s, Sink *k, const Term *t)) {
        uint64_t n = 0, m = 0, have = 0;
        int r = read_header(s, entries, &n, &m);

        if (r >= 0)
                r = sink_open(s, k, n);
        while (r == 0 && (r = scan_line(s)) > 0) {
                Term t;

                if (have++ == m)
                        return count_failed(s, m, have);
                r = read_term(s, 1, (uint32_t) n, &t);
                if (r >= 0)
                        r = term(s, k, &t);
        }
        return r == 0 && have < m ? count_failed(s, m, have) : r;
}

static int mc_pass(Scan *s, Sink *k, Instance *in) {
        return pass_counted(s, k, "edges", mc_term);
}

static int qubo_pass(Scan *s, Sink *k, Instance *in) {
        return pass_counted(s, k, "entries", qubo_term);
}

int mc_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message) {
        Scan s = scan_begin(name, text, size, "#%", ret_message);

        in->maximise = true;
        in->first = 1;
        return read_by_pass(&s, mc_pass, in);
}

int qubo_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message) {
        Scan s = scan_begin(name, text, size, "#%", ret_message);

        in->maximise = true;
        in->first = 1;
        return read_by_pass(&s, qubo_pass, in);
}

static bool word_is(Scan *s, const char *want) {
        const char *word;
        size_t n;

        return scan_word(s, &word, &n) && n == strlen(want) && memcmp(word, want, n) == 0;
}

typedef struct Problem { /* qbsolv's p line */
        uint64_t max_nodes, nodes, couplers;
} Problem;

static int read_problem(Scan *s, Problem *ret) {
        const char *topology;
        size_t n;
        int r = scan_line(s);

        if (r < 0)
                return r;
        if (r == 0 || !word_is(s, "p") || !word_is(s, "qubo"))
                return scan_fail(s, -EINVAL,
                                 "the first line that is no comment must be \"p qubo 0 maxNodes nNodes nCouplers\"");
        if (!scan_word(s, &topology, &n))
                return scan_fail(s, -EINVAL, "the line ends where the topology should follow: 0 or \"unconstrained\"");
        if (!(n == 1 && *topology == '0') && !(n == 13 && memcmp(topology, "unconstrained", n) == 0))
                return scan_fail(s, -EINVAL, "the topology must be 0 or \"unconstrained\"");
        r = scan_whole(s, "maxNodes", 1, FORMAT_VARIABLES_MAX, &ret->max_nodes);
        if (r >= 0)
                r = scan_whole(s, "nNodes", 0, ret->max_nodes, &ret->nodes);
        if (r >= 0)
                r = scan_whole(s, "nCouplers", 0, FORMAT_COUPLINGS_MAX, &ret->couplers);
        return r < 0 ? r : scan_line_done(s, "\"p qubo 0 maxNodes nNodes nCouplers\"");
}

static int qbsolv_term(Scan *s, Sink *k, const Problem *p, Problem *have) {
        Term t;
        int r = read_term(s, 0, (uint32_t) p->max_nodes, &t);

        if (r < 0)
                return r;
        if (t.i > t.j)
                return scan_fail(s, -EINVAL,
                                 "%" PRIu32 " %" PRIu32 " lies below the diagonal; allowed are pairs i <= j", t.i, t.j);
        if (t.i == t.j && have->nodes++ == p->nodes)
                return scan_fail(s, -EINVAL, "a node more than the %" PRIu64 " that the p line announces", p->nodes);
        if (t.i != t.j && have->couplers++ == p->couplers)
                return scan_fail(s, -EINVAL, "a coupler more than the %" PRIu64 " that the p line announces",
                                 p->couplers);
        return sink_add(s, k, t.i, t.j, &t.w, 1);
}

static int qbsolv_pass(Scan *s, Sink *k, Instance *in) {
        Problem p = {}, have = {};
        int r = read_problem(s, &p);

        if (r >= 0)
                r = sink_open(s, k, p.max_nodes);
        while (r == 0 && (r = scan_line(s)) > 0)
                r = qbsolv_term(s, k, &p, &have);
        if (r == 0 && (have.nodes < p.nodes || have.couplers < p.couplers))
                return scan_fail(s, -EINVAL,
                                 "the file ends after %" PRIu64 " of %" PRIu64 " nodes and %" PRIu64 " of %" PRIu64
                                 " couplers",
                                 have.nodes, p.nodes, have.couplers, p.couplers);
        return r;
}

int qbsolv_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message) {
        Scan s = scan_begin(name, text, size, "c#", ret_message);

        return read_by_pass(&s, qbsolv_pass, in);
}

typedef struct Coo {
        Instance *in;
        Number offset;
        uint64_t variables; /* announced; 0: not */
} Coo;

/* The value behind "key=", if the comment is that; the key may have blanks around its '='. */
static bool comment_key(const char *text, size_t n, const char *key, const char **ret, size_t *ret_n) {
        size_t i = strlen(key);

        if (n < i || memcmp(text, key, i) != 0)
                return false;
        while (i < n && text[i] == ' ')
                i++;
        if (i == n || text[i] != '=')
                return false;
        for (i++; i < n && text[i] == ' ';)
                i++;
        *ret = text + i;
        *ret_n = n - i;
        return true;
}

static int coo_vartype(Scan *s, Coo *c, const char *v, size_t n) {
        if (n == 4 && memcmp(v, "SPIN", n) == 0)
                c->in->spins = true;
        else if (n == 6 && memcmp(v, "BINARY", n) == 0)
                c->in->spins = false;
        else
                return scan_fail(s, -EINVAL, "the vartype must be BINARY or SPIN");
        return 0;
}

static int coo_comment(Scan *s, const char *text, size_t n) {
        Coo *c = s->userdata;
        const char *v;
        size_t vn;
        Number number;

        if (comment_key(text, n, "vartype", &v, &vn))
                return coo_vartype(s, c, v, vn);
        if (comment_key(text, n, "variables", &v, &vn)) {
                if (number_parse(v, vn, &number) < 0 || !number_is_whole(&number) || number.mantissa < 1 ||
                    number.mantissa > FORMAT_VARIABLES_MAX)
                        return scan_fail(s, -EINVAL, "variables= must be a whole number from 1 to %" PRIu32,
                                         FORMAT_VARIABLES_MAX);
                c->variables = (uint64_t) number.mantissa;
                return 0;
        }
        if (comment_key(text, n, "offset", &v, &vn)) {
                if (number_parse(v, vn, &c->offset) < 0)
                        return scan_fail(s, -EINVAL, "offset= must be a number");
                return 0;
        }
        s->userdata = c->in;
        n = (size_t) comment_keep(s, text, n);
        s->userdata = c;
        return (int) n;
}

/* How many variables there are is known at the end only. */
static int coo_count(Scan s, Coo *c, uint64_t *ret) {
        uint64_t n = 0;
        int r;

        while ((r = scan_line(&s)) > 0) {
                Term t;

                r = read_term(&s, 0, FORMAT_VARIABLES_MAX, &t);
                if (r < 0)
                        return r;
                n = MAX(n, (uint64_t) MAX(t.i, t.j) + 1);
        }
        if (r == 0 && c->variables > 0 && c->variables < n)
                return scan_fail(&s, -EINVAL,
                                 "there is a variable %" PRIu64 ", but the comment variables=%" PRIu64
                                 " says that there are fewer",
                                 n - 1, c->variables);
        n = MAX(n, c->variables);
        if (r == 0 && n == 0)
                return scan_fail(&s, -EINVAL, "there are no variables: allowed are lines \"i j value\"");
        *ret = n;
        return r;
}

/* v s_i s_j with s = 2 x - 1; v s_i. */
static int coo_spin(Scan *s, Sink *k, const Term *t) {
        int r;

        if (t->i == t->j) {
                r = sink_add(s, k, t->i, t->i, &t->w, 2);
                return r == 0 ? sink_add_offset(s, k, &t->w, -1) : r;
        }
        r = sink_add(s, k, t->i, t->j, &t->w, 4);
        if (r == 0)
                r = sink_add(s, k, t->i, t->i, &t->w, -2);
        if (r == 0)
                r = sink_add(s, k, t->j, t->j, &t->w, -2);
        return r == 0 ? sink_add_offset(s, k, &t->w, 1) : r;
}

static int coo_terms(Scan *s, Sink *k, const Instance *in, uint32_t n) {
        int r = 0;

        while (r == 0 && (r = scan_line(s)) > 0) {
                Term t;

                r = read_term(s, 0, n, &t);
                if (r >= 0)
                        r = in->spins ? coo_spin(s, k, &t) : sink_add(s, k, t.i, t.j, &t.w, 1);
        }
        return r;
}

static int coo_pass(Scan *s, Sink *k, Instance *in) {
        Coo c = { .in = in, .offset = { .exact = true } };
        uint64_t n = 0;
        int r;

        in->spins = false;
        s->comment = coo_comment;
        s->userdata = &c;
        r = coo_count(*s, &c, &n);
        s->comment = NULL;
        if (r >= 0)
                r = sink_open(s, k, n);
        if (r >= 0)
                r = sink_add_offset(s, k, &c.offset, 1);
        return r == 0 ? coo_terms(s, k, in, (uint32_t) n) : r;
}

int coo_read(const char *name, const char *text, size_t size, Instance *in, char **ret_message) {
        Scan s = scan_begin(name, text, size, "#%c", ret_message);

        return read_by_pass(&s, coo_pass, in);
}
