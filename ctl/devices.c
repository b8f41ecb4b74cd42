/* SPDX-License-Identifier: Apache-2.0 */
/* devices: one line per device with what is known of it and which task holds it; from GetStatus, or offline. */
#include <math.h>

#include "common/log.h"
#include "common/text.h"
#include "ctl/output.h"
#include "policy/record.h"

static void add_number(Table *t, double v, const char *unit, Ink ink) {
        if (isnan(v))
                table_add(t, INK_DIM, "-");
        else
                table_add(t, ink, "%.0f%s", v, unit);
}

static void add_memory(Table *t, double bytes) {
        char buf[32];

        if (!(bytes > 0))
                table_add(t, INK_DIM, "-");
        else
                table_add(t, INK_NONE, "%s", text_format_bytes(buf, sizeof(buf), (uint64_t) bytes));
}

static Ink health_ink(const char *health) {
        return streq(health, "ok")                                   ? INK_GOOD
               : streq(health, "warning")                            ? INK_WARN
               : streq(health, "alarm") || streq(health, "critical") ? INK_BAD
                                                                     : INK_DIM;
}

/* Names of the tasks that hold the device, from the "tasks" of the same answer. */
static char *users_of(const json_t *tasks, const char *device) {
        json_t *users = json_array();
        const json_t *t, *d;
        size_t i, k;
        char *text;

        json_array_foreach ((json_t *) tasks, i, t)
                json_array_foreach ((json_t *) jget(t, "devices"), k, d)
                        if (json_is_string(d) && streq(json_string_value(d), device))
                                json_array_append(users, json_object_get(t, "name"));
        text = jjoin(users, " ");
        json_decref(users);
        return text;
}

static void show_devices(const json_t *devices, const json_t *tasks) {
        static const char *const columns[] = { "NAME",  "KIND",   "PCI",    ">NODE",  ">MEMORY",
                                               ">TEMP", ">POWER", "HEALTH", "*TASKS", NULL };
        _cleanup_(table_freep) Table *table = NULL;
        const json_t *d;
        size_t i;

        if (json_array_size(devices) == 0) {
                out_wrapped("", "", INK_NONE,
                            "No devices found: none with a known PCI id, and none described by a [Device NAME] "
                            "section.");
                return;
        }
        if (table_new(columns, &table) < 0)
                return;
        json_array_foreach ((json_t *) devices, i, d) {
                const char *health = *jstr(d, "health") ? jstr(d, "health") : "unknown";
                _cleanup_free_ char *users = users_of(tasks, jstr(d, "name"));
                double node = jnum(d, "numa_node");

                table_add(table, INK_BOLD, "%s", jstr(d, "name"));
                table_add(table, INK_NONE, "%s", jstr(d, "kind"));
                table_add(table, INK_NONE, "%s", *jstr(d, "pci") ? jstr(d, "pci") : "-");
                add_number(table, node < 0 ? NAN : node, "", INK_NONE);
                add_memory(table, jnum(d, "memory"));
                add_number(table, jnum(d, "temperature"), " °C", INK_NONE);
                add_number(table, jnum(d, "power"), " W", INK_NONE);
                table_add(table, health_ink(health), "%s", health);
                table_add(table, INK_NONE, "%s", users && *users ? users : "-");
        }
        table_print(table);
}

static int devices_offline(const Options *o, json_t **ret) {
        _cleanup_(offline_done) Offline f = {};
        json_t *j, *devices = json_array(), *tasks = json_array();
        int r = offline_open(o, NULL, 0, &f);

        for (size_t i = 0; r == EXIT_DONE && i < f.snapshot->n_devices; i++)
                json_array_append_new(devices, record_device(f.snapshot, &f.snapshot->devices[i]));
        for (size_t i = 0; r == EXIT_DONE && i < f.snapshot->n_tasks; i++)
                json_array_append_new(tasks, record_task(f.snapshot, &f.snapshot->tasks[i]));
        j = json_pack("{s:o, s:o}", "devices", devices, "tasks", tasks);
        if (r == EXIT_DONE && j)
                *ret = j;
        else
                json_decref(j);
        return r;
}

static int devices_online(const Options *o, json_t **ret) {
        _cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
        int r = client_open(o, &bus);

        return r == EXIT_DONE ? client_call_string(bus, "GetStatus", NULL, ret) : r;
}

int verb_devices(const Options *o, int argc, char **argv) {
        json_t *j = NULL;
        int r = options_offline(o) ? devices_offline(o, &j) : devices_online(o, &j);

        if (r != EXIT_DONE)
                return r;
        if (o->json)
                out_json(jget(j, "devices"));
        else
                show_devices(jget(j, "devices"), jget(j, "tasks"));
        json_decref(j);
        return EXIT_DONE;
}
