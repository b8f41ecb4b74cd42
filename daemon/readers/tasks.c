/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that matter, in three passes: every process of /proc (tasks-scan.c), families of the candidates
 * (tasks-family.c), then here what there is to know of each that is a task: threads, masks, cgroup facts, children.
 * CPU use is counted over a window of at least USE_WINDOW_USEC between two reads; the times at its start are kept.
 */
#include "daemon/readers/tasks-internal.h"

#include <errno.h>
#include <math.h>

#include "common/clock.h"
#include "common/fileio.h"
#include "common/text.h"

#define USE_WINDOW_USEC UINT64_C(200000) /* CPU times count in 10 ms: over less than this they say nothing */

/* ---- the reader ---- */

int task_reader_new(const char *root, TaskReader **ret) {
        _cleanup_(task_reader_freep) TaskReader *r = calloc(1, sizeof(*r));
        int k;

        if (!r)
                return -ENOMEM;
        r->proc_fd = -1;
        r->root = strdup(root);
        if (!r->root)
                return -ENOMEM;
        r->proc_fd = proc_open(root);
        if (r->proc_fd < 0)
                return r->proc_fd;
        k = cgroups_read(root, &r->cgroups);
        if (k < 0 && k != -ENOENT)
                return k;
        *ret = TAKE_PTR(r);
        return 0;
}

TaskReader *task_reader_free(TaskReader *r) {
        if (!r)
                return NULL;
        if (r->proc_fd >= 0)
                (void) close(r->proc_fd);
        cgroups_done(&r->cgroups);
        free(r->seen);
        free(r->root);
        free(r);
        return NULL;
}

const Cgroups *task_reader_cgroups(const TaskReader *r) {
        return &r->cgroups;
}

/* ---- third pass: tasks ---- */

static int add_thread(const Pass *x, pid_t pid, pid_t tid, Task *t) {
        ProcStatus s = {};
        int r;

        if (*x->reader->root)
                r = proc_read_status(x->reader->proc_fd, pid, tid, &s);
        else
                r = bitset_getaffinity(tid, &s.cpus); /* a tenth of the price of reading status */
        if (r >= 0) {
                r = bitset_or(&t->cpus, &s.cpus);
                t->threads++;
        }
        proc_status_done(&s);
        return r == -ENOMEM ? r : 0; /* ended meanwhile */
}

static int read_threads(const Pass *x, Task *t) {
        _cleanup_free_ int *tids = NULL;
        char path[32];
        size_t n;
        int r;

        (void) snprintf(path, sizeof(path), "%d/task", (int) t->pid);
        r = proc_list(x->reader->proc_fd, path, &tids, &n);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = add_thread(x, t->pid, tids[i], t);
        if (r < 0)
                return r;
        return t->threads == 0 ? -ESRCH : 0;
}

static int copy_string(char **to, const char *from) {
        *to = from ? strdup(from) : NULL;
        return from && !*to ? -ENOMEM : 0;
}

/* Whether a group is one process's alone can be told only from a list of all that is in it, which the legacy hierarchy
 * sorts anew for each who asks: so its other tasks do not ask. */
static int read_memory(Pass *x, const CgroupInfo *g, Task *t) {
        int r;

        if (same_text(x->crowd, g->memory_directory))
                return 0;
        r = cgroup_memory_by_node(&x->reader->cgroups, g, x->snapshot->topology, &t->memory_by_node);
        if (r != -ENODATA || !g->memory_directory)
                return r == -ENOMEM ? r : 0;
        free(x->crowd);
        return copy_string(&x->crowd, g->memory_directory);
}

static int read_group(Pass *x, Task *t) {
        const Topology *topology = x->snapshot->topology;
        const CgroupInfo *g;
        int r;

        r = cgroup_recall(&x->reader->cgroups, x->reader->root, t->pid, &x->group, &g);
        if (r < 0)
                return r;
        /* A group of ours follows the plan, within what the one above it allows. */
        r = bitset_copy(&t->allowed_cpus, !bitset_isempty(&g->outer_cpus) ? &g->outer_cpus
                                          : bitset_isempty(&g->cpus)      ? &topology->online
                                                                          : &g->cpus);
        if (r >= 0) {
                bitset_and(&t->allowed_cpus, &topology->online);
                t->quota = g->quota;
                t->request = g->request;
                t->owner_kind = g->owner_kind;
                r = copy_string(&t->quota_group, g->quota_group);
        }
        if (r >= 0)
                r = copy_string(&t->cgroup, g->path);
        if (r >= 0)
                r = copy_string(&t->owner, g->owner);
        return r < 0 ? r : read_memory(x, g, t);
}

static unsigned *copy_numbers(const unsigned *from, size_t n) {
        unsigned *to = calloc(n, sizeof(unsigned));

        if (to)
                memcpy(to, from, n * sizeof(unsigned));
        return to;
}

static const char *job_of(const Pass *x, const Proc *p) {
        if (p->extra >= 0 && x->params->extra_jobs && x->params->extra_jobs[p->extra])
                return x->params->extra_jobs[p->extra];
        return p->heir_job;
}

static int fill_task(Pass *x, const Proc *p, Task *t) {
        ProcStatus status;
        int r;

        t->pid = p->stat.pid;
        t->start_time = p->stat.start_time;
        t->rank = p->rank;
        t->cpu_use = x->seen[p - x->procs].use;
        if (copy_string(&t->name, p->stat.comm) < 0 || copy_string(&t->comm, p->stat.comm) < 0 ||
            copy_string(&t->cmdline, strempty(p->cmdline)) < 0 || copy_string(&t->job, job_of(x, p)) < 0 ||
            copy_string(&t->ranks, p->heir_ranks) < 0)
                return -ENOMEM;
        if (p->holding.n_devices > 0) {
                t->devices = copy_numbers(p->holding.devices, p->holding.n_devices);
                if (!t->devices)
                        return -ENOMEM;
                t->n_devices = p->holding.n_devices;
        }
        r = proc_read_status(x->reader->proc_fd, t->pid, 0, &status);
        if (r < 0)
                return r;
        t->uid = status.uid;
        r = bitset_copy(&t->mems, &status.mems);
        proc_status_done(&status);
        if (r >= 0)
                r = read_threads(x, t);
        return r < 0 ? r : read_group(x, t);
}

static int add_task(Pass *x, Proc *p) {
        Snapshot *s = x->snapshot;
        Task *t = snapshot_add_task(s);
        int r;

        if (!t)
                return -ENOMEM;
        r = fill_task(x, p, t);
        if (r >= 0) {
                p->task = s->n_tasks - 1;
                return 0;
        }
        task_done(t);
        s->n_tasks--;
        return r == -ENOMEM ? r : 0; /* gone */
}

/* The task that p is below of; NULL none. */
static const Proc *task_above(const Pass *x, const Proc *p) {
        const Proc *a = p;

        for (unsigned depth = 0; (a = tasks_ancestor(x, a)) && depth < TASKS_DEPTH_MAX; depth++)
                if (a->task != SIZE_MAX)
                        return a;
        return NULL;
}

static int add_child(Task *t, const ProcStat *s) {
        Process *p = reallocarray(t->children, t->n_children + 1, sizeof(*p));

        if (!p)
                return -ENOMEM;
        t->children = p;
        t->children[t->n_children++] = (Process){ .pid = s->pid, .start_time = s->start_time };
        return 0;
}

/* A rank that another rank started (some launchers are rank 0 themselves) is beside it, not below it. */
static bool ranks_apart(const Proc *p, const Proc *above) {
        return p->rank >= 0 && p->rank != above->rank && above->holding.compute && p->holding.compute;
}

static const char *whose(const Pass *x, const Proc *p) {
        const char *job = job_of(x, p);

        return job || p->job < 0 ? job : x->params->jobs[p->job]->name;
}

/* p is a task, but not a rank beside the one above: where that one goes it goes too. */
static bool goes_along(const Pass *x, const Proc *p, const Proc *above) {
        const char *job = whose(x, p);

        if (p->rank >= 0 && p->rank != above->rank)
                return false;
        return !job || same_text(job, whose(x, above));
}

static int link_up(Pass *x, const Proc *p) {
        const Proc *below = p, *above = task_above(x, p);
        double use = x->seen[p - x->procs].use;

        if (p->stat.pid == getpid()) /* nor do we go along with who started us */
                return 0;
        if (p->task != SIZE_MAX && above && !ranks_apart(p, above))
                x->snapshot->tasks[p->task].parent_task = above->stat.pid;
        for (unsigned depth = 0; above && depth < TASKS_DEPTH_MAX; depth++) {
                Task *t = x->snapshot->tasks + above->task;
                int r;

                if (below->task != SIZE_MAX && !goes_along(x, below, above))
                        break;
                r = add_child(t, &p->stat);
                if (r < 0)
                        return r;
                if (!isnan(use) && !isnan(t->cpu_use))
                        t->cpu_use += use;
                below = above;
                above = task_above(x, above);
        }
        return 0;
}

static int link_families(Pass *x) {
        int r = 0;

        for (size_t i = 0; i < x->n_procs && r >= 0; i++) {
                const Proc *p = x->procs + i;

                if (!p->stat.kernel && !p->launcher && (!p->ignored || p->candidate))
                        r = link_up(x, p);
        }
        return r;
}

/* A pod's request and a group's quota are for all ranks in it: each is owed its share. The two need not be the same
 * group: on the legacy hierarchy each controller has a tree of its own. */
static bool shares_request(const Task *a, const Task *b) {
        return b->parent_task == 0 && a->owner_kind == b->owner_kind &&
               (same_text(a->owner, b->owner) || same_text(a->cgroup, b->cgroup));
}

static bool shares_quota(const Task *a, const Task *b) {
        return b->parent_task == 0 && same_text(a->quota_group, b->quota_group);
}

static void share_promises(Snapshot *s, size_t first) {
        for (size_t i = first; i < s->n_tasks; i++) {
                unsigned quota = 0, request = 0;

                for (size_t k = first; k < s->n_tasks; k++) {
                        quota += shares_quota(s->tasks + i, s->tasks + k);
                        request += shares_request(s->tasks + i, s->tasks + k);
                }
                s->tasks[i].quota /= MAX(quota, 1U);
                s->tasks[i].request /= MAX(request, 1U);
        }
}

static int make_tasks(Pass *x) {
        size_t first = x->snapshot->n_tasks;
        int r = 0;

        for (size_t i = 0; i < x->n_procs && r >= 0; i++)
                if (x->procs[i].candidate && !x->procs[i].launcher && !x->procs[i].copy)
                        r = add_task(x, x->procs + i);
        if (r >= 0)
                r = link_families(x);
        if (r >= 0)
                share_promises(x->snapshot, first);
        return r;
}

static int warn_denied(const Pass *x) {
        size_t n = 0;

        for (size_t i = 0; i < x->n_procs; i++)
                n += x->seen[i].denied;
        if (n == 0)
                return 0;
        return strv_extendf(&x->snapshot->warnings,
                            "The open files of %zu process%s may not be read without root: "
                            "which devices %s is not known",
                            n, n > 1 ? "es" : "", n > 1 ? "they hold" : "it holds");
}

/* ---- all of it ---- */

static uint64_t read_uptime(const TaskReader *r) {
        _cleanup_free_ char *line = NULL;

        if (!*r->root)
                return clock_usec(CLOCK_BOOTTIME);
        return read_line_at(r->proc_fd, "uptime", &line) < 0 ? 0 : (uint64_t) (strtod(line, NULL) * 1e6);
}

static void start_window(Pass *x) {
        TaskReader *r = x->reader;

        x->now_usec = clock_monotonic_usec();
        x->uptime_usec = read_uptime(r);
        x->new_window = r->window_usec == 0 ||
                        (!x->params->keep_use && x->now_usec - r->window_usec >= USE_WINDOW_USEC);
        x->window = r->window_usec == 0 ? NAN : (double) (x->now_usec - r->window_usec) / 1e6;
}

static void pass_done(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                holding_done(&x->procs[i].holding);
                free(x->procs[i].cmdline);
        }
        free(x->procs);
        free(x->order);
        free(x->crowd);
        cgroup_memo_done(&x->group);
        node_table_done(&x->nodes);
}

static void keep_seen(Pass *x) {
        TaskReader *r = x->reader;

        free(r->seen);
        r->seen = x->seen;
        r->n_seen = x->n_procs;
        if (x->new_window)
                r->window_usec = x->now_usec;
}

int tasks_read(TaskReader *r, const TaskReadParams *p, Snapshot *s) {
        Pass x = { .reader = r, .params = p, .snapshot = s };
        int k;

        start_window(&x);
        k = node_table_read(r->root, p->node_globs, s, &x.nodes);
        if (k >= 0) {
                tasks_forget_answers(&x);
                k = tasks_scan(&x);
        }
        if (k >= 0) {
                keep_seen(&x);
                k = tasks_sort_families(&x);
        } else
                free(x.seen);
        if (k >= 0)
                k = make_tasks(&x);
        if (k >= 0)
                k = warn_denied(&x);
        snapshot_sort(s);
        pass_done(&x);
        return k;
}
