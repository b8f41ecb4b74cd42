/* SPDX-License-Identifier: Apache-2.0 */
/* Wishes out of a plan, and the state of the vectors as JSON. */
#include <errno.h>

#include "common/json.h"
#include "common/text.h"
#include "daemon/enforce-irq-internal.h"

const char *const irq_state_names[] = { "ok", "pending", "drift", "fixed", "failed", NULL };

static void wish_done(IrqWish *w) {
        free(w->job);
        free(w->device);
        free(w->pci);
        bitset_done(&w->cpus);
        bitset_done(&w->spare);
        bitset_done(&w->node);
}

void irq_wishes_done(IrqWishes *w) {
        for (size_t i = 0; i < w->n_wishes; i++)
                wish_done(&w->wishes[i]);
        free(w->wishes);
        strv_free(w->waiting);
        *w = (IrqWishes){};
}

/* Two ranks on one device, or two devices that are one function: their CPUs together. */
static int wish_for(IrqWishes *list, const PlanTask *t, const Device *d, IrqWish **ret) {
        IrqWish *n;

        for (size_t i = 0; i < list->n_wishes; i++)
                if (streq(list->wishes[i].pci, d->pci)) {
                        *ret = &list->wishes[i];
                        return 0;
                }
        n = reallocarray(list->wishes, list->n_wishes + 1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        list->wishes = n;
        n += list->n_wishes++;
        *n = (IrqWish){ .job = strdup(strempty(t->job)), .device = strdup(d->name), .pci = strdup(d->pci) };
        if (!n->job || !n->device || !n->pci)
                return -ENOMEM;
        *ret = n;
        return 0;
}

static int fill_node(IrqWish *w, const Topology *t) {
        BITSET_FOREACH (cpu, &w->cpus) {
                const TopologyCpu *c = topology_cpu(t, (unsigned) cpu);
                int r = c && c->node < t->n_nodes ? bitset_or(&w->node, &t->nodes[c->node].cpus) : 0;

                if (r < 0)
                        return r;
        }
        bitset_and(&w->node, &t->online);
        bitset_andnot(&w->node, &w->cpus);
        return 0;
}

static int fill_spare(IrqWish *w, const Plan *plan, const Topology *t) {
        int r = bitset_copy(&w->spare, &w->node);

        if (r < 0)
                return r;
        for (size_t i = 0; i < plan->n_tasks; i++)
                bitset_andnot(&w->spare, &plan->tasks[i].cpus);
        bitset_andnot(&w->spare, &t->isolated);
        bitset_andnot(&w->node, &w->spare);
        return 0;
}

static int add_task(const PlanTask *t, const Bitset *cpus, const Snapshot *s, IrqWishes *list) {
        for (size_t i = 0; t->devices && t->devices[i]; i++) {
                const Device *d = snapshot_device(s, t->devices[i], NULL);
                IrqWish *w;
                int r;

                if (!d || !d->pci)
                        continue;
                r = wish_for(list, t, d, &w);
                if (r >= 0)
                        r = bitset_or(&w->cpus, cpus);
                if (r < 0)
                        return r;
        }
        return 0;
}

int irq_wishes_from_plan(const Plan *plan, const Snapshot *s, IrqCpus cpus, const void *userdata, IrqWishes *ret) {
        IrqWishes list = {};
        int r = 0;

        for (size_t i = 0; r >= 0 && i < plan->n_tasks; i++) {
                const PlanTask *t = &plan->tasks[i];
                const Bitset *to = cpus ? cpus(t, userdata) : &t->irq_cpus;

                if (t->process.pid > 0 && to && !bitset_isempty(to))
                        r = add_task(t, to, s, &list);
        }
        for (size_t i = 0; r >= 0 && i < list.n_wishes; i++) {
                r = fill_node(&list.wishes[i], s->topology);
                if (r >= 0)
                        r = fill_spare(&list.wishes[i], plan, s->topology);
        }
        if (r < 0) {
                irq_wishes_done(&list);
                return r;
        }
        *ret = list;
        return 0;
}

static json_t *status_to_json(const IrqStatus *s) {
        json_t *o = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "irq", (int) s->irq, "name",
                              strempty(s->name), "device", strempty(s->device), "pci", s->pci, "job", strempty(s->job),
                              "state", irq_state_names[s->state], "wanted", json_bitset(&s->wanted), "affinity",
                              json_bitset(&s->affinity), "effective", json_bitset(&s->effective));

        if (!o)
                return NULL;
        if ((s->spilled && json_object_set_new(o, "spilled", json_true()) < 0) ||
            (s->error > 0 && json_object_set_new(o, "error", json_string(strerror(s->error))) < 0) ||
            (s->state == IRQ_DRIFT && s->author && json_object_set_new(o, "author", json_string(s->author)) < 0)) {
                json_decref(o);
                return NULL;
        }
        return o;
}

int irq_statuses_to_json(const IrqEnforcer *e, json_t **ret) {
        json_t *a = json_array();
        const IrqStatus *s;

        for (size_t i = 0; a && (s = irq_status(e, i)); i++)
                if (json_array_append_new(a, status_to_json(s)) < 0) {
                        json_decref(a);
                        a = NULL;
                }
        if (!a)
                return -ENOMEM;
        *ret = a;
        return 0;
}
