/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The writing half of record.c. Every member that the reader knows is written, unknown ones as null, so that a record
 * shows what there is to know. No command line: it may hold secrets.
 */
#include <errno.h>

#include "common/text.h"
#include "policy/record.h"

/* jansson takes only UTF-8; a comm or a cgroup's name may be any bytes. */
static json_t *text_json(const char *s) {
        _cleanup_free_ char *plain = NULL;
        json_t *j;

        if (!s)
                return json_null();
        j = json_string(s);
        if (j)
                return j;
        plain = strdup(s);
        for (char *p = plain; p && *p; p++)
                if ((unsigned char) *p >= 0x7f || (unsigned char) *p < ' ')
                        *p = '?';
        return plain ? json_string(plain) : NULL;
}

static json_t *real_json(double d) {
        return isfinite(d) ? json_real(d) : json_null();
}

static json_t *set_json(const Bitset *b) {
        _cleanup_free_ char *s = NULL;

        return bitset_format(b, &s) < 0 ? NULL : json_string(s);
}

static json_t *strings_json(char *const *v) {
        json_t *a = json_array();

        for (; a && v && *v; v++)
                if (json_array_append_new(a, text_json(*v)) < 0) {
                        json_decref(a);
                        return NULL;
                }
        return a;
}

static json_t *by_node_json(const Topology *t, const uint64_t *values, uint64_t unknown) {
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
                { "name", text_json(d->name) },
                { "kind", text_json(d->kind) },
                { "pci", text_json(d->pci) },
                { "numa_node",
                  d->node < s->topology->n_nodes ? json_integer(s->topology->nodes[d->node].os) : json_null() },
                { "root", text_json(d->root) },
                { "memory", json_integer((json_int_t) MIN(d->memory, (uint64_t) INT64_MAX)) },
                { "temperature", real_json(d->temperature) },
                { "power", real_json(d->power) },
                { "price", real_json(d->price) },
                { "health", json_string(health_names[d->health]) },
                { "nodes", strings_json(d->nodes) },
        };

        return object_json(pairs, ELEMENTSOF(pairs));
}

static json_t *link_json(const Snapshot *s, const Link *l) {
        const Pair pairs[] = {
                { "a", text_json(s->devices[l->a].name) },
                { "b", text_json(s->devices[l->b].name) },
                { "type", json_string(link_names[l->type]) },
                { "bandwidth", real_json(l->bandwidth) },
        };

        return object_json(pairs, ELEMENTSOF(pairs));
}

static json_t *task_devices_json(const Snapshot *s, const Task *t) {
        json_t *a = json_array();

        for (size_t i = 0; a && i < t->n_devices; i++)
                if (json_array_append_new(a, text_json(s->devices[t->devices[i]].name)) < 0) {
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
                { "name", text_json(t->name) },
                { "job", text_json(t->job) },
                { "ranks", text_json(t->ranks) },
                { "comm", text_json(t->comm) },
                { "rank", t->rank >= 0 ? json_integer(t->rank) : json_null() },
                { "parent_task", t->parent_task > 0 ? json_integer(t->parent_task) : json_null() },
                { "children", children_json(t) },
                { "devices", task_devices_json(s, t) },
                { "cpus", set_json(&t->cpus) },
                { "allowed_cpus", set_json(&t->allowed_cpus) },
                { "mems", set_json(&t->mems) },
                { "threads", json_integer(t->threads) },
                { "memory_by_node",
                  t->memory_by_node ? by_node_json(s->topology, t->memory_by_node, UINT64_MAX) : json_null() },
                { "cpu_use", real_json(t->cpu_use) },
                { "quota", real_json(t->quota) },
                { "request", real_json(t->request) },
                { "cgroup", text_json(t->cgroup) },
                { "owner", text_json(t->owner) },
                { "owner_kind", json_string(owner_names[t->owner_kind]) },
                { "applied", json_boolean(t->applied) },
        };

        return object_json(pairs, ELEMENTSOF(pairs));
}

static json_t *free_memory_json(const Topology *t) {
        _cleanup_free_ uint64_t *values = calloc(MAX(t->n_nodes, 1U), sizeof(*values));

        for (unsigned i = 0; values && i < t->n_nodes; i++)
                values[i] = t->nodes[i].free;
        return values ? by_node_json(t, values, UINT64_MAX) : NULL;
}

static json_t *machine_json(const Snapshot *s, const char *xml) {
        const Topology *t = s->topology;
        const Pair pairs[] = {
                { "source", text_json(t->source) },
                { "allowed_cpus", set_json(&t->allowed) },
                { "allowed_nodes", set_json(&t->allowed_nodes) },
                { "isolated_cpus", set_json(&t->isolated) },
                { "free_memory", free_memory_json(t) },
                { "xml", text_json(xml) },
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
                r = append(links, link_json(s, s->links + i));
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
                { "reserved", set_json(&s->reserved) },
                { "reserved_reason", text_json(s->reserved_reason) },
                { "warnings", strings_json(s->warnings) },
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
