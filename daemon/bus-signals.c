/* SPDX-License-Identifier: Apache-2.0 */
/* What the bus tells unasked: the manager's observer, made into signals and PropertiesChanged. Nobody may be listening:
 * a signal that cannot be sent is no failure of what it tells of. */
#include "common/log.h"
#include "common/json.h"
#include "daemon/bus-internal.h"

static Head head_of(const Manager *m, const Snapshot *s, const Plan *p) {
        Head h = { .feasible = manager_feasible(m), .energy = p && p->energy.known ? p->energy.total : (double) NAN };
        unsigned priority, ranks;

        h.devices = s ? (uint32_t) s->n_devices : 0;
        h.tasks = s ? (uint32_t) s->n_tasks : 0;
        while (manager_job(m, h.jobs, &priority, &ranks))
                h.jobs++;
        h.last_change = manager_last_change(m);
        return h;
}

static void tell_head(Bus *b, const Head *now) {
        const Head before = b->head;
        char *names[7];
        unsigned n = 0;

        b->head = *now;
        if (before.feasible != now->feasible)
                names[n++] = (char *) "Feasible";
        if (before.devices != now->devices)
                names[n++] = (char *) "Devices";
        if (before.tasks != now->tasks)
                names[n++] = (char *) "Tasks";
        if (before.jobs != now->jobs)
                names[n++] = (char *) "Jobs";
        if (before.last_change != now->last_change)
                names[n++] = (char *) "LastChange";
        if (memcmp(&before.energy, &now->energy, sizeof(now->energy)) != 0) /* NaN equals NaN here */
                names[n++] = (char *) "Energy";
        names[n] = NULL;
        if (n > 0)
                (void) sd_bus_emit_properties_changed_strv(b->bus, BUS_PATH, BUS_INTERFACE, names);
}

static void on_snapshot(void *userdata, const Snapshot *s, const Plan *p) {
        Bus *b = userdata;
        Head now = head_of(b->manager, s, p);
        int r;

        tell_head(b, &now);
        r = objects_update(b->objects, s);
        if (r < 0)
                (void) log_warning_errno(r, "Failed to tell the bus of changed objects: %m");
}

static void on_applied(void *userdata, const char *job, const Plan *p, const Outcome *o) {
        Bus *b = userdata;
        uint32_t written = 0;

        for (size_t i = 0; i < o->n_changes; i++)
                written += streq(strempty(o->changes[i].job), job) &&
                           (o->changes[i].result == CHANGE_DONE || o->changes[i].result == CHANGE_NARROWED);
        (void) sd_bus_emit_signal(b->bus, BUS_PATH, BUS_INTERFACE, "PlanApplied", "sbu", job, written > 0, written);
}

static void on_drift(void *userdata, const Drift *d) {
        json_t *author = json_text(strempty(d->author)); /* a file's name may be any bytes, a string on the bus not */
        Bus *b = userdata;

        (void) sd_bus_emit_signal(b->bus, BUS_PATH, BUS_INTERFACE, "Drift", "uussss", (uint32_t) d->process.pid,
                                  d->device ? d->irq : (uint32_t) d->tid, d->expected, d->found,
                                  strempty(json_string_value(author)), drift_act_names[d->act]);
        json_decref(author);
}

static void on_fault(void *userdata, const char *device, const char *health) {
        Bus *b = userdata;

        (void) sd_bus_emit_signal(b->bus, BUS_PATH, BUS_INTERFACE, "DeviceFault", "ss", device, health);
}

int bus_observe(Bus *b) {
        const Observer o = {
                .snapshot = on_snapshot,
                .applied = on_applied,
                .drift = on_drift,
                .device_fault = on_fault,
                .userdata = b,
        };

        b->head = head_of(b->manager, manager_snapshot(b->manager), manager_last_plan(b->manager));
        return manager_observe(b->manager, &o);
}
