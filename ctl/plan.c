/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan, apply, revert: the same object three times. A plan is shown as a table of tasks, the price of each term before
 * and after as bars, how far it may be from the optimum, what was written, and what there is to say.
 */
#include <math.h>

#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"

#define BAR_WIDTH 30U

void show_messages(const json_t *messages) {
        size_t i;
        const json_t *m;

        if (json_array_size(messages) > 0)
                out("\n");
        json_array_foreach ((json_t *) messages, i, m)
                if (json_is_string(m))
                        out_wrapped("! ", "  ", INK_WARN, json_string_value(m));
}

static const char *or_dash(const char *s) {
        return *s ? s : "-";
}

static bool any_pid(const json_t *tasks) {
        size_t i;
        const json_t *t;

        json_array_foreach ((json_t *) tasks, i, t)
                if (jnum(t, "pid") > 0)
                        return true;
        return false;
}

static void show_tasks(const json_t *plan) {
        static const char *const columns[] = { "TASK", "DEVICE", "*CPUS", "MEMS", "IRQ", ">PID", "", NULL };
        static const char *const planned[] = { "TASK", "DEVICE", "*CPUS", "MEMS", "IRQ", NULL }; /* no process yet */
        const json_t *tasks = jget(plan, "tasks"), *t;
        _cleanup_(table_freep) Table *table = NULL;
        bool pids = any_pid(tasks);
        size_t i;

        if (json_array_size(tasks) == 0 || table_new(pids ? columns : planned, &table) < 0)
                return;
        json_array_foreach ((json_t *) tasks, i, t) {
                _cleanup_free_ char *devices = jjoin(jget(t, "device"), ",");
                bool moves = jnum(t, "pid") > 0 && json_is_true(jget(t, "changed"));

                table_add(table, INK_BOLD, "%s", jstr(t, "name"));
                table_add(table, INK_NONE, "%s", or_dash(strempty(devices)));
                table_add(table, INK_GOOD, "%s", or_dash(jstr(t, "cpus")));
                table_add(table, INK_NONE, "%s", or_dash(jstr(t, "mems")));
                table_add(table, INK_NONE, "%s", or_dash(jstr(t, "irq_cpus")));
                if (!pids)
                        continue;
                if (jnum(t, "pid") > 0)
                        table_add(table, INK_NONE, "%.0f", jnum(t, "pid"));
                else
                        table_add(table, INK_DIM, "-");
                table_add(table, moves ? INK_WARN : INK_DIM, "%s", moves ? "moves" : "");
        }
        out("\n");
        table_print(table);
}

static void show_energy_row(const char *name, double now, double before, double scale) {
        unsigned cells;

        out("%-16s", name);
        if (isnan(before))
                out("%11s", "-");
        else
                out("%11.4g", before);
        out("%11.4g  ", now);
        cells = out_change_bar(now / scale, before / scale, BAR_WIDTH);
        if (!isnan(before) && fabs(before - now) > scale * 1e-9)
                out_ink(INK_DIM, "%*s%+9.4g", (int) (BAR_WIDTH - cells), "", now - before);
        out("\n");
}

static double energy_scale(const json_t *terms, const json_t *before) {
        double scale = 0;
        const char *name;
        const json_t *v;

        json_object_foreach ((json_t *) terms, name, v)
                scale = fmax(scale, fabs(json_number_value(v)));
        json_object_foreach ((json_t *) before, name, v)
                scale = fmax(scale, fabs(json_number_value(v)));
        return scale > 0 ? scale : 1;
}

static void show_energy(const json_t *plan) {
        const json_t *energy = jget(plan, "energy"), *before = jget(plan, "energy_before");
        const json_t *terms = jget(energy, "terms"), *terms_before = jget(before, "terms"), *v;
        double scale = energy_scale(terms, terms_before);
        const char *name;

        if (!energy)
                return;
        out_heading("%-16s%11s%11s", "ENERGY", "BEFORE", "PLAN");
        json_object_foreach ((json_t *) terms, name, v) {
                double b = before ? jnum(terms_before, name) : NAN, n = json_number_value(v);

                if (n != 0 || (!isnan(b) && b != 0))
                        show_energy_row(name, n, b, scale);
        }
        out_ink(INK_BOLD, "%-16s", "total");
        if (before)
                out("%11.4g", jnum(before, "total"));
        else
                out("%11s", "-");
        out_ink(INK_BOLD, "%11.4g", jnum(energy, "total"));
        out("\n");
}

static void show_bound(const json_t *plan) {
        double total = jnum(jget(plan, "energy"), "total"), bound = jnum(plan, "lower_bound");

        if (json_is_true(jget(plan, "proved")))
                out_ink(INK_GOOD, "proved optimal");
        else if (isnan(bound))
                out("no bound known");
        else if (fabs(total) > 0)
                out("lower bound %.4g, gap %.2g %%", bound, fmax(0, (total - bound) / fabs(total) * 100));
        else
                out("lower bound %.4g", bound);
        out("\n");
        if (*jstr(plan, "housekeeping"))
                out_wrapped("housekeeping CPUs ", "                  ", INK_NONE, jstr(plan, "housekeeping"));
}

static void show_elapsed(double us) {
        if (isnan(us))
                return;
        if (us < 1000)
                out(", %.0f µs", us);
        else if (us < 1e6)
                out(", %.1f ms", us / 1e3);
        else
                out(", %.1f s", us / 1e6);
}

static void show_summary(const json_t *plan) {
        size_t n = json_array_size(jget(plan, "tasks")), running = 0, moves = 0, i;
        const json_t *t;

        json_array_foreach ((json_t *) jget(plan, "tasks"), i, t) {
                running += jnum(t, "pid") > 0;
                moves += jnum(t, "pid") > 0 && json_is_true(jget(t, "changed"));
        }
        if (!json_is_true(jget(plan, "feasible")))
                out_ink(INK_BAD, "infeasible");
        else if (!json_is_true(jget(plan, "changed")))
                out_ink(INK_GOOD, "nothing to change");
        else
                out_ink(INK_GOOD, "feasible");
        out(": %zu task%s", n, n == 1 ? "" : "s");
        if (running > 0)
                out(", %zu of %zu running would move", moves, running);
        out("; solver %s, seed %.0f", or_dash(jstr(plan, "solver")), jnum(plan, "seed"));
        show_elapsed(jnum(plan, "elapsed_us"));
        out("\n");
}

void show_plan(const json_t *plan) {
        show_summary(plan);
        show_tasks(plan);
        if (json_is_true(jget(plan, "feasible"))) {
                show_energy(plan);
                show_bound(plan);
        }
        show_messages(jget(plan, "messages"));
}

static void show_changes(const json_t *changes) {
        static const char *const columns[] = { ">TID", "COMMAND", "WHAT", "FROM", "*TO", NULL };
        _cleanup_(table_freep) Table *table = NULL;
        size_t i;
        const json_t *c;

        if (json_array_size(changes) == 0 || table_new(columns, &table) < 0)
                return;
        json_array_foreach ((json_t *) changes, i, c) {
                const char *result = jstr(c, "result"), *got = jstr(c, "got"), *wanted = jstr(c, "wanted"),
                           *path = jstr(c, "path");
                const char *error = json_is_integer(jget(c, "error")) && jnum(c, "error") > 0
                                            ? strerror((int) jnum(c, "error"))
                                            : jstr(c, "error");
                bool narrowed = *got && !streq(got, wanted);

                if (*jstr(c, "device"))
                        table_add(table, INK_NONE, "irq %.0f", jnum(c, "irq"));
                else
                        table_add(table, INK_NONE, "%.0f", isnan(jnum(c, "tid")) ? jnum(c, "pid") : jnum(c, "tid"));
                table_add(table, INK_NONE, "%s%s%s", jstr(c, "comm"), jstr(c, "name"),
                          *jstr(c, "name") || !*jstr(c, "device") ? "" : jstr(c, "device"));
                table_add(table, streq(result, "done") ? INK_GOOD : INK_WARN, "%s", result);
                table_add(table, INK_DIM, "%s", or_dash(jstr(c, "old")));
                table_add(table, INK_NONE, "%s%s%s%s%s%s%s", *path ? path : or_dash(wanted), narrowed ? " got " : "",
                          narrowed ? got : "", *error ? " (" : "", error, *error ? ")" : "", "");
        }
        out("\n");
        table_print(table);
}

void show_outcome(const json_t *o) {
        if (!o)
                return;
        show_changes(jget(o, "changes"));
        out("\n");
        out_ink(INK_BOLD, "%.0f written", jnum(o, "written"));
        out(", %.0f already so", jnum(o, "unchanged"));
        if (jnum(o, "drift") > 0)
                out_ink(INK_WARN, ", %.0f changed by others and left alone", jnum(o, "drift"));
        if (jnum(o, "gone") > 0)
                out(", %.0f gone", jnum(o, "gone"));
        if (jnum(o, "refused") > 0)
                out_ink(INK_BAD, ", %.0f refused by the kernel", jnum(o, "refused"));
        out("\n");
        show_messages(jget(o, "messages"));
}

int plan_exit_code(const json_t *plan) {
        if (!json_is_true(jget(plan, "feasible")))
                return EXIT_INFEASIBLE;
        return jnum(jget(plan, "outcome"), "refused") > 0 ? EXIT_FAILED : EXIT_DONE;
}

static int plan_offline(const Options *o, int argc, char **argv) {
        _cleanup_(offline_done) Offline f = {};
        json_t *plan = NULL;
        int r;

        r = offline_open(o, argv, (size_t) argc, &f);
        if (r == EXIT_DONE)
                r = offline_plan(&f, o, &plan);
        if (r != EXIT_DONE)
                return r;
        if (o->json)
                out_json(plan);
        else {
                show_plan(plan);
                if (o->picture || output_is_terminal())
                        show_picture(f.snapshot, plan);
        }
        r = plan_exit_code(plan);
        json_decref(plan);
        return r;
}

int verb_plan(const Options *o, int argc, char **argv) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        json_t *plan = NULL;
        int r;

        if (options_offline(o))
                return plan_offline(o, argc, argv);
        r = client_plan(o, "Plan", argv, argc, &plan);
        if (r != EXIT_DONE)
                return r;
        if (o->json)
                out_json(plan);
        else {
                show_plan(plan);
                if (o->picture || (output_is_terminal() && !o->host))
                        if (client_snapshot(o, &s) == EXIT_DONE)
                                show_picture(s, plan);
        }
        r = plan_exit_code(plan);
        json_decref(plan);
        return r;
}

int verb_apply(const Options *o, int argc, char **argv) {
        json_t *plan = NULL;
        int r;

        r = client_plan(o, "Apply", argv, argc, &plan);
        if (r != EXIT_DONE)
                return r;
        if (o->json)
                out_json(plan);
        else {
                show_plan(plan);
                show_outcome(jget(plan, "outcome"));
                if (o->dry_run)
                        out("This was a dry run: nothing was written.\n");
        }
        r = plan_exit_code(plan);
        json_decref(plan);
        return r;
}

static void show_reverted(const json_t *j) {
        _cleanup_free_ char *jobs = jjoin(jget(j, "jobs"), ", ");

        if (jobs && *jobs)
                out("Reverted: %s\n", jobs);
        else if (json_array_size(jget(jget(j, "outcome"), "changes")) > 0 || jnum(jget(j, "outcome"), "written") > 0)
                out("No job was in force; what was still changed is put back:\n");
        else
                out("Nothing to revert.\n");
        show_outcome(jget(j, "outcome"));
        show_messages(jget(j, "messages"));
}

int verb_revert(const Options *o, int argc, char **argv) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        json_t *j = NULL;
        int r;

        r = client_open(o, &bus);
        if (r == EXIT_DONE)
                r = client_call_string(bus, "Revert", argc > 0 ? argv[0] : "", &j);
        if (r != EXIT_DONE)
                return r;
        if (o->json)
                out_json(j);
        else
                show_reverted(j);
        r = jnum(jget(j, "outcome"), "refused") > 0 ? EXIT_FAILED : EXIT_DONE;
        json_decref(j);
        return r;
}
