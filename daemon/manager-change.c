/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to the kernel and to the plan in force. The plan in force holds the tasks of all scopes: a solve of one
 * scope replaces that scope's tasks and leaves the others. Every outcome goes through manager_log_outcome() and
 * manager_take_outcome(), which keeps the time of the last change and has drift told (manager-drift.c).
 */
#include <errno.h>

#include "common/clock.h"
#include "common/log.h"
#include "daemon/manager-internal.h"

static void note_change(Manager *m) {
        m->last_change = clock_realtime_usec();
}

static int take_outcome(Manager *m, const Outcome *o, bool tick) {
        if (o->n_written > 0)
                note_change(m);
        return manager_tell_drift(m, o, tick);
}

int manager_take_outcome(Manager *m, const Outcome *o) {
        return take_outcome(m, o, false);
}

static int copy_children(PlanTask *p, const Task *t) {
        Process *children = calloc(t->n_children, sizeof(*children));

        if (!children)
                return -ENOMEM;
        memcpy(children, t->children, t->n_children * sizeof(*children));
        free(p->children);
        p->children = children;
        p->n_children = t->n_children;
        return 0;
}

/* Children born since the plan was made belong to their rank. */
static int refresh_children(Manager *m) {
        for (size_t i = 0; m->snapshot && i < m->plan->n_tasks; i++) {
                PlanTask *p = &m->plan->tasks[i];
                const Task *found = p->process.pid > 0 ? snapshot_task(m->snapshot, p->process.pid) : NULL;
                Task *t = found ? &m->snapshot->tasks[found - m->snapshot->tasks] : NULL;
                const AppliedJob *j = job_store_find(m->jobs, p->job);

                if (!t || t->start_time != p->process.start_time)
                        continue;
                if (j && j->confined)
                        drop_foreign_children(t);
                if (t->n_children > 0 && copy_children(p, t) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int manager_enforce(Manager *m, const char *why) {
        Outcome outcome = {};
        int r;

        r = m->plan ? refresh_children(m) : 0;
        if (r < 0)
                return r;
        enforcer_set_drift(m->enforcer, manager_drift_policy(m));
        irq_enforcer_set_drift(m->irqs, manager_drift_policy(m));
        if (m->plan) {
                manager_mark_plan_fixed(m, m->plan, NULL);
                manager_mark_irqs(m, m->plan, m->snapshot);
                r = enforce_apply(m->enforcer, m->plan, NULL, &outcome);
        }
        manager_place_irqs(m, m->plan, m->snapshot, &outcome);
        irq_enforcer_set_drift(m->irqs, DRIFT_REPORT);
        manager_log_outcome(m, &outcome, why);
        if (r >= 0)
                r = take_outcome(m, &outcome, true);
        if (r >= 0)
                manager_move_late(m, &outcome);
        if (r >= 0)
                manager_walls(m);
        if (r >= 0)
                r = outcome.n_written > 0;
        outcome_done(&outcome);
        return r;
}

/* Moves the tasks that keep() wants from one plan to another. */
static int plan_move_tasks(Plan *into, Plan *from, bool (*keep)(const Manager *m, const PlanTask *t, const void *what),
                           const Manager *m, const void *what) {
        size_t left = 0;
        PlanTask *tasks;

        tasks = reallocarray(into->tasks, into->n_tasks + from->n_tasks + 1, sizeof(*tasks));
        if (!tasks)
                return -ENOMEM;
        into->tasks = tasks;
        for (size_t i = 0; i < from->n_tasks; i++)
                if (keep(m, &from->tasks[i], what))
                        into->tasks[into->n_tasks++] = from->tasks[i];
                else
                        from->tasks[left++] = from->tasks[i];
        from->n_tasks = left;
        return 0;
}

typedef struct Beside { /* a new plan, of one scope */
        uid_t scope;
        const Plan *plan;
} Beside;

/* What another scope placed stays, unless the new plan places it: then it is nobody else's any more. */
static bool is_other_scope(const Manager *m, const PlanTask *t, const void *what) {
        const AppliedJob *j = job_store_find(m->jobs, t->job);
        const Beside *b = what;

        for (size_t i = 0; t->process.pid > 0 && i < b->plan->n_tasks; i++)
                if (b->plan->tasks[i].process.pid == t->process.pid &&
                    b->plan->tasks[i].process.start_time == t->process.start_time)
                        return false;
        return j && job_scope(j) != b->scope;
}

static bool is_of_job(const Manager *m, const PlanTask *t, const void *what) {
        return streq(t->job, what);
}

void manager_set_plan(Manager *m, Plan *plan, uid_t scope) {
        Plan *old = m->plan;

        m->unfit = strv_free(m->unfit);
        plan->changed = false; /* it is what is now */
        for (size_t i = 0; i < plan->n_tasks; i++)
                plan->tasks[i].changed = false;
        if (old && plan_move_tasks(plan, old, is_other_scope, m, &(Beside){ .scope = scope, .plan = plan }) < 0)
                (void) log_oom();
        if (old && scope != SCOPE_AUTHORISED) { /* the head (energy, messages) stays that of the scope with authority */
                PlanTask *tasks = plan->tasks;
                size_t n = plan->n_tasks;
                Plan head = *old;

                plan->tasks = old->tasks;
                plan->n_tasks = old->n_tasks;
                *old = *plan;
                *plan = head;
                plan->tasks = tasks;
                plan->n_tasks = n;
        }
        plan_free(old);
        m->plan = plan;
}

void manager_forget_plan(Manager *m, const char *job) {
        Plan *scratch;

        m->unfit = strv_free(m->unfit); /* with one job less it may fit: the next plan tells */
        scopes_forget(m);               /* … and ranks that shared CPUs with it may have their own */
        if (!m->plan)
                return;
        scratch = calloc(1, sizeof(*scratch));
        if (!scratch || plan_move_tasks(scratch, m->plan, is_of_job, m, job) < 0) {
                (void) log_oom();
                m->plan = plan_free(m->plan); /* rather no plan than one that puts a reverted job back */
        }
        plan_free(scratch);
        if (m->plan && m->plan->n_tasks == 0)
                m->plan = plan_free(m->plan);
}

/* The job goes first: a kill on the way leaves a mark by which the next start goes on, and not a job in force whose
 * processes would be placed again. */
int manager_revert_job(Manager *m, AppliedJob *j, const char *why, Outcome *outcome) {
        _unused_ _cleanup_(applied_job_unrefp) AppliedJob *keep = applied_job_ref(j);
        const char *name = j->job->name;
        Outcome one = {};
        int r;

        manager_forget_plan(m, name);
        manager_forget_drift(m, name);
        manager_move_forget(m, name);
        r = job_store_retire(m->jobs, j);
        if (r < 0)
                (void) log_warning_errno(r, "Job %s is reverted, but may be in force again after a restart: %m", name);
        r = enforce_revert(m->enforcer, name, &one);
        manager_log_outcome(m, &one, why);
        (void) manager_take_outcome(m, &one);
        if (outcome_absorb(outcome, &one) < 0 && r >= 0)
                r = -ENOMEM;
        outcome_done(&one);
        if (r >= 0)
                job_store_forget(m->jobs, name);
        else
                (void) strv_extend(&m->jobs->retired, name);
        return r;
}

void manager_end_reverts(Manager *m) {
        for (char **name = m->jobs->retired; name && *name; name++) {
                Outcome one = {};
                int r;

                if (job_store_find(m->jobs, *name))
                        continue; /* applied again since */
                log_info("The revert of job %s was cut short: going on with it", *name);
                r = enforce_revert(m->enforcer, *name, &one);
                manager_log_outcome(m, &one, "revert");
                outcome_done(&one);
                if (r >= 0)
                        job_store_forget(m->jobs, *name);
                else
                        (void) log_warning_errno(r, "Not all of job %s could be put back: %m", *name);
        }
}

static bool tasks_all_of(const Manager *m, const char *job, uid_t uid) {
        const UndoEntry *entries;
        size_t n;

        entries = undo_entries(m->undo, &n);
        for (size_t i = 0; i < n; i++) {
                uid_t owner;

                if (!undo_is_of_process(&entries[i]) || !streq(strempty(entries[i].job), job) ||
                    process_is(entries[i].process.pid, entries[i].process.start_time) != 1)
                        continue;
                if (process_uid(entries[i].process.pid, &owner) >= 0 && owner != uid)
                        return false;
        }
        return true;
}

static bool may_revert(const Manager *m, const Caller *c, const AppliedJob *j) {
        return c->authorised || (j->confined && j->uid == c->uid && tasks_all_of(m, j->job->name, c->uid));
}

static int unknown_job(const Manager *m, const char *name, char **ret_message) {
        _cleanup_free_ char *known = NULL;
        size_t size;
        FILE *f;

        f = open_memstream(&known, &size);
        if (!f)
                return -ENOMEM;
        for (size_t i = 0; i < m->jobs->n_jobs && i < 50; i++)
                fprintf(f, "%s%s", i ? ", " : "", m->jobs->jobs[i]->job->name);
        (void) fclose(f);
        if (m->jobs->n_jobs == 0)
                return text_fail(-ENOENT, ret_message, "There is no job \"%s\": none is applied", name);
        return text_fail(-ENOENT, ret_message, "There is no job \"%s\"; applied are: %s", name, known);
}

static bool journal_knows(const Manager *m, const char *job) {
        const UndoEntry *entries;
        size_t n;

        entries = undo_entries(m->undo, &n);
        for (size_t i = 0; i < n; i++)
                if (streq(strempty(entries[i].job), job))
                        return true;
        return false;
}

/* Journal entries whose job is not applied (its file was lost): those of one job, or what "all" leaves. */
static int revert_rest(Manager *m, const char *job, json_t *names, Outcome *outcome) {
        Outcome one = {};
        int r;

        r = enforce_revert(m->enforcer, job, &one);
        manager_log_outcome(m, &one, "revert");
        if (r >= 0)
                r = outcome_absorb(outcome, &one);
        outcome_done(&one);
        if (r < 0)
                return r;
        for (char **name = m->jobs->retired; name && *name; name++)
                if (!job || streq(job, *name))
                        job_store_forget(m->jobs, *name);
        if (job)
                (void) json_array_append_new(names, json_string(job));
        else {
                m->plan = plan_free(m->plan);
                manager_move_forget(m, NULL);
        }
        return 0;
}

static int revert_jobs(Manager *m, const Caller *c, const char *job, json_t *names, Outcome *outcome,
                       char **ret_message) {
        bool found = false, denied = false;
        int r = 0;

        for (size_t i = m->jobs->n_jobs; i-- > 0;) {
                AppliedJob *j = m->jobs->jobs[i];
                int k;

                if (job && !streq(j->job->name, job))
                        continue;
                found = true;
                if (!may_revert(m, c, j)) {
                        denied = true;
                        continue;
                }
                (void) json_array_insert_new(names, 0, json_string(j->job->name));
                k = manager_revert_job(m, j, "revert", outcome);
                if (k < 0 && r >= 0)
                        r = text_fail(k, ret_message, "Job \"%s\" could not be put back whole: %s; try again",
                                      json_string_value(json_array_get(names, 0)), strerror(-k));
        }
        if (r < 0) /* the others have been put back all the same */
                return r;
        if (job && !found)
                return c->authorised && journal_knows(m, job) ? revert_rest(m, job, names, outcome)
                                                              : unknown_job(m, job, ret_message);
        if (denied && json_array_size(names) == 0)
                return text_fail(-EACCES, ret_message,
                                 "Reverting %s%s needs authority: it was applied by somebody else, or places "
                                 "somebody else's processes",
                                 job ? "job " : "these jobs", strempty(job));
        return !job && c->authorised ? revert_rest(m, NULL, names, outcome) : 0;
}

/* The plan in force is without the jobs that went: so are the wishes. */
static void revert_irqs(Manager *m, Outcome *outcome) {
        Outcome one = {};

        manager_place_irqs(m, m->plan, m->snapshot, &one);
        manager_log_outcome(m, &one, "revert");
        (void) manager_take_outcome(m, &one);
        (void) outcome_absorb(outcome, &one);
        outcome_done(&one);
}

int manager_revert(Manager *m, const Caller *c, const char *job, json_t **ret, char **ret_message) {
        Outcome outcome = {};
        json_t *names = json_array(), *o = NULL;
        int r;

        if (!names)
                return -ENOMEM;
        log_info("Revert of %s%s: asked for by user %u, pid %d (%s)", job ? "job " : "all jobs", strempty(job),
                 (unsigned) c->uid, (int) c->pid, c->comm);
        r = revert_jobs(m, c, job, names, &outcome, ret_message);
        (void) enforce_sweep(m->enforcer); /* groups that are busy still are swept at a later end */
        revert_irqs(m, &outcome);
        if (r >= 0)
                r = outcome_to_json(&outcome, &o);
        outcome_done(&outcome);
        if (r >= 0 && !(*ret = json_pack("{s:O,s:o}", "jobs", names, "outcome", o)))
                r = -ENOMEM;
        json_decref(names);
        if (r < 0)
                return r;
        m->hold_until = now_monotonic() + m->config->hold_off_usec;
        (void) manager_look(m, NULL);
        return 0;
}
