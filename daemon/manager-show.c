/* SPDX-License-Identifier: Apache-2.0 */
/* What the manager tells without changing anything, as JSON: status, explain, record. Shapes: daemon/bus.h. */
#include <errno.h>

#include "common/json.h"
#include "common/log.h"
#include "daemon/manager-internal.h"
#include "policy/record.h"

#define MEMORY_BUDGET_USEC 50000U /* of one call of Explain */

static json_t *show_task(const Snapshot *s, const Task *t) {
        json_t *j = record_task(s, t);

        if (!j)
                return NULL;
        (void) json_object_set_new(j, "owner", t->owner ? json_string(t->owner) : json_null());
        (void) json_object_set_new(j, "owner_kind", json_string(owner_names[t->owner_kind]));
        (void) json_object_set_new(j, "applied", json_boolean(t->applied));
        return j;
}

static json_t *show_machine(const Manager *m, const Topology *t) {
        static const Bitset none = {};

        return json_pack("{s:s,s:I,s:I,s:o,s:o,s:o,s:o}", "source", strempty(t->source), "cpus", (json_int_t) t->n_cpus,
                         "nodes", (json_int_t) t->n_nodes, "online", json_bitset(&t->online), "allowed",
                         json_bitset(&t->allowed), "isolated", json_bitset(&t->isolated), "housekeeping",
                         json_bitset(m->plan ? &m->plan->housekeeping : &none));
}

static json_t *show_job(const Manager *m, const AppliedJob *j) {
        unsigned matched = 0;

        for (size_t i = 0; m->snapshot && i < m->snapshot->n_tasks; i++)
                matched += m->snapshot->tasks[i].job && streq(m->snapshot->tasks[i].job, j->job->name);
        return json_pack("{s:s,s:I,s:I,s:I,s:I,s:b,s:b}", "name", j->job->name, "priority",
                         (json_int_t) j->job->priority, "ranks", (json_int_t) job_count(j->job, NULL), "matched",
                         (json_int_t) matched, "uid", (json_int_t) j->uid, "confined", (int) j->confined, "run",
                         (int) j->run);
}

static json_t *show_drifted(const Drift *d) {
        json_t *j = json_pack("{s:s,s:o,s:s,s:s,s:o*,s:o*,s:s}", "job", d->job, "comm", json_text(d->comm), "expected",
                              d->expected, "found", d->found, "author", d->author ? json_text(d->author) : NULL, "hint",
                              d->hint ? json_text(d->hint) : NULL, "done", drift_act_names[d->act]);
        int r = j ? 0 : -1;

        if (r >= 0 && d->device)
                r = json_object_set_new(j, "irq", json_integer(d->irq)) |
                    json_object_set_new(j, "device", json_string(d->device));
        else if (r >= 0)
                r = json_object_set_new(j, "pid", json_integer(d->process.pid)) |
                    (d->path ? json_object_set_new(j, "path", json_text(d->path))
                             : json_object_set_new(j, "tid", json_integer(d->tid)));
        if (r >= 0)
                return j;
        json_decref(j);
        return NULL;
}

static bool is_of_rank(const Drift *d, const PlanTask *t) {
        bool is = d->process.pid == t->process.pid && d->process.start_time == t->process.start_time;

        for (size_t i = 0; !is && i < t->n_children; i++)
                is = d->process.pid == t->children[i].pid && d->process.start_time == t->children[i].start_time;
        return is && d->process.pid > 0;
}

/* Of this rank; NULL: all. */
static json_t *show_drift(const Manager *m, const PlanTask *t) {
        json_t *a = json_array();

        for (size_t i = 0; a && i < m->n_drift; i++)
                if (!t || is_of_rank(&m->drift[i], t))
                        (void) json_array_append_new(a, show_drifted(&m->drift[i]));
        return a;
}

static json_t *show_irqs(const Manager *m) {
        json_t *a = NULL;

        return irq_statuses_to_json(m->irqs, &a) < 0 ? NULL : a;
}

static json_t *show_warnings(const Manager *m) {
        char *const *const lists[] = { m->unfit, m->snapshot ? m->snapshot->warnings : NULL,
                                       collector_topology(m->collector)->warnings };
        json_t *a = json_array();

        for (size_t i = 0; i < ELEMENTSOF(lists); i++)
                for (char *const *s = lists[i]; a && s && *s; s++)
                        (void) json_array_append_new(a, json_string(*s));
        return a;
}

/* Which CPUs the threads of each placed rank have, by role. */
void manager_show_roles(const Manager *m, const Plan *plan, json_t *printed) {
        json_t *list = json_object_get(printed, "tasks"), *roles;

        for (size_t i = 0; i < plan->n_tasks; i++)
                if (plan->tasks[i].process.pid > 0 &&
                    enforcer_split_to_json(m->enforcer, plan->tasks[i].process, &roles) >= 0)
                        (void) json_object_set_new(json_array_get(list, i), "roles", roles);
}

int manager_status(Manager *m, json_t **ret) {
        json_t *devices = json_array(), *tasks = json_array(), *jobs = json_array(), *plan = NULL, *root;
        const Snapshot *s;
        int r;

        manager_look_again(m);
        s = m->snapshot;
        for (size_t i = 0; s && i < s->n_devices; i++)
                (void) json_array_append_new(devices, record_device(s, &s->devices[i]));
        for (size_t i = 0; s && i < s->n_tasks; i++)
                (void) json_array_append_new(tasks, show_task(s, &s->tasks[i]));
        for (size_t i = 0; i < m->jobs->n_jobs; i++)
                (void) json_array_append_new(jobs, show_job(m, m->jobs->jobs[i]));
        r = m->plan ? plan_to_json(m->plan, &plan) : 0;
        if (r < 0)
                log_debug("The plan in force cannot be shown: %s", strerror(-r));
        else if (plan)
                manager_show_roles(m, m->plan, plan);
        root = json_pack(
                "{s:s,s:I,s:s,s:s,s:I,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:o,s:o,s:o,s:o,s:o}", "version", PACKAGE_VERSION,
                "pid", (json_int_t) getpid(), "state", worker_busy(m->worker) ? "solving" : "idle", "cgroup",
                cgroup_mode_names[collector_cgroups(m->collector)->mode], "interval_us",
                (json_int_t) m->config->interval_usec, "machine", show_machine(m, collector_topology(m->collector)),
                "devices", devices, "tasks", tasks, "jobs", jobs, "plan", plan ? plan : json_null(), "last_change",
                (json_int_t) m->last_change, "ticks", (json_int_t) m->ticks, "queued", (json_int_t) m->n_queued,
                "drift", show_drift(m, NULL), "interrupts", show_irqs(m), "moves", manager_show_moves(m), "walls",
                manager_show_walls(m), "warnings", show_warnings(m));
        if (!root)
                return -ENOMEM;
        *ret = root;
        return 0;
}

int manager_record(Manager *m, json_t **ret, char **ret_message) {
        const char *xml;
        int r;

        manager_look_again(m);
        if (!m->snapshot)
                return text_fail(-EAGAIN, ret_message, "The host has not been read yet");
        r = collector_xml(m->collector, &xml, ret_message);
        if (r < 0)
                return r;
        return record_from_snapshot(m->snapshot, xml, ret);
}

static json_t *show_energy(const PlanEnergy *e) {
        json_t *terms;

        if (!e->known)
                return json_null();
        terms = json_object();
        for (size_t i = 0; terms && placement_terms[i].name; i++)
                (void) json_object_set_new(terms, placement_terms[i].name, json_real(e->terms[i]));
        return json_pack("{s:f,s:o}", "total", e->total, "terms", terms);
}

static json_t *show_terms(const Manager *m) {
        json_t *a = json_array();

        for (size_t i = 0; a && placement_terms[i].name; i++) {
                const PlacementTerm *t = &placement_terms[i];

                (void) json_array_append_new(
                        a,
                        json_pack("{s:s,s:s,s:s,s:f,s:o,s:s}", "name", t->name, "group", term_group_names[t->group],
                                  "unit", strempty(t->unit), "weight", m->config->weights.term[i], "value",
                                  m->plan && m->plan->energy.known ? json_real(m->plan->energy.terms[i]) : json_null(),
                                  "help", strempty(t->help)));
        }
        return a;
}

static json_t *show_weights(const Manager *m) {
        const double *g = m->config->weights.group;

        return json_pack("{s:f,s:f,s:f,s:f}", "alpha", g[TERM_RESOURCE], "beta", g[TERM_TIME], "gamma", g[TERM_COST],
                         "delta", g[TERM_COMPAT]);
}

typedef struct Explain {
        Manager *m;
        const Caller *caller;
        const char *what;
        pid_t pid;      /* what, when it is one */
        uint64_t until; /* monotonic: numa_maps is read no longer */
        json_t *tasks;
} Explain;

static json_t *nodes_json(const Topology *t, const uint64_t *bytes) {
        json_t *o = json_object();

        for (unsigned i = 0; o && i < t->n_nodes; i++) {
                char node[16];

                (void) snprintf(node, sizeof(node), "%u", t->nodes[i].os);
                (void) json_object_set_new(o, node, json_integer((json_int_t) MIN(bytes[i], (uint64_t) INT64_MAX)));
        }
        return o;
}

/* numa_maps makes the kernel walk the page tables of the process while it cannot map memory: so only on demand, only for
 * who might read it without us, and not for long. */
static void add_memory(const Explain *x, json_t *task, const Task *t) {
        const Topology *topology = collector_topology(x->m->collector);
        _cleanup_free_ uint64_t *bytes = NULL;
        uint64_t now = now_monotonic();
        int r = -EACCES;

        if ((x->caller->authorised || x->caller->uid == t->uid) && process_is(t->pid, t->start_time) == 1)
                r = now >= x->until ? -ETIME : process_memory_by_node(t->pid, topology, x->until - now, &bytes);
        (void) json_object_set_new(task, "memory_by_node", r < 0 ? json_null() : nodes_json(topology, bytes));
        (void) json_object_set_new(task, "memory_complete", json_boolean(r == 0)); /* 1: the time was up */
}

/* One task of the plan in force: the element that Plan prints, and beside it why and what is true now. */
static json_t *explain_planned(const Explain *x, const PlanTask *p, json_t *printed) {
        const Snapshot *s = x->m->snapshot;
        const Task *t = p->process.pid > 0 && s ? snapshot_task(s, p->process.pid) : NULL;
        json_t *j = json_deep_copy(printed);

        if (!j)
                return NULL;
        (void) json_object_set_new(j, "pid", json_integer(p->process.pid));
        (void) json_object_set_new(j, "job", json_string(p->job));
        (void) json_object_set_new(j, "energy", show_energy(&p->energy));
        (void) json_object_set_new(j, "reasons", json_strv(p->reasons));
        (void) json_object_set_new(j, "now", t ? show_task(s, t) : json_null());
        if (t) {
                add_memory(x, j, t);
                (void) json_object_set_new(j, "moves", manager_explain_moves(x->m, p));
                (void) json_object_set_new(j, "drift", show_drift(x->m, p));
        }
        return j;
}

static json_t *explain_foreign(const Explain *x, const Task *t) {
        _cleanup_free_ char *cpus = NULL, *mems = NULL;
        json_t *reasons = json_array(), *devices = json_array(), *j;

        if (!reasons || !devices || bitset_format(&t->cpus, &cpus) < 0 || bitset_format(&t->mems, &mems) < 0)
                return NULL;
        for (size_t i = 0; i < t->n_devices; i++)
                (void) json_array_append_new(devices, json_string(x->m->snapshot->devices[t->devices[i]].name));
        (void) json_array_append_new(
                reasons, json_string("no applied job has a rank for this process: qschedd did not place it, and "
                                     "counts its CPUs as taken by somebody else"));
        j = json_pack("{s:s,s:I,s:o,s:s,s:s,s:s,s:o,s:n,s:o,s:o}", "name", t->name ? t->name : t->comm, "pid",
                      (json_int_t) t->pid, "device", devices, "cpus", cpus, "mems", mems, "irq_cpus", "", "job",
                      t->job ? json_string(t->job) : json_null(), "energy", "reasons", reasons, "now",
                      show_task(x->m->snapshot, t));
        if (j)
                add_memory(x, j, t);
        return j;
}

static bool is_meant(const PlanTask *p, const char *what, pid_t pid) {
        if (streq(p->name, what) || streq(p->job, what))
                return true;
        for (size_t i = 0; pid > 0 && i < p->n_children; i++)
                if (p->children[i].pid == pid)
                        return true;
        return pid > 0 && p->process.pid == pid;
}

static int explain_tasks(const Explain *x) {
        const Snapshot *s = x->m->snapshot;
        const Plan *plan = x->m->plan;
        json_t *printed = NULL, *list;
        int r;

        r = plan ? plan_to_json(plan, &printed) : 0;
        if (r < 0)
                return r;
        if (plan)
                manager_show_roles(x->m, plan, printed);
        list = json_object_get(printed, "tasks");
        for (size_t i = 0; plan && i < plan->n_tasks; i++)
                if (is_meant(&plan->tasks[i], x->what, x->pid))
                        (void) json_array_append_new(x->tasks,
                                                     explain_planned(x, &plan->tasks[i], json_array_get(list, i)));
        json_decref(printed);
        for (size_t i = 0; json_array_size(x->tasks) == 0 && s && i < s->n_tasks; i++) {
                const Task *t = &s->tasks[i];

                if ((x->pid > 0 && t->pid == x->pid) || (t->name && streq(t->name, x->what)))
                        (void) json_array_append_new(x->tasks, explain_foreign(x, t));
        }
        return 0;
}

int manager_explain(Manager *m, const Caller *c, const char *what, json_t **ret, char **ret_message) {
        json_t *tasks = json_array(), *root;
        Explain x = { .m = m, .caller = c, .what = what, .tasks = tasks };
        int r;

        if (!tasks)
                return -ENOMEM;
        (void) text_parse_pid(what, &x.pid);
        manager_look_again(m);
        x.until = now_monotonic() + MEMORY_BUDGET_USEC;
        r = explain_tasks(&x);
        if (r >= 0 && json_array_size(tasks) == 0)
                r = text_fail(
                        -ESRCH, ret_message,
                        job_store_find(m->jobs, what)
                                ? "Job \"%s\" is applied, but no plan for it is in force yet"
                                : "There is no task, process or applied job \"%s\" that qschedd knows (a task is named JOB/RANK; "
                                  "`qschedctl status` lists them)",
                        what);
        if (r < 0) {
                json_decref(tasks);
                return r;
        }
        root = json_pack("{s:o,s:o,s:o}", "tasks", tasks, "terms", show_terms(m), "weights", show_weights(m));
        if (!root)
                return -ENOMEM;
        *ret = root;
        return 0;
}
