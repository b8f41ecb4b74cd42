/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain: for one task (or each of a job) every term that prices its place, with value and meaning, and the reasons
 * the decision gave. TASK is a name ("train/0"), a pid, or a job. The meaning of a term comes from the policy's table.
 */
#include <math.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "daemon/readers/process.h"
#include "policy/record.h"

#define BAR_WIDTH 20U
#define MEMORY_BUDGET_USEC UINT64_C(50000)

static const PlacementTerm *term_by_name(const char *name) {
        for (const PlacementTerm *t = placement_terms; t->name; t++)
                if (streq(t->name, name))
                        return t;
        return NULL;
}

/* Bytes by node, if there are any. */
static bool show_nodes(const char *before, const json_t *nodes) {
        const char *node, *between = before;
        const json_t *v;
        char bytes[32];

        json_object_foreach ((json_t *) nodes, node, v)
                if (json_integer_value(v) > 0) {
                        out("%s%s on node %s", between,
                            text_format_bytes(bytes, sizeof(bytes), (uint64_t) json_integer_value(v)), node);
                        between = ", ";
                }
        return between != before;
}

/* What numa_maps says, of which the rest may be missing when that took too long. */
static void show_memory(const json_t *t) {
        if (show_nodes("  has ", jget(t, "memory_by_node")))
                out("%s\n", json_is_false(jget(t, "memory_complete")) ? " (and more that was not counted)" : "");
}

/* Of the process and of its children: where pages were when they were looked for, and what became of them. */
static void show_moves(const json_t *moves) {
        const json_t *move;
        size_t i;

        json_array_foreach ((json_t *) moves, i, move) {
                _cleanup_free_ char *text = NULL;

                if (asprintf(&text, "memory of pid %.0f: %s%s%s", jnum(move, "pid"),
                             *jstr(move, "sentence") ? jstr(move, "sentence") : "waits to be looked at",
                             *jstr(move, "advice") ? "; " : "", jstr(move, "advice")) < 0)
                        return;
                if (show_nodes("  had ", jget(move, "found")))
                        out(" before it was moved to node %s\n", jstr(move, "nodes"));
                out_wrapped("  ", "    ", INK_NONE, text);
        }
}

static void show_place(const json_t *t) {
        _cleanup_free_ char *devices = jjoin(jget(t, "device"), ", ");
        const char *before = jstr(t, "cpus_before");

        out_ink(INK_BOLD, "%s", jstr(t, "name"));
        if (jnum(t, "pid") > 0)
                out(" (pid %.0f)", jnum(t, "pid"));
        out("%s%s\n", devices && *devices ? " on " : "", strempty(devices));
        out_wrapped("  CPUs ", "    ", INK_NONE, jstr(t, "cpus"));
        out("  memory node %s", *jstr(t, "mems") ? jstr(t, "mems") : "any");
        if (*jstr(t, "irq_cpus"))
                out(", interrupts on %s", jstr(t, "irq_cpus"));
        out("\n");
        if (*before && json_is_true(jget(t, "changed")))
                out_wrapped("  now on CPUs ", "    ", INK_WARN, before);
        show_moves(jget(t, "moves"));
        show_memory(t);
}

/* Which of the rank's CPUs its threads have; nothing to see where all have all of them. */
static void show_roles(const json_t *roles) {
        static const char *const columns[] = { "ROLE", ">THREADS", "CORES", "*CPUS", NULL };
        _cleanup_(table_freep) Table *table = NULL;
        const json_t *role;
        size_t i;

        if (json_array_size(roles) < 2 || table_new(columns, &table) < 0)
                return;
        json_array_foreach ((json_t *) roles, i, role) {
                bool own = json_is_true(jget(role, "own")), shared = json_is_true(jget(role, "shared"));

                table_add(table, INK_BOLD, "%s", jstr(role, "role"));
                table_add(table, INK_NONE, "%.0f", jnum(role, "threads"));
                table_add(table, shared ? INK_WARN : INK_NONE, "%s", shared ? "shared" : own ? "own" : "-");
                table_add(table, INK_GOOD, "%s", jstr(role, "cpus"));
        }
        out("\n");
        table_print(table);
}

/* The weight in force, which the configuration may have set; else the default. */
static double weight_of(const json_t *terms, const PlacementTerm *term) {
        size_t i;
        const json_t *t;

        json_array_foreach ((json_t *) terms, i, t)
                if (streq(jstr(t, "name"), term->name) && json_is_number(jget(t, "weight")))
                        return jnum(t, "weight");
        return term->weight;
}

static void show_terms(const json_t *t, const json_t *all) {
        const json_t *terms = jget(jget(t, "energy"), "terms"), *v;
        const char *name;
        double scale = 0;

        if (!terms)
                return;
        json_object_foreach ((json_t *) terms, name, v)
                scale = fmax(scale, fabs(json_number_value(v)));
        out("\n");
        json_object_foreach ((json_t *) terms, name, v) {
                double value = json_number_value(v);
                const PlacementTerm *term = term_by_name(name);

                if (value == 0)
                        continue;
                out("  %10.4g  ", value);
                out_bar(value < 0 ? INK_GOOD : INK_WARN, fabs(value) / scale, BAR_WIDTH);
                out_ink(INK_BOLD, "  %s", name);
                if (term)
                        out_ink(INK_DIM, " (%s; in %s, times %g)", term_group_names[term->group], term->unit,
                                weight_of(all, term));
                out("\n");
                if (term)
                        out_wrapped("              ", "              ", INK_NONE, term->help);
        }
        out_ink(INK_BOLD, "  %10.4g", jnum(jget(t, "energy"), "total"));
        out("  in total: its own terms and half of each that it shares\n");
}

static void show_reasons(const json_t *reasons) {
        size_t i;
        const json_t *v;

        if (json_array_size(reasons) > 0)
                out("\n");
        json_array_foreach ((json_t *) reasons, i, v)
                if (json_is_string(v))
                        out_wrapped("  · ", "    ", INK_FRAME, json_string_value(v));
}

static void show_explained(const json_t *j) {
        size_t i;
        const json_t *t;

        json_array_foreach ((json_t *) jget(j, "tasks"), i, t) {
                if (i > 0)
                        out("\n");
                show_place(t);
                show_drift(jget(t, "drift"));
                show_roles(jget(t, "roles"));
                show_terms(t, jget(j, "terms"));
                show_reasons(jget(t, "reasons"));
        }
        show_messages(jget(j, "messages"));
}

static bool is_meant(const json_t *t, const char *what) {
        pid_t pid;

        return streq(jstr(t, "name"), what) || streq(jstr(t, "job"), what) ||
               (text_parse_pid(what, &pid) >= 0 && jnum(t, "pid") == pid);
}

/* The same shape as the daemon's answer (daemon/bus.h). */
static json_t *explain_plan(const json_t *plan, const char *what) {
        json_t *tasks = json_array(), *terms = json_array(), *values = json_object_get(jget(plan, "energy"), "terms"),
               *t, *value;
        PlacementWeights w;
        size_t i;

        placement_weights_default(&w);
        json_array_foreach ((json_t *) jget(plan, "tasks"), i, t)
                if (is_meant(t, what))
                        json_array_append(tasks, t);
        for (const PlacementTerm *p = placement_terms; p->name; p++) {
                value = json_object_get(values, p->name);
                json_array_append_new(terms, json_pack("{s:s, s:s, s:s, s:f, s:O, s:s}", "name", p->name, "group",
                                                       term_group_names[p->group], "unit", p->unit, "weight", p->weight,
                                                       "value", value ?: json_null(), "help", p->help));
        }
        return json_pack("{s:o, s:o, s:{s:f, s:f, s:f, s:f}, s:O}", "tasks", tasks, "terms", terms, "weights", "alpha",
                         w.group[TERM_RESOURCE], "beta", w.group[TERM_TIME], "gamma", w.group[TERM_COST], "delta",
                         w.group[TERM_COMPAT], "messages", json_object_get(plan, "messages"));
}

/* Of processes of this system, as the daemon does it: the kernel walks their page tables for it, so not for long. */
static void add_memory(const Topology *topology, json_t *explained) {
        uint64_t until = clock_monotonic_usec() + MEMORY_BUDGET_USEC;
        size_t i;
        json_t *t;

        json_array_foreach (json_object_get(explained, "tasks"), i, t) {
                _cleanup_free_ uint64_t *bytes = NULL;
                uint64_t now = clock_monotonic_usec();
                pid_t pid = (pid_t) json_integer_value(json_object_get(t, "pid"));
                int r = -ETIME;

                if (pid <= 0)
                        continue;
                if (now < until)
                        r = process_memory_by_node(pid, topology, until - now, &bytes);
                (void) json_object_set_new(t, "memory_by_node",
                                           r < 0 ? json_null() : record_by_node(topology, bytes, UINT64_MAX));
                (void) json_object_set_new(t, "memory_complete", json_boolean(r == 0));
        }
}

static int no_such_task(const json_t *plan, const char *what) {
        size_t n = json_array_size(jget(plan, "tasks"));

        if (n == 0)
                log_error("The plan has no tasks, and so no \"%s\".", what);
        else
                log_error("The plan has no task, pid or job \"%s\"; its tasks are \"%s\" to \"%s\".", what,
                          jstr(json_array_get(jget(plan, "tasks"), 0), "name"),
                          jstr(json_array_get(jget(plan, "tasks"), n - 1), "name"));
        return EXIT_FAILED;
}

static int explain_offline(const Options *o, int argc, char **argv, json_t **ret) {
        _cleanup_(offline_done) Offline f = {};
        const char *what = argv[argc - 1];
        json_t *plan = NULL;
        int r;

        r = offline_open(o, argv, (size_t) argc - 1, &f);
        if (r == EXIT_DONE)
                r = offline_plan(&f, o, &plan);
        if (r != EXIT_DONE)
                return r;
        *ret = explain_plan(plan, what);
        if (!o->machine)
                add_memory(f.snapshot->topology, *ret);
        if (!json_is_true(jget(plan, "feasible")))
                r = EXIT_INFEASIBLE;
        else if (json_array_size(jget(*ret, "tasks")) == 0)
                r = no_such_task(plan, what);
        json_decref(plan);
        return r;
}

static int explain_online(const Options *o, int argc, char **argv, json_t **ret) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        int r;

        if (argc > 1) {
                log_error(
                        "The daemon explains what it has placed: give the task only, or --machine PATH with job files.");
                return EXIT_USAGE;
        }
        r = client_open(o, &bus);
        return r == EXIT_DONE ? client_call_string(bus, "Explain", argv[0], ret) : r;
}

int verb_explain(const Options *o, int argc, char **argv) {
        json_t *j = NULL;
        int r = options_offline(o) ? explain_offline(o, argc, argv, &j) : explain_online(o, argc, argv, &j);

        if (j && (r == EXIT_DONE || r == EXIT_INFEASIBLE)) {
                if (o->json)
                        out_json(j);
                else
                        show_explained(j);
        }
        json_decref(j);
        return r;
}
