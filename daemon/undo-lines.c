/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the undo journal as lines: the writing half of undo-replay.c (the forms are in undo.h). */
#include <errno.h>
#include <limits.h>
#include "daemon/undo-internal.h"

static int affinity_to_json(const UndoEntry *e, const Bitset *new, json_t **ret) {
        _cleanup_free_ char *old_text = NULL, *new_text = NULL, *cpuset_text = NULL, *pool_text = NULL;
        int r = bitset_format(&e->old, &old_text);

        if (r >= 0)
                r = bitset_format(new, &new_text);
        if (r >= 0 && !bitset_isempty(&e->cpuset))
                r = bitset_format(&e->cpuset, &cpuset_text);
        if (r >= 0 && !bitset_isempty(&e->pool))
                r = bitset_format(&e->pool, &pool_text);
        if (r < 0)
                return r;
        *ret = json_pack("{s:s, s:I, s:s, s:i, s:I, s:i, s:I, s:s, s:s, s:b, s:s*, s:s*}", "t", "affinity", "id",
                         (json_int_t) e->id, "job", strempty(e->job), "pid", e->process.pid, "start",
                         (json_int_t) e->process.start_time, "tid", e->tid, "tid_start", (json_int_t) e->tid_start,
                         "old", old_text, "new", new_text, "all", e->all, "cpuset", cpuset_text, "pool", pool_text);
        return *ret ? 0 : -EINVAL;
}

static int cpus_to_json(const UndoEntry *e, json_t **ret) {
        _cleanup_free_ char *old = NULL, *new = NULL;
        int r = bitset_format(&e->old, &old);

        if (r >= 0)
                r = bitset_format(&e->new, &new);
        if (r < 0)
                return r;
        *ret = json_pack("{s:s, s:I, s:s, s:i, s:I, s:s, s:s, s:s, s:s}", "t", e->type == UNDO_MEMS ? "mems" : "cpus",
                         "id", (json_int_t) e->id, "job", strempty(e->job), "pid", e->process.pid, "start",
                         (json_int_t) e->process.start_time, "controller", e->controller, "path", e->new_path, "old",
                         old, "new", new);
        return *ret ? 0 : -EINVAL;
}

static int irq_to_json(const UndoEntry *e, const Bitset *new, json_t **ret) {
        _cleanup_free_ char *old_text = NULL, *new_text = NULL;
        int r = bitset_format(&e->old, &old_text);

        if (r >= 0)
                r = bitset_format(new, &new_text);
        if (r < 0)
                return r;
        *ret = json_pack("{s:s, s:I, s:s, s:i, s:s, s:s, s:s, s:s, s:b}", "t", "irq", "id", (json_int_t) e->id, "job",
                         strempty(e->job), "irq", (int) e->irq.irq, "device", e->irq.device, "name", e->irq.name, "old",
                         old_text, "new", new_text, "banned", (int) e->irq.banned);
        return *ret ? 0 : -EINVAL;
}

static json_t *yield_to_json(const UndoEntry *e) {
        if (e->irq.device)
                return json_pack("{s:s, s:s, s:i, s:s, s:s}", "t", "yield", "job", strempty(e->job), "irq",
                                 (int) e->irq.irq, "device", e->irq.device, "name", e->irq.name);
        return json_pack("{s:s, s:s, s:i, s:I, s:I}", "t", "yield", "job", strempty(e->job), "pid", e->process.pid,
                         "start", (json_int_t) e->process.start_time, "since", (json_int_t) e->since);
}

int undo_entry_to_json(const UndoEntry *e, const Bitset *new, bool committed, json_t **ret) {
        json_t *o = NULL;
        int r = 0;

        if (e->type == UNDO_AFFINITY)
                r = affinity_to_json(e, new, &o);
        else if (e->type == UNDO_CPUS || e->type == UNDO_MEMS)
                r = cpus_to_json(e, &o);
        else if (e->type == UNDO_IRQ)
                r = irq_to_json(e, new, &o);
        else if (e->type == UNDO_YIELD)
                o = yield_to_json(e);
        else if (e->type == UNDO_CGROUP)
                o = json_pack("{s:s, s:I, s:s, s:i, s:I, s:s, s:s, s:s}", "t", "cgroup", "id", (json_int_t) e->id,
                              "job", strempty(e->job), "pid", e->process.pid, "start",
                              (json_int_t) e->process.start_time, "old", e->old_path, "new", e->new_path, "controller",
                              e->controller);
        else
                o = json_pack("{s:s, s:I, s:s, s:s, s:s*}", "t", "dir", "id", (json_int_t) e->id, "job",
                              strempty(e->job), "path", e->new_path, "controller", e->controller);
        if (r < 0)
                return r;
        if (!o) /* a name that is no UTF-8 cannot be noted, so it is not changed either */
                return -EINVAL;
        if (committed && e->type != UNDO_YIELD && json_object_set_new(o, "committed", json_true()) < 0) {
                json_decref(o);
                return -ENOMEM;
        }
        *ret = o;
        return 0;
}

json_t *undo_undone_to_json(const UndoEntry *e) {
        if (e->type == UNDO_AFFINITY)
                return json_pack("{s:s, s:i, s:I}", "t", "undone", "tid", e->tid, "tid_start",
                                 (json_int_t) e->tid_start);
        if (e->type == UNDO_CPUS)
                return json_pack("{s:s, s:s}", "t", "undone", "group", e->new_path);
        if (e->type == UNDO_MEMS)
                return json_pack("{s:s, s:s}", "t", "undone", "wall", e->new_path);
        if (e->type == UNDO_CGROUP)
                return json_pack("{s:s, s:i, s:I, s:s}", "t", "undone", "pid", e->process.pid, "start",
                                 (json_int_t) e->process.start_time, "controller", e->controller);
        if (e->type == UNDO_YIELD && !e->irq.device)
                return json_pack("{s:s, s:i, s:I, s:b}", "t", "undone", "pid", e->process.pid, "start",
                                 (json_int_t) e->process.start_time, "yield", true);
        if (e->type == UNDO_YIELD)
                return json_pack("{s:s, s:i, s:s, s:s, s:b}", "t", "undone", "irq", (int) e->irq.irq, "device",
                                 e->irq.device, "name", e->irq.name, "yield", true);
        if (e->type == UNDO_IRQ)
                return json_pack("{s:s, s:i, s:s, s:s}", "t", "undone", "irq", (int) e->irq.irq, "device",
                                 e->irq.device, "name", e->irq.name);
        return json_pack("{s:s, s:s}", "t", "undone", "path", e->new_path);
}
