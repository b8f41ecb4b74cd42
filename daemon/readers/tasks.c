/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over /proc: stat of every process, and for those that may matter their open files and what a Match= asks.
 * Candidates (holders of a compute node, matched, given) then become tasks, unless they are
 *   a launcher  found only by its command line, holding nothing, above processes that are the real thing (torchrun, a
 *               shell whose -c text contains the pattern, a parent that spawned the holders): no task at all;
 *   a copy      forked from a task and holding nothing more (a data loader inherits command line and descriptors): one
 *               of its children, like every other descendant.
 *
 * A look that found nothing is not repeated for LOOK_AGAIN_USEC once a process is older than YOUNG_USEC: most of a
 * host's processes never open a device, and a rank does so in its first minute. The list of what was seen, sorted by
 * pid as /proc is, also keeps the CPU times from which use is counted.
 */
#include "daemon/readers/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <math.h>
#include <time.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/process.h"
#include "daemon/readers/rank-identity.h"
#include "daemon/readers/task-devices.h"

#define YOUNG_USEC (60 * UINT64_C(1000000))
#define LOOK_AGAIN_USEC (10 * UINT64_C(1000000))
#define USE_WINDOW_USEC UINT64_C(200000) /* CPU times count in 10 ms: over less than this they say nothing */
#define ENVIRON_MAX (4U << 20)
#define DEPTH_MAX 128U

typedef struct Seen { /* kept from read to read */
        pid_t pid;
        uint64_t start_time;
        uint64_t ticks; /* CPU time at the start of the window */
        double use;     /* NAN unknown */
        uint64_t look_usec; /* not before; 0: at once */
        bool denied;
} Seen;

struct TaskReader {
        char *root;
        int proc_fd;
        Cgroups cgroups;
        uint64_t jobs_hash;
        uint64_t window_usec; /* when the CPU times were taken */
        Seen *seen;
        size_t n_seen;
};

typedef struct Proc { /* one process during a read */
        ProcStat stat;
        int parent; /* index; -1 none */
        int extra;  /* index into the given ones; -1 no */
        int job, section; /* whose own Match= it fits; -1 none */
        bool by_pid;
        bool ignored;
        bool looked, denied;
        bool candidate, launcher, copy;
        Holding holding;
        char *cmdline;
        int rank;
        const char *heir_job, *heir_ranks; /* borrowed: belongs to its ancestor's job */
        bool task;
} Proc;

typedef struct Pass { /* what one read works on */
        TaskReader *reader;
        const TaskReadParams *params;
        Snapshot *snapshot;
        NodeTable nodes;
        size_t *order; /* jobs by falling priority */
        bool ask_cmdline, ask_group;
        uint64_t now_usec, uptime_usec;
        double window; /* seconds since the CPU times were taken; NAN first read */
        bool new_window;
        Proc *procs;
        size_t n_procs;
        Seen *seen;
} Pass;

static uint64_t clock_usec(clockid_t clock) {
        struct timespec ts;

        (void) clock_gettime(clock, &ts);
        return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

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

static Seen *find_seen(Seen *list, size_t n, pid_t pid) {
        size_t low = 0, high = n;

        while (low < high) {
                size_t mid = (low + high) / 2;

                if (list[mid].pid < pid)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < n && list[low].pid == pid ? list + low : NULL;
}

static int find_proc(const Pass *x, pid_t pid) {
        size_t low = 0, high = x->n_procs;

        while (low < high) {
                size_t mid = (low + high) / 2;

                if (x->procs[mid].stat.pid < pid)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < x->n_procs && x->procs[low].stat.pid == pid ? (int) low : -1;
}

/* ---- what is asked for ---- */

static uint64_t hash_string(uint64_t h, const char *s) {
        for (s = strempty(s); *s; s++)
                h = (h ^ (unsigned char) *s) * UINT64_C(1099511628211);
        return (h ^ 0xff) * UINT64_C(1099511628211);
}

static uint64_t hash_params(const TaskReadParams *p) {
        uint64_t h = UINT64_C(14695981039346656037);

        for (size_t j = 0; j < p->n_jobs; j++)
                for (size_t k = 0; k < p->jobs[j]->n_ranks; k++) {
                        const Match *m = p->jobs[j]->ranks[k].match;

                        if (!m)
                                continue;
                        h = hash_string(h ^ m->kind, m->pattern);
                        for (size_t i = 0; i < m->n_pids; i++)
                                h = (h ^ (uint64_t) m->pids[i]) * UINT64_C(1099511628211);
                }
        for (char *const *g = p->node_globs; g && *g; g++)
                h = hash_string(h, *g);
        for (char *const *g = p->ignore; g && *g; g++)
                h = hash_string(h, *g);
        return h;
}

static int by_priority(const void *a, const void *b, void *userdata) {
        const Job *const *jobs = userdata;
        size_t x = *(const size_t *) a, y = *(const size_t *) b;

        if (jobs[x]->priority != jobs[y]->priority)
                return -CMP(jobs[x]->priority, jobs[y]->priority);
        return CMP(x, y);
}

static int order_jobs(Pass *x) {
        const TaskReadParams *p = x->params;

        x->order = calloc(MAX(p->n_jobs, (size_t) 1), sizeof(size_t));
        if (!x->order)
                return -ENOMEM;
        for (size_t j = 0; j < p->n_jobs; j++) {
                x->order[j] = j;
                for (size_t k = 0; k < p->jobs[j]->n_ranks; k++) {
                        const Match *m = p->jobs[j]->ranks[k].match;

                        x->ask_cmdline |= m && m->kind == MATCH_CMDLINE;
                        x->ask_group |= m && (m->kind == MATCH_CGROUP || m->kind == MATCH_UNIT);
                }
        }
        qsort_r(x->order, p->n_jobs, sizeof(size_t), by_priority, (void *) p->jobs);
        return 0;
}

/* qschedctl's own command line names the job file, which is often named like the job. */
static bool is_ignored(const TaskReadParams *p, const ProcStat *s) {
        static const char *const own[] = { "qschedd", "qschedctl", "qsched-smi", "qsched-cluster" };

        if (s->pid == getpid())
                return true;
        for (size_t i = 0; i < ELEMENTSOF(own); i++)
                if (streq(s->comm, own[i]))
                        return true;
        for (char *const *g = p->ignore; g && *g; g++)
                if (fnmatch(*g, s->comm, 0) == 0)
                        return true;
        return false;
}

static void match_jobs(const Pass *x, Proc *p, const Task *t) {
        for (size_t i = 0; i < x->params->n_jobs; i++) {
                const Job *j = x->params->jobs[x->order[i]];

                for (size_t k = 0; k < j->n_ranks; k++) {
                        const Match *m = j->ranks[k].match;

                        if (!m || (p->ignored && m->kind != MATCH_PID) || !match_task(m, t))
                                continue;
                        p->job = (int) x->order[i];
                        p->section = (int) k;
                        p->by_pid = m->kind == MATCH_PID;
                        return;
                }
        }
}

/* ---- first pass: every process ---- */

/* -ESRCH when it is gone; what may not be read counts as absent. */
static int look(Pass *x, Proc *p) {
        Task t = { .pid = p->stat.pid, .comm = p->stat.comm };
        CgroupInfo group = {};
        int r = 0;

        p->looked = true;
        if (!p->ignored && !node_table_empty(&x->nodes)) {
                r = holding_read(&x->nodes, x->reader->proc_fd, p->stat.pid, &p->holding);
                p->denied = r == -EACCES;
                if (r == -ESRCH || r == -ENOMEM)
                        return r;
        }
        if (x->ask_cmdline && !p->ignored) {
                r = proc_read_cmdline(x->reader->proc_fd, p->stat.pid, &p->cmdline);
                if (r == -ESRCH || r == -ENOMEM)
                        return r;
        }
        if (x->ask_group && !p->ignored) {
                r = cgroup_of_pid(&x->reader->cgroups, x->reader->root, p->stat.pid, &group);
                if (r == -ESRCH || r == -ENOMEM)
                        return r;
        }
        t.cmdline = p->cmdline;
        t.cgroup = group.path;
        t.owner = group.owner;
        match_jobs(x, p, &t);
        cgroup_info_done(&group);
        return 0;
}

static bool may_rest(const Pass *x, const Seen *old) {
        return old && x->now_usec < old->look_usec;
}

static uint64_t next_look(const Pass *x, const Proc *p) {
        uint64_t started = p->stat.start_time * 1000000 / (uint64_t) sysconf(_SC_CLK_TCK);

        if (x->uptime_usec < started + YOUNG_USEC)
                return 0;
        /* Spread over the interval, so that not every old process is looked at in the same tick. */
        return x->now_usec + LOOK_AGAIN_USEC / 2 + (uint64_t) p->stat.pid * 7919 % (LOOK_AGAIN_USEC / 2);
}

static void count_use(const Pass *x, const Seen *old, const ProcStat *s, Seen *now) {
        now->ticks = s->utime + s->stime;
        now->use = NAN;
        if (old && !x->new_window) {
                now->ticks = old->ticks;
                now->use = old->use;
        } else if (!isnan(x->window)) {
                uint64_t before = old ? old->ticks : 0; /* not there before: all of it is new */
                double spent = now->ticks > before ? (double) (now->ticks - before) : 0;

                now->use = spent / (double) sysconf(_SC_CLK_TCK) / x->window;
        }
}

static int extra_of(const Pass *x, const ProcStat *s) {
        for (size_t i = 0; i < x->params->n_extra; i++)
                if (x->params->extra[i].pid == s->pid &&
                    (x->params->extra[i].start_time == 0 || x->params->extra[i].start_time == s->start_time))
                        return (int) i;
        return -1;
}

static int read_proc(Pass *x, pid_t pid) {
        Proc *p = x->procs + x->n_procs;
        Seen *now = x->seen + x->n_procs, *old;
        int r;

        *p = (Proc){ .parent = -1, .extra = -1, .job = -1, .section = -1, .rank = -1 };
        r = proc_read_stat(x->reader->proc_fd, pid, &p->stat);
        if (r == -ESRCH || r == -EBADMSG || r == -EACCES || proc_stat_dead(&p->stat))
                return 0;
        if (r < 0)
                return r;
        old = find_seen(x->reader->seen, x->reader->n_seen, pid);
        if (old && old->start_time != p->stat.start_time)
                old = NULL;
        p->ignored = is_ignored(x->params, &p->stat);
        p->extra = p->stat.kernel ? -1 : extra_of(x, &p->stat);
        *now = (Seen){ .pid = pid, .start_time = p->stat.start_time };
        count_use(x, old, &p->stat, now);
        if (!p->stat.kernel && (p->extra >= 0 || !may_rest(x, old))) {
                r = look(x, p);
                if (r == -ENOMEM)
                        return r;
                if (r == -ESRCH) {
                        holding_done(&p->holding);
                        free(p->cmdline);
                        return 0;
                }
        }
        p->candidate = p->extra >= 0 || p->job >= 0 || p->holding.compute;
        if (!p->candidate)
                now->look_usec = p->looked ? next_look(x, p) : old ? old->look_usec : 0;
        now->denied = p->looked ? p->denied : old && old->denied;
        x->n_procs++;
        return 0;
}

static int read_procs(Pass *x) {
        _cleanup_free_ int *pids = NULL;
        size_t n;
        int r;

        r = proc_list(x->reader->proc_fd, ".", &pids, &n);
        if (r < 0)
                return r;
        x->procs = calloc(n + 1, sizeof(Proc));
        x->seen = calloc(n + 1, sizeof(Seen));
        if (!x->procs || !x->seen)
                return -ENOMEM;
        for (size_t i = 0; i < n && r >= 0; i++)
                r = pids[i] > 0 ? read_proc(x, pids[i]) : 0;
        for (size_t i = 0; i < x->n_procs; i++)
                x->procs[i].parent = find_proc(x, x->procs[i].stat.parent);
        return r;
}

/* ---- second pass: families ---- */

/* The next process above p that is a candidate and not a copy; NULL none. */
static Proc *ancestor(const Pass *x, const Proc *p) {
        int i = p->parent;

        for (unsigned depth = 0; i >= 0 && depth < DEPTH_MAX; depth++, i = x->procs[i].parent)
                if (x->procs[i].candidate && !x->procs[i].copy)
                        return x->procs + i;
        return NULL;
}

static bool is_below(const Pass *x, const Proc *p, const Proc *top) {
        const Proc *a = p;

        for (unsigned depth = 0; (a = ancestor(x, a)) && depth < DEPTH_MAX; depth++)
                if (a == top)
                        return true;
        return false;
}

static bool holds_subset(const Proc *p, const Proc *of) {
        for (size_t i = 0; i < p->holding.n_devices; i++) {
                bool found = false;

                for (size_t k = 0; k < of->holding.n_devices; k++)
                        found |= of->holding.devices[k] == p->holding.devices[i];
                if (!found)
                        return false;
        }
        return !p->holding.compute || of->holding.compute;
}

static int read_candidate(Pass *x, Proc *p) {
        _cleanup_free_ char *block = NULL;
        size_t size;
        int r;

        if (!p->cmdline) {
                r = proc_read_cmdline(x->reader->proc_fd, p->stat.pid, &p->cmdline);
                if (r == -ENOMEM)
                        return r;
        }
        r = proc_read_text(x->reader->proc_fd, p->stat.pid, "environ", ENVIRON_MAX, &block, &size);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return 0; /* gone, or not ours: no rank is known */
        p->rank = environ_rank(block, size);
        return holding_apply_environ(&x->nodes, x->reader->proc_fd, p->stat.pid, block, size, &p->holding);
}

static bool same_text(const char *a, const char *b) {
        return a && b && streq(a, b);
}

static void mark_copies(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                Proc *p = x->procs + i, *a;

                if (!p->candidate || p->by_pid || !(a = ancestor(x, p)))
                        continue;
                bool forked = same_text(p->cmdline, a->cmdline) && holds_subset(p, a) && p->rank == a->rank;
                /* Noted by the undo journal because it was placed along with its parent. */
                bool noted = p->extra >= 0 && a->extra >= 0 && p->job < 0 && !p->holding.compute &&
                             same_text(strempty(x->params->extra_jobs ? x->params->extra_jobs[p->extra] : NULL),
                                       strempty(x->params->extra_jobs ? x->params->extra_jobs[a->extra] : NULL));
                p->copy = forked || noted;
        }
}

/* See the head of this file. A section of Count=1 wants the whole family as its one rank. */
static void mark_launchers(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                Proc *top = x->procs + i;
                unsigned matched = 0, holders = 0;

                if (!top->candidate || top->copy || top->job < 0 || top->by_pid || top->extra >= 0 || top->holding.compute)
                        continue;
                const Ranks *section = x->params->jobs[top->job]->ranks + top->section;
                for (size_t k = 0; k < x->n_procs; k++) {
                        const Proc *p = x->procs + k;

                        if (k == i || !p->candidate || p->copy || !is_below(x, p, top))
                                continue;
                        if (p->job == top->job)
                                matched += !same_text(p->cmdline, top->cmdline) || (p->rank >= 0 && p->rank != top->rank);
                        if (p->job < 0 || p->job == top->job)
                                holders += p->holding.compute;
                }
                top->launcher = matched > 0 || (holders > 1 && section->count != 1);
        }
}

/* Holders that fit no Match= of their own belong to the job of the nearest candidate above them. */
static void inherit_jobs(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                Proc *p = x->procs + i;
                const Proc *a = p;

                if (!p->candidate || p->copy || p->job >= 0 || p->extra >= 0)
                        continue;
                for (unsigned depth = 0; (a = ancestor(x, a)) && depth < DEPTH_MAX && !p->heir_job; depth++) {
                        if (a->extra >= 0 && x->params->extra_jobs)
                                p->heir_job = x->params->extra_jobs[a->extra];
                        if (!p->heir_job && a->job >= 0) {
                                p->heir_job = x->params->jobs[a->job]->name;
                                p->heir_ranks = x->params->jobs[a->job]->ranks[a->section].name;
                        }
                }
        }
}

static int sort_families(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++)
                if (x->procs[i].candidate) {
                        int r = read_candidate(x, x->procs + i);

                        if (r < 0)
                                return r;
                }
        mark_copies(x);
        mark_launchers(x);
        inherit_jobs(x);
        return 0;
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

static int read_group(const Pass *x, Task *t) {
        const Topology *topology = x->snapshot->topology;
        CgroupInfo g = {};
        int r;

        r = cgroup_of_pid(&x->reader->cgroups, x->reader->root, t->pid, &g);
        if (r < 0)
                return r;
        r = bitset_copy(&t->allowed_cpus, bitset_isempty(&g.cpus) ? &topology->online : &g.cpus);
        if (r >= 0) {
                bitset_and(&t->allowed_cpus, &topology->online);
                t->quota = g.quota;
                t->request = g.request;
                t->owner_kind = g.owner_kind;
                t->cgroup = TAKE_PTR(g.path);
                t->owner = TAKE_PTR(g.owner);
                if (cgroup_memory_by_node(&x->reader->cgroups, &g, topology, &t->memory_by_node) == -ENOMEM)
                        r = -ENOMEM;
        }
        cgroup_info_done(&g);
        return r;
}

static int copy_string(char **to, const char *from) {
        *to = from ? strdup(from) : NULL;
        return from && !*to ? -ENOMEM : 0;
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

static int fill_task(const Pass *x, const Proc *p, Task *t) {
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
        p->task = r >= 0;
        if (r >= 0)
                return 0;
        task_done(t);
        s->n_tasks--;
        return r == -ENOMEM ? r : 0; /* gone */
}

/* The task that p is below of; NULL none. */
static const Proc *task_above(const Pass *x, const Proc *p) {
        const Proc *a = p;

        for (unsigned depth = 0; (a = ancestor(x, a)) && depth < DEPTH_MAX; depth++)
                if (a->task)
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

static int link_families(Pass *x, size_t first) {
        Snapshot *s = x->snapshot;

        for (size_t i = 0; i < x->n_procs; i++) {
                const Proc *p = x->procs + i, *above;
                int r;

                if (p->stat.kernel || (p->ignored && !p->candidate) || !(above = task_above(x, p)))
                        continue;
                for (size_t k = first; k < s->n_tasks; k++) {
                        Task *t = s->tasks + k;

                        if (p->task && t->pid == p->stat.pid && !ranks_apart(p, above))
                                t->parent_task = above->stat.pid;
                        if (p->task || p->launcher || t->pid != above->stat.pid)
                                continue;
                        r = add_child(t, &p->stat);
                        if (r < 0)
                                return r;
                        double use = x->seen[i].use;
                        if (!isnan(use) && !isnan(t->cpu_use))
                                t->cpu_use += use;
                }
        }
        return 0;
}

/* A pod's request and a group's quota are for all ranks in it: each is owed its share. */
static bool share_group(const Task *a, const Task *b) {
        return b->parent_task == 0 && a->owner_kind == b->owner_kind &&
               (same_text(a->owner, b->owner) || same_text(a->cgroup, b->cgroup));
}

static int share_promises(Snapshot *s, size_t first) {
        _cleanup_free_ unsigned *sharers = calloc(s->n_tasks + 1, sizeof(unsigned));

        if (!sharers)
                return -ENOMEM;
        for (size_t i = first; i < s->n_tasks; i++)
                for (size_t k = first; k < s->n_tasks; k++)
                        sharers[i] += share_group(s->tasks + i, s->tasks + k);
        for (size_t i = first; i < s->n_tasks; i++)
                if (sharers[i] > 1) {
                        s->tasks[i].quota /= sharers[i];
                        s->tasks[i].request /= sharers[i];
                }
        return 0;
}

static int make_tasks(Pass *x) {
        size_t first = x->snapshot->n_tasks;
        int r = 0;

        for (size_t i = 0; i < x->n_procs && r >= 0; i++)
                if (x->procs[i].candidate && !x->procs[i].launcher && !x->procs[i].copy)
                        r = add_task(x, x->procs + i);
        if (r >= 0)
                r = link_families(x, first);
        if (r >= 0)
                r = share_promises(x->snapshot, first);
        return r;
}

static int warn_denied(const Pass *x) {
        size_t n = 0;

        for (size_t i = 0; i < x->n_procs; i++)
                n += x->seen[i].denied;
        if (n == 0)
                return 0;
        return strv_extendf(&x->snapshot->warnings, "The open files of %zu process%s may not be read without root: "
                            "which devices %s is not known", n, n > 1 ? "es" : "", n > 1 ? "they hold" : "it holds");
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

        x->now_usec = clock_usec(CLOCK_MONOTONIC);
        x->uptime_usec = read_uptime(r);
        x->new_window = r->window_usec == 0 || x->now_usec - r->window_usec >= USE_WINDOW_USEC;
        x->window = r->window_usec == 0 ? NAN : (double) (x->now_usec - r->window_usec) / 1e6;
}

static void pass_done(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                holding_done(&x->procs[i].holding);
                free(x->procs[i].cmdline);
        }
        free(x->procs);
        free(x->seen);
        free(x->order);
        node_table_done(&x->nodes);
}

int tasks_read(TaskReader *r, const TaskReadParams *p, Snapshot *s) {
        Pass x = { .reader = r, .params = p, .snapshot = s };
        uint64_t hash = hash_params(p);
        int k;

        start_window(&x);
        if (hash != r->jobs_hash) /* other questions: old answers do not count */
                for (size_t i = 0; i < r->n_seen; i++)
                        r->seen[i].look_usec = 0;
        r->jobs_hash = hash;
        k = node_table_read(r->root, p->node_globs, s, &x.nodes);
        if (k >= 0)
                k = order_jobs(&x);
        if (k >= 0)
                k = read_procs(&x);
        if (k >= 0) {
                free(r->seen);
                r->seen = x.seen;
                r->n_seen = x.n_procs;
                if (x.new_window)
                        r->window_usec = x.now_usec;
                k = sort_families(&x);
        }
        if (k >= 0)
                k = make_tasks(&x);
        if (k >= 0)
                k = warn_denied(&x);
        if (x.seen == r->seen)
                x.seen = NULL; /* the reader has it now */
        snapshot_sort(s);
        pass_done(&x);
        return k;
}
