/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told of changes by somebody else, and who they may have been. The enforcers find and handle them
 * (enforce-drift.h); here each is told once: a signal for each thread, group and interrupt, a line of the log for each
 * process and what was done (of interrupts a sentence of their enforcer's outcome tells). Told again is what has been right
 * in between, or what something else is done about now. What was yielded is shown until it is taken back.
 *
 * The list is sorted, so that of a process of a thousand threads each is found quickly.
 */
#include <errno.h>

#include "common/log.h"
#include "daemon/manager-internal.h"
#include "daemon/readers/author.h"

static void drift_done(Drift *d) {
        free(d->job);
        free(d->comm);
        free(d->device);
        free(d->path);
        free(d->expected);
        free(d->found);
        free(d->author);
        free(d->hint);
        *d = (Drift){};
}

void drift_free(Drift *d, size_t n) {
        for (size_t i = 0; i < n; i++)
                drift_done(&d[i]);
        free(d);
}

/* By thing: threads of a process one after the other, its group before them. */
static int drift_compare(const void *a, const void *b) {
        const Drift *x = a, *y = b;

        if (x->process.pid != y->process.pid)
                return CMP(x->process.pid, y->process.pid);
        if (x->process.start_time != y->process.start_time)
                return CMP(x->process.start_time, y->process.start_time);
        if (!x->path != !y->path)
                return x->path ? -1 : 1;
        return x->tid != y->tid ? CMP(x->tid, y->tid) : CMP(x->irq, y->irq);
}

DriftPolicy manager_drift_policy(const Manager *m) {
        int policy = enum_from_name(drift_policy_names, strempty(m->config->drift));

        return policy < 0 ? DRIFT_REPORT : (DriftPolicy) policy;
}

/* Applying a job again takes back what of it was yielded; so a plan for that counts it as ours. */
static bool is_applied_anew(const Request *q, const char *job) {
        for (size_t i = 0; q && (q->kind == REQUEST_APPLY || q->kind == REQUEST_PLAN) && i < q->n_jobs; i++)
                if (streq(q->jobs[i]->job->name, strempty(job)))
                        return true;
        return false;
}

static bool is_given_up(const Manager *m, pid_t pid) {
        for (size_t i = 0; i < m->n_drift; i++)
                if (m->drift[i].process.pid == pid && m->drift[i].act == DRIFT_GIVEN_UP)
                        return true;
        return false;
}

/* What the next tick writes again is planned as if it were so: else a plan made in between would take somebody else's
 * CPUs for the place of the rank. */
static int plan_as_placed(const Manager *m, Task *t, const UndoEntry *e) {
        _cleanup_(bitset_done) Bitset pool = BITSET_EMPTY;
        int r = bitset_copy(&pool, bitset_isempty(&e->pool) ? &e->new : &e->pool);

        if (r >= 0 && !bitset_isempty(&t->allowed_cpus))
                bitset_and(&pool, &t->allowed_cpus);
        if (r < 0 || bitset_isempty(&pool) || bitset_subset(&t->cpus, &pool) || is_given_up(m, t->pid))
                return r;
        return bitset_copy(&t->cpus, &pool);
}

static int mark_reasserted(Manager *m, Snapshot *s) {
        size_t n;
        const UndoEntry *all = undo_entries(m->undo, &n);
        int r = 0;

        for (size_t i = 0; r >= 0 && i < n; i++) {
                const Task *t = all[i].type == UNDO_AFFINITY && all[i].committed && all[i].tid == all[i].process.pid
                                        ? snapshot_task(s, all[i].tid)
                                        : NULL;

                if (t && t->start_time == all[i].process.start_time)
                        r = plan_as_placed(m, &s->tasks[t - s->tasks], &all[i]);
        }
        return r;
}

int manager_mark_drift(Manager *m, Snapshot *s, const Request *q) {
        size_t n;
        const UndoEntry *all = undo_entries(m->undo, &n);

        for (size_t i = 0; i < n; i++) {
                const Task *t = all[i].type == UNDO_YIELD && !all[i].irq.device && !is_applied_anew(q, all[i].job)
                                        ? snapshot_task(s, all[i].process.pid)
                                        : NULL;

                if (t && t->start_time == all[i].process.start_time)
                        s->tasks[t - s->tasks].fixed = true;
        }
        return q && manager_drift_policy(m) == DRIFT_REASSERT ? mark_reasserted(m, s) : 0;
}

void manager_mark_plan_fixed(Manager *m, Plan *plan, const Request *q) {
        size_t n;
        const UndoEntry *all = undo_entries(m->undo, &n);

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; all[i].type == UNDO_YIELD && k < plan->n_tasks; k++)
                        if (plan->tasks[k].process.pid > 0 && plan->tasks[k].process.pid == all[i].process.pid &&
                            plan->tasks[k].process.start_time == all[i].process.start_time)
                                plan->tasks[k].fixed = !is_applied_anew(q, all[i].job);
}

void manager_take_back(Manager *m, const Request *q) {
        for (size_t i = 0; q->kind == REQUEST_APPLY && i < q->n_jobs; i++)
                drift_take_back(m->undo, q->jobs[i]->job->name);
}

typedef struct Telling {
        Manager *m;
        Drift *list;
        size_t n, n_allocated;
        bool tick; /* all that is in force was looked at */
} Telling;

static Drift *drift_new(Telling *t) {
        if (t->n == t->n_allocated) {
                size_t n = t->n_allocated ? t->n_allocated * 2 : 16;
                Drift *d = reallocarray(t->list, n, sizeof(*d));

                if (!d)
                        return NULL;
                t->list = d;
                t->n_allocated = n;
        }
        t->list[t->n] = (Drift){};
        return &t->list[t->n++];
}

static int drift_fill(Drift *d, const Change *c) {
        const Bitset *found = bitset_isempty(&c->got) ? &c->old : &c->got;

        d->process = c->process;
        d->tid = c->path ? 0 : c->tid;
        d->irq = c->irq.irq;
        d->act = c->act;
        d->job = strdup(strempty(c->job));
        d->comm = strdup(c->irq.device ? c->irq.name : strempty(c->comm));
        d->device = c->irq.device ? strdup(c->irq.device) : NULL;
        d->path = c->path ? strdup(c->path) : NULL;
        if (!d->job || !d->comm || (c->irq.device && !d->device) || (c->path && !d->path))
                return -ENOMEM;
        d->fresh = true;
        if (bitset_format(&c->wanted, &d->expected) < 0 || bitset_format(found, &d->found) < 0)
                return -ENOMEM;
        return 0;
}

static bool holds_ascend(const Snapshot *s, const Task *t) {
        for (size_t i = 0; t && i < t->n_devices; i++)
                if (streq(strempty(s->devices[t->devices[i]].kind), "ascend"))
                        return true;
        return false;
}

static int ask_author(Manager *m, const Change *c, Drift *d) {
        const Task *task = m->snapshot ? snapshot_task(m->snapshot, c->process.pid) : NULL;
        const AuthorPlace place = { .root = "",
                                    .task = task,
                                    .pid = c->process.pid,
                                    .group = c->path,
                                    .ascend = holds_ascend(m->snapshot, task),
                                    .found = bitset_isempty(&c->got) ? &c->old : &c->got,
                                    .wanted = &c->wanted };
        AuthorEvidence evidence = {};
        Author a = {};
        int r = author_read(&place, &evidence);

        if (r >= 0)
                r = author_judge(&evidence, &a);
        author_evidence_done(&evidence);
        if (r < 0)
                return r;
        d->author = TAKE_PTR(a.who);
        d->hint = TAKE_PTR(a.hint);
        author_done(&a);
        return 0;
}

static int copy_author(Drift *d, const Drift *from) {
        d->author = from->author ? strdup(from->author) : NULL;
        d->hint = from->hint ? strdup(from->hint) : NULL;
        return (from->author && !d->author) || (from->hint && !d->hint) ? -ENOMEM : 0;
}

static int irq_author(const Manager *m, Drift *d) {
        const IrqStatus *s;

        for (size_t i = 0; (s = irq_status(m->irqs, i)); i++)
                if (s->irq == d->irq && streq(strempty(s->device), d->device) && s->author) {
                        d->author = strdup(s->author);
                        return d->author ? 0 : -ENOMEM;
                }
        return 0;
}

/* Asked once per process, and not again while nothing else is told of the thing. */
static int find_author(Telling *t, const Change *c, Drift *d, const Drift *old) {
        const Drift *before = t->n > 1 ? d - 1 : NULL;

        if (d->device)
                return irq_author(t->m, d);
        if (old && old->author)
                return copy_author(d, old);
        if (before && before->process.pid == d->process.pid && !before->path == !d->path && !before->device &&
            before->author)
                return copy_author(d, before);
        return ask_author(t->m, c, d);
}

static int tell_change(Telling *t, const Change *c) {
        const Manager *m = t->m;
        const Drift *old;
        Drift *d = drift_new(t);
        int r = d ? drift_fill(d, c) : -ENOMEM;

        if (r < 0)
                return r;
        old = m->n_drift > 0 ? bsearch(d, m->drift, m->n_drift, sizeof(*d), drift_compare) : NULL;
        d->fresh = !old || old->act != d->act;
        return find_author(t, c, d, old);
}

static bool still_yielded(const Manager *m, const Drift *d) {
        const IrqStatus *s;

        if (d->act != DRIFT_YIELDED)
                return false;
        if (!d->device)
                return undo_find_yield(m->undo, d->process);
        for (size_t i = 0; (s = irq_status(m->irqs, i)); i++)
                if (s->irq == d->irq && streq(strempty(s->device), d->device))
                        return s->act == DRIFT_YIELDED;
        return false;
}

/* An order looks at a part only: what it did not see is as before. */
static int keep_old(Telling *t) {
        Manager *m = t->m;
        size_t n = t->n;

        if (n > 0)
                qsort(t->list, n, sizeof(*t->list), drift_compare);
        for (size_t i = 0; i < m->n_drift; i++) {
                Drift *d;

                if ((n > 0 && bsearch(&m->drift[i], t->list, n, sizeof(*d), drift_compare)) ||
                    (t->tick && !still_yielded(m, &m->drift[i])))
                        continue;
                d = drift_new(t);
                if (!d)
                        return -ENOMEM;
                *d = m->drift[i];
                d->fresh = false;
                m->drift[i] = (Drift){ .process = d->process, .tid = d->tid, .irq = d->irq, .path = NULL };
        }
        return 0;
}

static const char *what_is_done(DriftAct act) {
        static const char *const words[_DRIFT_ACT_MAX] = {
                [DRIFT_LEFT] = "left alone",
                [DRIFT_WRITTEN] = "written again (Drift=reassert)",
                [DRIFT_GIVEN_UP] = "written again three times in a row, and changed again each time: left alone now",
                [DRIFT_YIELDED] = "theirs from now on (Drift=yield), until the job is applied again",
        };

        return words[act];
}

/* d and the n - 1 after it are of one process. */
static void log_drift(const Drift *d, unsigned n) {
        const char *hint = d->hint ? ". " : "";

        if (d->path)
                log_notice("Job %s: pid %d: the CPUs of its group %s are %s, not %s: changed by %s; %s%s%s", d->job,
                           (int) d->process.pid, d->path, d->found, d->expected, d->author, what_is_done(d->act), hint,
                           strempty(d->hint));
        else if (n == 1)
                log_notice("Job %s: pid %d tid %d (%s) has CPUs %s, not %s as placed: changed by %s; %s%s%s", d->job,
                           (int) d->process.pid, (int) d->tid, d->comm, d->found, d->expected, d->author,
                           what_is_done(d->act), hint, strempty(d->hint));
        else
                log_notice("Job %s: pid %d: %u of its threads have other CPUs than placed (tid %d (%s) has %s, not "
                           "%s): changed by %s; %s%s%s",
                           d->job, (int) d->process.pid, n, (int) d->tid, d->comm, d->found, d->expected, d->author,
                           what_is_done(d->act), hint, strempty(d->hint));
}

/* A process of which something has been told already needs no further line: the signals say which threads. */
static void tell(const Manager *m, const Drift *list, size_t n) {
        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; list[i].fresh && k < m->n_observers; k++)
                        if (m->observers[k].drift)
                                m->observers[k].drift(m->observers[k].userdata, &list[i]);
        for (size_t i = 0, run; i < n; i += run) {
                unsigned fresh = list[i].fresh;

                run = 1;
                if (list[i].device)
                        continue;
                while (!list[i].path && i + run < n && list[i + run].process.pid == list[i].process.pid &&
                       list[i + run].act == list[i].act) {
                        fresh += list[i + run].fresh;
                        run++;
                }
                if (fresh == run)
                        log_drift(&list[i], fresh);
        }
}

static int collect_drift(Telling *t, const Outcome *o) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < o->n_changes; i++) {
                const Change *c = &o->changes[i];

                /* Of a revert a sentence tells. An order leaves to the next tick what is not to be left alone. */
                if (c->result == CHANGE_DRIFT && c->act != DRIFT_NONE &&
                    (t->tick || c->act != DRIFT_LEFT || manager_drift_policy(t->m) == DRIFT_REPORT))
                        r = tell_change(t, c);
        }
        return r < 0 ? r : keep_old(t);
}

void manager_forget_drift(Manager *m, const char *job) {
        size_t n = 0;

        for (size_t i = 0; i < m->n_drift; i++)
                if (streq(m->drift[i].job, job))
                        drift_done(&m->drift[i]);
                else
                        m->drift[n++] = m->drift[i];
        m->n_drift = n;
}

const Drift *manager_drift(const Manager *m, Process p) {
        size_t low = 0, high = m->n_drift;

        while (low < high) {
                size_t mid = (low + high) / 2;
                const Process *q = &m->drift[mid].process;

                if (q->pid < p.pid || (q->pid == p.pid && q->start_time < p.start_time))
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < m->n_drift && m->drift[low].process.pid == p.pid &&
                               m->drift[low].process.start_time == p.start_time
                       ? &m->drift[low]
                       : NULL;
}

int manager_tell_drift(Manager *m, const Outcome *o, bool tick) {
        Telling t = { .m = m, .tick = tick };
        int r = collect_drift(&t, o);

        if (r < 0) {
                drift_free(t.list, t.n);
                return r;
        }
        if (t.n > 0)
                qsort(t.list, t.n, sizeof(*t.list), drift_compare);
        tell(m, t.list, t.n);
        drift_free(m->drift, m->n_drift);
        m->drift = t.list;
        m->n_drift = t.n;
        return 0;
}
