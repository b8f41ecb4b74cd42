/* SPDX-License-Identifier: Apache-2.0 */
/* status: what the daemon knows and does, on one screen. Everything comes from GetStatus. */
#include <math.h>
#include <time.h>

#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"

static void show_interval(double us) {
        if (!isnan(us))
                out("; looks every %g s", us / 1e6);
}

static void show_last_change(double usec) {
        time_t t = (time_t) (usec / 1e6);
        struct tm tm;
        char text[64];

        if (!(usec > 0) || !localtime_r(&t, &tm) || strftime(text, sizeof(text), "%F %T", &tm) == 0)
                return;
        out("     Last change: %s\n", text);
}

static void show_machine(const json_t *j) {
        const json_t *m = jget(j, "machine");

        out_ink(INK_GOOD, "● ");
        out_ink(INK_BOLD, "qschedd %s", jstr(j, "version"));
        out(" (pid %.0f), %s\n", jnum(j, "pid"), jstr(j, "state"));
        out("     Machine: %.0f CPUs in %.0f NUMA node%s", jnum(m, "cpus"), jnum(m, "nodes"),
            jnum(m, "nodes") == 1 ? "" : "s");
        out("\n");
        if (*jstr(m, "allowed"))
                out_wrapped("     Allowed CPUs: ", "       ", INK_NONE, jstr(m, "allowed"));
        if (*jstr(m, "isolated"))
                out_wrapped("     Isolated CPUs: ", "       ", INK_NONE, jstr(m, "isolated"));
        out("     Control groups: %s", jstr(j, "cgroup"));
        show_interval(jnum(j, "interval_us"));
        out("\n");
        show_last_change(jnum(j, "last_change"));
}

static void show_plan_line(const json_t *plan) {
        double bound = jnum(plan, "lower_bound"), total = jnum(jget(plan, "energy"), "total");

        if (!plan)
                return;
        out("     Plan: ");
        if (json_is_true(jget(plan, "feasible")))
                out_ink(INK_GOOD, "feasible");
        else
                out_ink(INK_BAD, "infeasible");
        if (!isnan(total))
                out(", energy %.4g", total);
        if (json_is_true(jget(plan, "proved")))
                out(", proved optimal");
        else if (!isnan(bound) && fabs(total) > 0)
                out(", gap %.2g %%", fmax(0, (total - bound) / fabs(total) * 100));
        out("\n");
        if (*jstr(plan, "housekeeping"))
                out_wrapped("     Housekeeping CPUs: ", "       ", INK_NONE, jstr(plan, "housekeeping"));
}

static void show_jobs(const json_t *jobs) {
        static const char *const columns[] = { "JOB", ">PRIORITY", ">RANKS", ">MATCHED", ">UID", NULL };
        _cleanup_(table_freep) Table *table = NULL;
        const json_t *job;
        size_t i;

        if (json_array_size(jobs) == 0 || table_new(columns, &table) < 0)
                return;
        json_array_foreach ((json_t *) jobs, i, job) {
                bool all = jnum(job, "matched") >= jnum(job, "ranks");

                table_add(table, INK_BOLD, "%s", jstr(job, "name"));
                table_add(table, INK_NONE, "%.0f", jnum(job, "priority"));
                table_add(table, INK_NONE, "%.0f", jnum(job, "ranks"));
                table_add(table, all ? INK_GOOD : INK_WARN, "%.0f", jnum(job, "matched"));
                table_add(table, INK_NONE, "%.0f", jnum(job, "uid"));
        }
        out("\n");
        table_print(table);
}

static void show_tasks(const json_t *tasks) {
        static const char *const columns[] = { ">PID",    "TASK",  "JOB",  ">THREADS", ">USE",
                                               "DEVICES", "*CPUS", "MEMS", NULL };
        _cleanup_(table_freep) Table *table = NULL;
        const json_t *t;
        size_t i;

        if (json_array_size(tasks) == 0 || table_new(columns, &table) < 0)
                return;
        json_array_foreach ((json_t *) tasks, i, t) {
                _cleanup_free_ char *devices = jjoin(jget(t, "devices"), ",");
                const char *job = jstr(t, "job");

                table_add(table, INK_NONE, "%.0f", jnum(t, "pid"));
                table_add(table, INK_BOLD, "%s", jstr(t, "name"));
                table_add(table, *job ? INK_NONE : INK_DIM, "%s", *job ? job : "-");
                table_add(table, INK_NONE, "%.0f", jnum(t, "threads"));
                if (isnan(jnum(t, "cpu_use")))
                        table_add(table, INK_DIM, "-");
                else
                        table_add(table, INK_NONE, "%.1f", jnum(t, "cpu_use"));
                table_add(table, INK_NONE, "%s", devices && *devices ? devices : "-");
                table_add(table, INK_GOOD, "%s", jstr(t, "cpus"));
                table_add(table, INK_NONE, "%s", jstr(t, "mems"));
        }
        out("\n");
        table_print(table);
}

/* "3 ok, 1 pending" of one device's vectors */
static void format_states(const json_t *irqs, const char *device, char *buf, size_t size, bool *ret_bad) {
        static const char *const states[] = { "ok", "pending", "drift", "failed", "fixed" };
        size_t used = 0, i;
        const json_t *v;

        *ret_bad = false;
        for (size_t k = 0; k < ELEMENTSOF(states); k++) {
                unsigned n = 0;

                json_array_foreach ((json_t *) irqs, i, v)
                        n += streq(jstr(v, "device"), device) && streq(jstr(v, "state"), states[k]);
                if (n == 0 || used >= size)
                        continue;
                used += (size_t) snprintf(buf + used, size - used, "%s%u %s", used ? ", " : "", n, states[k]);
                *ret_bad = *ret_bad || streq(states[k], "drift") || streq(states[k], "failed");
        }
}

static bool told_before(const json_t *irqs, size_t n, const char *device) {
        for (size_t i = 0; i < n; i++)
                if (streq(jstr(json_array_get(irqs, i), "device"), device))
                        return true;
        return false;
}

static void show_interrupts(const json_t *irqs) {
        static const char *const columns[] = { "DEVICE", "PCI", "*INTERRUPTS", "STATE", NULL };
        _cleanup_(table_freep) Table *table = NULL;
        const json_t *v;
        size_t i;

        if (json_array_size(irqs) == 0 || table_new(columns, &table) < 0)
                return;
        json_array_foreach ((json_t *) irqs, i, v) {
                const char *device = jstr(v, "device");
                char states[128] = "";
                bool bad;

                if (told_before(irqs, i, device))
                        continue;
                format_states(irqs, device, states, sizeof(states), &bad);
                table_add(table, INK_BOLD, "%s", device);
                table_add(table, INK_NONE, "%s", jstr(v, "pci"));
                table_add(table, INK_GOOD, "%s", jstr(v, "wanted"));
                table_add(table, bad ? INK_WARN : INK_NONE, "%s", states);
        }
        out("\n");
        table_print(table);
}

static double moved_bytes(const json_t *move, const char *what) {
        double n = jnum(jget(move, "pages"), what);

        return isnan(n) ? 0 : n * jnum(move, "page_size");
}

/* Where all was there already there is nothing to tell. */
static void show_move(const json_t *move) {
        double there = moved_bytes(move, "moved") + moved_bytes(move, "already");
        double all = moved_bytes(move, "seen") - moved_bytes(move, "absent");
        bool ended_well = streq(jstr(move, "stop"), "done"), runs = streq(jstr(move, "stop"), "running");
        _cleanup_free_ char *text = NULL;
        char a[32], b[32];

        if (!move || json_is_null(move) || streq(jstr(move, "stop"), "gone") ||
            (!runs && ended_well && !(jnum(jget(move, "pages"), "moved") > 0)))
                return;
        if (asprintf(&text, "Memory: %s %s of %s on node %s%s, longest stall %.0f ms%s%s%s%s", jstr(move, "task"),
                     text_format_bytes(a, sizeof(a), (uint64_t) there),
                     text_format_bytes(b, sizeof(b), (uint64_t) fmax(all, there)), jstr(move, "nodes"),
                     runs ? " so far" : "", jnum(move, "stall_max_us") / 1000,
                     runs || ended_well ? "" : "; stopped: ", runs || ended_well ? "" : jstr(move, "why"),
                     *jstr(move, "advice") ? "; " : "", jstr(move, "advice")) < 0)
                text = NULL;
        if (text)
                out_wrapped("     ", "       ", runs || ended_well ? INK_NONE : INK_WARN, text);
}

static void show_moves(const json_t *moves) {
        const json_t *move;
        size_t i;

        json_array_foreach (jget(moves, "last"), i, move)
                show_move(move);
        show_move(jget(moves, "running"));
        if (jnum(moves, "waiting") > 0)
                out("     Memory: %.0f more process%s to be looked at\n", jnum(moves, "waiting"),
                    jnum(moves, "waiting") == 1 ? "" : "es");
}

static void show_walls(const json_t *walls) {
        const json_t *w;
        size_t i;

        json_array_foreach ((json_t *) walls, i, w) {
                bool set = streq(jstr(w, "state"), "set");
                _cleanup_free_ char *text = NULL;

                if (asprintf(&text, "Memory wall: %s %s%s", jstr(w, "task"),
                             set ? "on node " : "has none: ", set ? jstr(w, "nodes") : jstr(w, "why")) < 0)
                        return;
                out_wrapped("     ", "       ", set ? INK_NONE : INK_WARN, text);
        }
}

static void show_devices_line(const json_t *devices) {
        size_t i, bad = 0;
        const json_t *d;

        json_array_foreach ((json_t *) devices, i, d)
                bad += streq(jstr(d, "health"), "alarm") || streq(jstr(d, "health"), "critical");
        out("     Devices: %zu", json_array_size(devices));
        if (bad > 0)
                out_ink(INK_BAD, ", %zu of them in alarm or critical", bad);
        out("\n");
}

int verb_status(const Options *o, int argc, char **argv) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        json_t *j = NULL;
        int r;

        r = client_open(o, &bus);
        if (r == EXIT_DONE)
                r = client_call_string(bus, "GetStatus", NULL, &j);
        if (r != EXIT_DONE)
                return r;
        if (o->json)
                out_json(j);
        else {
                show_machine(j);
                show_devices_line(jget(j, "devices"));
                show_plan_line(jget(j, "plan"));
                show_moves(jget(j, "moves"));
                show_walls(jget(j, "walls"));
                show_jobs(jget(j, "jobs"));
                show_tasks(jget(j, "tasks"));
                show_interrupts(jget(j, "interrupts"));
                show_drift(jget(j, "drift"));
                show_messages(jget(jget(j, "plan"), "messages"));
                show_messages(jget(j, "warnings"));
        }
        json_decref(j);
        return EXIT_DONE;
}
