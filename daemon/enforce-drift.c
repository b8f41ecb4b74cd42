/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See enforce-drift.h. The book is in memory: after a restart of the daemon the count of passes in a row begins anew. What
 * was yielded stands in the journal and outlives it.
 */
#include "daemon/enforce-drift.h"

#include <errno.h>

#include "daemon/enforce-internal.h"
#include "daemon/readers/process.h"

const char *const drift_policy_names[] = { "report", "reassert", "yield", NULL };
const char *const drift_act_names[] = { "", "left", "reasserted", "given-up", "yielded", NULL };

void drift_book_done(DriftBook *b) {
        free(b->things);
        *b = (DriftBook){};
}

/* What was not found changed in the last acting pass was right in between. */
void drift_pass_begin(DriftBook *b) {
        size_t n = 0;

        b->acting = true;
        for (size_t i = 0; i < b->n_things; i++)
                if (b->things[i].pass == b->pass)
                        b->things[n++] = b->things[i];
        b->n_things = n;
        b->pass++;
}

static DriftThing *thing_of(DriftBook *b, DriftKind kind, Process p) {
        DriftThing *n;

        for (size_t i = 0; i < b->n_things; i++)
                if (b->things[i].kind == kind && b->things[i].process.pid == p.pid &&
                    b->things[i].process.start_time == p.start_time)
                        return &b->things[i];
        n = reallocarray(b->things, b->n_things + 1, sizeof(*n));
        if (!n)
                return NULL;
        b->things = n;
        n = &b->things[b->n_things++];
        *n = (DriftThing){ .kind = kind, .process = p };
        return n;
}

int drift_judge(DriftBook *b, DriftKind kind, Process process, DriftAct *ret) {
        DriftThing *t;

        *ret = b->policy == DRIFT_YIELD ? DRIFT_YIELDED : DRIFT_LEFT;
        if (!b->acting)
                *ret = DRIFT_LEFT;
        if (!b->acting || b->policy != DRIFT_REASSERT)
                return 0;
        t = thing_of(b, kind, process);
        if (!t)
                return -ENOMEM;
        if (t->pass != b->pass && t->n <= REASSERTS_MAX)
                t->n++;
        t->pass = b->pass;
        *ret = t->n > REASSERTS_MAX ? DRIFT_GIVEN_UP : DRIFT_WRITTEN;
        return 0;
}

void drift_take_back(Undo *u, const char *job) {
        size_t n;
        const UndoEntry *all = undo_entries(u, &n);

        for (size_t i = 0; i < n; i++)
                if (all[i].type == UNDO_YIELD && (!job || streq(strempty(all[i].job), job)))
                        (void) undo_forget(u, &all[i]);
}

void drift_take_back_process(Undo *u, Process process) {
        const UndoEntry *e = undo_find_yield(u, process);

        if (e)
                (void) undo_forget(u, e);
}

void drift_forget_ended(Undo *u) {
        size_t n;
        const UndoEntry *all = undo_entries(u, &n);

        for (size_t i = 0; i < n; i++)
                if (all[i].type == UNDO_YIELD && !all[i].irq.device &&
                    process_is(all[i].process.pid, all[i].process.start_time) == 0)
                        (void) undo_forget(u, &all[i]);
}

void enforcer_set_drift(Enforcer *e, DriftPolicy policy) {
        e->drift.policy = policy;
}

int drift_yield(Enforcer *e, const char *job, Process rank) {
        int r = undo_find_yield(e->undo, rank) ? 0 : undo_note_yield(e->undo, job, rank, e->transaction.opened);

        e->yielded = rank;
        return r;
}

bool drift_is_yielded(const Enforcer *e, Process rank) {
        return e->yielded.pid == rank.pid && e->yielded.start_time == rank.start_time;
}

int drift_thread(Enforcer *e, const char *job, Process rank, const UndoEntry *entry, DriftAct *ret) {
        const pid_t tid = entry->tid;
        const uint64_t start = entry->tid_start;
        int r;

        if (drift_is_yielded(e, rank)) {
                *ret = DRIFT_YIELDED;
                r = 0;
        } else
                r = drift_judge(&e->drift, DRIFT_MASKS, rank, ret);
        if (r >= 0 && *ret == DRIFT_YIELDED)
                r = drift_yield(e, job, rank);
        if (r >= 0 && *ret == DRIFT_YIELDED) /* entries have moved */
                (void) undo_forget(e->undo, undo_find_tid(e->undo, tid, start));
        return r;
}

/* Did we write this, or the kernel make it of that when CPUs went offline? */
static bool is_of_ours(const Enforcer *e, const Bitset *ours, const Bitset *now) {
        _cleanup_(bitset_done) Bitset left = BITSET_EMPTY;

        if (bitset_isempty(ours))
                return false;
        if (bitset_equal(ours, now))
                return true;
        if (bitset_subset(ours, &e->online) || bitset_copy(&left, ours) < 0)
                return false;
        bitset_and(&left, &e->online);
        return bitset_equal(&left, now);
}

/* The group has had the rank's pool since its masks were set last, or has what is being set just now. */
static bool group_is_ours(const Enforcer *e, Process p, const char *group, const Bitset *now) {
        const UndoEntry *main = undo_find_tid(e->undo, p.pid, p.start_time), *cpus = undo_find_cpus(e->undo, group);

        if (!main || (cpus && (bitset_equal(&cpus->new, now) || bitset_equal(&cpus->old, now))))
                return true;
        return is_of_ours(e, bitset_isempty(&main->pool) ? &main->new : &main->pool, now) ||
               is_of_ours(e, bitset_isempty(&main->before_pool) ? &main->before : &main->before_pool, now);
}

int drift_group(Enforcer *e, const UndoEntry *entry, Process p, const char *path, const Bitset *now,
                const Bitset *wanted, Outcome *o) {
        _cleanup_free_ char *job = NULL;
        DriftAct act = DRIFT_WRITTEN;
        int r = 0;

        if (group_is_ours(e, p, entry->new_path, now) ||
            (!e->drift.acting && undo_find_yield(e->undo, p))) /* an order that takes it back */
                return 1;
        job = strdup(strempty(entry->job));
        if (!job)
                return -ENOMEM;
        if (!bitset_isempty(now)) /* emptied is no wish of anybody's: it is put right whatever the policy */
                r = drift_judge(&e->drift, DRIFT_GROUP, p, &act);
        if (r >= 0 && act == DRIFT_YIELDED)
                r = drift_yield(e, job, p);
        if (r >= 0)
                r = outcome_add_path(o, CHANGE_DRIFT, job, p, path, now, wanted);
        if (r < 0)
                return r;
        o->changes[o->n_changes - 1].act = act;
        return act == DRIFT_WRITTEN;
}
