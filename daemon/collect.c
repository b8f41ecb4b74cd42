/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All readers -> one Snapshot: the machine, then what host_read() finds on it. The machine is read once and kept,
 * because hwloc with I/O objects is the expensive part; only its free memory is read again each time. Snapshots borrow the kept Topology: their owner
 * drops them before collector_reload_machine(), and nobody collects while a solver reads one.
 */
#include <errno.h>

#include "daemon/collect.h"
#include "daemon/readers/host.h"

struct Collector {
        const Config *config;
        Topology *topology;
        TaskReader *tasks;
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

int collect(Collector *c, const Job *const *jobs, size_t n_jobs, const Process *extra, const char *const *extra_jobs,
            size_t n_extra, Snapshot **ret, char **ret_message) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        const TaskReadParams params = {
                .node_globs = c->config->device_nodes,
                .ignore = c->config->ignore,
                .jobs = jobs,
                .n_jobs = n_jobs,
                .extra = extra,
                .extra_jobs = extra_jobs,
                .n_extra = n_extra,
        };
        int r;

        r = snapshot_new(&s);
        if (r < 0)
                return r;
        s->topology = c->topology;

        r = machine_refresh_memory(c->topology);
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
