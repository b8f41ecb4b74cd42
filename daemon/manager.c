/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life and tick of the manager. A tick looks (collects), lets go of what ended, brings late threads of placed tasks to
 * the plan in force, and asks for a re-plan of a scope when the set of processes that fill its ranks is another one
 * than it was planned for. A solve that is on, in its own thread, delays none of this: it has a snapshot of its own, and
 * of what is shared, the machine, nothing is written meanwhile.
 */
#include <errno.h>
#include <signal.h>

#include "common/log.h"
#include "daemon/config-last.h"
#include "daemon/manager-internal.h"

int manager_observe(Manager *m, const Observer *o) {
        Observer *n;

        n = reallocarray(m->observers, m->n_observers + 1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        m->observers = n;
        m->observers[m->n_observers++] = *o;
        return 0;
}

typedef struct Extra {
        Process *processes;
        const char **jobs;
        size_t n;
} Extra;

static void extra_done(Extra *e) {
        free(e->processes);
        free(e->jobs);
}

static int extra_add(Extra *e, Process p, const char *job) {
        Process *n;
        const char **jobs;

        for (size_t i = 0; i < e->n; i++)
                if (e->processes[i].pid == p.pid && e->processes[i].start_time == p.start_time)
                        return 0;
        n = reallocarray(e->processes, e->n + 1, sizeof(*n));
        if (!n)
                return -ENOMEM;
        e->processes = n;
        jobs = reallocarray(e->jobs, e->n + 1, sizeof(*jobs));
        if (!jobs)
                return -ENOMEM;
        e->jobs = jobs;
        e->processes[e->n] = p;
        e->jobs[e->n++] = job;
        return 0;
}

/* What its job does not name any more is put back: its CPUs are free. */
static bool is_asked_anew(const Request *q, const char *job) {
        for (size_t i = 0; i < q->n_jobs; i++)
                if (streq(q->jobs[i]->job->name, strempty(job)))
                        return true;
        return false;
}

/* Processes that Run put into jobs come with their job; others that we placed are looked at too, since their CPUs are
 * taken. Journal entries of one process follow each other, so the look-up of doubles stays short. */
static int extra_fill(Manager *m, AppliedJob *const *jobs, size_t n, const Request *q, Extra *e) {
        const UndoEntry *entries;
        size_t n_entries;
        pid_t last = 0;
        int r;

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < jobs[i]->n_processes; k++) {
                        r = extra_add(e, jobs[i]->processes[k], jobs[i]->job->name);
                        if (r < 0)
                                return r;
                }
        entries = undo_entries(m->undo, &n_entries);
        for (size_t i = 0; i < n_entries; i++) {
                if (!undo_is_of_process(&entries[i]) || entries[i].process.pid == last ||
                    (q && is_asked_anew(q, entries[i].job)))
                        continue;
                last = entries[i].process.pid;
                r = extra_add(e, entries[i].process, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A rank whose threads have parts of its pool is where it was placed: its CPUs are the pool. */
static int use_pool(const Manager *m, Task *t) {
        const UndoEntry *e = undo_find_tid(m->undo, t->pid, t->start_time);
        _cleanup_(bitset_done) Bitset pool = BITSET_EMPTY;
        int r;

        if (!e || bitset_isempty(&e->pool))
                return 0;
        r = bitset_copy(&pool, &e->pool);
        if (r >= 0 && !bitset_isempty(&t->allowed_cpus))
                bitset_and(&pool, &t->allowed_cpus);
        if (r < 0 || !bitset_subset(&t->cpus, &pool))
                return r;
        return bitset_copy(&t->cpus, &pool);
}

static int mark_applied(Manager *m, Snapshot *s) {
        const UndoEntry *entries;
        size_t n;
        int r = 0;

        entries = undo_entries(m->undo, &n);
        for (size_t k = 0; k < n && r >= 0; k++) {
                const Process *p = &entries[k].process;
                const Task *t = !undo_is_of_process(&entries[k]) || (k > 0 && p->pid == entries[k - 1].process.pid)
                                        ? NULL
                                        : snapshot_task(s, p->pid);

                if (t && t->start_time == p->start_time) {
                        s->tasks[t - s->tasks].applied = true;
                        r = use_pool(m, &s->tasks[t - s->tasks]);
                }
        }
        return r;
}

void manager_use_roles(Manager *m) {
        enforcer_set_roles(m->enforcer, m->config->thread_roles ? &m->config->roles : NULL,
                           collector_topology(m->collector));
}

int manager_collect(Manager *m, AppliedJob *const *jobs, size_t n, const Request *q, bool keep_use, Snapshot **ret,
                    char **ret_message) {
        _cleanup_free_ const Job **list = calloc(n + 1, sizeof(*list));
        _cleanup_free_ uid_t *users = calloc(n + 1, sizeof(*users));
        _cleanup_(extra_done) Extra extra = {};
        CollectParams params = { .keep_use = keep_use, .solving = worker_busy(m->worker) };
        Snapshot *s = NULL;
        int r;

        if (!list || !users)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                list[i] = jobs[i]->job;
                users[i] = job_scope(jobs[i]);
        }
        r = q && q->kind == REQUEST_RUN ? extra_add(&extra, q->process, q->jobs[0]->job->name) : 0;
        if (r >= 0)
                r = extra_fill(m, jobs, n, q, &extra);
        if (r < 0)
                return r;
        params.jobs = list;
        params.job_users = users;
        params.n_jobs = n;
        params.extra = extra.processes;
        params.extra_jobs = extra.jobs;
        params.n_extra = extra.n;
        r = collect(m->collector, &params, &s, ret_message);
        if (r < 0)
                return r;
        r = mark_applied(m, s);
        if (r >= 0)
                r = manager_mark_drift(m, s, q);
        if (r < 0) {
                snapshot_free(s);
                return r;
        }
        if (q)
                manager_look_through_walls(m, s);
        *ret = s;
        return 0;
}

static int look(Manager *m, bool keep_use, char **ret_message) {
        Snapshot *s;
        int r;

        r = manager_refresh_machine(m, ret_message);
        if (r >= 0)
                r = manager_collect(m, m->jobs->jobs, m->jobs->n_jobs, NULL, keep_use, &s, ret_message);
        if (r < 0)
                return r;
        snapshot_free(m->snapshot);
        m->snapshot = s;
        m->looked_at = now_monotonic();
        r = manager_look_at_devices(m);
        if (r < 0)
                return r;
        if (r > 0)
                scopes_forget(m);
        for (size_t i = 0; i < m->n_observers; i++)
                if (m->observers[i].snapshot)
                        m->observers[i].snapshot(m->observers[i].userdata, m->snapshot, m->plan);
        return 0;
}

int manager_look(Manager *m, char **ret_message) {
        return look(m, true, ret_message);
}

void manager_look_again(Manager *m) {
        if (!m->snapshot || now_monotonic() - m->looked_at > LOOK_FRESH_USEC)
                (void) manager_look(m, NULL);
}

/* Asks for a re-plan of each scope whose ranks are filled by other processes, or stand in another world, than it was
 * planned for. When something is only gone (a rank has ended) and a change is fresh, not yet: its effect on the measures
 * (CPU use) is not to be seen yet, and two changes at once are a flap. What is new does not wait: processes that have no
 * place (workers that start one after another), cpusets that are others, CPUs and devices that came or went. */
static int tick_replan(Manager *m) {
        bool hold = now_monotonic() < m->hold_until;

        for (size_t i = 0; m->snapshot && i < m->jobs->n_jobs; i++) {
                uid_t key = job_scope(m->jobs->jobs[i]);
                _cleanup_free_ char *signature = NULL;
                Scope *scope;
                bool seen = false;
                int r;

                for (size_t k = 0; k < i; k++)
                        seen = seen || job_scope(m->jobs->jobs[k]) == key;
                if (seen)
                        continue;
                r = scope_signature(m->snapshot, m->jobs->jobs, m->jobs->n_jobs, key, &signature);
                if (r < 0)
                        return r;
                scope = manager_scope(m, key, true);
                if (!scope)
                        return -ENOMEM;
                if (scope->signature && streq(scope->signature, signature))
                        continue;
                if (!hold || scope_has_news(scope, signature))
                        manager_replan(m, key);
        }
        return 0;
}

static void tick(Manager *m) {
        _cleanup_free_ char *message = NULL;
        int r;

        m->ticks++;
        worker_watch(m->worker);
        manager_end_runs(m);
        r = enforce_sweep(m->enforcer);
        if (r < 0)
                (void) log_warning_errno(r, "Failed to forget what ended: %m");
        r = look(m, false, &message);
        if (r >= 0)
                r = manager_enforce(m, MANAGER_TICK);
        if (r > 0)
                r = manager_look(m, &message);
        if (r >= 0)
                r = tick_replan(m);
        if (r < 0 && r != m->tick_error) { /* once, not at every tick */
                if (message)
                        log_error("%s", message);
                else
                        (void) log_error_errno(r, "Failed to look at the host: %m");
        }
        m->tick_error = r < 0 ? r : 0;
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        Manager *m = userdata;

        m->tick_due = now_monotonic() + m->config->interval_usec;
        (void) sd_event_source_set_time(source, m->tick_due);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        tick(m);
        return 0;
}

void manager_tick_soon(Manager *m) {
        m->tick_due = now_monotonic();
        (void) sd_event_source_set_time(m->timer, m->tick_due);
        (void) sd_event_source_set_enabled(m->timer, SD_EVENT_ONESHOT);
}

static void log_messages(char *const *messages) {
        for (size_t i = 0; messages && messages[i]; i++)
                log_warning("%s", messages[i]);
}

static int open_state(Manager *m, char **ret_message) {
        _cleanup_(strv_freep) char **messages = NULL;
        int r;

        r = undo_open(m->paths.runtime, &messages, &m->undo);
        log_messages(messages);
        if (r == -EBUSY)
                return text_fail(r, ret_message,
                                 "Another qschedd runs with the runtime directory %s; RUNTIME_DIRECTORY chooses "
                                 "another one",
                                 m->paths.runtime);
        if (r < 0)
                return text_fail(r, ret_message, "The undo journal in %s cannot be opened: %s", m->paths.runtime,
                                 strerror(-r));
        strv_free(TAKE_PTR(messages));
        r = job_store_open(m->paths.state, m->undo, &messages, &m->jobs);
        log_messages(messages);
        if (r < 0)
                return text_fail(r, ret_message, "Applied jobs in %s/jobs cannot be read: %s", m->paths.state,
                                 strerror(-r));
        r = enforcer_new(m->undo, collector_cgroups(m->collector), &m->enforcer);
        if (r >= 0)
                r = irq_enforcer_new(m->undo, NULL, &m->irqs);
        if (r < 0)
                return text_fail(r, ret_message, "Enforcement cannot be set up: %s", strerror(-r));
        return 0;
}

static int read_config(Manager *m, const char *file, const char *devices, char **ret_message) {
        _cleanup_(config_freep) Config *config = NULL;
        int r, level;

        r = config_load(file, devices, &config, ret_message);
        if (r >= 0)
                r = collector_new(config, &m->collector, ret_message);
        if (r < 0)
                return r;
        m->config = TAKE_PTR(config);
        level = log_level_from_string(m->config->log_level);
        if (level >= 0)
                log_set_max_level(level);
        return 0;
}

static void save_config(const Manager *m) {
        int r = config_last_save(m->paths.state, m->paths.config, m->paths.devices);

        if (r < 0)
                (void) log_warning_errno(
                        r, "The configuration cannot be kept in %s/config, for starts with a broken one: %m",
                        m->paths.state);
}

/* A file that was broken since the last start keeps nothing from starting: what was in force then is again. */
static int read_last_config(Manager *m, char **message) {
        _cleanup_free_ char *file = NULL, *devices = NULL;

        if (config_last_find(m->paths.state, &file, &devices) < 0 || read_config(m, file, devices, NULL) < 0)
                return -ENOENT;
        if (asprintf(&m->trouble, "%s; the last good configuration is in force (%s)", strempty(*message), file) < 0)
                return -ENOMEM;
        log_error("%s", m->trouble);
        free(*message);
        *message = NULL;
        return 0;
}

int manager_new(sd_event *event, const ManagerPaths *paths, Manager **ret, char **ret_message) {
        _cleanup_(manager_freep) Manager *m = calloc(1, sizeof(*m));
        int r;

        if (!m)
                return -ENOMEM;
        m->event = sd_event_ref(event);
        m->paths = *paths;
        r = read_config(m, paths->config, paths->devices, ret_message);
        if (r == -ENOMEM || (r < 0 && read_last_config(m, ret_message) < 0))
                return r;
        r = open_state(m, ret_message);
        if (r < 0)
                return r;
        r = manager_moves_new(m);
        if (r < 0)
                return r;
        r = worker_new(event, manager_solved, m, &m->worker);
        if (r < 0)
                return text_fail(r, ret_message, "The solver thread cannot be started: %s", strerror(-r));
        if (!m->trouble) /* not before the directories are ours: open_state() locks them */
                save_config(m);
        *ret = TAKE_PTR(m);
        return 0;
}

Manager *manager_free(Manager *m) {
        if (!m)
                return NULL;
        manager_cancel(m);
        manager_moves_free(m);
        manager_walls_free(m);
        snapshot_free(m->snapshot);
        plan_free(m->plan);
        for (size_t i = 0; i < m->n_scopes; i++)
                free(m->scopes[i].signature);
        free(m->scopes);
        drift_free(m->drift, m->n_drift);
        strv_free(m->said);
        strv_free(m->unfit);
        strv_free(m->faulty);
        strv_free(m->devices);
        free(m->trouble);
        job_store_free(m->jobs);
        irq_enforcer_free(m->irqs);
        enforcer_free(m->enforcer);
        undo_free(m->undo);
        collector_free(m->collector);
        config_free(m->config);
        free(m->observers);
        sd_event_source_unref(m->timer);
        sd_event_unref(m->event);
        free(m);
        return NULL;
}

int manager_start(Manager *m) {
        Outcome outcome = {};
        int r;

        manager_use_roles(m);
        r = enforce_recover(m->enforcer, &outcome);
        manager_log_outcome(m, &outcome, "not committed when the daemon ended");
        outcome_done(&outcome);
        if (r < 0) /* it stays noted, and the next start tries again */
                (void) log_error_errno(r, "Failed to undo what was not committed: %m");
        manager_recover_irqs(m);
        manager_end_reverts(m);
        m->tick_due = now_monotonic() + m->config->interval_usec;
        r = sd_event_add_time(m->event, &m->timer, CLOCK_MONOTONIC, m->tick_due, 0, on_timer, m);
        if (r < 0)
                return log_error_errno(r, "Failed to set the tick: %m");
        manager_watch_runs(m);
        tick(m);
        return 0;
}

static int reload(Manager *m, char **ret_message) {
        _cleanup_(config_freep) Config *config = NULL, *old = NULL;
        _cleanup_free_ char *message = NULL;
        int r, level;

        r = config_load(m->paths.config, m->paths.devices, &config, ret_message);
        if (r >= 0)
                r = collector_check(m->collector, config, ret_message);
        if (r < 0)
                return r;
        old = m->config;
        m->config = TAKE_PTR(config);
        collector_set_config(m->collector, m->config);
        manager_use_roles(m);
        level = log_level_from_string(m->config->log_level);
        if (level >= 0)
                log_set_max_level(level);
        manager_move_reload(m);
        m->machine_stale = true;
        scopes_forget(m); /* weights, devices and housekeeping may be others now */
        r = manager_look(m, &message);
        if (r < 0)
                log_warning("The new configuration is in force, but the host could not be read: %s",
                            message ? message : strerror(-r));
        manager_tick_soon(m);
        return 0;
}

int manager_reload(Manager *m, char **ret_message) {
        _cleanup_free_ char *message = NULL;
        int r = reload(m, &message);

        free(m->trouble);
        m->trouble = NULL;
        if (r >= 0) {
                save_config(m);
                return 0;
        }
        if (asprintf(&m->trouble, "The old configuration stays in force: %s", message ? message : strerror(-r)) < 0)
                m->trouble = NULL;
        (void) manager_look(m, NULL); /* tells the observers */
        return message ? text_fail(r, ret_message, "%s", message) : r;
}

int manager_stop(Manager *m, bool revert) {
        Outcome outcome = {};
        int r;

        (void) sd_event_source_set_enabled(m->timer, SD_EVENT_OFF);
        manager_cancel(m);
        manager_move_cancel(m);
        if (!revert)
                return 0;
        r = enforce_revert(m->enforcer, NULL, &outcome);
        manager_restore_irqs(m, &outcome);
        manager_log_outcome(m, &outcome, "stop");
        outcome_done(&outcome);
        if (r < 0)
                return log_error_errno(r, "Failed to put placements back: %m");
        return 0;
}

const Snapshot *manager_snapshot(const Manager *m) {
        return m->snapshot;
}

bool manager_feasible(const Manager *m) {
        return !m->unfit && (!m->plan || m->plan->feasible);
}

const Plan *manager_last_plan(const Manager *m) {
        return m->plan;
}

const char *manager_job(const Manager *m, size_t i, unsigned *ret_priority, unsigned *ret_ranks) {
        if (i >= m->jobs->n_jobs)
                return NULL;
        *ret_priority = m->jobs->jobs[i]->job->priority;
        *ret_ranks = job_count(m->jobs->jobs[i]->job, NULL);
        return m->jobs->jobs[i]->job->name;
}

uint64_t manager_last_change(const Manager *m) {
        return m->last_change;
}

bool manager_alive(const Manager *m, const char **ret_why) {
        uint64_t now = now_monotonic();

        if (now > m->tick_due + TICK_LATE_USEC)
                *ret_why = "The tick is overdue";
        else if (worker_hangs(m->worker, now))
                *ret_why = "The solver does not end";
        else
                return true;
        return false;
}

const char *manager_trouble(const Manager *m) {
        return m->trouble;
}
