/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing half of record.c. Every member that the reader knows is written, unknown ones as null, so that a record
 * shows what there is to know. No command line: it may hold secrets.
 */
#include <errno.h>

#include "common/json.h"
#include "common/text.h"
#include "policy/record.h"

json_t *record_by_node(const Topology *t, const uint64_t *values, uint64_t unknown) {
        json_t *o = json_object();

        for (unsigned i = 0; o && i < t->n_nodes; i++) {
                char key[16];

                if (values[i] == unknown)
                        continue;
                (void) snprintf(key, sizeof(key), "%u", t->nodes[i].os);
                if (json_object_set_new(o, key, json_integer((json_int_t) MIN(values[i], (uint64_t) INT64_MAX))) < 0) {
                        json_decref(o);
                        return NULL;
                }
        }
        return o;
}

/* Object from pairs; NULL (and all values gone) when one of them is NULL, that is, on OOM. */
typedef struct Pair {
        const char *key;
        json_t *value;
} Pair;

static json_t *object_json(const Pair *pairs, size_t n) {
        json_t *o = json_object();
        bool good = o;

        for (size_t i = 0; i < n; i++)
                if (good)
                        good = json_object_set_new(o, pairs[i].key, pairs[i].value) == 0;
                else
                        json_decref(pairs[i].value);
        if (!good) {
                json_decref(o);
                return NULL;
        }
        return o;
}

json_t *record_device(const Snapshot *s, const Device *d) {
        const Pair pairs[] = {
                { "name", json_text(d->name) },
                { "kind", json_text(d->kind) },
                { "pci", json_text(d->pci) },
                { "numa_node",
                  d->node < s->topology->n_nodes ? json_integer(s->topology->nodes[d->node].os) : json_null() },
                { "root", json_text(d->root) },
                { "memory", json_integer((json_int_t) MIN(d->memory, (uint64_t) INT64_MAX)) },
                { "temperature", json_real_or_null(d->temperature) },
                { "power", json_real_or_null(d->power) },
                { "price", json_real_or_null(d->price) },
                { "health", json_string(health_names[d->health]) },
                { "nodes", json_strv(d->nodes) },
        };

        return object_json(pairs, ELEMENTSOF(pairs));
}

json_t *record_link(const Snapshot *s, const Link *l) {
        const Pair pairs[] = {
                { "a", json_text(s->devices[l->a].name) },
                { "b", json_text(s->devices[l->b].name) },
                { "type", json_string(link_names[l->type]) },
                { "bandwidth", json_real_or_null(l->bandwidth) },
        };

        return object_json(pairs, ELEMENTSOF(pairs));
}

static json_t *task_devices_json(const Snapshot *s, const Task *t) {
        json_t *a = json_array();

        for (size_t i = 0; a && i < t->n_devices; i++)
                if (json_array_append_new(a, json_text(s->devices[t->devices[i]].name)) < 0) {
                        json_decref(a);
                        return NULL;
                }
        return a;
}

static json_t *children_json(const Task *t) {
        json_t *a = json_array();

        for (size_t i = 0; a && i < t->n_children; i++) {
                const Pair pairs[] = {
                        { "pid", json_integer(t->children[i].pid) },
                        { "start_time", json_integer((json_int_t) t->children[i].start_time) },
                };

                if (json_array_append_new(a, object_json(pairs, ELEMENTSOF(pairs))) < 0) {
                        json_decref(a);
                        return NULL;
                }
        }
        return a;
}

json_t *record_task(const Snapshot *s, const Task *t) {
        const Pair pairs[] = {
                { "pid", json_integer(t->pid) },
                { "start_time", json_integer((json_int_t) t->start_time) },
                { "uid", json_integer(t->uid) },
                { "name", json_text(t->name) },
                { "job", json_text(t->job) },
                { "ranks", json_text(t->ranks) },
                { "comm", json_text(t->comm) },
                { "rank", t->rank >= 0 ? json_integer(t->rank) : json_null() },
                { "parent_task", t->parent_task > 0 ? json_integer(t->parent_task) : json_null() },
                { "children", children_json(t) },
                { "devices", task_devices_json(s, t) },
                { "cpus", json_bitset(&t->cpus) },
                { "allowed_cpus", json_bitset(&t->allowed_cpus) },
                { "mems", json_bitset(&t->mems) },
                { "threads", json_integer(t->threads) },
                { "memory_by_node",
                  t->memory_by_node ? record_by_node(s->topology, t->memory_by_node, UINT64_MAX) : json_null() },
                { "cpu_use", json_real_or_null(t->cpu_use) },
                { "quota", json_real_or_null(t->quota) },
                { "request", json_real_or_null(t->request) },
                { "cgroup", json_text(t->cgroup) },
                { "owner", json_text(t->owner) },
                { "owner_kind", json_string(owner_names[t->owner_kind]) },
                { "applied", json_boolean(t->applied) },
                { "fixed", json_boolean(t->fixed) },
        };

        return object_json(pairs, ELEMENTSOF(pairs));
}

static json_t *free_memory_json(const Topology *t) {
        _cleanup_free_ uint64_t *values = calloc(MAX(t->n_nodes, 1U), sizeof(*values));

        for (unsigned i = 0; values && i < t->n_nodes; i++)
                values[i] = t->nodes[i].free;
        return values ? record_by_node(t, values, UINT64_MAX) : NULL;
}

static json_t *machine_json(const Snapshot *s, const char *xml) {
        const Topology *t = s->topology;
        const Pair pairs[] = {
                { "source", json_text(t->source) },
                { "allowed_cpus", json_bitset(&t->allowed) },
                { "allowed_nodes", json_bitset(&t->allowed_nodes) },
                { "isolated_cpus", json_bitset(&t->isolated) },
                { "free_memory", free_memory_json(t) },
                { "xml", json_text(xml) },
        };

        return object_json(pairs, ELEMENTSOF(pairs));
}

static int append(json_t *a, json_t *element) {
        return json_array_append_new(a, element) < 0 ? -ENOMEM : 0;
}

static int fill_arrays(const Snapshot *s, json_t *devices, json_t *links, json_t *tasks) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < s->n_devices; i++)
                r = append(devices, record_device(s, s->devices + i));
        for (size_t i = 0; r >= 0 && i < s->n_links; i++)
                r = append(links, record_link(s, s->links + i));
        for (size_t i = 0; r >= 0 && i < s->n_tasks; i++)
                r = append(tasks, record_task(s, s->tasks + i));
        return r;
}

int record_from_snapshot(const Snapshot *s, const char *machine_xml, json_t **ret) {
        json_t *devices = json_array(), *links = json_array(), *tasks = json_array(), *root;
        const Pair pairs[] = {
                { "format", json_string(RECORD_FORMAT) },
                { "time_usec", json_integer((json_int_t) s->time_usec) },
                { "machine", machine_json(s, machine_xml) },
                { "devices", devices },
                { "links", links },
                { "tasks", tasks },
                { "reserved", json_bitset(&s->reserved) },
                { "reserved_reason", json_text(s->reserved_reason) },
                { "warnings", json_strv(s->warnings) },
        };

        root = object_json(pairs, ELEMENTSOF(pairs));
        if (!root)
                return -ENOMEM;
        if (fill_arrays(s, devices, links, tasks) < 0) {
                json_decref(root);
                return -ENOMEM;
        }
        *ret = root;
        return 0;
}
