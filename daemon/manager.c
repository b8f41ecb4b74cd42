/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Life and tick of the manager. A tick looks (collects), lets go of what ended, brings late threads of placed tasks to
 * the plan in force, and asks for a re-plan of a scope when the set of processes that fill its ranks is another one
 * than it was planned for. Snapshots borrow the collector's topology, and the solver reads one in its own thread: so
 * nothing is collected while a solve is on, and enforcement of the plan in force needs no snapshot.
 */
#include <errno.h>
#include <signal.h>

#include "common/log.h"
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

uid_t job_scope(const AppliedJob *j) {
        return j->confined ? j->uid : SCOPE_AUTHORISED;
}

Scope *manager_scope(Manager *m, uid_t key, bool create) {
        Scope *n;

        for (size_t i = 0; i < m->n_scopes; i++)
                if (m->scopes[i].key == key)
                        return &m->scopes[i];
        if (!create || !(n = reallocarray(m->scopes, m->n_scopes + 1, sizeof(*n))))
                return NULL;
        m->scopes = n;
        m->scopes[m->n_scopes] = (Scope){ .key = key };
        return &m->scopes[m->n_scopes++];
}

/* One line for each rank of the scope that a process fills. */
int scope_signature(const Snapshot *s, AppliedJob *const *jobs, size_t n, uid_t key, char **ret) {
        _cleanup_free_ const Job **list = calloc(n + 1, sizeof(*list));
        _cleanup_fclose_ FILE *f = NULL;
        RankList ranks = {};
        char *text = NULL;
        size_t size = 0;
        int r;

        if (!list || !(f = open_memstream(&text, &size)))
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                list[i] = jobs[i]->job;
        r = ranks_match(s, list, n, &ranks);
        for (size_t i = 0; r >= 0 && i < ranks.n_ranks; i++)
                for (size_t k = 0; ranks.ranks[i].task && k < n; k++)
                        if (jobs[k]->job == ranks.ranks[i].job && job_scope(jobs[k]) == key)
                                fprintf(f, "%s %d %" PRIu64 "\n", ranks.ranks[i].name, (int) ranks.ranks[i].task->pid,
                                        ranks.ranks[i].task->start_time);
        rank_list_done(&ranks);
        (void) fclose(TAKE_PTR(f));
        if (r < 0) {
                free(text);
                return r;
        }
        *ret = text;
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

/* Processes that Run put into jobs come with their job; others that we placed are looked at too, since their CPUs are
 * taken. Journal entries of one process follow each other, so the look-up of doubles stays short. */
static int extra_fill(Manager *m, AppliedJob *const *jobs, size_t n, Extra *e) {
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
                if (entries[i].type == UNDO_DIR || entries[i].process.pid == last)
                        continue;
                last = entries[i].process.pid;
                r = extra_add(e, entries[i].process, NULL);
                if (r < 0)
                        return r;
        }
        return 0;
}

static void mark_applied(Manager *m, Snapshot *s) {
        const UndoEntry *entries;
        size_t n;

        entries = undo_entries(m->undo, &n);
        for (size_t i = 0; i < s->n_tasks; i++)
                for (size_t k = 0; k < n && !s->tasks[i].applied; k++)
                        s->tasks[i].applied = entries[k].type != UNDO_DIR &&
                                              entries[k].process.pid == s->tasks[i].pid &&
                                              entries[k].process.start_time == s->tasks[i].start_time;
}

int manager_collect(Manager *m, AppliedJob *const *jobs, size_t n, const Process *more, const char *more_job,
                    Snapshot **ret, char **ret_message) {
        _cleanup_free_ const Job **list = calloc(n + 1, sizeof(*list));
        _cleanup_(extra_done) Extra extra = {};
        Snapshot *s = NULL;
        int r;

        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                list[i] = jobs[i]->job;
        r = more ? extra_add(&extra, *more, more_job) : 0;
        if (r >= 0)
                r = extra_fill(m, jobs, n, &extra);
        if (r >= 0)
                r = collect(m->collector, list, n, extra.processes, extra.jobs, extra.n, &s, ret_message);
        if (r < 0)
                return r;
        mark_applied(m, s);
        *ret = s;
        return 0;
}

static bool device_bad(const Device *d) {
        return d->health == HEALTH_ALARM || d->health == HEALTH_CRITICAL;
}

static void tell_fault(Manager *m, const Device *d) {
        log_warning("Device %s: health is now %s", d->name, health_names[d->health]);
        for (size_t k = 0; k < m->n_observers; k++)
                if (m->observers[k].device_fault)
                        m->observers[k].device_fault(m->observers[k].userdata, d);
}

/* Tells of devices that went bad since the last look; 1 when others are bad than then: plans made before are none. */
static int look_at_health(Manager *m, const Snapshot *s) {
        _cleanup_(strv_freep) char **faulty = NULL;
        bool changed = false;

        for (size_t i = 0; i < s->n_devices; i++) {
                if (!device_bad(&s->devices[i]))
                        continue;
                if (strv_extend(&faulty, s->devices[i].name) < 0)
                        return -ENOMEM;
                if (strv_contains(m->faulty, s->devices[i].name))
                        continue;
                changed = true;
                tell_fault(m, &s->devices[i]);
        }
        changed = changed || strv_length(faulty) != strv_length(m->faulty);
        strv_free(m->faulty);
        m->faulty = TAKE_PTR(faulty);
        return changed;
}

static void forget_scopes(Manager *m) {
        for (size_t i = 0; i < m->n_scopes; i++) {
                free(m->scopes[i].signature);
                m->scopes[i].signature = NULL;
        }
}

int manager_look(Manager *m, char **ret_message) {
        Snapshot *s;
        int r;

        if (worker_busy(m->worker))
                return 0;
        if (m->machine_stale) {
                m->snapshot = snapshot_free(m->snapshot); /* it borrows the topology that goes now */
                r = collector_reload_machine(m->collector, ret_message);
                if (r < 0)
                        return r;
                m->machine_stale = false;
        }
        r = manager_collect(m, m->jobs->jobs, m->jobs->n_jobs, NULL, NULL, &s, ret_message);
        if (r < 0)
                return r;
        snapshot_free(m->snapshot);
        m->snapshot = s;
        r = look_at_health(m, s);
        if (r < 0)
                return r;
        if (r > 0)
                forget_scopes(m);
        for (size_t i = 0; i < m->n_observers; i++)
                if (m->observers[i].snapshot)
                        m->observers[i].snapshot(m->observers[i].userdata, m->snapshot, m->plan);
        return 0;
}

/* Asks for a re-plan of each scope whose ranks are filled by other processes than it was planned for. Not while a
 * change is fresh: its effect on the measures (CPU use) is not to be seen yet, and two changes at once are a flap. */
static int tick_replan(Manager *m) {
        if (!m->snapshot || now_monotonic() < m->hold_until)
                return 0;
        for (size_t i = 0; i < m->jobs->n_jobs; i++) {
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
                if (!scope->signature || !streq(scope->signature, signature))
                        manager_replan(m, key);
        }
        return 0;
}

static void tick(Manager *m) {
        _cleanup_free_ char *message = NULL;
        int r;

        m->ticks++;
        worker_watch(m->worker);
        if (worker_busy(m->worker))
                return;
        manager_end_runs(m);
        r = manager_look(m, &message);
        if (r >= 0)
                r = manager_enforce(m, "late");
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

        (void) sd_event_source_set_time(source, now_monotonic() + m->config->interval_usec);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
        tick(m);
        return 0;
}

void manager_tick_soon(Manager *m) {
        (void) sd_event_source_set_time(m->timer, now_monotonic());
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
        if (r < 0)
                return text_fail(r, ret_message, "The undo journal in %s cannot be opened: %s", m->paths.runtime,
                                 strerror(-r));
        strv_free(TAKE_PTR(messages));
        r = job_store_open(m->paths.state, &messages, &m->jobs);
        log_messages(messages);
        if (r < 0)
                return text_fail(r, ret_message, "Applied jobs in %s/jobs cannot be read: %s", m->paths.state,
                                 strerror(-r));
        r = enforcer_new(m->undo, collector_cgroups(m->collector), &m->enforcer);
        if (r < 0)
                return text_fail(r, ret_message, "Enforcement cannot be set up: %s", strerror(-r));
        return 0;
}

int manager_new(sd_event *event, const ManagerPaths *paths, Manager **ret, char **ret_message) {
        _cleanup_(manager_freep) Manager *m = calloc(1, sizeof(*m));
        int r, level;

        if (!m)
                return -ENOMEM;
        m->event = sd_event_ref(event);
        m->paths = *paths;
        r = config_load(paths->config, paths->devices, &m->config, ret_message);
        if (r < 0)
                return r;
        level = log_level_from_string(m->config->log_level);
        if (level >= 0)
                log_set_max_level(level);
        r = collector_new(m->config, &m->collector, ret_message);
        if (r < 0)
                return r;
        r = open_state(m, ret_message);
        if (r < 0)
                return r;
        r = worker_new(event, manager_solved, m, &m->worker);
        if (r < 0)
                return text_fail(r, ret_message, "The solver thread cannot be started: %s", strerror(-r));
        *ret = TAKE_PTR(m);
        return 0;
}

Manager *manager_free(Manager *m) {
        if (!m)
                return NULL;
        manager_cancel(m);
        snapshot_free(m->snapshot);
        plan_free(m->plan);
        for (size_t i = 0; i < m->n_scopes; i++)
                free(m->scopes[i].signature);
        free(m->scopes);
        drift_free(m->drift, m->n_drift);
        strv_free(m->said);
        strv_free(m->unfit);
        strv_free(m->faulty);
        job_store_free(m->jobs);
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

        r = enforce_recover(m->enforcer, &outcome);
        manager_log_outcome(m, &outcome, "not committed when the daemon ended");
        outcome_done(&outcome);
        if (r < 0)
                return log_error_errno(r, "Failed to undo what was not committed: %m");
        r = sd_event_add_time(m->event, &m->timer, CLOCK_MONOTONIC, now_monotonic() + m->config->interval_usec, 0,
                              on_timer, m);
        if (r < 0)
                return log_error_errno(r, "Failed to set the tick: %m");
        manager_watch_runs(m);
        tick(m);
        return 0;
}

int manager_reload(Manager *m, char **ret_message) {
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
        level = log_level_from_string(m->config->log_level);
        if (level >= 0)
                log_set_max_level(level);
        m->machine_stale = true;
        forget_scopes(m); /* weights, devices and housekeeping may be others now */
        r = manager_look(m, &message);
        if (r < 0)
                log_warning("The new configuration is in force, but the host could not be read: %s",
                            message ? message : strerror(-r));
        manager_tick_soon(m);
        return 0;
}

int manager_stop(Manager *m, bool revert) {
        Outcome outcome = {};
        int r;

        (void) sd_event_source_set_enabled(m->timer, SD_EVENT_OFF);
        manager_cancel(m);
        if (!revert)
                return 0;
        r = enforce_revert(m->enforcer, NULL, &outcome);
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
