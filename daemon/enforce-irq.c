/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call: list the vectors of the wished functions; ask irqbalance to leave them alone, so that it does not move them
 * between our write and its next round; per vector judge what is there, note, write, read back; put back what is wished
 * no more; commit. /proc/interrupts is large on large hosts, so it is read only when a vector is new, is written, or is
 * pending; a quiet tick costs a listing per function and two short reads per vector.
 *
 * A vector is known by its function, its number and the name of its handler; the journal is void after a boot. A number
 * that the kernel has given to another function, or to another handler, is another vector: never written on a note's word.
 */
#include "daemon/enforce-irq.h"

#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"
#include "daemon/enforce-irq-internal.h"
#include "daemon/readers/irqbalance.h"

#define SINGLES_MAX 64U /* CPUs of a set that are tried one by one */
#define FIRED_SURELY 2U /* an interrupt may have been on its way while the mask was written */

int irq_enforcer_new(Undo *undo, const char *root, IrqEnforcer **ret) {
        _cleanup_(irq_enforcer_freep) IrqEnforcer *e = calloc(1, sizeof(*e));

        if (!e)
                return -ENOMEM;
        e->undo = undo;
        e->root = strdup(strempty(root));
        if (!e->root)
                return -ENOMEM;
        *ret = TAKE_PTR(e);
        return 0;
}

void irq_enforcer_set_drift(IrqEnforcer *e, DriftPolicy policy) {
        e->drift.policy = policy;
}

IrqEnforcer *irq_enforcer_free(IrqEnforcer *e) {
        if (!e)
                return NULL;
        for (size_t i = 0; i < e->n_vectors; i++)
                irq_vector_done(&e->vectors[i]);
        free(e->vectors);
        irq_table_done(&e->table);
        bitset_done(&e->online);
        bitset_done(&e->mine);
        bitset_done(&e->asked);
        bitset_done(&e->banned);
        drift_book_done(&e->drift);
        free(e->root);
        free(e);
        return NULL;
}

const IrqStatus *irq_status(const IrqEnforcer *e, size_t i) {
        return i < e->n_vectors ? &e->vectors[i].status : NULL;
}

int irq_table_once(IrqEnforcer *e, bool anew) {
        IrqTable t;
        int r;

        if (e->table_read && !anew)
                return 0;
        r = irq_table_read(e->root, &t);
        if (r < 0)
                return r;
        irq_table_done(&e->table);
        e->table = t;
        e->table_read = true;
        return 0;
}

static int open_transaction(IrqEnforcer *e) {
        int r = e->transaction ? 0 : undo_begin(e->undo, NULL, &e->transaction);

        return r < 0 ? r : 0;
}

static int note(IrqEnforcer *e, Vector *v, const Bitset *new) {
        const UndoIrq irq = {
                .irq = v->status.irq, .device = v->status.pci, .name = v->status.name, .banned = v->banned
        };
        int r = open_transaction(e);

        if (r >= 0)
                r = undo_note_irq(e->undo, e->transaction, v->status.job, &irq, &v->old, new);
        if (r < 0)
                return r;
        if (v->noted && v->committed) {
                r = bitset_copy(&v->before, &v->ours);
                v->committed = false;
        }
        v->noted = true;
        return r < 0 ? r : bitset_copy(&v->ours, new);
}

void irq_forget(IrqEnforcer *e, Vector *v) {
        const UndoEntry entry = { .type = UNDO_IRQ,
                                  .irq = { .irq = v->status.irq, .device = v->status.pci, .name = v->status.name } };

        (void) undo_forget(e->undo, &entry);
        v->noted = v->committed = false;
        bitset_zero(&v->ours);
        bitset_zero(&v->before);
}

/* The change was not made: the journal must not say it was. */
static int unnote(IrqEnforcer *e, Vector *v) {
        _cleanup_(bitset_done) Bitset before = BITSET_EMPTY;
        int r;

        if (bitset_isempty(&v->before)) {
                irq_forget(e, v);
                return 0;
        }
        r = bitset_copy(&before, &v->before);
        return r < 0 ? r : note(e, v, &before);
}

static bool is_managed(int error) {
        return error == -EPERM || error == -EIO;
}

static int try_set(IrqEnforcer *e, Vector *v, const Bitset *cpus) {
        int r = note(e, v, cpus), k;

        if (r < 0)
                return r;
        k = irq_set_affinity(e->root, v->status.irq, cpus);
        v->result = k;
        return 0;
}

/* CPUs of a set one by one: there are controllers that look at the first of a mask only. */
static int try_singles(IrqEnforcer *e, Vector *v, const Bitset *cpus) {
        unsigned n = 0;
        int r = 0;

        if (bitset_weight(cpus) < 2)
                return 0;
        BITSET_FOREACH (cpu, cpus) {
                _cleanup_(bitset_done) Bitset one = BITSET_EMPTY;

                if (r < 0 || v->result != -ENOSPC || n++ >= SINGLES_MAX)
                        break;
                r = bitset_set(&one, (unsigned) cpu);
                if (r >= 0)
                        r = try_set(e, v, &one);
        }
        return r;
}

static int try_all(IrqEnforcer *e, Vector *v, const IrqWish *w) {
        const Bitset *const sets[] = { &w->cpus, &w->spare, &w->node };
        int r = 0;

        v->result = -ENOSPC;
        for (size_t i = 0; r >= 0 && v->result == -ENOSPC && i < ELEMENTSOF(sets); i++) {
                if (bitset_isempty(sets[i]))
                        continue;
                r = try_set(e, v, sets[i]);
                if (r >= 0 && v->result == -ENOSPC)
                        r = try_singles(e, v, sets[i]);
        }
        return r;
}

static int say(IrqEnforcer *e, ChangeResult result, const Vector *v, const Bitset *old, const Bitset *got, int error) {
        return irq_say_change(e, result, v, old, &v->status.wanted, got, error);
}

static int refused(IrqEnforcer *e, Vector *v, const Bitset *current) {
        int r = unnote(e, v);

        if (r < 0)
                return r;
        v->status.state = is_managed(v->result) ? IRQ_FIXED : IRQ_FAILED;
        v->status.error = -v->result;
        if (is_managed(v->result)) /* nothing failed: a sentence tells */
                return say(e, CHANGE_SAME, v, NULL, NULL, 0);
        if (v->result == -ENOENT)
                return say(e, CHANGE_GONE, v, current, NULL, ENOENT);
        return say(e, CHANGE_REFUSED, v, current, NULL, -v->result);
}

static int read_back(IrqEnforcer *e, Vector *v, const Bitset *current) {
        IrqStatus *s = &v->status;
        int r = irq_affinity(e->root, s->irq, &s->affinity);

        if (r < 0)
                return r == -ENOENT ? say(e, CHANGE_GONE, v, current, NULL, ENOENT) : r;
        v->written = true;
        v->unplugged = false;
        s->state = IRQ_PENDING;
        s->error = 0;
        if (!bitset_equal(&s->affinity, &v->ours)) {
                s->state = IRQ_DRIFT; /* somebody was there between write and read */
                return say(e, CHANGE_DRIFT, v, current, &s->affinity, 0);
        }
        s->spilled = !bitset_subset(&v->ours, &s->wanted);
        if (s->spilled) {
                r = bitset_copy(&v->full, &s->wanted);
                return r < 0 ? r : say(e, CHANGE_NARROWED, v, current, &s->affinity, 0);
        }
        bitset_zero(&v->full);
        return say(e, CHANGE_DONE, v, current, &s->affinity, 0);
}

static int write_vector(IrqEnforcer *e, Vector *v, const IrqWish *w, const Bitset *current) {
        _cleanup_(bitset_done) Bitset was = BITSET_EMPTY;
        int r = bitset_copy(&was, current);

        if (r >= 0 && !v->noted)
                r = bitset_copy(&v->old, current);
        if (r >= 0)
                r = try_all(e, v, w);
        if (r < 0)
                return r;
        return v->result < 0 ? refused(e, v, &was) : read_back(e, v, &was);
}

/* Where does it go? */
static int look_at_effect(IrqEnforcer *e, Vector *v) {
        IrqStatus *s = &v->status;
        const IrqLine *line;
        int r = irq_effective(e->root, s->irq, &s->effective);

        if (r == -ENODATA) {
                bitset_zero(&s->effective);
                s->state = IRQ_OK;
                return 0;
        }
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        if (bitset_subset(&s->effective, &s->affinity)) {
                s->state = IRQ_OK;
                s->error = 0;
                return 0;
        }
        r = irq_table_once(e, false);
        line = r < 0 ? NULL : irq_table_find(&e->table, s->irq);
        s->state = line && v->counted && line->count >= v->count + FIRED_SURELY ? IRQ_FAILED : IRQ_PENDING;
        if (!v->counted && line) {
                v->count = line->count;
                v->counted = true;
        }
        return r < 0 ? r : 0;
}

/* Nothing of it is put back any more. */
static int yield(IrqEnforcer *e, Vector *v) {
        const UndoIrq irq = { .irq = v->status.irq, .device = v->status.pci, .name = v->status.name };
        int r = undo_note_yield_irq(e->undo, v->status.job, &irq);

        if (r < 0)
                return r;
        irq_forget(e, v);
        v->yielded = e->any_yielded = true;
        return 0;
}

/* 1: it is to be written again. */
static int drifted(IrqEnforcer *e, Vector *v, const Bitset *current) {
        IrqStatus *s = &v->status;
        int r;

        if (s->state != IRQ_DRIFT || !bitset_equal(&s->affinity, current)) {
                free(s->author);
                s->author = irq_guess_author(e, s);
        }
        s->state = IRQ_DRIFT;
        r = drift_judge(&e->drift, DRIFT_IRQ, (Process){ .pid = (pid_t) s->irq }, &s->act);
        if (r >= 0)
                r = say(e, CHANGE_DRIFT, v, &v->ours, current, 0);
        if (r < 0)
                return r;
        e->outcome->changes[e->outcome->n_changes - 1].act = s->act;
        r = bitset_copy(&s->affinity, current);
        if (r >= 0)
                r = bitset_copy(&s->found, current);
        if (r >= 0 && s->act == DRIFT_YIELDED)
                r = yield(e, v);
        return r < 0 ? r : s->act == DRIFT_WRITTEN;
}

/* Theirs: looked at, so that it can be shown. */
static int look_at_yielded(IrqEnforcer *e, Vector *v) {
        int r = irq_affinity(e->root, v->status.irq, &v->status.affinity);

        if (r >= 0)
                (void) irq_effective(e->root, v->status.irq, &v->status.effective);
        v->status.state = IRQ_DRIFT;
        v->status.act = DRIFT_YIELDED;
        return r < 0 && r != -ENOENT ? r : say(e, CHANGE_SAME, v, NULL, NULL, 0);
}

static int same(IrqEnforcer *e, Vector *v) {
        v->status.spilled = !bitset_isempty(&v->full) && !bitset_subset(&v->ours, &v->status.wanted);
        if (v->noted && !v->committed) { /* of a revert: it is wished again */
                int r = note(e, v, &v->ours);

                if (r < 0)
                        return r;
        }
        if (v->status.state == IRQ_DRIFT || v->status.state == IRQ_FAILED)
                v->status.state = IRQ_PENDING;
        return say(e, CHANGE_SAME, v, NULL, NULL, 0);
}

/* What we wrote, or what the kernel made of it when the last of those CPUs went offline. */
static bool is_ours(IrqEnforcer *e, Vector *v, const Bitset *current) {
        if (!v->noted)
                return false;
        if (bitset_equal(current, &v->ours) || (!bitset_isempty(&v->before) && bitset_equal(current, &v->before)))
                return true;
        if (!bitset_intersects(&v->ours, &e->online))
                return v->unplugged = true;
        return v->unplugged && bitset_equal(current, &v->status.affinity);
}

static int no_cpu_online(IrqEnforcer *e, Vector *v) {
        v->status.state = IRQ_FAILED;
        v->status.error = EINVAL;
        return say(e, CHANGE_SAME, v, NULL, NULL, 0);
}

static int judge_vector(IrqEnforcer *e, Vector *v, const IrqWish *w) {
        _cleanup_(bitset_done) Bitset current = BITSET_EMPTY;
        bool ours, as_wished;
        int r = irq_affinity(e->root, v->status.irq, &current);

        v->status.act = DRIFT_NONE;
        if (r == -ENOENT) /* freed since it was listed */
                return 0;
        if (r < 0)
                return r;
        as_wished = bitset_equal(&current, &w->cpus);
        ours = is_ours(e, v, &current);
        if (v->noted && !ours && !as_wished) {
                r = drifted(e, v, &current);
                if (r <= 0)
                        return r;
        }
        r = bitset_copy(&v->status.affinity, &current);
        if (r < 0)
                return r;
        if (as_wished || (ours && !v->unplugged && bitset_equal(&v->full, &w->cpus)))
                return same(e, v);
        if (!bitset_intersects(&w->cpus, &e->online))
                return no_cpu_online(e, v);
        return write_vector(e, v, w, &current);
}

static int apply_vector(IrqEnforcer *e, Vector *v, const IrqWish *w) {
        int r;

        v->yielded = e->any_yielded && undo_find_yield_irq(e->undo, &(UndoIrq){ .irq = v->status.irq,
                                                                                .device = v->status.pci,
                                                                                .name = v->status.name });
        if (v->yielded)
                return look_at_yielded(e, v);
        if (v->status.state == IRQ_FIXED) {
                r = irq_affinity(e->root, v->status.irq, &v->status.affinity);
                if (r >= 0)
                        (void) irq_effective(e->root, v->status.irq, &v->status.effective);
                return r < 0 && r != -ENOENT ? r : say(e, CHANGE_SAME, v, NULL, NULL, 0);
        }
        r = judge_vector(e, v, w);
        if (r >= 0 && !v->written && (v->status.state == IRQ_OK || v->status.state == IRQ_PENDING))
                r = look_at_effect(e, v);
        return r;
}

static int apply_wishes(IrqEnforcer *e) {
        bool written = false;
        int r = 0;

        for (size_t i = 0; r >= 0 && i < e->n_vectors; i++) {
                if (!e->vectors[i].wish)
                        continue;
                r = apply_vector(e, &e->vectors[i], e->vectors[i].wish);
                written |= e->vectors[i].written;
        }
        if (r < 0 || !written)
                return r;
        r = irq_table_once(e, true);
        for (size_t i = 0; r >= 0 && i < e->n_vectors; i++) {
                Vector *v = &e->vectors[i];
                const IrqLine *line = v->written ? irq_table_find(&e->table, v->status.irq) : NULL;

                if (!v->written)
                        continue;
                v->counted = line;
                v->count = line ? line->count : 0;
                if (v->status.state == IRQ_PENDING)
                        r = look_at_effect(e, v);
        }
        return r;
}

bool irq_is_waiting(const IrqWishes *wishes, const Vector *v) {
        return v->noted && wishes && strv_contains(wishes->waiting, strempty(v->status.job));
}

/* What is wished no more is nobody's, so it cannot be somebody else's either. */
static void let_go_yielded(IrqEnforcer *e, const IrqWishes *wishes) {
        size_t n;
        const UndoEntry *all = undo_entries(e->undo, &n);

        for (size_t i = 0; e->any_yielded && i < n; i++) {
                const Vector *v = all[i].type == UNDO_YIELD && all[i].irq.device
                                          ? irq_vector_find(e, all[i].irq.device, all[i].irq.irq)
                                          : NULL;

                if (all[i].type != UNDO_YIELD || !all[i].irq.device || (v && v->wish) ||
                    (wishes && strv_contains(wishes->waiting, strempty(all[i].job))))
                        continue;
                (void) undo_forget(e->undo, &all[i]);
        }
}

/* Put back what is wished no more; vectors of nobody's are dropped from the list. */
static int let_go(IrqEnforcer *e, const IrqWishes *wishes) {
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < e->n_vectors; i++) {
                Vector *v = &e->vectors[i];
                bool keep = v->wish || irq_is_waiting(wishes, v);

                if (!keep && v->noted && r >= 0) {
                        r = irq_put_back(e, v, &v->old);
                        if (r > 0)
                                irq_forget(e, v);
                }
                if (keep || v->noted)
                        e->vectors[n++] = *v;
                else
                        irq_vector_done(v);
        }
        e->n_vectors = n;
        let_go_yielded(e, wishes);
        return r < 0 ? r : 0;
}

/* After a failure what this call changed goes back to what it was before it. */
static int irq_rollback(IrqEnforcer *e, int error) {
        unsigned n = 0;

        for (size_t i = 0; e->transaction && i < e->n_vectors; i++) {
                Vector *v = &e->vectors[i];

                if (v->noted && v->written)
                        n += irq_put_back(e, v, bitset_isempty(&v->before) ? &v->old : &v->before) > 0;
        }
        if (e->transaction)
                (void) undo_abort(e->undo, e->transaction);
        (void) strv_extendf(&e->outcome->messages,
                            "Interrupts could not be placed (%s): nothing more of them is changed, %u were put back",
                            strerror(-error), n);
        return error;
}

static int finish(IrqEnforcer *e, int r) {
        if (r >= 0 && e->transaction)
                r = undo_commit(e->undo, e->transaction);
        if (r < 0)
                r = irq_rollback(e, r);
        e->transaction = 0;
        return r;
}

static int prepare(IrqEnforcer *e, Outcome *o) {
        int r;

        *o = (Outcome){};
        e->outcome = o;
        e->transaction = 0;
        e->table_read = false;
        bitset_zero(&e->mine);
        r = irq_online(e, &e->online);
        if (r < 0)
                return r;
        if (e->drift.policy == DRIFT_REPORT)
                e->drift.acting = false;
        else
                drift_pass_begin(&e->drift);
        for (size_t i = 0; i < e->n_vectors; i++) {
                e->vectors[i].wish = NULL;
                e->vectors[i].written = false;
                e->vectors[i].noted = false;
        }
        return irq_load_entries(e);
}

int enforce_irqs(IrqEnforcer *e, const IrqWishes *wishes, Outcome *ret) {
        int r = prepare(e, ret);

        if (r >= 0)
                r = irq_meet_wishes(e, wishes);
        if (r >= 0)
                r = irq_ask_balancer(e, wishes);
        if (r >= 0)
                r = apply_wishes(e);
        if (r >= 0)
                r = let_go(e, wishes);
        r = finish(e, r);
        if (r >= 0)
                r = irq_say(e, wishes);
        return r;
}

int enforce_irqs_recover(IrqEnforcer *e, Outcome *ret) {
        int r = prepare(e, ret);

        for (size_t i = 0; r >= 0 && i < e->n_vectors; i++) {
                Vector *v = &e->vectors[i];

                if (v->noted && !v->committed)
                        r = irq_put_back(e, v, bitset_isempty(&v->before) ? &v->old : &v->before);
        }
        if (r >= 0 && ret->n_written > 0)
                r = strv_extendf(&ret->messages, "A change of interrupts that was cut short was undone: %u put back",
                                 ret->n_written);
        return r < 0 ? r : irq_abort_uncommitted(e);
}
