/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each thread of a rank gets of the rank's pool, and whose mask a thread has that we have not written yet.
 *
 * The pool is split anew in each pass from the threads that are there (policy/roles.h), within what the cpuset of the
 * process allows. A role that a process has had once counts as there while the process lives, so that helpers that come
 * and go do not make the others move; the last split of each rank is kept beside that, in memory only, until enforce_sweep().
 *
 * A thread without an entry in the journal may have been born of any other of its process, and children of any of their
 * parent, so it may bear any mask that we wrote there. Of these there are few: one thread is remembered for each.
 */
#include <errno.h>

#include "common/text.h"
#include "daemon/enforce-internal.h"
#include "daemon/readers/role-threads.h"
#include "daemon/readers/tasks.h"

static void role_place_done(RolePlace *p) {
        role_split_done(&p->split);
        role_threads_done(&p->threads);
        bitset_done(&p->within);
        *p = (RolePlace){};
}

void role_places_clear(Enforcer *e) {
        for (size_t i = 0; i < e->n_places; i++) {
                role_place_done(e->places[i]);
                free(e->places[i]);
        }
        free(e->places);
        e->places = NULL;
        e->n_places = 0;
}

void role_places_sweep(Enforcer *e) {
        size_t n = 0;

        for (size_t i = 0; i < e->n_places; i++)
                if (process_is(e->places[i]->process.pid, e->places[i]->process.start_time) == 0) {
                        role_place_done(e->places[i]);
                        free(e->places[i]);
                } else
                        e->places[n++] = e->places[i];
        e->n_places = n;
}

void enforcer_set_roles(Enforcer *e, const Roles *roles, const Topology *topology) {
        if (e->roles != roles)
                role_places_clear(e);
        e->roles = roles;
        e->topology = topology;
}

static RolePlace *find_place(const Enforcer *e, Process p) {
        for (size_t i = 0; i < e->n_places; i++)
                if (e->places[i]->process.pid == p.pid && e->places[i]->process.start_time == p.start_time)
                        return e->places[i];
        return NULL;
}

static RolePlace *get_place(Enforcer *e, Process p) {
        RolePlace *found = find_place(e, p), **more;

        if (found)
                return found;
        more = reallocarray(e->places, e->n_places + 1, sizeof(*more));
        if (!more)
                return NULL;
        e->places = more;
        found = calloc(1, sizeof(*found));
        if (!found)
                return NULL;
        found->process = p;
        return e->places[e->n_places++] = found;
}

/* A split of the pool within the cpuset: helpers need not sit on CPUs that they cannot have. */
static int set_within(RolePlace *p, const Bitset *pool, const Bitset *allowed) {
        int r = bitset_copy(&p->within, pool);

        if (r >= 0 && bitset_intersects(pool, allowed))
                bitset_and(&p->within, allowed);
        return r;
}

int role_place(Enforcer *e, const PlanTask *task, const Process *children, size_t n_children, const Bitset *allowed,
               const RolePlace **ret) {
        _cleanup_(role_threads_done) RoleThreads threads = {};
        RolePlace *p = get_place(e, task->process);
        RoleSplit split = {};
        int r = p ? set_within(p, &task->cpus, allowed) : -ENOMEM;

        if (r >= 0) /* an order looks at all of them anew, a tick makes do with what it knows */
                r = role_threads_read("", task->process, children, n_children, e->drift.acting ? &p->threads : NULL,
                                      &threads);
        if (r >= 0)
                r = roles_split(e->roles, e->topology, &p->within, threads.threads, threads.n_threads,
                                task->irqs_within, p->split.seen, &split);
        if (r < 0)
                return r;
        role_split_done(&p->split);
        role_threads_done(&p->threads);
        p->split = split;
        p->threads = threads;
        threads = (RoleThreads){};
        *ret = p;
        return 0;
}

static const Bitset *whole_or_part(const RolePlace *p, const PlanTask *task, const Bitset *cpus) {
        return cpus && bitset_equal(cpus, &p->within) ? &task->cpus : cpus;
}

const Bitset *role_place_listed(const RolePlace *p, size_t index, const PlanTask *task) {
        return whole_or_part(p, task, role_split_cpus(&p->split, index));
}

const Bitset *role_place_cpus(const Enforcer *e, const RolePlace *p, size_t index, const PlanTask *task,
                              Process process, const Thread *t) {
        const RoleThread thread = { .pid = process.pid,
                                    .tid = t->tid,
                                    .comm = t->comm,
                                    .is_main = t->tid == task->process.pid,
                                    .is_child = process.pid != task->process.pid };

        if (p->split.single) /* isolated CPUs are dealt out one by one */
                return index == SIZE_MAX ? NULL : role_place_listed(p, index, task);
        return whole_or_part(p, task, role_split_late(&p->split, e->roles, &thread));
}

const RoleSplit *enforcer_split(const Enforcer *e, Process p) {
        const RolePlace *place = e->roles ? find_place(e, p) : NULL;

        return place && place->split.n_grants > 0 ? &place->split : NULL;
}

int enforcer_split_to_json(const Enforcer *e, Process p, json_t **ret) {
        const RoleSplit *s = enforcer_split(e, p);

        return s ? role_split_to_json(s, e->roles, ret) : -ENOENT;
}

void bearers_done(Bearers *b) {
        free(b->threads);
        *b = (Bearers){};
}

static bool same_masks(const UndoEntry *a, const UndoEntry *b) {
        return bitset_equal(&a->new, &b->new) && bitset_equal(&a->before, &b->before);
}

static int bearers_add_entry(Bearers *b, const UndoEntry *entry) {
        Bearer *more;

        for (size_t i = 0; i < b->n; i++) {
                const UndoEntry *known = undo_find_tid(b->undo, b->threads[i].tid, b->threads[i].start);

                if (known && same_masks(known, entry))
                        return 0;
        }
        more = reallocarray(b->threads, b->n + 1, sizeof(*more));
        if (!more)
                return -ENOMEM;
        b->threads = more;
        b->threads[b->n++] = (Bearer){ entry->tid, entry->tid_start };
        return 0;
}

int bearers_add(Bearers *b, pid_t tid, uint64_t start) {
        const UndoEntry *entry = undo_find_tid(b->undo, tid, start);

        return entry && b->read ? bearers_add_entry(b, entry) : 0;
}

static int bearers_of(Bearers *b, Process p) {
        const UndoEntry *own = undo_find_tid(b->undo, p.pid, p.start_time), *e = NULL;
        int r = own ? bearers_add_entry(b, own) : 0;

        while (r >= 0 && (e = undo_next_of(b->undo, p, e)))
                if (e->type == UNDO_AFFINITY)
                        r = bearers_add_entry(b, e);
        return r;
}

static bool bears(const UndoEntry *e, const Transaction *t, const Thread *thread, const Bitset *current,
                  const Bitset *allowed) {
        return mask_stands(current, e->committed ? &e->new : &e->before, allowed) ||
               (!e->committed && thread->start >= t->opened && mask_stands(current, &e->new, allowed));
}

int bearers_find(Bearers *b, const Transaction *t, const Thread *thread, const Bitset *current, const Bitset *allowed,
                 const UndoEntry **ret) {
        int r = b->read ? 0 : bearers_of(b, b->process);

        if (r >= 0 && !b->read && b->process.pid != b->parent.pid)
                r = bearers_of(b, b->parent);
        if (r < 0)
                return r;
        b->read = true;
        *ret = NULL;
        for (size_t i = 0; i < b->n && !*ret; i++) {
                const UndoEntry *e = undo_find_tid(b->undo, b->threads[i].tid, b->threads[i].start);

                if (e && bears(e, t, thread, current, allowed))
                        *ret = e;
        }
        return 0;
}
