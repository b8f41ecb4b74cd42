/* SPDX-License-Identifier: Apache-2.0 */
/*
 * solve --compare: every solver that fits has the model for the same time (or sweeps), one after another, and what each
 * found and when stands in a table and in a picture. Which is better is decided by the value, and where two found the
 * same, by who had it first.
 *
 * The picture: time from left to right and the gap to the best value of all from top to bottom, both logarithmic, since
 * searches find most in the first milliseconds and the last thousandth takes the rest; the bottom line is the best
 * itself. One letter for each solver.
 */
#include <errno.h>
#include <math.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "ctl/solve.h"

#define PICTURE_LEFT 12
#define PICTURE_WIDTH 66
#define PICTURE_HEIGHT 14

/* Quantum-inspired: what runs is a simulation of the quantum algorithm on this CPU. */
static const char *const quantum_inspired[] = { "sqa", "qaoa", NULL };

typedef struct Comparison {
        const Model *model;
        Run *runs; /* of the solvers that fit */
        size_t n;
        bool stopped;
        long double best;
} Comparison;

static bool is_quantum(const Run *r) {
        for (size_t i = 0; quantum_inspired[i]; i++)
                if (streq(r->solver->name, quantum_inspired[i]))
                        return true;
        return false;
}

/* Better first; auto, which is made of the others, counts as they do. */
static int run_cmp(const void *a, const void *b) {
        const Run *x = a, *y = b;

        if ((x->error < 0) != (y->error < 0))
                return x->error < 0 ? 1 : -1;
        if (x->error < 0)
                return 0;
        if (x->value != y->value)
                return model_is_better(x->model, x->value, y->value) ? -1 : 1;
        return CMP(x->to_best, y->to_best);
}

static int run_all(const Model *m, const Options *o, Comparison *ret) {
        Run *running = NULL;
        const PatienceWords words = run_patience(o, "solutions", &running);
        const atomic_bool *stop;
        Patience *patience;
        size_t n = 0;

        while (solvers[n])
                n++;
        *ret = (Comparison){ .model = m, .runs = calloc(n + 1, sizeof(*ret->runs)) };
        if (!ret->runs)
                return -ENOMEM;
        patience = patience_begin(&words, &stop);
        for (size_t i = 0; i < n && !atomic_load(stop); i++) {
                if (!run_fits(m, solvers[i]))
                        continue;
                run_prepare(&ret->runs[ret->n], m, solvers[i]);
                __atomic_store_n(&running, &ret->runs[ret->n], __ATOMIC_RELEASE);
                run_solver(&ret->runs[ret->n++], o, stop);
        }
        ret->stopped = atomic_load(stop);
        patience_end(patience);
        qsort(ret->runs, ret->n, sizeof(*ret->runs), run_cmp);
        if (ret->n > 0)
                ret->best = ret->runs[0].value;
        return 0;
}

static void comparison_done(Comparison *c) {
        for (size_t i = 0; i < c->n; i++)
                run_done(&c->runs[i]);
        free(c->runs);
}

static void add_seconds(Table *t, uint64_t usec) {
        if (usec < USEC_PER_SEC / 10)
                table_add(t, INK_NONE, "%.3f ms", (double) usec / 1000);
        else
                table_add(t, INK_NONE, "%.3f s", seconds(usec));
}

static void add_gap(Table *t, const Comparison *c, const Run *r) {
        long double gap = fabsl(r->value - c->best);

        if (gap == 0)
                table_add(t, INK_GOOD, "0");
        else if (c->best != 0)
                table_add(t, INK_NONE, "%.3Lg %%", 100 * gap / fabsl(c->best));
        else
                table_add(t, INK_NONE, "%.6Lg", gap);
}

static char letter(size_t i) {
        return (char) ('A' + i % 26);
}

static void show_row(Table *t, const Comparison *c, size_t i) {
        const Run *r = &c->runs[i];
        _cleanup_free_ char *value = NULL;

        table_add(t, INK_BOLD, "%c", letter(i));
        table_add(t, INK_NONE, "%s", r->solver->name);
        if (r->error < 0) {
                table_add(t, INK_WARN, "none");
                for (unsigned k = 0; k < 4; k++)
                        table_add(t, INK_NONE, "-");
                table_add(t, INK_WARN, "%s", run_error(r));
                return;
        }
        value = instance_format_value(c->model->in, r->value);
        table_add(t, r->value == c->best ? INK_GOOD : INK_NONE, "%s", strempty(value));
        add_gap(t, c, r);
        if (r->has_target && !r->reached)
                table_add(t, INK_WARN, "never");
        else
                add_seconds(t, r->has_target ? r->to_target : r->to_best);
        table_add(t, INK_NONE, "%.3g", (double) r->result.flips / ((double) r->usec * 1000));
        table_add(t, INK_NONE, "%s", r->result.proved ? "yes" : "no");
        table_add(t, INK_NONE, "%s", streq(r->result.solver, r->solver->name) ? "" : r->result.solver);
}

static void show_table(const Comparison *c) {
        static const char *const columns[] = { "",          "SOLVER", ">BEST",     ">GAP", ">TIME TO BEST",
                                               ">FLIPS/NS", "PROVED", "*FOUND BY", NULL };
        static const char *const targeted[] = { "",          "SOLVER", ">BEST",     ">GAP", ">TIME TO TARGET",
                                                ">FLIPS/NS", "PROVED", "*FOUND BY", NULL };
        _cleanup_(table_freep) Table *t = NULL;

        if (table_new(c->n > 0 && c->runs[0].has_target ? targeted : columns, &t) < 0)
                return;
        for (size_t i = 0; i < c->n; i++)
                show_row(t, c, i);
        table_print(t);
}

static void show_unfit(const Comparison *c) {
        _cleanup_(strv_freep) char **names = NULL;
        _cleanup_free_ char *line = NULL;

        for (size_t i = 0; solvers[i]; i++)
                if (!run_fits(c->model, solvers[i]))
                        (void) strv_extend(&names, solvers[i]->name);
        if (!names)
                return;
        for (char **s = names; *s; s++) {
                char *longer = NULL;

                if (asprintf(&longer, "%s%s%s", strempty(line), line ? ", " : "", *s) < 0)
                        return;
                free(line);
                line = longer;
        }
        out("Not for a model like this: %s.\n", line);
}

/* The plot's scales; of gaps in energies of the model, in which traces are kept. */
typedef struct Scale {
        double first, last; /* seconds */
        double least, most; /* gaps above 0 */
        int64_t best;
} Scale;

static double gap_of(const Scale *s, int64_t energy) {
        return (double) energy - (double) s->best;
}

static Scale scale_of(const Comparison *c) {
        Scale s = { .first = INFINITY, .last = 1e-6, .least = INFINITY, .most = 0, .best = INT64_MAX };

        for (size_t i = 0; i < c->n; i++)
                if (c->runs[i].error >= 0)
                        s.best = MIN(s.best, c->runs[i].result.energy);
        for (size_t i = 0; i < c->n; i++) {
                const Run *r = &c->runs[i];

                for (size_t k = 0; k < r->n_trace; k++) {
                        double gap = gap_of(&s, r->trace[k].energy);

                        s.first = MIN(s.first, seconds(MAX(r->trace[k].usec, UINT64_C(10))));
                        if (gap > 0) {
                                s.least = MIN(s.least, gap);
                                s.most = MAX(s.most, gap);
                        }
                }
                s.last = MAX(s.last, seconds(r->usec));
        }
        s.first = MIN(s.first, s.last / 10);
        return s;
}

static int column(const Scale *s, double at) {
        double x = log(MAX(at, s->first) / s->first) / log(s->last / s->first);

        return PICTURE_LEFT + (int) lround(MIN(x, 1.0) * (PICTURE_WIDTH - 1));
}

/* The row of a gap: the last for none, the others from the largest to the least. */
static int row(const Scale *s, double gap) {
        double y;

        if (gap <= 0)
                return PICTURE_HEIGHT - 1;
        y = s->most > s->least ? log(s->most / gap) / log(s->most / s->least) : 1;
        return (int) lround(y * (PICTURE_HEIGHT - 3));
}

static double row_gap(const Scale *s, int y) {
        if (y == PICTURE_HEIGHT - 1)
                return 0;
        return s->most * exp(-log(s->most / s->least) * y / (PICTURE_HEIGHT - 3));
}

/* What has been found by the end of a column stays until it is surpassed; a run ends with its time. */
static void draw_run(Canvas *canvas, const Scale *s, const Run *r, size_t i) {
        size_t k = 0;
        int last = column(s, seconds(r->usec));

        if (r->n_trace == 0)
                return;
        for (int x = column(s, seconds(r->trace[0].usec)); x <= last; x++) {
                while (k + 1 < r->n_trace && column(s, seconds(r->trace[k + 1].usec)) <= x)
                        k++;
                canvas_put(canvas, x, row(s, gap_of(s, r->trace[k].energy)),
                           i == 0  ? INK_GOOD
                           : i % 2 ? INK_FRAME
                                   : INK_WARN,
                           (uint32_t) letter(i));
        }
}

static void draw_axes(Canvas *canvas, const Scale *s, const Model *m) {
        for (int y = 0; y < PICTURE_HEIGHT; y++) {
                int64_t energy = s->best + (int64_t) llround(row_gap(s, y));
                long double worth = energy == 0 ? 0 : instance_value(m->in, energy);
                bool labelled = y == PICTURE_HEIGHT - 1 || (y % 3 == 0 && y < PICTURE_HEIGHT - 2 && s->most > 0);

                canvas_put(canvas, PICTURE_LEFT - 1, y, INK_FRAME, labelled ? 0x2524 : 0x2502);
                if (labelled)
                        (void) canvas_text(canvas, 0, y, INK_DIM, "%10.8Lg", worth);
        }
        for (int x = PICTURE_LEFT; x < PICTURE_LEFT + PICTURE_WIDTH; x++)
                canvas_put(canvas, x, PICTURE_HEIGHT, INK_FRAME, 0x2500);
        canvas_put(canvas, PICTURE_LEFT - 1, PICTURE_HEIGHT, INK_FRAME, 0x2514);
}

static void draw_times(Canvas *canvas, const Scale *s) {
        for (int e = -6; e < 7; e++) {
                double at = pow(10, e);
                int x = column(s, at);

                if (at < s->first * 0.999 || at > s->last * 1.001)
                        continue;
                canvas_put(canvas, x, PICTURE_HEIGHT, INK_FRAME, 0x253C);
                if (e < -3)
                        (void) canvas_text(canvas, x - 2, PICTURE_HEIGHT + 1, INK_DIM, "%g us", at * 1e6);
                else if (e < 0)
                        (void) canvas_text(canvas, x - 2, PICTURE_HEIGHT + 1, INK_DIM, "%g ms", at * 1e3);
                else
                        (void) canvas_text(canvas, x - 2, PICTURE_HEIGHT + 1, INK_DIM, "%g s", at);
        }
}

static void show_picture_of(const Comparison *c) {
        _cleanup_(canvas_freep) Canvas *canvas = NULL;
        Scale s = scale_of(c);

        if (c->n == 0 || s.best == INT64_MAX || canvas_new(OUTPUT_WIDTH, &canvas) < 0)
                return;
        out_heading("Best value over time");
        draw_axes(canvas, &s, c->model);
        draw_times(canvas, &s);
        for (size_t i = c->n; i-- > 0;) /* the best on top */
                draw_run(canvas, &s, &c->runs[i], i);
        canvas_print(canvas);
}

/* The first of the runs, which are in order, that is or is not quantum-inspired; auto is neither. */
static const Run *first_of(const Comparison *c, bool quantum) {
        for (size_t i = 0; i < c->n; i++)
                if (c->runs[i].error >= 0 && is_quantum(&c->runs[i]) == quantum &&
                    !streq(c->runs[i].solver->name, "auto"))
                        return &c->runs[i];
        return NULL;
}

/* When a run first had a value as good as another's last one. */
static uint64_t time_to(const Run *r, int64_t energy) {
        for (size_t k = 0; k < r->n_trace; k++)
                if (r->trace[k].energy <= energy)
                        return r->trace[k].usec;
        return UINT64_MAX;
}

static char *verdict(const Comparison *c) {
        const Run *q = first_of(c, true), *o = first_of(c, false);
        _cleanup_free_ char *a = NULL, *b = NULL;
        char *s = NULL;
        int r;

        if (!q || !o)
                return strdup(q ? "Only quantum-inspired solvers (simulated on this CPU) fit this model."
                                : "No quantum-inspired solver fits this model, so there is nothing to say of them.");
        a = instance_format_value(c->model->in, q->value);
        b = instance_format_value(c->model->in, o->value);
        if (q->value == o->value)
                r = asprintf(
                        &s,
                        "Quantum-inspired (%s, simulated on this CPU) was %s here: both reach %s, %s after %.6g s and %s after %.6g s.",
                        q->solver->name, q->to_best < o->to_best ? "faster" : "not better", strempty(a),
                        q->solver->name, seconds(q->to_best), o->solver->name, seconds(o->to_best));
        else if (model_is_better(c->model, q->value, o->value))
                r = asprintf(&s, "Quantum-inspired (%s, simulated on this CPU) was better here: it reaches %s, %s %s.",
                             q->solver->name, strempty(a), o->solver->name, strempty(b));
        else
                r = asprintf(
                        &s,
                        "Quantum-inspired (%s, simulated on this CPU) was not better here: it ends at %s, which %s has after %.6g s, on its way to %s.",
                        q->solver->name, strempty(a), o->solver->name, seconds(time_to(o, q->result.energy)),
                        strempty(b));
        return r < 0 ? NULL : s;
}

static int print_json(const Comparison *c, const Options *o, const char *words) {
        json_t *j = model_to_json(c->model), *runs = json_array();

        for (size_t i = 0; i < c->n; i++)
                (void) json_array_append_new(runs, run_to_json(&c->runs[i], o));
        if (!j || json_object_set_new(j, "runs", runs) < 0 || json_object_set_new(j, "verdict", json_string(words)) < 0)
                return log_oom(), json_decref(j), EXIT_FAILED;
        out_json_digits(j, VALUE_DIGITS);
        json_decref(j);
        return EXIT_DONE;
}

static void show_known(const Model *m) {
        _cleanup_free_ char *known = instance_format_value(m->in, m->known);

        if (m->has_known)
                show_field("best_known", "%s", strempty(known));
}

int compare_solvers(const Model *m, const Options *o) {
        _cleanup_(comparison_done) Comparison c = {};
        _cleanup_free_ char *words = NULL;

        if (run_all(m, o, &c) < 0)
                return log_oom(), EXIT_FAILED;
        if (c.n == 0 || c.runs[0].error < 0) {
                log_error("%s: no solver found anything%s.", m->path, c.stopped ? " before it was stopped" : "");
                return EXIT_FAILED;
        }
        words = verdict(&c);
        if (o->json)
                return print_json(&c, o, strempty(words));
        show_model(m);
        show_known(m);
        out("\n");
        show_table(&c);
        show_unfit(&c);
        show_picture_of(&c);
        out("\n");
        out_wrapped("", "", INK_NONE, strempty(words));
        return EXIT_DONE;
}
