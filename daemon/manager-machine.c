/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPUs and devices that come and go. Each look compares the machine with what was read of it; another one is read
 * again, as soon as no solve reads the old one, and scopes are planned anew, since what they stand in is part of their
 * signature. The plan in force loses CPUs that went at once, so that what is late until the new plan is there is
 * brought only to CPUs that are online; a solve that was on meanwhile is done again.
 */
#include <errno.h>

#include "common/log.h"
#include "daemon/manager-internal.h"

void manager_trim_plan(const Manager *m, Plan *plan) {
        const Bitset *online = collector_online(m->collector);

        for (size_t i = 0; plan && i < plan->n_tasks; i++) {
                bitset_and(&plan->tasks[i].cpus, online);
                bitset_and(&plan->tasks[i].irq_cpus, online);
        }
        if (plan)
                bitset_and(&plan->housekeeping, online);
}

static int watch(Manager *m) {
        _cleanup_(strv_freep) char **messages = NULL;
        int r = collector_watch(m->collector, &messages);

        for (char **s = messages; s && *s; s++)
                log_notice("The machine has changed: %s", *s);
        if (r <= 0)
                return r;
        m->machine_stale = true;
        manager_trim_plan(m, m->plan);
        return 0;
}

bool manager_machine_moved(Manager *m) {
        (void) watch(m); /* the next tick says what failed */
        return m->machine_stale;
}

int manager_refresh_machine(Manager *m, char **ret_message) {
        int r;

        r = watch(m);
        if (r < 0)
                return text_fail(r, ret_message, "Whether the machine has changed could not be read: %s", strerror(-r));
        if (!m->machine_stale || worker_busy(m->worker))
                return 0;
        m->snapshot = snapshot_free(m->snapshot); /* it borrows the topology that goes now */
        r = collector_reload_machine(m->collector, ret_message);
        if (r < 0)
                return r;
        m->machine_stale = false;
        manager_use_roles(m); /* of the new topology */
        return 0;
}

static void tell_fault(Manager *m, const char *device, const char *health) {
        for (size_t k = 0; k < m->n_observers; k++)
                if (m->observers[k].device_fault)
                        m->observers[k].device_fault(m->observers[k].userdata, device, health);
}

static void tell_gone(Manager *m, const char *device) {
        log_warning("Device %s is gone", device);
        for (size_t i = 0; m->plan && i < m->plan->n_tasks; i++)
                if (strv_contains(m->plan->tasks[i].devices, device))
                        log_warning("Device %s was that of %s: its CPUs stay until it is planned again", device,
                                    m->plan->tasks[i].name);
        tell_fault(m, device, "gone");
}

static int look_at_presence(Manager *m) {
        _cleanup_(strv_freep) char **now = calloc(1, sizeof(*now));
        const Snapshot *s = m->snapshot;

        if (!now)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_devices; i++) {
                const Device *d = &s->devices[i];

                if (strv_extend(&now, d->name) < 0)
                        return -ENOMEM;
                if (m->devices && !strv_contains(m->devices, d->name))
                        log_notice("Device %s (%s) has come%s%s", d->name, d->kind, d->pci ? ", at " : "",
                                   strempty(d->pci));
        }
        for (char **name = m->devices; name && *name; name++)
                if (!strv_contains(now, *name))
                        tell_gone(m, *name);
        strv_free(m->devices);
        m->devices = TAKE_PTR(now);
        return 0;
}

static bool device_bad(const Device *d) {
        return d->health == HEALTH_ALARM || d->health == HEALTH_CRITICAL;
}

/* 1 when others are bad than at the last look: plans made before are none. */
static int look_at_health(Manager *m) {
        _cleanup_(strv_freep) char **faulty = NULL;
        const Snapshot *s = m->snapshot;
        bool changed = false;

        for (size_t i = 0; i < s->n_devices; i++) {
                const Device *d = &s->devices[i];

                if (!device_bad(d))
                        continue;
                if (strv_extend(&faulty, d->name) < 0)
                        return -ENOMEM;
                if (strv_contains(m->faulty, d->name))
                        continue;
                changed = true;
                log_warning("Device %s: health is now %s", d->name, health_names[d->health]);
                tell_fault(m, d->name, health_names[d->health]);
        }
        changed = changed || strv_length(faulty) != strv_length(m->faulty);
        strv_free(m->faulty);
        m->faulty = TAKE_PTR(faulty);
        return changed;
}

int manager_look_at_devices(Manager *m) {
        int r = look_at_presence(m);

        return r < 0 ? r : look_at_health(m);
}
