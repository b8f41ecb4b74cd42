/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All readers -> one Snapshot: the machine, then what host_read() finds on it. The machine is read once and kept,
 * because hwloc with I/O objects is the expensive part; only its free memory is read again each time, and not while a
 * solver reads it. Snapshots borrow the kept Topology: their owner drops them before collector_reload_machine().
 */
#include <errno.h>

#include "daemon/collect.h"
#include "daemon/readers/host.h"

struct Collector {
        const Config *config;
        Topology *topology;
        TaskReader *tasks;
        char *xml; /* of the machine; NULL: nobody has asked since it was read */
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

int collector_check(const Collector *c, const Config *config, char **ret_message) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        int r;

        r = snapshot_new(&s);
        if (r < 0)
                return r;
        s->topology = c->topology;
        return devices_read(s, &config->devices, ret_message);
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
        r = host_read("", &c->config->devices, c->tasks, &params, s, ret_message);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}
