/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life of a Snapshot and its parts: made empty with every unknown marked as such, grown one element at a time by the
 * readers, sorted once, then const. Arrays grow by doubling at powers of two, so no capacity is kept.
 */
#include "policy/snapshot.h"

#include <errno.h>
#include <strings.h>

#include "common/text.h"

const char *const health_names[] = { "unknown", "ok", "warning", "alarm", "critical", NULL };
const char *const link_names[] = { "SYS", "PHB", "PXB", "PIX", "SIO", "HCCS", "MLULINK", "XGMI", "NVLINK", NULL };
const char *const owner_names[] = { "none", "qsched", "unit", "scope", "pod", "container", "slurm", "group", NULL };

int snapshot_new(Snapshot **ret) {
        Snapshot *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        *ret = s;
        return 0;
}

void device_done(Device *d) {
        free(d->name);
        free(d->kind);
        free(d->pci);
        free(d->root);
        strv_free(d->nodes);
        *d = (Device){};
}

void task_done(Task *t) {
        free(t->name);
        free(t->job);
        free(t->ranks);
        free(t->comm);
        free(t->cmdline);
        free(t->children);
        free(t->devices);
        bitset_done(&t->cpus);
        bitset_done(&t->allowed_cpus);
        bitset_done(&t->mems);
        free(t->memory_by_node);
        free(t->cgroup);
        free(t->quota_group);
        free(t->owner);
        *t = (Task){};
}

Snapshot *snapshot_free(Snapshot *s) {
        if (!s)
                return NULL;

        for (size_t i = 0; i < s->n_devices; i++)
                device_done(s->devices + i);
        for (size_t i = 0; i < s->n_tasks; i++)
                task_done(s->tasks + i);
        free(s->devices);
        free(s->links);
        free(s->tasks);
        bitset_done(&s->reserved);
        free(s->reserved_reason);
        strv_free(s->warnings);
        topology_free(s->owned_topology);
        free(s);
        return NULL;
}

/* Zeroed element behind the n that array has; NULL on OOM, and array is as it was. */
static void *array_extend(void **array, size_t *n, size_t size) {
        char *a = *array;

        if ((*n & (*n - 1)) == 0) { /* full: 0, 1, 2, 4, 8, … elements */
                a = reallocarray(a, *n > 0 ? *n * 2 : 1, size);
                if (!a)
                        return NULL;
                *array = a;
        }
        return memset(a + (*n)++ * size, 0, size);
}

Device *snapshot_add_device(Snapshot *s) {
        Device *d = array_extend((void **) &s->devices, &s->n_devices, sizeof(*d));

        if (d) {
                d->node = TOPOLOGY_NONE;
                d->temperature = d->power = d->price = NAN;
        }
        return d;
}

Link *snapshot_add_link(Snapshot *s) {
        Link *l = array_extend((void **) &s->links, &s->n_links, sizeof(*l));

        if (l)
                l->bandwidth = NAN;
        return l;
}

Task *snapshot_add_task(Snapshot *s) {
        Task *t = array_extend((void **) &s->tasks, &s->n_tasks, sizeof(*t));

        if (t) {
                t->rank = -1;
                t->cpu_use = t->quota = t->request = NAN;
        }
        return t;
}

static int task_cmp(const void *a, const void *b) {
        const Task *x = a, *y = b;
        int r = CMP(x->start_time, y->start_time);

        return r != 0 ? r : CMP(x->pid, y->pid);
}

/* By insertion: stable (planned tasks all have pid 0), and readers deliver nearly sorted. */
void snapshot_sort(Snapshot *s) {
        for (size_t i = 1; i < s->n_tasks; i++) {
                Task t = s->tasks[i];
                size_t k = i;

                for (; k > 0 && task_cmp(s->tasks + k - 1, &t) > 0; k--)
                        s->tasks[k] = s->tasks[k - 1];
                s->tasks[k] = t;
        }
}

const Device *snapshot_device(const Snapshot *s, const char *name, unsigned *ret_index) {
        for (size_t i = 0; i < s->n_devices; i++)
                if (s->devices[i].name && streq(s->devices[i].name, name)) {
                        if (ret_index)
                                *ret_index = i;
                        return s->devices + i;
                }
        return NULL;
}

const Task *snapshot_task(const Snapshot *s, pid_t pid) {
        for (size_t i = 0; i < s->n_tasks; i++)
                if (s->tasks[i].pid == pid)
                        return s->tasks + i;
        return NULL;
}

int enum_from_name(const char *const *names, const char *s) {
        for (int i = 0; names[i]; i++)
                if (strcasecmp(names[i], s) == 0)
                        return i;
        return -EINVAL;
}
