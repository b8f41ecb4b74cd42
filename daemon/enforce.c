/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plan -> kernel. Per thread: what is there is judged against what the journal says we wrote; then note, check who it is,
 * write, read back. A refused write takes its note back. A process that cannot be read is left, with a sentence, and no reason
 * to leave the others. When the journal cannot be written nothing more is changed and what this transaction changed is put
 * back.
 *
 * A thread without an entry whose mask is one that we wrote in its process (for a child: in its parent) was born since and
 * inherited it; what it gets back one day is the old mask of that thread, not the inherited one.
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
        const PlanTask *task;
        const Bitset *wanted;    /* by the thread at hand; else the task's pool */
        const RolePlace *place;  /* NULL: every thread gets the pool */
        RoleThreads threads;     /* those that the pool was split for … */
        size_t listed, n_listed; /* … and where the process at hand has its own among them */
        bool left;               /* one thread per core is not possible: nothing is written */
        Process heir;            /* the task's process, of whose threads children inherit */
        Identity identity;
        Bearers bearers;
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
        ours = mask_is_ours(entry, current, &p->allowed.cpus) ||
               (p->allowed.replaced && bitset_equal(current, &p->allowed.cpus));
        if (ours)
                return bitset_equal(&entry->new, p->wanted) && mask_stands(current, p->wanted, &p->allowed.cpus)
                               ? JUDGE_SAME
                               : JUDGE_WRITE;
        return bitset_equal(current, p->wanted) ? JUDGE_SAME : JUDGE_DRIFT;
}

/* The entry that a thread without one has its mask from; NULL: it is its own. */
static int inherited(Pass *p, const Thread *t, const Bitset *current, const UndoEntry **ret) {
        return bearers_find(&p->bearers, p->t, t, current, &p->allowed.cpus, ret);
}

static int note_inherited(Pass *p, const Thread *t, const UndoEntry *from, const UndoEntry **ret) {
        int r = undo_note_inherited(p->e->undo, p->job, p->identity.process, t->tid, t->start, from);

        if (r < 0)
                return r;
        *ret = undo_find_tid(p->e->undo, t->tid, t->start);
        return 0;
}

/* What goes back to `old` one day is to be p->wanted. */
static int note_wanted(Pass *p, const Thread *t, const Bitset *old, bool all) {
        int r = undo_note_affinity(p->e->undo, p->t->id, p->job, p->identity.process, t->tid, t->start, old, p->wanted,
                                   all, &p->allowed.cpus, &p->task->cpus);

        return r < 0 ? r : bearers_add(&p->bearers, t->tid, t->start);
}

static int note(Pass *p, const Thread *t, const UndoEntry *entry, const Bitset *current) {
        const UndoEntry *from = entry;
        int r = transaction_begin(p->t);

        if (r >= 0 && !entry)
                r = inherited(p, t, current, &from);
        if (r >= 0 && !entry && from) {
                r = note_inherited(p, t, from, &entry);
                from = entry;
                if (r >= 0 && !entry)
                        r = inherited(p, t, current, &from); /* entries may have moved */
        }
        if (r < 0)
                return r;
        return from ? note_wanted(p, t, &from->old, from->all)
                    : note_wanted(p, t, current, bitset_equal(current, &p->allowed.cpus));
}

/* The change was not made: the journal must not say it was. */
static int unnote(Pass *p, const Thread *t) {
        const UndoEntry *entry = undo_find_tid(p->e->undo, t->tid, t->start);

        if (bitset_isempty(&entry->before)) {
                (void) undo_forget(p->e->undo, entry);
                return 0;
        }
        return undo_note_affinity(p->e->undo, p->t->id, p->job, p->identity.process, t->tid, t->start, &entry->old,
                                  &entry->before, entry->all, &p->allowed.cpus, &entry->before_pool);
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

static bool is_part_of(const UndoEntry *entry, const Bitset *pool) {
        return bitset_equal(bitset_isempty(&entry->pool) ? &entry->new : &entry->pool, pool);
}

/* Nothing to write, but the cpuset is another one: the journal must know, to tell its next change from a taskset. Or the
 * pool is, of which the thread has the same part as before. */
static bool is_outdated(const Pass *p, const UndoEntry *entry) {
        return !bitset_equal(&entry->cpuset, &p->allowed.cpus) ||
               (bitset_equal(&entry->new, p->wanted) && !is_part_of(entry, &p->task->cpus));
}

static int renote(Pass *p, const Thread *t, const UndoEntry *entry) {
        bool ours = bitset_equal(&entry->new, p->wanted);
        int r;

        if (p->only_note || !is_outdated(p, entry))
                return 0;
        r = transaction_begin(p->t);
        return r < 0 ? r
                     : undo_note_affinity(p->e->undo, p->t->id, p->job, p->identity.process, t->tid, t->start,
                                          &entry->old, &entry->new, entry->all, &p->allowed.cpus,
                                          ours ? &p->task->cpus : &entry->pool);
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
        const UndoEntry *from = NULL;
        int r = 0;

        if (ticks > 0 && t->start / (uint64_t) ticks + 1 >= age)
                r = inherited(p, t, current, &from);
        if (r >= 0 && from && mask_stands(current, &from->new, &p->allowed.cpus))
                return 0;
        /* The one it has the mask from is given another just now: later nothing would tell where this one comes from. */
        return r < 0 ? r : note(p, t, NULL, current);
}

/* 1: it is to be written again. */
static int drifted(Pass *p, const Thread *t, const UndoEntry *entry, const Bitset *current) {
        DriftAct act;
        int r = outcome_add(p->o, CHANGE_DRIFT, p->job, p->identity.process, t, &entry->new, p->wanted, current, 0);

        if (r >= 0)
                r = drift_thread(p->e, p->job, p->heir, entry, &act);
        if (r < 0)
                return r;
        p->o->changes[p->o->n_changes - 1].act = act;
        return act == DRIFT_WRITTEN;
}

/* Where the thread is in p->place->threads; SIZE_MAX: it has been born since, or the pool is not split. */
static size_t find_listed(const Pass *p, pid_t tid) {
        size_t low = p->listed, end = p->listed + (p->place ? p->n_listed : 0), high = end;

        while (low < high) {
                size_t mid = (low + high) / 2;

                if (p->place->threads.threads[mid].tid < tid)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < end && p->place->threads.threads[low].tid == tid ? low : SIZE_MAX;
}

/* By what was read of it when the pool was split, a moment ago: it is as noted, and nothing is to be done. That is what
 * nearly all threads are at nearly every tick, so it takes one system call. Whatever is to be done is judged anew, by
 * who it is by then. */
static int is_steady(Pass *p, size_t index) {
        _cleanup_(bitset_done) Bitset current = BITSET_EMPTY;
        pid_t tid = p->place->threads.threads[index].tid;
        const UndoEntry *entry = undo_find_tid(p->e->undo, tid, p->place->threads.starts[index]);
        int r;

        if (!entry || p->only_note || drift_is_yielded(p->e, p->heir))
                return 0;
        p->wanted = role_place_listed(p->place, index, p->task);
        r = mask_read(tid, &current);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        return judge(p, entry, &current) == JUDGE_SAME && !excluded(p, &current) && !is_outdated(p, entry);
}

static int apply_thread(Pass *p, pid_t tid) {
        _cleanup_(bitset_done) Bitset current = BITSET_EMPTY;
        const UndoEntry *entry;
        Judgement judgement;
        Thread t = { .tid = tid };
        size_t index = find_listed(p, tid);
        int r = index == SIZE_MAX ? 0 : is_steady(p, index);

        if (r != 0)
                return r < 0 ? r : outcome_add(p->o, CHANGE_SAME, NULL, p->identity.process, NULL, NULL, NULL, NULL, 0);
        r = thread_read(&p->identity, tid, &t);
        if (r >= 0)
                r = mask_read(tid, &current);
        if (r == -ESRCH) /* ended since it was listed: it never counted */
                return 0;
        if (r < 0)
                return leave(p, p->identity.process, &t, r);
        p->wanted = p->place ? role_place_cpus(p->e, p->place, index, p->task, p->identity.process, &t)
                             : &p->task->cpus;
        if (!p->wanted) /* born since the pool was split: the next pass deals it a CPU */
                return 0;
        entry = undo_find_tid(p->e->undo, tid, t.start);
        judgement = judge(p, entry, &current);
        if (judgement == JUDGE_DRIFT) {
                r = drifted(p, &t, entry, &current);
                if (r <= 0)
                        return r;
        } else if (drift_is_yielded(p->e, p->heir))
                return 0;
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
        const UndoEntry *e = NULL;
        Thread t;

        while ((e = undo_next_of(p->e->undo, p->identity.process, e)))
                if (e->type == UNDO_AFFINITY && !threads_known(threads, e->tid) &&
                    thread_read(&p->identity, e->tid, &t) == -ESRCH)
                        (void) undo_forget(p->e->undo, e);
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
        _cleanup_(threads_done)
                Threads threads = { .listed = p->n_listed > 0 ? p->place->threads.threads + p->listed : NULL,
                                    .n_listed = p->n_listed };
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

/* After one process; those of the task follow. */
static void pass_close(Pass *p) {
        identity_done(&p->identity);
        allowed_done(&p->allowed);
        bearers_done(&p->bearers);
        p->wanted = &p->task->cpus;
}

/* 1 opened, 0 gone or left (and counted) */
static int pass_open(Pass *p, Process process) {
        int r = identity_open(process, &p->identity);

        if (r >= 0) {
                r = allowed_read(p->e, process.pid, &p->allowed);
                if (r < 0)
                        identity_done(&p->identity);
                else
                        p->allowed.replaced = cpuset_replaced(p->e, process, p->allowed.cpuset, p->allowed.directory);
        }
        if (r == -ESRCH)
                return outcome_add(p->o, CHANGE_GONE, p->job, process, NULL, NULL, p->wanted, NULL, ESRCH);
        return r < 0 ? leave(p, process, NULL, r) : 1;
}

/* Of p->place->threads: the processes come in the same order as there, those that were gone are left out. */
static void find_own(Pass *p, Process process) {
        p->listed += p->n_listed;
        p->n_listed = 0;
        while (p->place && p->listed + p->n_listed < p->place->threads.n_threads &&
               p->place->threads.threads[p->listed + p->n_listed].pid == process.pid)
                p->n_listed++;
}

/* Of the task's own process, which comes first. 1 split, or nothing is to be; 0 nothing can be written. */
static int split_pool(Pass *p, const Process *children, size_t n_children) {
        int r;

        if (!p->e->roles || p->only_note)
                return 1;
        r = role_place(p->e, p->task, children, n_children, &p->allowed.cpus, &p->place);
        find_own(p, p->heir);
        if (r == -ESRCH)
                return 0;
        if (r < 0)
                return leave(p, p->task->process, NULL, r);
        if (!p->place->split.refused)
                return 1;
        p->left = true;
        r = strv_extendf(&p->o->messages, "%s: pid %d is left as it is: %s", p->name, p->task->process.pid,
                         p->place->split.messages[strv_length(p->place->split.messages) - 1]);
        return r < 0 ? r : 0;
}

static int apply_process(Pass *p, Process process, const Process *children, size_t n_children) {
        size_t first = p->o->n_changes;
        int r;

        p->identity = (Identity){ .pidfd = -1, .proc_fd = -1 };
        p->bearers = (Bearers){ .undo = p->e->undo, .process = process, .parent = p->heir };
        if (process.pid != p->heir.pid)
                find_own(p, process);
        r = pass_open(p, process);
        if (r > 0 && process.pid == p->heir.pid)
                r = split_pool(p, children, n_children);
        if (r > 0)
                r = apply_threads(p);
        if (r >= 0)
                r = outcome_say(p->o, first, p->name, &p->allowed);
        pass_close(p);
        return r;
}

/* A child that is a rank itself has CPUs of its own in the plan. */
static bool planned(const Plan *plan, Process child) {
        for (size_t i = 0; i < plan->n_tasks; i++)
                if (plan->tasks[i].process.pid == child.pid)
                        return true;
        return false;
}

static int own_children(const Plan *plan, const PlanTask *task, Process **ret, size_t *ret_n) {
        Process *children = calloc(task->n_children + 1, sizeof(*children));
        size_t n = 0;

        if (!children)
                return -ENOMEM;
        for (size_t i = 0; i < task->n_children; i++)
                if (!planned(plan, task->children[i]))
                        children[n++] = task->children[i];
        *ret = children;
        *ret_n = n;
        return 0;
}

static int apply_task(Enforcer *e, Transaction *t, const Plan *plan, const PlanTask *task, Outcome *o) {
        _cleanup_free_ Process *children = NULL;
        Pass p = { .e = e,
                   .t = t,
                   .o = o,
                   .job = task->job,
                   .name = task->name,
                   .task = task,
                   .wanted = &task->cpus,
                   .heir = task->process };
        size_t n = 0;
        int r;

        r = group_set_cpus(e, t, task->process, &task->cpus, o);

        if (r < 0)
                return r;
        p.regrouped = r > 0;
        r = own_children(plan, task, &children, &n);
        if (r >= 0)
                r = apply_process(&p, task->process, children, n);
        for (size_t i = 0; r >= 0 && !p.left && i < n; i++)
                r = apply_process(&p, children[i], NULL, 0);
        return r;
}

static int apply_tasks(Enforcer *e, const Plan *plan, const char *job, Outcome *o) {
        int r = online_read(e);

        if (r >= 0)
                r = slice_restore(e);
        for (size_t i = 0; r >= 0 && i < plan->n_tasks; i++) {
                const PlanTask *task = &plan->tasks[i];

                if (task->process.pid <= 0 || bitset_isempty(&task->cpus) || task->fixed ||
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
        if (own)
                drift_pass_begin(&e->drift);
        r = apply_tasks(e, plan, job, ret);
        return own ? transaction_end(e, r, ret) : r;
}

/* The old masks are noted before the move, since a mask is read through the cpuset the process is in. */
static int adopt(Enforcer *e, Transaction *t, const char *job, const Task *task, const PlanTask *plan, char **ret_group,
                 Outcome *o) {
        Process process = { task->pid, task->start_time };
        Pass p = { .e = e,
                   .t = t,
                   .o = o,
                   .job = job,
                   .name = strempty(plan->name),
                   .task = plan,
                   .wanted = &plan->cpus,
                   .heir = process };
        int r;

        if (group_movable(e, task)) {
                p.only_note = true;
                r = apply_process(&p, process, NULL, 0);
                if (r >= 0)
                        r = group_enter(e, t, job, process, &plan->cpus, ret_group, o);
                if (r < 0 && r != -EUCLEAN)
                        return r;
                p.only_note = false;
                p.regrouped = true;
        }
        return apply_process(&p, process, NULL, 0);
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
