/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All readers -> one Snapshot: the machine, then what host_read() finds on it. The machine is read once and kept,
 * because hwloc with I/O objects is the expensive part; only its free memory is read again each time, and not while a
 * solver reads it. Snapshots borrow the kept Topology: their owner drops them before collector_reload_machine().
 *
 * What devices were called is kept too: a card that goes must not give its name to the next one.
 */
#include <errno.h>

#include "daemon/collect.h"
#include "daemon/readers/host.h"
#include "daemon/readers/machine-watch.h"

struct Collector {
        const Config *config;
        Topology *topology;
        TaskReader *tasks;
        MachineWatch *watch;
        FoundDevice *found;
        size_t n_found;
        char **functions; /* PCI addresses of found */
        char *xml;        /* of the machine; NULL: nobody has asked since it was read */
};

int collector_new(const Config *config, Collector **ret, char **ret_message) {
        _cleanup_(collector_freep) Collector *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        c->config = config;
        r = task_reader_new("", &c->tasks);
        if (r < 0)
                return text_fail(r, ret_message, "Processes cannot be read (is /proc mounted?): %s", strerror(-r));
        r = machine_watch_new("", &c->watch); /* before the machine is read: what changes meanwhile is a change */
        if (r < 0)
                return text_fail(r, ret_message, "The machine cannot be watched (is /sys mounted?): %s", strerror(-r));
        r = collector_reload_machine(c, ret_message);
        if (r < 0)
                return r;
        r = collector_check(c, config, ret_message);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(c);
        return 0;
}

Collector *collector_free(Collector *c) {
        if (!c)
                return NULL;
        task_reader_free(c->tasks);
        topology_free(c->topology);
        machine_watch_free(c->watch);
        for (size_t i = 0; i < c->n_found; i++) {
                free(c->found[i].name);
                free(c->found[i].pci);
        }
        free(c->found);
        strv_free(c->functions);
        free(c->xml);
        free(c);
        return NULL;
}

void collector_set_config(Collector *c, const Config *config) {
        c->config = config;
}

int collector_reload_machine(Collector *c, char **ret_message) {
        Topology *t = NULL;
        int r;

        r = machine_read_this_system(&t, ret_message);
        if (r < 0)
                return r;
        topology_free(c->topology);
        c->topology = t;
        free(c->xml);
        c->xml = NULL;
        return 0;
}

int collector_watch(Collector *c, char ***messages) {
        return machine_watch_look(c->watch, c->functions, messages);
}

const Bitset *collector_online(const Collector *c) {
        return machine_watch_online(c->watch);
}

static DeviceText device_text(const Collector *c, const Config *config) {
        DeviceText text = config->devices;

        text.found = c->found;
        text.n_found = c->n_found;
        return text;
}

static bool on_machine(const Topology *t, const char *pci) {
        for (unsigned i = 0; i < t->n_pci; i++)
                if (streq(t->pci[i].address, pci))
                        return true;
        return false;
}

static FoundDevice *find_found(const Collector *c, const char *pci) {
        for (size_t i = 0; i < c->n_found; i++)
                if (streq(c->found[i].pci, pci))
                        return &c->found[i];
        return NULL;
}

static int add_found(Collector *c, const Device *d) {
        FoundDevice *f = reallocarray(c->found, c->n_found + 1, sizeof(*f));

        if (!f)
                return -ENOMEM;
        c->found = f;
        f += c->n_found;
        *f = (FoundDevice){ .name = strdup(d->name), .pci = strdup(d->pci) };
        if (f->name && f->pci && strv_extend(&c->functions, d->pci) >= 0) {
                c->n_found++;
                return 0;
        }
        free(f->name);
        free(f->pci);
        return -ENOMEM;
}

static int remember_devices(Collector *c, const Snapshot *s) {
        for (size_t i = 0; i < s->n_devices; i++) {
                const Device *d = &s->devices[i];
                FoundDevice *f = d->pci ? find_found(c, d->pci) : NULL;
                char *name = f && !streq(f->name, d->name) ? strdup(d->name) : NULL;

                if (name) { /* a description calls it otherwise now */
                        free(f->name);
                        f->name = name;
                }
                if (d->pci && !f && on_machine(c->topology, d->pci) && add_found(c, d) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int collector_check(const Collector *c, const Config *config, char **ret_message) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        const DeviceText text = device_text(c, config);
        int r;

        r = snapshot_new(&s);
        if (r < 0)
                return r;
        s->topology = c->topology;
        return devices_read(s, &text, ret_message);
}

const Topology *collector_topology(const Collector *c) {
        return c->topology;
}

const Cgroups *collector_cgroups(const Collector *c) {
        return task_reader_cgroups(c->tasks);
}

int collector_xml(Collector *c, const char **ret, char **ret_message) {
        int r;

        r = c->xml ? 0 : machine_export_xml(&c->xml, ret_message);
        if (r < 0)
                return r;
        *ret = c->xml;
        return 0;
}

int collect(Collector *c, const CollectParams *p, Snapshot **ret, char **ret_message) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        const TaskReadParams params = {
                .node_globs = c->config->device_nodes,
                .ignore = c->config->ignore,
                .jobs = p->jobs,
                .job_users = p->job_users,
                .n_jobs = p->n_jobs,
                .keep_use = p->keep_use,
                .extra = p->extra,
                .extra_jobs = p->extra_jobs,
                .n_extra = p->n_extra,
        };
        const DeviceText text = device_text(c, c->config);
        int r;

        r = snapshot_new(&s);
        if (r < 0)
                return r;
        s->topology = c->topology;

        r = p->solving ? 0 : machine_refresh_memory(c->topology);
        if (r < 0)
                r = strv_extendf(&s->warnings, "Free memory of the nodes could not be read: %s", strerror(-r));
        if (r < 0)
                return r;
        r = host_read("", &text, c->tasks, &params, s, ret_message);
        if (r >= 0)
                r = remember_devices(c, s);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}
