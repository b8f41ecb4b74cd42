/* SPDX-License-Identifier: Apache-2.0 */
/* See bus-objects.h. Numbers that are unknown are JSON null here and NaN on the bus. */
#include <errno.h>
#include <jansson.h>

#include "common/json.h"
#include "daemon/bus-objects.h"

#define DEVICE_PREFIX "/org/qsched1/device"
#define JOB_PREFIX "/org/qsched1/job"
#define TASK_PREFIX "/org/qsched1/task"
#define DEVICE_INTERFACE "org.qsched1.Device"
#define JOB_INTERFACE "org.qsched1.Job"
#define TASK_INTERFACE "org.qsched1.Task"

typedef struct Object {
        char *path;
        const char *interface;
        json_t *properties;
} Object;

typedef struct ObjectList {
        Object *objects; /* sorted by path */
        size_t n;
} ObjectList;

struct Objects {
        sd_bus *bus;
        Manager *manager;
        ObjectList list;
        sd_bus_slot *slots[7];
};

static void list_done(ObjectList *l) {
        for (size_t i = 0; i < l->n; i++) {
                free(l->objects[i].path);
                json_decref(l->objects[i].properties);
        }
        free(l->objects);
        *l = (ObjectList){};
}

static int object_cmp(const void *a, const void *b) {
        return strcmp(((const Object *) a)->path, ((const Object *) b)->path);
}

static Object *list_find(const ObjectList *l, const char *path) {
        const Object key = { .path = (char *) path };

        return l->n ? bsearch(&key, l->objects, l->n, sizeof(key), object_cmp) : NULL;
}

/* Takes properties. A pid needs no escape, though sd_bus_path_encode() would give its first digit one. */
static int list_add(ObjectList *l, const char *prefix, const char *name, const char *interface, json_t *properties) {
        Object *n;
        int r = -ENOMEM;

        if (properties && (n = reallocarray(l->objects, l->n + 1, sizeof(*n)))) {
                l->objects = n;
                n += l->n;
                *n = (Object){ .interface = interface };
                r = streq(prefix, TASK_PREFIX) ? (asprintf(&n->path, TASK_PREFIX "/%s", name) < 0 ? -ENOMEM : 0)
                                               : sd_bus_path_encode(prefix, name, &n->path);
                if (r >= 0) {
                        n->properties = properties;
                        l->n++;
                        return 0;
                }
        }
        json_decref(properties);
        return r;
}

static json_t *known(double d) {
        return isnan(d) ? json_null() : json_real(d);
}

static json_t *device_properties(const Snapshot *s, const Device *d) {
        return json_pack("{s:s,s:s,s:s,s:I,s:I,s:o,s:o,s:s}", "Name", d->name, "Kind", strempty(d->kind), "PCI",
                         strempty(d->pci), "NUMANode",
                         d->node == TOPOLOGY_NONE ? (json_int_t) -1 : (json_int_t) s->topology->nodes[d->node].os,
                         "Memory", (json_int_t) d->memory, "Temperature", known(d->temperature), "Power",
                         known(d->power), "Health", health_names[d->health]);
}

static json_t *task_properties(const Manager *m, const Snapshot *s, const Task *t) {
        const Drift *d = manager_drift(m, (Process){ t->pid, t->start_time });
        _cleanup_free_ char *cpus = NULL, *allowed = NULL, *mems = NULL;
        json_t *devices = json_array();

        if (!devices || bitset_format(&t->cpus, &cpus) < 0 || bitset_format(&t->allowed_cpus, &allowed) < 0 ||
            bitset_format(&t->mems, &mems) < 0) {
                json_decref(devices);
                return NULL;
        }
        for (size_t i = 0; i < t->n_devices; i++)
                (void) json_array_append_new(devices, json_string(s->devices[t->devices[i]].name));
        return json_pack("{s:I,s:s,s:s,s:s,s:s,s:s,s:o,s:I,s:s,s:s,s:o}", "PID", (json_int_t) t->pid, "Name",
                         strempty(t->name), "Job", strempty(t->job), "CPUs", cpus, "AllowedCPUs", allowed, "Mems", mems,
                         "Devices", devices, "Threads", (json_int_t) t->threads, "Owner", strempty(t->owner), "Drift",
                         d ? drift_act_names[d->act] : "", "DriftAuthor", json_text(d ? strempty(d->author) : ""));
}

static unsigned matched(const Snapshot *s, const char *job) {
        unsigned n = 0;

        for (size_t i = 0; s && i < s->n_tasks; i++)
                n += s->tasks[i].job && streq(s->tasks[i].job, job);
        return n;
}

static int list_fill(ObjectList *l, const Manager *m, const Snapshot *s) {
        unsigned priority, ranks;
        const char *name;
        int r = 0;

        for (size_t i = 0; r >= 0 && s && i < s->n_devices; i++)
                r = list_add(l, DEVICE_PREFIX, s->devices[i].name, DEVICE_INTERFACE,
                             device_properties(s, &s->devices[i]));
        for (size_t i = 0; r >= 0 && (name = manager_job(m, i, &priority, &ranks)); i++)
                r = list_add(l, JOB_PREFIX, name, JOB_INTERFACE,
                             json_pack("{s:s,s:I,s:I,s:I}", "Name", name, "Priority", (json_int_t) priority, "Ranks",
                                       (json_int_t) ranks, "Matched", (json_int_t) matched(s, name)));
        for (size_t i = 0; r >= 0 && s && i < s->n_tasks; i++) {
                char pid[16];

                (void) snprintf(pid, sizeof(pid), "%d", (int) s->tasks[i].pid);
                r = list_add(l, TASK_PREFIX, pid, TASK_INTERFACE, task_properties(m, s, &s->tasks[i]));
        }
        if (r >= 0 && l->n > 0)
                qsort(l->objects, l->n, sizeof(*l->objects), object_cmp);
        return r;
}

static json_t *property(void *userdata, const char *name) {
        const Object *o = userdata;

        return json_object_get(o->properties, name);
}

static int get_string(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                      void *userdata, sd_bus_error *e) {
        return sd_bus_message_append(reply, "s", strempty(json_string_value(property(userdata, name))));
}

static int get_u32(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                   void *userdata, sd_bus_error *e) {
        return sd_bus_message_append(reply, "u", (uint32_t) json_integer_value(property(userdata, name)));
}

static int get_i32(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                   void *userdata, sd_bus_error *e) {
        return sd_bus_message_append(reply, "i", (int32_t) json_integer_value(property(userdata, name)));
}

static int get_u64(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                   void *userdata, sd_bus_error *e) {
        return sd_bus_message_append(reply, "t", (uint64_t) json_integer_value(property(userdata, name)));
}

static int get_double(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                      void *userdata, sd_bus_error *e) {
        json_t *v = property(userdata, name);

        return sd_bus_message_append(reply, "d", json_is_number(v) ? json_number_value(v) : (double) NAN);
}

static int get_strv(sd_bus *bus, const char *path, const char *interface, const char *name, sd_bus_message *reply,
                    void *userdata, sd_bus_error *e) {
        json_t *v = property(userdata, name), *s;
        size_t i;
        int r;

        r = sd_bus_message_open_container(reply, 'a', "s");
        json_array_foreach (v, i, s)
                if (r >= 0)
                        r = sd_bus_message_append(reply, "s", strempty(json_string_value(s)));
        return r < 0 ? r : sd_bus_message_close_container(reply);
}

#define CONSTANT SD_BUS_VTABLE_PROPERTY_CONST
#define CHANGING SD_BUS_VTABLE_PROPERTY_EMITS_CHANGE

static const sd_bus_vtable device_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Name", "s", get_string, 0, CONSTANT),
        SD_BUS_PROPERTY("Kind", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("PCI", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("NUMANode", "i", get_i32, 0, CHANGING),
        SD_BUS_PROPERTY("Memory", "t", get_u64, 0, CHANGING),
        SD_BUS_PROPERTY("Temperature", "d", get_double, 0, CHANGING),
        SD_BUS_PROPERTY("Power", "d", get_double, 0, CHANGING),
        SD_BUS_PROPERTY("Health", "s", get_string, 0, CHANGING),
        SD_BUS_VTABLE_END,
};

static const sd_bus_vtable job_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("Name", "s", get_string, 0, CONSTANT),
        SD_BUS_PROPERTY("Priority", "u", get_u32, 0, CHANGING),
        SD_BUS_PROPERTY("Ranks", "u", get_u32, 0, CHANGING),
        SD_BUS_PROPERTY("Matched", "u", get_u32, 0, CHANGING),
        SD_BUS_VTABLE_END,
};

static const sd_bus_vtable task_vtable[] = {
        SD_BUS_VTABLE_START(0),
        SD_BUS_PROPERTY("PID", "u", get_u32, 0, CONSTANT),
        SD_BUS_PROPERTY("Name", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("Job", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("CPUs", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("AllowedCPUs", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("Mems", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("Devices", "as", get_strv, 0, CHANGING),
        SD_BUS_PROPERTY("Threads", "u", get_u32, 0, CHANGING),
        SD_BUS_PROPERTY("Owner", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("Drift", "s", get_string, 0, CHANGING),
        SD_BUS_PROPERTY("DriftAuthor", "s", get_string, 0, CHANGING),
        SD_BUS_VTABLE_END,
};

static int object_find(sd_bus *bus, const char *path, const char *interface, void *userdata, void **ret,
                       sd_bus_error *e) {
        const Objects *o = userdata;
        Object *found = list_find(&o->list, path);

        if (!found || !streq(found->interface, interface))
                return 0;
        *ret = found;
        return 1;
}

static int object_paths(sd_bus *bus, const char *prefix, void *userdata, char ***ret, sd_bus_error *e) {
        const Objects *o = userdata;
        _cleanup_(strv_freep) char **paths = NULL;
        size_t n = strlen(prefix);

        for (size_t i = 0; i < o->list.n; i++)
                if (strncmp(o->list.objects[i].path, prefix, n) == 0 && o->list.objects[i].path[n] == '/' &&
                    strv_extend(&paths, o->list.objects[i].path) < 0)
                        return -ENOMEM;
        *ret = TAKE_PTR(paths);
        return 0;
}

int objects_new(sd_bus *bus, Manager *m, Objects **ret) {
        static const struct {
                const char *prefix, *interface;
                const sd_bus_vtable *vtable;
        } rows[] = {
                { DEVICE_PREFIX, DEVICE_INTERFACE, device_vtable },
                { JOB_PREFIX, JOB_INTERFACE, job_vtable },
                { TASK_PREFIX, TASK_INTERFACE, task_vtable },
        };
        _cleanup_(objects_freep) Objects *o = calloc(1, sizeof(*o));
        int r;

        if (!o)
                return -ENOMEM;
        o->bus = bus;
        o->manager = m;
        r = sd_bus_add_object_manager(bus, &o->slots[6], "/org/qsched1");
        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(rows); i++) {
                r = sd_bus_add_fallback_vtable(bus, &o->slots[2 * i], rows[i].prefix, rows[i].interface, rows[i].vtable,
                                               object_find, o);
                if (r >= 0)
                        r = sd_bus_add_node_enumerator(bus, &o->slots[2 * i + 1], rows[i].prefix, object_paths, o);
        }
        if (r >= 0)
                r = list_fill(&o->list, m, manager_snapshot(m));
        if (r < 0)
                return r;
        *ret = TAKE_PTR(o);
        return 0;
}

Objects *objects_free(Objects *o) {
        if (!o)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(o->slots); i++)
                sd_bus_slot_unref(o->slots[i]);
        list_done(&o->list);
        free(o);
        return NULL;
}

static int tell_changed(Objects *o, const Object *before, const Object *now) {
        const char *names[16];
        unsigned n = 0;
        const char *name;
        json_t *v;

        json_object_foreach (now->properties, name, v)
                if (n + 1 < ELEMENTSOF(names) && !json_equal(v, json_object_get(before->properties, name)))
                        names[n++] = name;
        names[n] = NULL;
        return n > 0 ? sd_bus_emit_properties_changed_strv(o->bus, now->path, now->interface, (char **) names) : 0;
}

int objects_update(Objects *o, const Snapshot *s) {
        ObjectList before, now = {};
        int r;

        r = list_fill(&now, o->manager, s);
        if (r < 0) {
                list_done(&now);
                return r;
        }
        before = o->list;
        o->list = now;
        for (size_t i = 0; i < before.n && r >= 0; i++)
                if (!list_find(&now, before.objects[i].path))
                        r = sd_bus_emit_interfaces_removed(o->bus, before.objects[i].path, before.objects[i].interface,
                                                           NULL);
        for (size_t i = 0; i < now.n && r >= 0; i++) {
                const Object *old = list_find(&before, now.objects[i].path);

                r = old ? tell_changed(o, old, &now.objects[i])
                        : sd_bus_emit_interfaces_added(o->bus, now.objects[i].path, now.objects[i].interface, NULL);
        }
        list_done(&before);
        return r < 0 ? r : 0;
}
