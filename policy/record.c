/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshot <-> JSON. A record is outside text: every member is checked for type and range, every name for what it
 * names, and a refusal says which member ("tasks[3].devices[0]: …"). Members may be absent or null, which is unknown,
 * except the few without which an element is nothing (a device's name and kind). Unknown members are ignored.
 *
 * Beside what hwloc's XML holds of the machine, "machine" has what is true of the moment: allowed_cpus and
 * allowed_nodes (this process's cpuset), isolated_cpus, and free_memory by node. A task's command line may hold
 * secrets and is never written. Strings that are no UTF-8 (a comm may be any bytes) are written with "?" in them.
 */
#include "policy/record.h"

#include <errno.h>
#include <stdarg.h>

#include "common/text.h"

#define DEVICES_MAX 1024U
#define TASKS_MAX 65536U
#define STRING_MAX 4096U

typedef struct Object { /* the object being read, and where it is, for messages */
        const json_t *json;
        const char *where;
        char **message;
} Object;

typedef struct Input {
        Snapshot *s;
        const Topology *t;
        json_t *names; /* device name -> index; makes links and tasks cheap to resolve */
        json_t *seen;  /* pids and links already there */
        char **message;
} Input;

__attribute__((__format__(__printf__, 3, 4))) static int bad(const Object *o, const char *key, const char *format,
                                                             ...) {
        _cleanup_free_ char *what = NULL;
        va_list ap;
        int r;

        va_start(ap, format);
        r = vasprintf(&what, format, ap);
        va_end(ap);
        if (r < 0)
                return -ENOMEM;
        for (char *p = what; *p; p++) /* a string of theirs may be quoted in it */
                if ((unsigned char) *p < ' ' || *p == 0x7f)
                        *p = '?';
        return text_fail(-EBADMSG, o->message, "%s%s%s: %s", o->where, *o->where && *key ? "." : "", key, what);
}

/* NULL when absent or null. */
static const json_t *member(const Object *o, const char *key) {
        const json_t *j = json_object_get(o->json, key);

        return json_is_null(j) ? NULL : j;
}

static int take_string(const Object *o, const char *key, bool required, char **ret) {
        const json_t *j = member(o, key);
        char *s;

        if (!j)
                return required ? bad(o, key, "missing; a string is needed") : 0;
        if (!json_is_string(j))
                return bad(o, key, "not a string");
        if (json_string_length(j) > STRING_MAX || json_string_length(j) != strlen(json_string_value(j)))
                return bad(o, key, "a string of at most %u characters is allowed", STRING_MAX);
        if (required && json_string_length(j) == 0)
                return bad(o, key, "must not be empty");
        s = strdup(json_string_value(j));
        if (!s)
                return -ENOMEM;
        free(*ret);
        *ret = s;
        return 0;
}

static int take_integer(const Object *o, const char *key, int64_t min, int64_t max, int64_t *ret) {
        const json_t *j = member(o, key);

        if (!j)
                return 0;
        if (!json_is_integer(j) || json_integer_value(j) < min || json_integer_value(j) > max)
                return bad(o, key, "a whole number from %" PRId64 " to %" PRId64 " is allowed", min, max);
        *ret = json_integer_value(j);
        return 0;
}

static int take_real(const Object *o, const char *key, double min, double max, double *ret) {
        const json_t *j = member(o, key);
        double d;

        if (!j)
                return 0;
        d = json_number_value(j);
        if (!json_is_number(j) || !(d >= min && d <= max))
                return bad(o, key, "a number from %g to %g is allowed", min, max);
        *ret = d;
        return 0;
}

static int take_bool(const Object *o, const char *key, bool *ret) {
        const json_t *j = member(o, key);

        if (!j)
                return 0;
        if (!json_is_boolean(j))
                return bad(o, key, "true or false is allowed");
        *ret = json_is_true(j);
        return 0;
}

static int take_enum(const Object *o, const char *key, const char *const *names, int *ret) {
        const json_t *j = member(o, key);
        int r;

        if (!j)
                return 0;
        r = json_is_string(j) ? enum_from_name(names, json_string_value(j)) : -EINVAL;
        if (r < 0) {
                char allowed[256] = "";

                for (size_t i = 0, n = 0; names[i] && n < sizeof(allowed); i++)
                        n += snprintf(allowed + n, sizeof(allowed) - n, "%s%s", i > 0 ? ", " : "", names[i]);
                return bad(o, key, "one of %s is allowed", allowed);
        }
        *ret = r;
        return 0;
}

/* 1 when it was there. */
static int take_set(const Object *o, const char *key, Bitset *ret) {
        const json_t *j = member(o, key);

        if (!j)
                return 0;
        if (!json_is_string(j) || bitset_parse(json_string_value(j), ret) < 0)
                return bad(o, key, "a list of numbers below %u such as \"0-3,8\" is allowed", BITSET_MAX);
        return 1;
}

/* The array under a key; NULL when there is none. */
static int take_array(const Object *o, const char *key, size_t max, const json_t **ret) {
        const json_t *j = member(o, key);

        *ret = NULL;
        if (!j)
                return 0;
        if (!json_is_array(j))
                return bad(o, key, "not an array");
        if (json_array_size(j) > max)
                return bad(o, key, "%zu elements; at most %zu are allowed", json_array_size(j), max);
        *ret = j;
        return 0;
}

static int take_strings(const Object *o, const char *key, char ***ret) {
        const json_t *a;
        int r;

        r = take_array(o, key, TASKS_MAX, &a);
        if (r < 0)
                return r;
        for (size_t i = 0; i < json_array_size(a); i++) {
                const json_t *j = json_array_get(a, i);

                if (!json_is_string(j))
                        return bad(o, key, "element %zu is not a string", i);
                r = strv_extend(ret, json_string_value(j));
                if (r < 0)
                        return r;
        }
        return 0;
}

/* {"0":bytes, "4":bytes} by number of NUMA node -> array by index. */
static int take_by_node(const Object *o, const char *key, const Topology *t, uint64_t *values) {
        const json_t *j = member(o, key), *value;
        const char *node;

        if (!j)
                return 0;
        if (!json_is_object(j))
                return bad(o, key, "not an object of bytes by NUMA node");
        json_object_foreach ((json_t *) j, node, value) {
                unsigned os, index;

                if (text_parse_uint(node, 0, BITSET_MAX - 1, &os) < 0 ||
                    (index = topology_node_by_os(t, os)) == TOPOLOGY_NONE)
                        return bad(o, key, "the machine has no NUMA node \"%.20s\"", node);
                if (!json_is_integer(value) || json_integer_value(value) < 0)
                        return bad(o, key, "bytes on node %s: a whole number from 0 is allowed", node);
                values[index] = json_integer_value(value);
        }
        return 0;
}

static int read_device(Input *in, const Object *o) {
        int64_t node = -1, memory = 0;
        int health = HEALTH_UNKNOWN, r;
        unsigned index = in->s->n_devices;
        Device *d = snapshot_add_device(in->s);

        if (!d)
                return -ENOMEM;
        if ((r = take_string(o, "name", true, &d->name)) < 0 || (r = take_string(o, "kind", true, &d->kind)) < 0 ||
            (r = take_string(o, "pci", false, &d->pci)) < 0 || (r = take_string(o, "root", false, &d->root)) < 0 ||
            (r = take_integer(o, "numa_node", -1, BITSET_MAX - 1, &node)) < 0 ||
            (r = take_integer(o, "memory", 0, INT64_MAX, &memory)) < 0 ||
            (r = take_real(o, "temperature", -100, 1000, &d->temperature)) < 0 ||
            (r = take_real(o, "power", 0, 1e6, &d->power)) < 0 || (r = take_real(o, "price", 0, 1e9, &d->price)) < 0 ||
            (r = take_enum(o, "health", health_names, &health)) < 0 || (r = take_strings(o, "nodes", &d->nodes)) < 0)
                return r;
        if (!name_is_valid(d->name) || !name_is_valid(d->kind))
                return bad(o, name_is_valid(d->name) ? "kind" : "name", "\"%.100s\" is not allowed; " NAME_RULE " are",
                           name_is_valid(d->name) ? d->kind : d->name);
        if (json_object_get(in->names, d->name))
                return bad(o, "name", "\"%.100s\" is there twice", d->name);
        if (node >= 0) {
                d->node = topology_node_by_os(in->t, node);
                if (d->node == TOPOLOGY_NONE)
                        return bad(o, "numa_node", "the machine has no NUMA node %" PRId64, node);
        }
        d->memory = memory;
        d->health = health;
        return json_object_set_new(in->names, d->name, json_integer(index)) < 0 ? -ENOMEM : 0;
}

static int find_device(const Input *in, const Object *o, const char *key, const json_t *name, unsigned *ret) {
        const json_t *index;

        if (!json_is_string(name))
                return bad(o, key, "not the name of a device");
        index = json_object_get(in->names, json_string_value(name));
        if (!index)
                return bad(o, key, "no device \"%.100s\"", json_string_value(name));
        *ret = json_integer_value(index);
        return 0;
}

/* -EBADMSG when the text was there before. */
static int once(Input *in, const Object *o, const char *key, const char *text) {
        if (json_object_get(in->seen, text))
                return bad(o, key, "%s is there twice", text);
        return json_object_set_new(in->seen, text, json_true()) < 0 ? -ENOMEM : 0;
}

static int read_link(Input *in, const Object *o) {
        char text[64];
        int type = LINK_SYS, r;
        Link *l = snapshot_add_link(in->s);

        if (!l)
                return -ENOMEM;
        if ((r = find_device(in, o, "a", json_object_get(o->json, "a"), &l->a)) < 0 ||
            (r = find_device(in, o, "b", json_object_get(o->json, "b"), &l->b)) < 0 ||
            (r = take_enum(o, "type", link_names, &type)) < 0 ||
            (r = take_real(o, "bandwidth", 0, 1e18, &l->bandwidth)) < 0)
                return r;
        if (l->a == l->b)
                return bad(o, "b", "a link of a device to itself");
        l->type = type;
        (void) snprintf(text, sizeof(text), "the link of devices %u and %u", MIN(l->a, l->b), MAX(l->a, l->b));
        return once(in, o, "", text);
}

static int read_task_devices(Input *in, const Object *o, Task *t) {
        const json_t *a;
        int r;

        r = take_array(o, "devices", DEVICES_MAX, &a);
        if (r < 0 || json_array_size(a) == 0)
                return r;
        t->devices = calloc(json_array_size(a), sizeof(*t->devices));
        if (!t->devices)
                return -ENOMEM;
        for (size_t i = 0; i < json_array_size(a); i++) {
                char key[48];

                (void) snprintf(key, sizeof(key), "devices[%zu]", i);
                r = find_device(in, o, key, json_array_get(a, i), t->devices + i);
                if (r < 0)
                        return r;
                t->n_devices++;
        }
        return 0;
}

static int read_task_children(const Object *o, Task *t) {
        const json_t *a;
        int r;

        r = take_array(o, "children", TASKS_MAX, &a);
        if (r < 0 || json_array_size(a) == 0)
                return r;
        t->children = calloc(json_array_size(a), sizeof(*t->children));
        if (!t->children)
                return -ENOMEM;
        for (size_t i = 0; i < json_array_size(a); i++) {
                char where[128];
                Object child = { .json = json_array_get(a, i), .where = where, .message = o->message };
                int64_t pid = 0, start = 0;

                (void) snprintf(where, sizeof(where), "%s.children[%zu]", o->where, i);
                if ((r = take_integer(&child, "pid", 1, INT32_MAX, &pid)) < 0 ||
                    (r = take_integer(&child, "start_time", 0, INT64_MAX, &start)) < 0)
                        return r;
                if (pid == 0)
                        return bad(&child, "pid", "missing");
                t->children[t->n_children++] = (Process){ .pid = pid, .start_time = start };
        }
        return 0;
}

/* CPUs that are not online cannot be meant any more; a set of nothing else is a contradiction. */
static int only_online(const Input *in, const Object *o, const char *key, Bitset *b) {
        bool some = !bitset_isempty(b);

        bitset_and(b, &in->t->online);
        return some && bitset_isempty(b) ? bad(o, key, "none of these CPUs is online on the machine") : 0;
}

static int read_task_sets(const Input *in, const Object *o, Task *t) {
        int r;

        r = take_set(o, "allowed_cpus", &t->allowed_cpus);
        if (r < 0 || (r = r == 0 ? bitset_copy(&t->allowed_cpus, &in->t->online)
                                 : only_online(in, o, "allowed_cpus", &t->allowed_cpus)) < 0)
                return r;
        r = take_set(o, "cpus", &t->cpus);
        if (r < 0 || (r = r == 0 ? bitset_copy(&t->cpus, &t->allowed_cpus) : only_online(in, o, "cpus", &t->cpus)) < 0)
                return r;
        r = take_set(o, "mems", &t->mems);
        if (r < 0)
                return r;
        for (unsigned i = 0; r == 0 && i < in->t->n_nodes; i++)
                if (bitset_set(&t->mems, in->t->nodes[i].os) < 0)
                        return -ENOMEM;
        return 0;
}

static int read_task_memory(const Input *in, const Object *o, Task *t) {
        if (!member(o, "memory_by_node"))
                return 0;
        t->memory_by_node = calloc(in->t->n_nodes, sizeof(*t->memory_by_node));
        return t->memory_by_node ? take_by_node(o, "memory_by_node", in->t, t->memory_by_node) : -ENOMEM;
}

static int read_task_numbers(const Object *o, Task *t) {
        int64_t pid = 0, start = 0, uid = 0, threads = 0, rank = -1, parent = 0;
        int owner = OWNER_NONE, r;

        if ((r = take_integer(o, "pid", 0, INT32_MAX, &pid)) < 0 ||
            (r = take_integer(o, "start_time", 0, INT64_MAX, &start)) < 0 ||
            (r = take_integer(o, "uid", 0, UINT32_MAX, &uid)) < 0 ||
            (r = take_integer(o, "threads", 0, INT32_MAX, &threads)) < 0 ||
            (r = take_integer(o, "rank", -1, INT32_MAX, &rank)) < 0 ||
            (r = take_integer(o, "parent_task", 0, INT32_MAX, &parent)) < 0 ||
            (r = take_real(o, "cpu_use", 0, BITSET_MAX, &t->cpu_use)) < 0 ||
            (r = take_real(o, "quota", 0, 1e9, &t->quota)) < 0 ||
            (r = take_real(o, "request", 0, BITSET_MAX, &t->request)) < 0 ||
            (r = take_bool(o, "applied", &t->applied)) < 0 || (r = take_bool(o, "fixed", &t->fixed)) < 0 ||
            (r = take_enum(o, "owner_kind", owner_names, &owner)) < 0)
                return r;
        t->pid = pid;
        t->start_time = start;
        t->uid = uid;
        t->threads = threads;
        t->rank = rank;
        t->parent_task = parent;
        t->owner_kind = owner;
        return 0;
}

static int read_task(Input *in, const Object *o) {
        char text[32];
        Task *t = snapshot_add_task(in->s);
        int r;

        if (!t)
                return -ENOMEM;
        if ((r = read_task_numbers(o, t)) < 0 || (r = take_string(o, "name", false, &t->name)) < 0 ||
            (r = take_string(o, "job", false, &t->job)) < 0 || (r = take_string(o, "ranks", false, &t->ranks)) < 0 ||
            (r = take_string(o, "comm", false, &t->comm)) < 0 ||
            (r = take_string(o, "cgroup", false, &t->cgroup)) < 0 ||
            (r = take_string(o, "owner", false, &t->owner)) < 0 || (r = read_task_devices(in, o, t)) < 0 ||
            (r = read_task_children(o, t)) < 0 || (r = read_task_sets(in, o, t)) < 0 ||
            (r = read_task_memory(in, o, t)) < 0)
                return r;
        if (!t->name) {
                t->name = strdup(t->comm ? t->comm : "unnamed");
                if (!t->name)
                        return -ENOMEM;
        }
        if (t->pid == 0)
                return 0;
        (void) snprintf(text, sizeof(text), "pid %d", (int) t->pid);
        return once(in, o, "pid", text);
}

static int read_elements(Input *in, const Object *root, const char *key, size_t max,
                         int (*read)(Input *in, const Object *o)) {
        const json_t *a;
        int r;

        r = take_array(root, key, max, &a);
        if (r < 0)
                return r;
        for (size_t i = 0; i < json_array_size(a); i++) {
                char where[64];
                Object o = { .json = json_array_get(a, i), .where = where, .message = in->message };

                (void) snprintf(where, sizeof(where), "%s[%zu]", key, i);
                if (!json_is_object(o.json))
                        return bad(&o, "", "not an object");
                r = read(in, &o);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* What the XML of the machine cannot say. */
static int read_moment(const Object *o, Topology *t) {
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY, nodes = BITSET_EMPTY;
        uint64_t *free_memory;
        int r, known;

        known = take_set(o, "allowed_cpus", &cpus);
        if (known < 0)
                return known;
        if (known > 0)
                bitset_and(&t->allowed, &cpus);
        known = take_set(o, "allowed_nodes", &nodes);
        if (known < 0)
                return known;
        if (known > 0) {
                bitset_and(&t->allowed_nodes, &nodes);
                for (unsigned i = 0; i < t->n_nodes; i++)
                        t->nodes[i].allowed = bitset_test(&t->allowed_nodes, t->nodes[i].os);
        }
        r = take_set(o, "isolated_cpus", &t->isolated);
        if (r < 0)
                return r;
        bitset_and(&t->isolated, &t->online);
        free_memory = calloc(t->n_nodes, sizeof(*free_memory));
        if (!free_memory)
                return -ENOMEM;
        for (unsigned i = 0; i < t->n_nodes; i++)
                free_memory[i] = t->nodes[i].free;
        r = take_by_node(o, "free_memory", t, free_memory);
        for (unsigned i = 0; r >= 0 && i < t->n_nodes; i++)
                t->nodes[i].free = free_memory[i];
        free(free_memory);
        return r;
}

static int read_but_tasks(Input *in, const json_t *root, Topology *topology) {
        Object o = { .json = root, .where = "", .message = in->message };
        Object machine = { .json = json_object_get(root, "machine"), .where = "machine", .message = in->message };
        int64_t time = 0;
        int r;

        if ((r = read_moment(&machine, topology)) < 0 || (r = take_integer(&o, "time_usec", 0, INT64_MAX, &time)) < 0 ||
            (r = read_elements(in, &o, "devices", DEVICES_MAX, read_device)) < 0 ||
            (r = read_elements(in, &o, "links", DEVICES_MAX * DEVICES_MAX, read_link)) < 0 ||
            (r = take_set(&o, "reserved", &in->s->reserved)) < 0 ||
            (r = take_string(&o, "reserved_reason", false, &in->s->reserved_reason)) < 0 ||
            (r = take_strings(&o, "warnings", &in->s->warnings)) < 0)
                return r;
        in->s->time_usec = time;
        return 0;
}

static int read_tasks(Input *in, const json_t *root) {
        Object o = { .json = root, .where = "", .message = in->message };
        int r;

        for (size_t i = 0; i < in->s->n_devices; i++)
                if (json_object_set_new(in->names, in->s->devices[i].name, json_integer((json_int_t) i)) < 0)
                        return -ENOMEM;
        r = read_elements(in, &o, "tasks", TASKS_MAX, read_task);
        if (r >= 0)
                snapshot_sort(in->s);
        return r;
}

int record_machine_xml(const json_t *root, const char **ret, char **ret_message) {
        const json_t *format = json_object_get(root, "format"), *xml;

        if (!json_is_object(root))
                return text_fail(-EBADMSG, ret_message, "not a record: it is no JSON object");
        if (!json_is_string(format) || !streq(json_string_value(format), RECORD_FORMAT))
                return text_fail(-EBADMSG, ret_message,
                                 "not a record this version reads: \"format\" is %s%.40s%s, \"%s\" is allowed",
                                 json_is_string(format) ? "\"" : "",
                                 json_is_string(format) ? json_string_value(format) : "missing",
                                 json_is_string(format) ? "\"" : "", RECORD_FORMAT);
        xml = json_object_get(json_object_get(root, "machine"), "xml");
        if (!json_is_string(xml))
                return text_fail(-EBADMSG, ret_message,
                                 "machine.xml: missing; a record needs the machine as hwloc XML");
        *ret = json_string_value(xml);
        return 0;
}

static int input_open(Input *in) {
        in->names = json_object();
        in->seen = json_object();
        return in->names && in->seen ? 0 : -ENOMEM;
}

static void input_close(Input *in) {
        json_decref(in->names);
        json_decref(in->seen);
}

int record_to_host(const json_t *root, Topology *topology, Snapshot **ret, char **ret_message) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        _cleanup_(input_close) Input in = { .t = topology, .message = ret_message };
        const char *xml;
        int r;

        r = record_machine_xml(root, &xml, ret_message);
        if (r < 0)
                return r;
        r = snapshot_new(&s);
        if (r < 0)
                return r;
        s->topology = topology;
        in.s = s;
        r = input_open(&in);
        if (r >= 0)
                r = read_but_tasks(&in, root, topology);
        if (r < 0)
                return r;
        s->owned_topology = topology;
        *ret = TAKE_PTR(s);
        return 0;
}

int record_add_tasks(const json_t *root, Snapshot *s, char **ret_message) {
        _cleanup_(input_close) Input in = { .s = s, .t = s->topology, .message = ret_message };
        int r = input_open(&in);

        return r < 0 ? r : read_tasks(&in, root);
}

int record_to_snapshot(const json_t *root, Topology *topology, Snapshot **ret, char **ret_message) {
        _cleanup_(snapshot_freep) Snapshot *s = NULL;
        int r;

        r = record_to_host(root, topology, &s, ret_message);
        if (r < 0)
                return r;
        r = record_add_tasks(root, s, ret_message);
        if (r < 0) {
                s->owned_topology = NULL; /* stays the caller's */
                return r;
        }
        *ret = TAKE_PTR(s);
        return 0;
}
