/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes of a solve. The sequence is what keeps an order whole: the jobs are written to the state directory under
 * temporary names that tell the order's transaction (a full disk changes nothing), the kernel is changed in that one
 * transaction of the undo journal, its commit mark makes it stand, then the jobs are moved into place and the plan is in
 * force. A start after a kill in between finds the mark and moves the jobs, or does not, and undoes and drops.
 */
#include <errno.h>

#include "common/log.h"
#include "daemon/manager-internal.h"

/* The jobs that it is about: those asked for, or of a re-plan all of its scope. */
static AppliedJob **jobs_of(const Request *q, size_t *ret_n) {
        *ret_n = q->kind == REQUEST_TICK ? q->n_all : q->n_jobs;
        return q->kind == REQUEST_TICK ? q->all : q->jobs;
}

static void tell_applied(Manager *m, const Request *q, const Outcome *o) {
        size_t n;
        AppliedJob **jobs = jobs_of(q, &n);

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < m->n_observers; k++)
                        if (m->observers[k].applied)
                                m->observers[k].applied(m->observers[k].userdata, jobs[i]->job->name, m->plan, o);
}

static void cancel_jobs(Manager *m, Request *q) {
        for (size_t i = 0; i < q->n_jobs; i++)
                job_store_cancel(m->jobs, q->jobs[i]);
}

static int prepare_jobs(Manager *m, Request *q, uint64_t order, char **ret_message) {
        for (size_t i = 0; i < q->n_jobs; i++) {
                int r = job_store_prepare(m->jobs, q->jobs[i], order, ret_message);

                if (r < 0) {
                        cancel_jobs(m, q);
                        return r;
                }
        }
        return 0;
}

/* The kernel has been changed: what cannot be kept on disk is in force all the same, until the daemon ends. */
static void commit_jobs(Manager *m, Request *q) {
        for (size_t i = 0; i < q->n_jobs; i++) {
                int r = job_store_commit(m->jobs, q->jobs[i]);

                if (r < 0)
                        (void) log_warning_errno(r, "Job %s is in force, but will not be after a restart: %m",
                                                 q->jobs[i]->job->name);
        }
}

static const PlanTask *plan_of_process(const Plan *p, Process process) {
        for (size_t i = 0; i < p->n_tasks; i++)
                if (p->tasks[i].process.pid == process.pid && p->tasks[i].process.start_time == process.start_time)
                        return &p->tasks[i];
        return NULL;
}

/* The job's process goes into a group of ours, unless its caller has no authority or its owner keeps it. */
static int adopt(Manager *m, const Request *q, const Solve *s, char **ret_group, Outcome *outcome) {
        const Task *task = snapshot_task(s->snapshot, q->process.pid);
        const PlanTask *planned = plan_of_process(s->plan, q->process);
        Outcome one = {};
        int r;

        if (!task || !planned)
                return -ESRCH;
        if (q->scope != SCOPE_AUTHORISED)
                return (*ret_group = strdup(strempty(task->cgroup))) ? 0 : -ENOMEM;
        r = enforce_adopt(m->enforcer, q->jobs[0]->job->name, task, planned, ret_group, &one);
        if (outcome_absorb(outcome, &one) < 0 && r >= 0)
                r = -ENOMEM;
        outcome_done(&one);
        return r;
}

static bool plan_has(const Plan *p, Process process) {
        if (plan_of_process(p, process))
                return true;
        for (size_t i = 0; i < p->n_tasks; i++)
                for (size_t k = 0; k < p->tasks[i].n_children; k++)
                        if (p->tasks[i].children[k].pid == process.pid &&
                            p->tasks[i].children[k].start_time == process.start_time)
                                return true;
        return false;
}

static bool asks_for(const Request *q, const char *job) {
        size_t n;
        AppliedJob **jobs = jobs_of(q, &n);

        for (size_t i = 0; i < n; i++)
                if (streq(jobs[i]->job->name, strempty(job)))
                        return true;
        return false;
}

/* It, or a process that started it: children born since the plan was made go along. */
static bool plan_has_family(const Plan *p, Process process) {
        for (unsigned depth = 0; depth < 64 && process.pid > 1; depth++) {
                if (plan_has(p, process))
                        return true;
                if (process_parent(process.pid, &process.pid) < 0 ||
                    process_start_time(process.pid, &process.start_time) < 0)
                        break;
        }
        return false;
}

/* Processes that a job placed before it was replaced, and does not name any more. */
static int find_strays(Manager *m, const Request *q, const Plan *plan, Process **ret, size_t *ret_n) {
        const UndoEntry *entries;
        Process *strays;
        size_t n, k = 0;

        entries = undo_entries(m->undo, &n);
        strays = calloc(n + 1, sizeof(*strays));
        if (!strays)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                const Process p = entries[i].process;

                if (!undo_is_of_process(&entries[i]) || !asks_for(q, entries[i].job) ||
                    (i > 0 && entries[i - 1].process.pid == p.pid) || process_is(p.pid, p.start_time) != 1 ||
                    plan_has_family(plan, p))
                        continue;
                strays[k++] = p;
        }
        *ret = strays;
        *ret_n = k;
        return 0;
}

/* The first plan after a start looks for them too: the daemon may have been killed between an order and this. */
static bool may_have_strays(Manager *m, const Request *q) {
        const Scope *scope = manager_scope(m, q->scope, false);

        return q->kind == REQUEST_APPLY || (q->kind == REQUEST_TICK && (!scope || !scope->planned));
}

/* One that stays, since its masks are refused or somebody else's now, keeps none of the others. */
static int put_back_strays(Manager *m, const Request *q, const Plan *plan, Outcome *outcome) {
        _cleanup_free_ Process *strays = NULL;
        size_t n = 0;
        int r;

        r = find_strays(m, q, plan, &strays, &n);
        for (size_t i = 0; i < n; i++) {
                Outcome one = {};
                int k = enforce_revert_process(m->enforcer, strays[i], &one);

                if (k >= 0)
                        k = outcome_absorb(outcome, &one);
                outcome_done(&one);
                if (r >= 0)
                        r = k;
        }
        return r;
}

static int change_kernel(Manager *m, const Request *q, const Solve *s, char **ret_group, Outcome *outcome) {
        Outcome one = {};
        int r;

        if (q->kind == REQUEST_RUN) {
                r = adopt(m, q, s, ret_group, outcome);
                if (r < 0)
                        return r;
        }
        r = enforce_apply(m->enforcer, s->plan, NULL, &one);
        if (outcome_absorb(outcome, &one) < 0 && r >= 0)
                r = -ENOMEM;
        outcome_done(&one);
        return r;
}

static int finish_json(const Manager *m, const Plan *plan, const Outcome *o, const char *group, json_t **ret) {
        json_t *json = NULL, *outcome = NULL;
        int r;

        r = plan_to_json(plan, &json);
        if (r >= 0 && o) {
                manager_show_roles(m, plan, json);
                r = outcome_to_json(o, &outcome);
                if (r >= 0)
                        (void) json_object_set_new(json, "outcome", outcome);
        }
        if (r >= 0 && group)
                (void) json_object_set_new(json, "group", json_string(group));
        if (r < 0) {
                json_decref(json);
                return r;
        }
        *ret = json;
        return 0;
}

static const char *why(const Request *q) {
        static const char *const words[] = {
                [REQUEST_APPLY] = "apply", [REQUEST_RUN] = "run", [REQUEST_TICK] = "re-plan"
        };

        return words[q->kind];
}

/* The change stands: remember what it was made for. */
static int settle(Manager *m, Request *q, Solve *s, const Outcome *o, const char *group, json_t **ret) {
        Scope *scope;
        int r;

        if (q->kind == REQUEST_RUN)
                manager_watch_run(m, q->process);
        if (o->n_written > 0)
                m->hold_until = now_monotonic() + m->config->hold_off_usec;
        scope_planned(m, q->scope, s->snapshot, q->all, q->n_all);
        scope = manager_scope(m, q->scope, false);
        if (scope)
                scope->planned = true;
        r = finish_json(m, s->plan, o, group, ret);
        manager_set_plan(m, TAKE_PTR(s->plan), q->scope);
        if (q->kind != REQUEST_TICK || o->n_written > 0)
                tell_applied(m, q, o);
        return r;
}

/* The enforcer's last sentence says what became of the changes made before the failure. */
static const char *what_failed(const Outcome *o, int r) {
        size_t n = strv_length(o->messages);

        if (n > 0)
                return o->messages[n - 1];
        return r == -ESRCH ? "The process is gone: nothing was changed" : strerror(-r);
}

/* All of an order, or after a failure nothing of it. */
static int change(Manager *m, Request *q, const Solve *s, char **ret_group, Outcome *outcome, char **ret_message) {
        Outcome back = {};
        uint64_t order;
        int r;

        r = enforce_begin(m->enforcer, q->n_jobs == 1 ? q->jobs[0]->job->name : NULL, &order);
        if (r < 0)
                return r;
        r = prepare_jobs(m, q, order, ret_message);
        manager_mark_plan_fixed(m, s->plan, q);
        manager_mark_irqs(m, s->plan, s->snapshot);
        if (r >= 0)
                r = change_kernel(m, q, s, ret_group, outcome);
        if (r >= 0)
                r = enforce_commit(m->enforcer);
        if (r >= 0)
                return 0;
        (void) enforce_rollback(m->enforcer, r, &back);
        (void) outcome_absorb(outcome, &back);
        outcome_done(&back);
        cancel_jobs(m, q);
        if (!*ret_message)
                (void) text_fail(r, ret_message, "%s", what_failed(outcome, r));
        return r;
}

static int enact(Manager *m, Request *q, Solve *s, json_t **ret, char **ret_message) {
        _cleanup_free_ char *group = NULL;
        Outcome outcome = {};
        int r, k;

        r = change(m, q, s, &group, &outcome, ret_message);
        if (r >= 0) {
                commit_jobs(m, q);
                manager_take_back(m, q);
                k = may_have_strays(m, q) ? put_back_strays(m, q, s->plan, &outcome) : 0;
                if (k < 0)
                        (void) strv_extendf(&outcome.messages,
                                            "Not every process that is named no more could be put back: %s",
                                            strerror(-k));
        }
        if (r >= 0)
                manager_walls_order(m, q, s->plan, &outcome);
        if (r >= 0 && q->scope == SCOPE_AUTHORISED)
                manager_place_irqs(m, s->plan, s->snapshot, &outcome);
        if (q->kind != REQUEST_TICK || outcome.n_written > 0)
                manager_log_asked(why(q), q->jobs, q->n_jobs, &q->caller);
        manager_log_outcome(m, &outcome, why(q));
        if (r >= 0) {
                (void) manager_take_outcome(m, &outcome);
                manager_move_order(m, q, s->plan, &outcome);
                r = settle(m, q, s, &outcome, group, ret);
                manager_walls(m);
        }
        outcome_done(&outcome);
        return r;
}

/* What comes of a solve: r and json for the answer. */
int request_conclude(Manager *m, Request *q, Solve *s, json_t **ret, char **ret_message) {
        int r;

        if (s->r == -ECANCELED)
                return text_fail(-ECANCELED, ret_message, "The solver was stopped: it took longer than %u s",
                                 SOLVE_TIMEOUT_USEC / 1000000U);
        if (s->r < 0)
                return text_fail(s->r, ret_message, "%s", s->message ? s->message : strerror(-s->r));
        if (s->plan->feasible && q->kind == REQUEST_RUN && !plan_of_process(s->plan, q->process))
                return text_fail(-EBADMSG, ret_message,
                                 "Job \"%s\" has no free rank for process %d: all of them are filled",
                                 q->jobs[0]->job->name, (int) q->process.pid);
        if (s->plan->feasible && q->kind != REQUEST_PLAN && !q->options.dry_run)
                return enact(m, q, s, ret, ret_message);
        if (q->kind == REQUEST_TICK) {
                log_warning("The applied jobs do not fit any more, what is placed stays: %s",
                            s->plan->messages && s->plan->messages[0] ? s->plan->messages[0] : "infeasible");
                scope_planned(m, q->scope, s->snapshot, q->all, q->n_all);
                strv_free(m->unfit);
                m->unfit = s->plan->messages;
                s->plan->messages = NULL;
                return 0;
        }
        r = finish_json(m, s->plan, NULL, NULL, ret);
        if (r >= 0 && q->options.dry_run)
                (void) json_object_set_new(*ret, "dry_run", json_true());
        return r;
}
