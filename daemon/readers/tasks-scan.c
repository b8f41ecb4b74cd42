/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every process of the host at every tick: stat for all of them, open files and the questions of Match= for those that
 * have not been found uninteresting lately. Such an answer is kept for LOOK_AGAIN_USEC once a process is older than
 * YOUNG_USEC: most of a host's processes never open a device, and a rank does so in its first minute. It does not
 * outlive an exec (the name changes), nor a change of what is asked or of the device nodes.
 */
#include "daemon/readers/tasks-internal.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>

#define YOUNG_USEC (60 * UINT64_C(1000000))
#define LOOK_AGAIN_USEC (10 * UINT64_C(1000000))
#define HASH_START UINT64_C(14695981039346656037) /* FNV-1a */

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

static uint64_t hash_string(uint64_t h, const char *s) {
        for (s = strempty(s); *s; s++)
                h = (h ^ (unsigned char) *s) * UINT64_C(1099511628211);
        return (h ^ 0xff) * UINT64_C(1099511628211);
}

static uint64_t hash_params(const TaskReadParams *p, const NodeTable *nodes) {
        uint64_t h = HASH_START;

        for (size_t j = 0; j < p->n_jobs; j++)
                for (size_t k = 0; k < p->jobs[j]->n_ranks; k++) {
                        const Match *m = p->jobs[j]->ranks[k].match;

                        if (!m)
                                continue;
                        h = hash_string(h ^ m->kind, m->pattern);
                        for (size_t i = 0; i < m->n_pids; i++)
                                h = (h ^ (uint64_t) m->pids[i]) * UINT64_C(1099511628211);
                }
        for (char *const *g = nodes->globs; g && *g; g++)
                h = hash_string(h, *g);
        for (size_t i = 0; i < nodes->n_nodes; i++)
                h = hash_string(h ^ nodes->nodes[i].rdev, nodes->nodes[i].path);
        for (char *const *g = p->ignore; g && *g; g++)
                h = hash_string(h, *g);
        return h;
}

/* Other questions than last time: what was learnt from the old ones does not count. */
void tasks_forget_answers(Pass *x) {
        TaskReader *r = x->reader;
        uint64_t questions = hash_params(x->params, &x->nodes);

        for (size_t i = 0; i < r->n_seen && questions != r->questions; i++)
                r->seen[i].look_usec = 0;
        r->questions = questions;
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

static bool is_own(const ProcStat *s) {
        static const char *const own[] = { "qschedd", "qschedctl", "qsched-smi", "qsched-cluster" };

        for (size_t i = 0; i < ELEMENTSOF(own); i++)
                if (streq(s->comm, own[i]))
                        return true;
        return s->pid == getpid();
}

static bool is_ignored(const TaskReadParams *p, const ProcStat *s) {
        for (char *const *g = p->ignore; g && *g; g++)
                if (fnmatch(*g, s->comm, 0) == 0)
                        return true;
        return false;
}

static uid_t user_of(const Pass *x, size_t job) {
        return x->params->job_users ? x->params->job_users[job] : TASK_ANY_USER;
}

static bool is_of(const Pass *x, const Proc *p, uid_t user) {
        ProcStatus status;
        bool same;

        if (user == TASK_ANY_USER)
                return true;
        if (proc_read_status(x->reader->proc_fd, p->stat.pid, 0, &status) < 0)
                return false;
        same = status.uid == user;
        proc_status_done(&status);
        return same;
}

static bool match_job(const Pass *x, Proc *p, const Task *t, size_t job) {
        const Job *j = x->params->jobs[job];

        if (p->stat.pid == getpid()) /* where we may run is taken for what there is */
                return false;
        for (size_t k = 0; k < j->n_ranks; k++) {
                const Match *m = j->ranks[k].match;

                if (!m || (p->ignored && m->kind != MATCH_PID) || !match_task(m, t))
                        continue;
                if (!is_of(x, p, user_of(x, job)))
                        return false;
                p->job = (int) job;
                p->section = (int) k;
                p->by_pid = m->kind == MATCH_PID;
                return true;
        }
        return false;
}

/* Jobs of one user's processes only come after those of everybody's. */
static void match_jobs(const Pass *x, Proc *p, const Task *t) {
        for (unsigned bound = 0; bound < 2; bound++)
                for (size_t i = 0; i < x->params->n_jobs; i++)
                        if ((user_of(x, x->order[i]) != TASK_ANY_USER) == bound && match_job(x, p, t, x->order[i]))
                                return;
}

/* -ESRCH when it is gone; what may not be read counts as absent. */
static int look(Pass *x, Proc *p) {
        Task t = { .pid = p->stat.pid, .start_time = p->stat.start_time, .comm = p->stat.comm };
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

static bool may_rest(const Pass *x, const Seen *old, const Seen *now) {
        return old && old->comm == now->comm && x->now_usec < old->look_usec;
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
        if (!x->new_window) {
                now->ticks = old ? old->ticks : 0; /* not there when the window began */
                now->use = old ? old->use : NAN;
        } else if (!isnan(x->window)) {
                uint64_t before = old ? old->ticks : 0;
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

/* Big hosts have more kernel threads than processes. Their pids are not read again within the interval. */
static bool skip_kernel_thread(Pass *x, const Seen *old) {
        if (!old || !old->kernel || x->now_usec >= old->look_usec)
                return false;
        x->procs[x->n_procs].stat = (ProcStat){ .pid = old->pid, .start_time = old->start_time, .kernel = true };
        x->seen[x->n_procs++] = *old;
        return true;
}

static int read_proc(Pass *x, pid_t pid) {
        Proc *p = x->procs + x->n_procs;
        Seen *now = x->seen + x->n_procs, *old = find_seen(x->reader->seen, x->reader->n_seen, pid);
        int r;

        *p = (Proc){ .parent = -1, .extra = -1, .job = -1, .section = -1, .rank = -1, .task = SIZE_MAX };
        if (skip_kernel_thread(x, old))
                return 0;
        r = proc_read_stat(x->reader->proc_fd, pid, &p->stat);
        if (r == -ESRCH || r == -EBADMSG || r == -EACCES || proc_stat_dead(&p->stat))
                return 0;
        if (r < 0)
                return r;
        if (old && old->start_time != p->stat.start_time)
                old = NULL;
        *now = (Seen){ .pid = pid, .start_time = p->stat.start_time, .comm = hash_string(HASH_START, p->stat.comm) };
        p->own = is_own(&p->stat);
        p->ignored = p->own || is_ignored(x->params, &p->stat);
        p->extra = p->stat.kernel ? -1 : extra_of(x, &p->stat);
        count_use(x, old, &p->stat, now);
        if (!p->stat.kernel && (p->extra >= 0 || !may_rest(x, old, now))) {
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
        now->kernel = p->stat.kernel;
        if (!p->candidate)
                now->look_usec = p->looked || now->kernel ? next_look(x, p) : old ? old->look_usec : 0;
        now->denied = p->looked ? p->denied : old && old->denied;
        x->n_procs++;
        return 0;
}

int tasks_scan(Pass *x) {
        _cleanup_free_ int *pids = NULL;
        size_t n;
        int r;

        r = order_jobs(x);
        if (r >= 0)
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
