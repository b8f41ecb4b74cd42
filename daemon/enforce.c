/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plan -> kernel. Per thread: what is there is judged against what the journal says we wrote; then note, check who it is,
 * write, read back. A refused write takes its note back. A process that cannot be read is left, with a sentence, and no reason
 * to leave the others. When the journal cannot be written nothing more is changed and what this transaction changed is put
 * back.
 *
 * A thread without an entry whose mask is what we wrote for its process (for a child: its parent) was born since and
 * inherited it; what it gets back one day is its process's old mask, not the inherited one.
 */
#include "daemon/enforce.h"

#include <errno.h>

#include "common/clock.h"
#include "daemon/enforce-internal.h"
#include "daemon/readers/tasks.h"

typedef struct Pass { /* over the threads of one process */
        Enforcer *e;
        Transaction *t;
        Outcome *o;
        const char *job;
        const char *name; /* for sentences */
        const Bitset *wanted;
        Process heir; /* whose main thread's entry stands for threads born since */
        Identity identity;
        Allowed allowed;
        bool regrouped; /* its group's CPUs have just been changed: masks are what the kernel made of that */
        bool only_note;
} Pass;

typedef enum Judgement { JUDGE_WRITE, JUDGE_SAME, JUDGE_DRIFT } Judgement;

static Judgement judge(const Pass *p, const UndoEntry *entry, const Bitset *current) {
        bool ours;

        if (p->only_note || (p->regrouped && entry))
                return JUDGE_WRITE;
        if (!entry)
                return bitset_equal(current, p->wanted) ? JUDGE_SAME : JUDGE_WRITE;
        ours = mask_is_ours(entry, current, &p->allowed.cpus);
        if (ours)
                return bitset_equal(&entry->new, p->wanted) && mask_stands(current, p->wanted, &p->allowed.cpus)
                               ? JUDGE_SAME
                               : JUDGE_WRITE;
        return bitset_equal(current, p->wanted) ? JUDGE_SAME : JUDGE_DRIFT;
}

/* The entry that a thread without one has its mask from; NULL: it is its own. */
static const UndoEntry *inherited(const Pass *p, const Bitset *current) {
        const Process from[] = { p->identity.process, p->heir };

        for (size_t i = 0; i < ELEMENTSOF(from); i++) {
                const UndoEntry *e = undo_find_tid(p->e->undo, from[i].pid, from[i].start_time);

                if (e && mask_is_written(e, current, &p->allowed.cpus))
                        return e;
        }
        return NULL;
}

static int note_inherited(Pass *p, const Thread *t, const UndoEntry *from, const UndoEntry **ret) {
        int r = undo_note_inherited(p->e->undo, p->job, p->identity.process, t->tid, t->start, from);

        if (r < 0)
                return r;
        *ret = undo_find_tid(p->e->undo, t->tid, t->start);
        return 0;
}

static int note(Pass *p, const Thread *t, const UndoEntry *entry, const Bitset *current) {
        const UndoEntry *from;
        int r = transaction_begin(p->t);

        if (r < 0)
                return r;
        from = entry ? entry : inherited(p, current);
        if (!entry && from) {
                r = note_inherited(p, t, from, &entry);
                if (r < 0)
                        return r;
                from = entry ? entry : inherited(p, current); /* entries may have moved */
        }
        if (from)
                return undo_note_affinity(p->e->undo, p->t->id, p->job, p->identity.process, t->tid, t->start,
                                          &from->old, p->wanted, from->all, &p->allowed.cpus);
        return undo_note_affinity(p->e->undo, p->t->id, p->job, p->identity.process, t->tid, t->start, current,
                                  p->wanted, bitset_equal(current, &p->allowed.cpus), &p->allowed.cpus);
}

/* The change was not made: the journal must not say it was. */
static int unnote(Pass *p, const Thread *t) {
        const UndoEntry *entry = undo_find_tid(p->e->undo, t->tid, t->start);

        if (bitset_isempty(&entry->before)) {
                (void) undo_forget(p->e->undo, entry);
                return 0;
        }
        return undo_note_affinity(p->e->undo, p->t->id, p->job, p->identity.process, t->tid, t->start, &entry->old,
                                  &entry->before, entry->all, &p->allowed.cpus);
}

/* It cannot be read: left as it is. Not one that is to be moved, whose masks must be known first. */
static int leave(Pass *p, Process process, const Thread *t, int error) {
        if (error == -ENOMEM || p->only_note)
                return error;
        return outcome_add(p->o, CHANGE_REFUSED, p->job, process, t, NULL, p->wanted, NULL, -error);
}

static int write_thread(Pass *p, const Thread *t, const UndoEntry *entry, const Bitset *current) {
        _cleanup_(bitset_done) Bitset got = BITSET_EMPTY;
        ChangeResult result = CHANGE_GONE;
        int error = 0, r = 0;

        /* Noted already when it was moved into its group. */
        if (!entry || !p->t->begun || entry->id != p->t->id || !bitset_equal(&entry->new, p->wanted))
                r = note(p, t, entry, current);
        if (r < 0 || p->only_note)
                return r;
        if (identity_has_thread(&p->identity, t->tid))
                result = mask_write(t->tid, p->wanted, &got, &error);
        if (result == CHANGE_GONE || result == CHANGE_REFUSED)
                r = unnote(p, t);
        else if (p->regrouped && (entry = undo_find_tid(p->e->undo, t->tid, t->start)))
                current = &entry->old; /* what is read in its new group says little of what it had */
        if (r < 0)
                return r;
        return outcome_add(p->o, result, p->job, p->identity.process, t, current, p->wanted, &got, error);
}

/* Nothing to write, but the cpuset is another one: the journal must know, to tell its next change from a taskset. */
static int renote(Pass *p, const Thread *t, const UndoEntry *entry) {
        int r;

        if (p->only_note || bitset_equal(&entry->cpuset, &p->allowed.cpus))
                return 0;
        r = transaction_begin(p->t);
        return r < 0 ? r
                     : undo_note_affinity(p->e->undo, p->t->id, p->job, p->identity.process, t->tid, t->start,
                                          &entry->old, &entry->new, entry->all, &p->allowed.cpus);
}

/* Known without asking, and without a note each tick. */
static bool excluded(const Pass *p, const Bitset *current) {
        return !bitset_intersects(p->wanted, &p->allowed.cpus) && !bitset_equal(current, p->wanted);
}

/* Right without our doing. It is noted all the same, so that who changes it later is told from us; one that was born with
 * the mask only once it has lasted a second: a process that makes threads by the hundred must not fill the journal. */
static int claim(Pass *p, const Thread *t, const Bitset *current) {
        uint64_t age = clock_usec(CLOCK_BOOTTIME) / USEC_PER_SEC;
        long ticks = sysconf(_SC_CLK_TCK);

        if (ticks > 0 && t->start / (uint64_t) ticks + 1 >= age && inherited(p, current))
                return 0;
        return note(p, t, NULL, current);
}

static int apply_thread(Pass *p, pid_t tid) {
        _cleanup_(bitset_done) Bitset current = BITSET_EMPTY;
        const UndoEntry *entry;
        Judgement judgement;
        Thread t = { .tid = tid };
        int r;

        r = thread_read(&p->identity, tid, &t);
        if (r >= 0)
                r = bitset_getaffinity(tid, &current);
        if (r == -ESRCH) /* ended since it was listed: it never counted */
                return 0;
        if (r < 0)
                return leave(p, p->identity.process, &t, r);
        entry = undo_find_tid(p->e->undo, tid, t.start);
        judgement = judge(p, entry, &current);
        if (judgement == JUDGE_DRIFT)
                return outcome_add(p->o, CHANGE_DRIFT, p->job, p->identity.process, &t, &entry->new, p->wanted,
                                   &current, 0);
        if (!p->only_note && excluded(p, &current)) {
                r = entry ? renote(p, &t, entry) : 0;
                return r < 0 ? r
                             : outcome_add(p->o, CHANGE_REFUSED, p->job, p->identity.process, &t, &current, p->wanted,
                                           &current, EINVAL);
        }
        if (judgement == JUDGE_SAME) {
                r = entry ? renote(p, &t, entry) : claim(p, &t, &current);
                return r < 0 ? r : outcome_add(p->o, CHANGE_SAME, NULL, p->identity.process, NULL, NULL, NULL, NULL, 0);
        }
        return write_thread(p, &t, entry, &current);
}

static void forget_dead_threads(const Pass *p, const Threads *threads) {
        const UndoEntry *entries;
        Thread t;
        size_t n;

        entries = undo_entries(p->e->undo, &n);
        for (size_t i = 0; i < n; i++)
                if (entries[i].type == UNDO_AFFINITY && entries[i].process.pid == p->identity.process.pid &&
                    !threads_known(threads, entries[i].tid) && thread_read(&p->identity, entries[i].tid, &t) == -ESRCH)
                        (void) undo_forget(p->e->undo, &entries[i]);
}

static int apply_fresh(Pass *p, Threads *threads) {
        unsigned written = p->o->n_written;

        for (size_t i = 0; i < threads->n_fresh; i++) {
                int r = apply_thread(p, threads->fresh[i]);

                if (r < 0)
                        return r;
        }
        threads->changed |= p->o->n_written > written;
        return 0;
}

static int apply_threads(Pass *p) {
        _cleanup_(threads_done) Threads threads = {};
        int r, k;

        while ((r = threads_next(&threads, p->identity.process.pid)) > 0) {
                k = apply_fresh(p, &threads);
                if (k < 0)
                        return k;
        }
        if (r == -ELOOP)
                return strv_extendf(
                        &p->o->messages,
                        "%s: pid %d keeps starting threads: after %u passes some may still have their old CPUs",
                        p->name, p->identity.process.pid, THREAD_PASSES_MAX);
        if (r < 0)
                return r == -ESRCH ? 0 : leave(p, p->identity.process, NULL, r);
        if (!p->only_note)
                forget_dead_threads(p, &threads);
        return 0;
}

static void pass_done(Pass *p) {
        identity_done(&p->identity);
        allowed_done(&p->allowed);
}

/* 1 opened, 0 gone or left (and counted) */
static int pass_open(Pass *p, Process process) {
        int r = identity_open(process, &p->identity);

        if (r >= 0) {
                r = allowed_read(p->e, process.pid, &p->allowed);
                if (r < 0)
                        identity_done(&p->identity);
        }
        if (r == -ESRCH)
                return outcome_add(p->o, CHANGE_GONE, p->job, process, NULL, NULL, p->wanted, NULL, ESRCH);
        return r < 0 ? leave(p, process, NULL, r) : 1;
}

static int apply_process(Pass *p, Process process) {
        size_t first = p->o->n_changes;
        int r;

        p->identity = (Identity){ .pidfd = -1, .proc_fd = -1 };
        r = pass_open(p, process);
        if (r > 0)
                r = apply_threads(p);
        if (r >= 0)
                r = outcome_say(p->o, first, p->name, &p->allowed);
        pass_done(p);
        return r;
}

/* A child that is a rank itself has CPUs of its own in the plan. */
static bool planned(const Plan *plan, Process child) {
        for (size_t i = 0; i < plan->n_tasks; i++)
                if (plan->tasks[i].process.pid == child.pid)
                        return true;
        return false;
}

static int apply_task(Enforcer *e, Transaction *t, const Plan *plan, const PlanTask *task, Outcome *o) {
        Pass p = { .e = e,
                   .t = t,
                   .o = o,
                   .job = task->job,
                   .name = task->name,
                   .wanted = &task->cpus,
                   .heir = task->process };
        int r = group_set_cpus(e, t, task->process, &task->cpus, o);

        if (r < 0)
                return r;
        p.regrouped = r > 0;
        r = apply_process(&p, task->process);
        for (size_t i = 0; r >= 0 && i < task->n_children; i++)
                if (!planned(plan, task->children[i]))
                        r = apply_process(&p, task->children[i]);
        return r;
}

static int apply_tasks(Enforcer *e, const Plan *plan, const char *job, Outcome *o) {
        int r = online_read(e);

        for (size_t i = 0; r >= 0 && i < plan->n_tasks; i++) {
                const PlanTask *task = &plan->tasks[i];

                if (task->process.pid <= 0 || bitset_isempty(&task->cpus) ||
                    (job && (!task->job || !streq(task->job, job))))
                        continue;
                r = apply_task(e, &e->transaction, plan, task, o);
        }
        return r;
}

int enforce_apply(Enforcer *e, const Plan *plan, const char *job, Outcome *ret) {
        bool own = !e->transaction.open;
        int r;

        *ret = (Outcome){};
        r = own ? enforce_begin(e, job, NULL) : 0;
        if (r < 0)
                return r;
        r = apply_tasks(e, plan, job, ret);
        return own ? transaction_end(e, r, ret) : r;
}

/* The old masks are noted before the move, since a mask is read through the cpuset the process is in. */
static int adopt(Enforcer *e, Transaction *t, const char *job, const Task *task, const PlanTask *plan, char **ret_group,
                 Outcome *o) {
        Process process = { task->pid, task->start_time };
        Pass p = {
                .e = e, .t = t, .o = o, .job = job, .name = strempty(plan->name), .wanted = &plan->cpus, .heir = process
        };
        int r;

        if (group_movable(e, task)) {
                p.only_note = true;
                r = apply_process(&p, process);
                if (r >= 0)
                        r = group_enter(e, t, job, process, &plan->cpus, ret_group, o);
                if (r < 0 && r != -EUCLEAN)
                        return r;
                p.only_note = false;
                p.regrouped = true;
        }
        return apply_process(&p, process);
}

int enforce_adopt(Enforcer *e, const char *job, const Task *task, const PlanTask *plan, char **ret_group,
                  Outcome *ret) {
        _cleanup_free_ char *group = NULL;
        bool own = !e->transaction.open;
        int r;

        *ret = (Outcome){};
        if (bitset_isempty(&plan->cpus))
                return -EINVAL;
        r = own ? enforce_begin(e, job, NULL) : 0;
        if (r < 0)
                return r;
        r = online_read(e);
        if (r >= 0)
                r = adopt(e, &e->transaction, job, task, plan, &group, ret);
        if (r >= 0 && !group) {
                group = strdup(strempty(task->cgroup));
                r = group ? 0 : -ENOMEM;
        }
        if (own)
                r = transaction_end(e, r, ret);
        if (r < 0)
                return r;
        *ret_group = TAKE_PTR(group);
        return 0;
}
