/* SPDX-License-Identifier: Apache-2.0 */
/* Interrupts as they were: what the journal says of a vector, whether it is that vector still, and its old mask. */
#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"
#include "daemon/enforce-irq-internal.h"

int irq_say_change(IrqEnforcer *e, ChangeResult result, const Vector *v, const Bitset *old, const Bitset *wanted,
                   const Bitset *got, int error) {
        const ChangeIrq irq = { .irq = v->status.irq, .device = v->status.device, .name = v->status.name };

        return outcome_add_irq(e->outcome, result, v->status.job, &irq, old, wanted, got, error);
}

static int load_entry(IrqEnforcer *e, const UndoEntry *entry) {
        Vector *v = irq_vector_find(e, entry->irq.device, entry->irq.irq);
        int r = 0;

        if (v && !streq(v->status.name, entry->irq.name))
                return 0; /* of a handler that was there before: forgotten when the file is read anew */
        if (!v) {
                r = irq_vector_add(e, entry->irq.device, entry->irq.irq, entry->irq.name, &v);
                if (r >= 0)
                        r = irq_table_once(e, false);
                if (r < 0)
                        return r;
        }
        if (!v->status.job && !(v->status.job = strdup(entry->job)))
                return -ENOMEM;
        v->noted = true;
        v->committed = entry->committed;
        v->banned |= entry->irq.banned;
        r = bitset_copy(&v->old, &entry->old);
        if (r >= 0)
                r = bitset_copy(&v->ours, &entry->new);
        return r < 0 ? r : bitset_copy(&v->before, &entry->before);
}

int irq_load_entries(IrqEnforcer *e) {
        const UndoEntry *entries;
        size_t n;
        int r = 0;

        entries = undo_entries(e->undo, &n);
        e->any_yielded = false;
        for (size_t i = 0; r >= 0 && i < n; i++)
                if (entries[i].type == UNDO_IRQ)
                        r = load_entry(e, &entries[i]);
                else if (entries[i].type == UNDO_YIELD && entries[i].irq.device)
                        e->any_yielded = true;
        return r;
}

/* The number belongs to the same function, and its handler is the one it had, or there is none just now. */
static int is_same(IrqEnforcer *e, const Vector *v) {
        const IrqLine *line;
        int r;

        if (!irq_is_vector_of(e->root, v->status.pci, v->status.irq))
                return 0;
        r = irq_table_once(e, false);
        if (r < 0)
                return r;
        line = irq_table_find(&e->table, v->status.irq);
        return !line || !*line->name || streq(line->name, v->status.name);
}

int irq_online(const IrqEnforcer *e, Bitset *ret) {
        _cleanup_free_ char *path = NULL, *line = NULL;
        int r;

        if (asprintf(&path, "%s/sys/devices/system/cpu/online", e->root) < 0)
                return -ENOMEM;
        r = read_line_at(AT_FDCWD, path, &line);
        return r < 0 ? r : bitset_parse(line, ret);
}

static int put_back_refused(IrqEnforcer *e, Vector *v, const Bitset *current, const Bitset *target, int error) {
        int r = irq_say_change(e, CHANGE_REFUSED, v, current, target, NULL, -error);

        v->status.state = IRQ_FAILED;
        v->status.error = -error;
        /* Vectors of the old CPUs may become free, and a read-only /proc writable. */
        return r < 0 ? r : 0;
}

int irq_put_back(IrqEnforcer *e, Vector *v, const Bitset *target) {
        _cleanup_(bitset_done) Bitset current = BITSET_EMPTY, got = BITSET_EMPTY;
        int r = is_same(e, v);

        if (r > 0)
                r = irq_affinity(e->root, v->status.irq, &current) >= 0;
        if (r < 0)
                return r;
        if (r == 0)
                r = irq_say_change(e, CHANGE_GONE, v, NULL, target, NULL, ENOENT);
        else if (bitset_equal(&current, target))
                r = irq_say_change(e, CHANGE_SAME, v, NULL, NULL, NULL, 0);
        else if (!bitset_equal(&current, &v->ours) && bitset_intersects(&v->ours, &e->online) &&
                 (bitset_isempty(&v->before) || !bitset_equal(&current, &v->before)))
                r = irq_say_change(e, CHANGE_DRIFT, v, &v->ours, target, &current, 0);
        else {
                r = irq_set_affinity(e->root, v->status.irq, target);
                if (r == -EINVAL) /* none of the old CPUs is online any more: the kernel takes no such mask */
                        r = irq_set_affinity(e->root, v->status.irq, &e->online);
                if (r < 0)
                        return put_back_refused(e, v, &current, target, r);
                (void) irq_affinity(e->root, v->status.irq, &got);
                r = irq_say_change(e, CHANGE_DONE, v, &current, target, &got, 0);
        }
        return r < 0 ? r : 1;
}

int irq_abort_uncommitted(IrqEnforcer *e) {
        int r = 0;

        for (uint64_t id = 0; (id = undo_next_uncommitted(e->undo, 1U << UNDO_IRQ, id)) > 0;) {
                int k = undo_abort(e->undo, id);

                if (r >= 0)
                        r = k;
        }
        return r;
}
