/* SPDX-License-Identifier: Apache-2.0 */
/*
 * solve: a file in, its best value out, in the file's own sense, and when it was found. Text has one key a line, value
 * and unit behind it; JSON has the same keys. Times are seconds of wall clock since the file was read; -1 is never.
 */
#include <errno.h>
#include <math.h>

#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "ctl/solve.h"

#define THREADS_MAX 1024U
#define KEY_WIDTH 15

void show_field(const char *key, const char *format, ...) {
        _cleanup_free_ char *s = NULL;
        va_list ap;
        int r;

        va_start(ap, format);
        r = vasprintf(&s, format, ap);
        va_end(ap);
        if (r < 0)
                return;
        out("%-*s ", KEY_WIDTH, key);
        out_ink(streq(key, "best") ? INK_BOLD : INK_NONE, "%s", s);
        out("\n");
}

json_t *model_to_json(const Model *m) {
        const Instance *in = m->in;
        const Qubo *q = m->recognised ? m->recognised->q : in->q;

        return json_pack("{s:o,s:s,s:s,s:I,s:I,s:I,s:b,s:b,s:b,s:o,s:o}", "file", json_text(m->path), "format",
                         in->format->name, "sense", in->maximise ? "maximise" : "minimise", "variables",
                         (json_int_t) in->q->n, "couplings", (json_int_t) (qubo_couplings(in->q) / 2), "groups",
                         (json_int_t) q->n_groups, "permutation", q->permutation, "recognised", m->recognised != NULL,
                         "exact", in->scale.exact, "rounding", json_real(in->scale.error), "best_known",
                         m->has_known ? json_value(in, m->known) : json_null());
}

void show_model(const Model *m) {
        const Instance *in = m->in;
        const Qubo *q = m->recognised ? m->recognised->q : in->q;

        show_field("file", "%s", m->path);
        show_field("format", "%s", in->format->name);
        show_field("sense", "%s", in->maximise ? "maximise" : "minimise");
        show_field("variables", "%" PRIu32, in->q->n);
        show_field("couplings", "%zu", qubo_couplings(in->q) / 2);
        if (q->n_groups > 0)
                show_field("groups", "%" PRIu32 "%s%s", q->n_groups, q->permutation ? ", a permutation" : "",
                           m->recognised ? ", recognised" : "");
        if (!in->scale.exact)
                show_field("rounding", "%.3g: solvers' values are at most so far from the file's", in->scale.error);
}

/* 0.012, and as many digits as a microsecond has for less. */
void show_seconds(const char *key, double s) {
        if (s < 0)
                show_field(key, "-1");
        else
                show_field(key, "%.*f s", s < 0.1 ? 6 : 3, s);
}

static void show_known(const Run *r) {
        const Model *m = r->model;
        _cleanup_free_ char *known = instance_format_value(m->in, m->known);
        long double gap = fabsl(r->value - m->known);

        if (!m->has_known)
                return;
        if (r->value == m->known)
                show_field("best_known", "%s (reached)", strempty(known));
        else if (model_is_better(m, r->value, m->known))
                show_field("best_known", "%s (surpassed)", strempty(known));
        else if (m->known != 0)
                show_field("best_known", "%s (gap %.3Lg %%)", strempty(known), 100 * gap / fabsl(m->known));
        else
                show_field("best_known", "%s", strempty(known));
}

static void show_run(const Run *r, const Options *o) {
        const Instance *in = r->model->in;
        const SolveResult *s = &r->result;
        _cleanup_free_ char *value = instance_format_value(in, r->value), *bound = NULL;

        show_field("best", "%s", strempty(value));
        show_known(r);
        if (s->lower_bound != INT64_MIN && in->scale.exact) {
                bound = instance_format_value(in, instance_value(in, s->lower_bound));
                show_field("bound", "%s", strempty(bound));
        }
        show_field("proved", "%s", s->proved ? "yes" : "no");
        show_seconds("time_to_best", seconds(r->to_best));
        show_seconds("time_to_target", r->reached ? seconds(r->to_target) : -1);
        show_seconds("time", seconds(r->usec));
        show_field("sweeps", "%" PRIu64, s->sweeps);
        show_field("flips", "%" PRIu64, s->flips);
        show_field("flips_per_ns", "%.4g", (double) s->flips / ((double) r->usec * 1000));
        show_field("solver", "%s%s%s%s", r->solver->name, streq(s->solver, r->solver->name) ? "" : " (found by ",
                   streq(s->solver, r->solver->name) ? "" : s->solver, streq(s->solver, r->solver->name) ? "" : ")");
        show_field("seed", "%" PRIu64, o->has_seed ? o->seed : 1);
        if (o->has_threads)
                show_field("threads", "%" PRIu64, o->threads);
}

static int print_json(const Run *r, const Options *o) {
        json_t *j = model_to_json(r->model), *run = run_to_json(r, o);
        bool whole = j && run && json_object_update(j, run) >= 0;

        if (whole)
                out_json_digits(j, VALUE_DIGITS);
        else
                (void) log_oom();
        json_decref(j);
        json_decref(run);
        return whole ? EXIT_DONE : EXIT_FAILED;
}

static int show_result(const Run *r, const Options *o) {
        if (o->json)
                return print_json(r, o);
        show_model(r->model);
        show_run(r, o);
        return EXIT_DONE;
}

static int write_solution(const Run *r, const char *path) {
        _cleanup_free_ char *text = instance_solution(r->model->in, r->result.x);

        if (!text)
                return log_oom(), EXIT_FAILED;
        return ctl_write_output(path, text, strlen(text));
}

static int solve_once(const Model *m, const Options *o) {
        _cleanup_(run_done) Run run = {};
        Run *running = &run;
        const PatienceWords words = run_patience(o, "solution", &running);
        const atomic_bool *stop;
        Patience *patience;
        int r;

        run_prepare(&run, m, solver_by_name(o->solver ?: "auto"));
        patience = patience_begin(&words, &stop);
        run_solver(&run, o, stop);
        patience_end(patience);
        if (run.error < 0)
                return run_failed(&run);
        r = show_result(&run, o);
        if (r == EXIT_DONE && o->output)
                r = write_solution(&run, o->output);
        return r;
}

static int check_options(const Options *o) {
        if (o->has_threads && (o->threads < 1 || o->threads > THREADS_MAX)) {
                log_error("--threads=%" PRIu64 ": allowed are 1 to %u.", o->threads, THREADS_MAX);
                return EXIT_USAGE;
        }
        if (o->compare && (o->output || o->solver)) {
                log_error("--compare runs all solvers and writes no solution: give it without --%s.",
                          o->output ? "output" : "solver");
                return EXIT_USAGE;
        }
        if (o->has_sweeps && o->sweeps == 0) {
                log_error("--sweeps=0: allowed are 1 and more.");
                return EXIT_USAGE;
        }
        return EXIT_DONE;
}

int verb_solve(const Options *o, int argc, char **argv) {
        _cleanup_(model_done) Model m = {};
        int r = check_options(o);

        if (r == EXIT_DONE && o->output)
                r = ctl_check_output(o->output);
        if (r == EXIT_DONE)
                r = model_load(o, argv[0], &m);
        if (r != EXIT_DONE)
                return r;
        if (!o->no_recognise)
                model_recognise(&m, o);
        return o->compare ? compare_solvers(&m, o) : solve_once(&m, o);
}
