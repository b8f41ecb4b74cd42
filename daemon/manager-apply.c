/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests: Plan, Apply, Run, and the automatic re-plan of a scope. They wait in one queue and are solved one at a
 * time: begin (collect a snapshot of its own, hand it to the solver thread), solved (back in the loop: conclude, in
 * manager-enact.c, and answer). Jobs are decided jointly: those of the scope that are in force and those asked for, which take the
 * place of a job of the same name.
 */
#include <errno.h>

#include "common/log.h"
#include "daemon/manager-internal.h"
#include "daemon/readers/jobfile.h"

static Request *request_free(Request *q) {
        if (!q)
                return NULL;
        for (size_t i = 0; i < q->n_jobs; i++)
                applied_job_unref(q->jobs[i]);
        for (size_t i = 0; i < q->n_all; i++)
                applied_job_unref(q->all[i]);
        free(q->jobs);
        free(q->all);
        free(q->solver);
        free(q);
        return NULL;
}
DEFINE_CLEANUP(Request *, request_free);

/* Answers and frees. message may be NULL. */
static void request_answer(Request *q, int r, const char *message, json_t *json) {
        if (q->reply)
                q->reply(q->userdata, r, r < 0 && !message ? strerror(-r) : message, json);
        json_decref(json);
        request_free(q);
}

static void request_fail(Request *q, int r, const char *message) {
        if (q->kind == REQUEST_TICK && r != -ECANCELED &&
            q->n_all > 0) /* else its jobs are gone: nothing is left to do */
                log_warning("The applied jobs could not be planned again: %s", message ? message : strerror(-r));
        request_answer(q, r, message, NULL);
}

/* Who has authority, and what is in force, does not wait behind a user who asks much. */
static void request_push(Manager *m, Request *q) {
        Request **end = &m->queue;

        while (*end && (!q->first || (*end)->first))
                end = &(*end)->next;
        q->next = *end;
        *end = q;
        m->n_queued++;
}

static Request *request_pop(Manager *m) {
        Request *q = m->queue;

        if (!q)
                return NULL;
        m->queue = q->next;
        q->next = NULL;
        m->n_queued--;
        return q;
}

static int queue_room(const Manager *m, const Caller *c, char **ret_message) {
        unsigned n = 0, of_user = 0;

        for (const Request *q = m->queue; q; q = q->next) {
                n += q->first == c->authorised;
                of_user += q->caller.uid == c->uid && !q->first;
        }
        if (n >= REQUESTS_MAX)
                return text_fail(-EBUSY, ret_message,
                                 "%u requests wait for the solver already, which is the most: try again later", n);
        if (!c->authorised && of_user >= REQUESTS_MAX_PER_USER)
                return text_fail(-EBUSY, ret_message,
                                 "%u requests of user %u wait for the solver already, which is the most for one "
                                 "user: try again later",
                                 of_user, (unsigned) c->uid);
        return 0;
}

static int parse_job(Request *q, const JobText *text, char **ret_message) {
        Job *job = NULL;
        AppliedJob *applied;
        const char *matrix = text->matrix && text->matrix[0] ? text->matrix : NULL;
        int r;

        r = job_parse("job", text->text, strlen(text->text), matrix, &job, ret_message);
        if (r < 0)
                return r;
        r = applied_job_new(job, q->caller.uid, !q->caller.authorised, &applied);
        if (r < 0)
                return r;
        q->jobs[q->n_jobs++] = applied;
        for (size_t i = 0; i + 1 < q->n_jobs; i++)
                if (streq(q->jobs[i]->job->name, job->name))
                        return text_fail(-EBADMSG, ret_message, "job: two jobs of the name \"%s\" were given",
                                         job->name);
        return 0;
}

static int request_options(Request *q, const PlanOptions *o, char **ret_message) {
        if (!o)
                return 0;
        q->options = *o;
        q->options.solver = NULL;
        if (o->sweeps > SWEEPS_MAX)
                return text_fail(-EINVAL, ret_message,
                                 "sweeps=%" PRIu64 " is too many: 0 (the solver's default) to %u are allowed",
                                 o->sweeps, SWEEPS_MAX);
        if (o->solver && o->solver[0] && !(q->solver = strdup(o->solver)))
                return -ENOMEM;
        return 0;
}

static int request_new(const Caller *c, RequestKind kind, const JobText *jobs, size_t n, const PlanOptions *o,
                       Request **ret, char **ret_message) {
        _cleanup_(request_freep) Request *q = calloc(1, sizeof(*q));
        int r;

        if (!q || !(q->jobs = calloc(n + 1, sizeof(*q->jobs))))
                return -ENOMEM;
        q->kind = kind;
        q->caller = *c;
        q->scope = c->authorised ? SCOPE_AUTHORISED : c->uid;
        r = request_options(q, o, ret_message);
        for (size_t i = 0; r >= 0 && i < n; i++)
                r = parse_job(q, &jobs[i], ret_message);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(q);
        return 0;
}

static const AppliedJob *asked_instead(const Request *q, const AppliedJob *j) {
        for (size_t i = 0; i < q->n_jobs; i++)
                if (streq(q->jobs[i]->job->name, j->job->name))
                        return q->jobs[i];
        return NULL;
}

/* The scope's jobs in force and those asked for. Processes that Run put into a job stay in it when it is replaced. */
static int request_gather(Manager *m, Request *q) {
        for (size_t i = 0; i < q->n_all; i++)
                applied_job_unref(q->all[i]);
        free(q->all);
        q->n_all = 0;
        q->all = calloc(m->jobs->n_jobs + q->n_jobs + 1, sizeof(*q->all));
        if (!q->all)
                return -ENOMEM;
        for (size_t i = 0; i < m->jobs->n_jobs; i++)
                if (job_scope(m->jobs->jobs[i]) == q->scope && !asked_instead(q, m->jobs->jobs[i]))
                        q->all[q->n_all++] = applied_job_ref(m->jobs->jobs[i]);
        for (size_t i = 0; i < q->n_jobs; i++)
                q->all[q->n_all++] = applied_job_ref(q->jobs[i]);
        return 0;
}

static bool has_process(const AppliedJob *j, Process p) {
        for (size_t i = 0; i < j->n_processes; i++)
                if (j->processes[i].pid == p.pid && j->processes[i].start_time == p.start_time)
                        return true;
        return false;
}

static int keep_processes(Manager *m, Request *q) {
        for (size_t i = 0; i < q->n_jobs; i++) {
                const AppliedJob *old = job_store_find(m->jobs, q->jobs[i]->job->name);

                if (!old || old == q->jobs[i])
                        continue;
                for (size_t k = 0; k < old->n_processes; k++)
                        if (!has_process(q->jobs[i], old->processes[k]) &&
                            applied_job_add_process(q->jobs[i], old->processes[k]) < 0)
                                return -ENOMEM;
        }
        return 0;
}

static int solve_params(const Manager *m, const Request *q, Solve *s) {
        const Config *c = m->config;

        decide_params_default(&s->params);
        s->solver = strdup(q->solver ? q->solver : c->solver);
        if (!s->solver || bitset_copy(&s->params.housekeeping, &c->housekeeping_cpus) < 0)
                return -ENOMEM;
        s->params.weights = c->weights;
        s->params.weights.temperature_target = c->temperature_target;
        s->params.solver = s->solver;
        s->params.seed = q->options.has_seed ? q->options.seed : c->seed;
        s->params.sweeps = q->options.sweeps;
        s->params.budget_usec = c->budget_usec;
        s->params.hysteresis = c->hysteresis;
        s->params.housekeeping_cores = c->housekeeping_cores;
        s->deadline_usec = now_monotonic() + SOLVE_TIMEOUT_USEC;
        return 0;
}

/* For a caller without authority, what jobs with authority take is taken. */
static int request_look(Manager *m, const Request *q, Snapshot **ret, char **ret_message) {
        _cleanup_free_ AppliedJob **jobs = calloc(m->jobs->n_jobs + q->n_all + 1, sizeof(*jobs));
        size_t n = 0;
        int r;

        if (!jobs)
                return -ENOMEM;
        for (size_t i = 0; q->scope != SCOPE_AUTHORISED && i < m->jobs->n_jobs; i++)
                if (job_scope(m->jobs->jobs[i]) == SCOPE_AUTHORISED)
                        jobs[n++] = m->jobs->jobs[i];
        for (size_t i = 0; i < q->n_all; i++)
                jobs[n++] = q->all[i];
        r = manager_refresh_machine(m, ret_message);
        if (r < 0)
                return r;
        return manager_collect(m, jobs, n, q, true, ret, ret_message);
}

static int request_begin(Manager *m, Request *q, char **ret_message) {
        _cleanup_(solve_freep) Solve *s = calloc(1, sizeof(*s));
        int r;

        if (!s)
                return -ENOMEM;
        r = keep_processes(m, q);
        if (r >= 0)
                r = request_gather(m, q);
        if (r < 0)
                return r;
        if (q->n_all == 0)
                return text_fail(-EBADMSG, ret_message,
                                 "No job was given and none is applied: there is nothing to plan");
        r = request_look(m, q, &s->snapshot, ret_message);
        if (r < 0)
                return r;
        for (size_t i = 0; r >= 0 && i < q->n_all; i++)
                r = job_bind(q->all[i]->job, s->snapshot);
        s->jobs = calloc(q->n_all, sizeof(*s->jobs));
        if (r < 0 || !s->jobs)
                return -ENOMEM;
        for (size_t i = 0; i < q->n_all; i++)
                s->jobs[s->n_jobs++] = q->all[i]->job;
        r = solve_params(m, q, s);
        if (r >= 0 && q->scope != SCOPE_AUTHORISED)
                r = request_confine(m, q, s->snapshot, s->jobs, s->n_jobs, ret_message);
        if (r >= 0)
                r = worker_submit(m->worker, s);
        if (r < 0)
                return r;
        TAKE_PTR(s);
        return 0;
}

/* A re-plan that cannot even begin is not tried again before something changes. */
static void scope_give_up(Manager *m, const Request *q) {
        if (q->kind == REQUEST_TICK && m->snapshot)
                scope_planned(m, q->scope, m->snapshot, m->jobs->jobs, m->jobs->n_jobs);
}

void manager_kick(Manager *m) {
        while (!m->current && m->queue) {
                _cleanup_free_ char *message = NULL;
                Request *q = request_pop(m);
                int r;

                r = request_begin(m, q, &message);
                if (r < 0) {
                        scope_give_up(m, q);
                        request_fail(q, r, message);
                } else
                        m->current = q;
        }
}

static bool was_overtaken(const Request *q) {
        for (size_t i = 0; i < q->n_all; i++)
                if (q->all[i]->gone)
                        return true;
        return false;
}

void manager_solved(void *userdata, Solve *solve) {
        _cleanup_(solve_freep) Solve *s = solve;
        _cleanup_free_ char *message = NULL;
        Manager *m = userdata;
        Request *q = TAKE_PTR(m->current);
        json_t *json = NULL;
        int r;

        if (!q)
                return;
        /* A job it was solved with was reverted meanwhile, or CPUs went: solve again without them. */
        if (was_overtaken(q) || (manager_machine_moved(m) && q->n_again++ < SOLVE_AGAIN_MAX)) {
                q->next = m->queue;
                m->queue = q;
                m->n_queued++;
                s = solve_free(s);
                manager_kick(m);
                return;
        }
        manager_trim_plan(m, s->plan);
        r = request_conclude(m, q, s, &json, &message);
        s = solve_free(s); /* before a new look: it borrows the topology */
        if (q->kind != REQUEST_PLAN)
                (void) manager_look(m, NULL); /* so that who is answered finds the state told of in the status */
        if (r < 0)
                request_fail(q, r, message);
        else
                request_answer(q, 0, NULL, json);
        manager_kick(m);
}

void manager_cancel(Manager *m) {
        Request *q;

        m->worker = worker_free(m->worker); /* first: the solve reads the request's jobs */
        while ((q = m->current ? TAKE_PTR(m->current) : request_pop(m)))
                request_fail(q, -ECANCELED, "qschedd is stopping");
}

void manager_replan(Manager *m, uid_t scope) {
        Request *q;

        if (m->current && m->current->kind != REQUEST_PLAN && m->current->scope == scope)
                return; /* what comes of it may be all that is wanted; else the next tick asks */
        for (q = m->queue; q; q = q->next)
                if (q->kind == REQUEST_TICK && q->scope == scope)
                        return;
        q = calloc(1, sizeof(*q));
        if (!q) {
                (void) log_oom();
                return;
        }
        *q = (Request){ .kind = REQUEST_TICK,
                        .scope = scope,
                        .first = scope == SCOPE_AUTHORISED,
                        .caller = { .uid = scope, .authorised = scope == SCOPE_AUTHORISED } };
        log_debug("The jobs of %s are planned again", scope == SCOPE_AUTHORISED ? "all with authority" : "one user");
        request_push(m, q);
        manager_kick(m);
}

/* Run of a job that is in force fills its next free rank; of an unknown one makes a job that ends with its processes. */
static int request_run(Manager *m, Request *q, char **ret_message) {
        const AppliedJob *old = job_store_find(m->jobs, q->jobs[0]->job->name);
        AppliedJob *j = q->jobs[0];
        int r;

        if (q->caller.pid <= 0)
                return text_fail(-EACCES, ret_message,
                                 "The bus does not tell which process calls: it cannot be placed");
        q->process.pid = q->caller.pid;
        q->process.start_time = q->caller.start_time;
        if (process_is(q->process.pid, q->process.start_time) != 1)
                return text_fail(-ESRCH, ret_message, "Process %d, which asked to be placed, is gone",
                                 (int) q->caller.pid);
        j->run = !old || old->run;
        if (old && !streq(strempty(old->job->text), strempty(j->job->text))) {
                const JobText text = { .text = old->job->text, .matrix = old->job->matrix_text };

                if (old->run && old->n_processes > 0)
                        return text_fail(-EBADMSG, ret_message,
                                         "Job \"%s\" runs already and asks for something else: choose "
                                         "another name",
                                         old->job->name);
                if (!old->run) {
                        j = q->jobs[0] = applied_job_unref(j);
                        q->n_jobs = 0;
                        r = parse_job(q, &text, ret_message);
                        if (r < 0)
                                return r;
                        j = q->jobs[0];
                }
        }
        return applied_job_add_process(j, q->process);
}

static void request_enter(Manager *m, const Caller *c, bool authorised, RequestKind kind, const JobText *jobs, size_t n,
                          const PlanOptions *o, ManagerReply reply, void *userdata) {
        Caller as = *c;
        _cleanup_(request_freep) Request *q = NULL;
        _cleanup_free_ char *message = NULL;
        int r;

        as.authorised = authorised;
        r = queue_room(m, c, &message);
        if (r >= 0)
                r = request_new(&as, kind, jobs, n, o, &q, &message);
        if (r >= 0 && kind == REQUEST_RUN)
                r = request_run(m, q, &message);
        if (r < 0) {
                reply(userdata, r, message ? message : strerror(-r), NULL);
                return;
        }
        q->first = c->authorised;
        q->reply = reply;
        q->userdata = userdata;
        request_push(m, TAKE_PTR(q));
        manager_kick(m);
}

/* Anybody may ask what would be; the answer is that for a caller with authority. */
void manager_plan(Manager *m, const Caller *c, const JobText *jobs, size_t n, const PlanOptions *o, ManagerReply reply,
                  void *userdata) {
        request_enter(m, c, true, REQUEST_PLAN, jobs, n, o, reply, userdata);
}

bool manager_forget(Manager *m, ManagerReply reply, const void *userdata) {
        for (Request **p = &m->queue; *p; p = &(*p)->next) {
                Request *q = *p;

                if (q->kind != REQUEST_PLAN || q->reply != reply || q->userdata != userdata)
                        continue;
                *p = q->next;
                m->n_queued--;
                request_free(q);
                return true;
        }
        return false;
}

void manager_apply(Manager *m, const Caller *c, const JobText *jobs, size_t n, const PlanOptions *o, ManagerReply reply,
                   void *userdata) {
        request_enter(m, c, c->authorised, REQUEST_APPLY, jobs, n, o, reply, userdata);
}

void manager_run(Manager *m, const Caller *c, const JobText *job, const PlanOptions *o, ManagerReply reply,
                 void *userdata) {
        request_enter(m, c, c->authorised, REQUEST_RUN, job, 1, o, reply, userdata);
}
