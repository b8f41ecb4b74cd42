/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs as data: counting ranks, spreading a traffic description into a matrix, and fitting the tasks of a snapshot to
 * ranks. A task belongs to the first job that names or matches it, jobs by falling priority; a descendant of a matched
 * task is not a rank of its own; within a [Ranks] section the order is the rank number that the launcher gave, else the
 * order of the pids in the job file, else the start time.
 */
#include "policy/job.h"

#include <errno.h>
#include <fnmatch.h>

#include "common/text.h"

const char *const match_names[] = { "pid", "cmdline", "comm", "cgroup", "unit", NULL };

static void match_free(Match *m) {
        if (!m)
                return;
        free(m->pattern);
        free(m->pids);
        free(m->start_times);
        free(m);
}

Job *job_free(Job *j) {
        if (!j)
                return NULL;
        for (size_t i = 0; i < j->n_ranks; i++) {
                Ranks *r = j->ranks + i;

                free(r->name);
                free(r->device_kind);
                strv_free(r->device_names);
                match_free(r->match);
        }
        free(j->ranks);
        free(j->traffic.matrix);
        free(j->text);
        free(j->matrix_text);
        free(j->name);
        free(j);
        return NULL;
}

unsigned job_count(const Job *j, const unsigned *matched) {
        unsigned n = 0;

        for (size_t i = 0; i < j->n_ranks; i++)
                n += j->ranks[i].count ? j->ranks[i].count : matched ? MAX(matched[i], 1U) : 1;
        return n;
}

static void traffic_add(double *m, unsigned n, unsigned a, unsigned b, double bytes) {
        if (a == b)
                return;
        m[(size_t) a * n + b] += bytes;
        m[(size_t) b * n + a] += bytes;
}

/* rank = tp + TP*(dp + DP*pp): tensor-parallel neighbours are adjacent ranks, pipeline stages are farthest apart. */
static void traffic_parallel(const Traffic *t, unsigned n, double *m) {
        for (unsigned a = 0; a < n; a++)
                for (unsigned b = a + 1; b < n; b++) {
                        unsigned tp_a = a % t->tp, dp_a = a / t->tp % t->dp, pp_a = a / t->tp / t->dp;
                        unsigned tp_b = b % t->tp, dp_b = b / t->tp % t->dp, pp_b = b / t->tp / t->dp;

                        if (dp_a == dp_b && pp_a == pp_b)
                                traffic_add(m, n, a, b, t->tp_bytes);
                        else if (tp_a == tp_b && pp_a == pp_b)
                                traffic_add(m, n, a, b, t->dp_bytes);
                        else if (tp_a == tp_b && dp_a == dp_b && pp_b == pp_a + 1)
                                traffic_add(m, n, a, b, t->pp_bytes);
                }
}

int job_traffic(const Job *j, unsigned n, double **ret, char **ret_message) {
        const Traffic *t = &j->traffic;
        _cleanup_free_ double *m = NULL;

        if (t->kind == TRAFFIC_NONE || n == 0) {
                *ret = NULL;
                return 0;
        }
        if (t->kind == TRAFFIC_MATRIX && t->n != n)
                return text_fail(-ERANGE, ret_message, "Job %s: its traffic matrix is for %u ranks, it has %u", j->name,
                                 t->n, n);
        if (t->kind == TRAFFIC_PARALLEL && (uint64_t) t->tp * t->pp * t->dp != n)
                return text_fail(-ERANGE, ret_message, "Job %s: TP=%u PP=%u DP=%u make %" PRIu64 " ranks, it has %u",
                                 j->name, t->tp, t->pp, t->dp, (uint64_t) t->tp * t->pp * t->dp, n);

        m = calloc((size_t) n * n, sizeof(double));
        if (!m)
                return -ENOMEM;
        switch (t->kind) {
        case TRAFFIC_MATRIX:
                for (unsigned a = 0; a < n; a++)
                        for (unsigned b = 0; b < n; b++)
                                traffic_add(m, n, a, b, t->matrix[(size_t) a * n + b]);
                break;
        case TRAFFIC_RING:
                /* Two ranks are each other's only neighbour: one link, not two. */
                for (unsigned a = 0; a < (n > 2 ? n : n - 1); a++)
                        traffic_add(m, n, a, (a + 1) % n, t->ring);
                break;
        case TRAFFIC_PARALLEL: traffic_parallel(t, n, m); break;
        case TRAFFIC_NONE: break;
        }
        *ret = TAKE_PTR(m);
        return 0;
}

/* Units and cgroups have backslashes in their names (foo\x2dbar.service): there they are ordinary characters. */
static bool glob(const char *pattern, const char *s, int flags) {
        return pattern && s && fnmatch(pattern, s, flags) == 0;
}

/* Where in pid: the process is, n_pids: nowhere. */
static size_t pid_index(const Match *m, const Task *t) {
        size_t i = 0;

        while (i < m->n_pids && (m->pids[i] != t->pid ||
                                 (m->start_times && m->start_times[i] != 0 && m->start_times[i] != t->start_time)))
                i++;
        return i;
}

int job_bind(Job *j, const Snapshot *s) {
        for (size_t k = 0; k < j->n_ranks; k++) {
                Match *m = j->ranks[k].match;

                if (!m || m->kind != MATCH_PID)
                        continue;
                if (!m->start_times)
                        m->start_times = calloc(MAX(m->n_pids, (size_t) 1), sizeof(uint64_t));
                if (!m->start_times)
                        return -ENOMEM;
                for (size_t i = 0; i < m->n_pids; i++) {
                        const Task *t = m->start_times[i] == 0 ? snapshot_task(s, m->pids[i]) : NULL;

                        if (t)
                                m->start_times[i] = t->start_time;
                }
        }
        return 0;
}

bool match_task(const Match *m, const Task *t) {
        switch (m->kind) {
        case MATCH_PID: return pid_index(m, t) < m->n_pids;
        case MATCH_CMDLINE: return glob(m->pattern, t->cmdline, 0);
        case MATCH_COMM: return glob(m->pattern, t->comm, 0);
        case MATCH_CGROUP: return glob(m->pattern, t->cgroup, FNM_NOESCAPE);
        case MATCH_UNIT: return glob(m->pattern, t->owner, FNM_NOESCAPE);
        case _MATCH_MAX: break;
        }
        return false;
}

/* Where each task of the snapshot goes: job and section by index, or nowhere (job -1). */
typedef struct Fit {
        const Task *task;
        int job, section;
        size_t order; /* by pid: list, else by start time */
} Fit;

static int section_of(const Job *j, const Task *t, size_t *ret_order) {
        bool named = t->job && streq(t->job, j->name);

        for (size_t k = 0; k < j->n_ranks; k++) {
                const Ranks *r = j->ranks + k;

                if (named && t->ranks && r->name && streq(r->name, t->ranks))
                        return (int) k;
                if ((named ? !t->ranks : !t->job) && r->match && match_task(r->match, t)) {
                        if (r->match->kind == MATCH_PID)
                                *ret_order = pid_index(r->match, t);
                        return (int) k;
                }
        }
        /* Named by a record, the journal or run, without a section, or with one that the job no longer has. */
        return named ? 0 : -1;
}

static int fit_cmp(const void *a, const void *b) {
        const Fit *x = a, *y = b;

        if (x->job != y->job)
                return CMP(x->job, y->job);
        if (x->section != y->section)
                return CMP(x->section, y->section);
        if (x->task->rank >= 0 && y->task->rank >= 0 && x->task->rank != y->task->rank)
                return CMP(x->task->rank, y->task->rank);
        if (x->order != y->order)
                return CMP(x->order, y->order);
        if (x->task->start_time != y->task->start_time)
                return CMP(x->task->start_time, y->task->start_time);
        return CMP(x->task->pid, y->task->pid);
}

/* The nearest ancestor of a task that fits the same job, or NULL. */
static Fit *fit_of_ancestor(const Snapshot *s, Fit *fits, const Fit *f) {
        const Task *t = f->task;

        for (unsigned depth = 0; t && t->parent_task > 0 && depth < 64; depth++) {
                t = snapshot_task(s, t->parent_task);
                if (t && fits[t - s->tasks].job == f->job)
                        return fits + (t - s->tasks);
        }
        return NULL;
}

/* Families: a descendant of a rank is its child (a data loader inherits RANK too), but a launcher whose descendants have
 * ranks of their own is none itself. What drops out keeps its job and gets no section. */
static void drop_relatives(const Snapshot *s, Fit *fits) {
        for (size_t i = 0; i < s->n_tasks; i++) {
                Fit *parent = fits[i].job >= 0 ? fit_of_ancestor(s, fits, fits + i) : NULL;

                if (!parent)
                        continue;
                if (fits[i].task->rank >= 0 && fits[i].task->rank != parent->task->rank)
                        parent->section = -1;
                else
                        fits[i].section = -1;
        }
}

/* The number at the end of "train/3", when the name says that the task is a rank of this job; -1 otherwise. */
static int index_by_name(const Job *j, const Task *t, unsigned count) {
        const char *slash = t->name ? strrchr(t->name, '/') : NULL;
        unsigned i;

        if (!slash || (size_t) (slash - t->name) != strlen(j->name) || strncmp(t->name, j->name, strlen(j->name)) != 0)
                return -1;
        return text_parse_uint(slash + 1, 0, count - 1, &i) < 0 ? -1 : (int) i;
}

/* Gives the fits of one section to its `count` ranks: those whose number is known first, then the rest in order. */
static int fill_section(const Job *j, Rank *ranks, unsigned first, unsigned count, const Fit *fits, size_t n,
                        char ***messages) {
        size_t left = 0;

        for (int pass = 0; pass < 2; pass++)
                for (size_t i = 0; i < n; i++) {
                        const Task *t = fits[i].task;
                        int k = index_by_name(j, t, first + count);

                        if (k < 0 && t->rank >= 0 && j->n_ranks == 1)
                                k = t->rank;
                        bool known = k >= (int) first && k < (int) (first + count);

                        if (known != (pass == 0))
                                continue;
                        if (!known || ranks[k - (int) first].task) {
                                for (k = (int) first; k < (int) (first + count) && ranks[k - (int) first].task; k++)
                                        ;
                                if (k == (int) (first + count)) {
                                        left++;
                                        continue;
                                }
                        }
                        ranks[k - (int) first].task = t;
                }
        if (left == 0)
                return 0;
        return strv_extendf(messages, "Job %s: %zu more process%s than its Count=%u ranks %s and %s not placed",
                            j->name, left, left > 1 ? "es" : "", count, left > 1 ? "match" : "matches",
                            left > 1 ? "are" : "is");
}

static int missing_pids(const Snapshot *s, const Job *j, char ***messages) {
        for (size_t k = 0; k < j->n_ranks; k++) {
                const Match *m = j->ranks[k].match;

                for (size_t i = 0; m && i < m->n_pids; i++) {
                        const Task *t = snapshot_task(s, m->pids[i]);
                        int r = 0;

                        if (!t)
                                r = strv_extendf(messages, "Job %s: no process with pid %d", j->name, m->pids[i]);
                        else if (pid_index(m, t) == m->n_pids)
                                r = strv_extendf(messages, "Job %s: pid %d is another process now", j->name,
                                                 m->pids[i]);
                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

/* A process goes to one job; another that would match it is told. */
static int tell_claims(const Snapshot *s, const Job *const *jobs, size_t n_jobs, const Fit *fits, char ***messages) {
        for (size_t a = 0; a < n_jobs; a++)
                for (size_t b = 0; b < n_jobs; b++) {
                        unsigned n = 0;
                        size_t order;
                        int r = 0;

                        for (size_t i = 0; a != b && i < s->n_tasks; i++)
                                n += fits[i].job == (int) a && fits[i].section >= 0 &&
                                     section_of(jobs[b], s->tasks + i, &order) >= 0;
                        if (n > 0)
                                r = strv_extendf(messages, "Job %s: %u process%s that it matches belong%s to job %s",
                                                 jobs[b]->name, n, n == 1 ? "" : "es", n == 1 ? "s" : "",
                                                 jobs[a]->name);
                        if (r < 0)
                                return r;
                }
        return 0;
}

/* Bound pids that are gone. */
static unsigned count_ended(const Snapshot *s, const Match *m) {
        unsigned n = 0;

        for (size_t i = 0; m && m->start_times && i < m->n_pids; i++) {
                const Task *t = m->start_times[i] != 0 ? snapshot_task(s, m->pids[i]) : NULL;

                n += m->start_times[i] != 0 && (!t || t->start_time != m->start_times[i]);
        }
        return n;
}

/* Takes as many ranks without a process off the end of the list as there are bound processes that ended. */
static void drop_ended(RankList *l, size_t from, unsigned n_ended) {
        for (size_t i = l->n_ranks; i-- > from && n_ended > 0;) {
                if (l->ranks[i].task)
                        continue;
                free(l->ranks[i].name);
                memmove(l->ranks + i, l->ranks + i + 1, (--l->n_ranks - i) * sizeof(Rank));
                n_ended--;
        }
}

static int add_job(const Snapshot *s, const Job *j, const Fit *fits, size_t n_fits, RankList *l) {
        const size_t begin = l->n_ranks;
        unsigned first = 0;
        int r;

        for (size_t k = 0, at = 0; k < j->n_ranks; k++) {
                const Ranks *section = j->ranks + k;
                size_t n = 0;

                while (at + n < n_fits && fits[at + n].section == (int) k)
                        n++;
                unsigned count = section->count ? section->count : MAX((unsigned) MIN(n, (size_t) JOB_RANKS_MAX), 1U);
                Rank *ranks = realloc(l->ranks, (l->n_ranks + count) * sizeof(Rank));
                if (!ranks)
                        return -ENOMEM;
                l->ranks = ranks;
                ranks += l->n_ranks;
                for (unsigned i = 0; i < count; i++) {
                        ranks[i] = (Rank){ .job = j, .section = section, .index = first + i };
                        if (asprintf(&ranks[i].name, "%s/%u", j->name, first + i) < 0) {
                                ranks[i].name = NULL;
                                return -ENOMEM;
                        }
                        l->n_ranks++;
                }
                r = fill_section(j, ranks, first, count, fits + at, n, &l->messages);
                if (r < 0)
                        return r;
                drop_ended(l, l->n_ranks - count, count_ended(s, section->match));
                at += n;
                first += count;
        }
        for (size_t i = begin; i < l->n_ranks; i++)
                l->ranks[i].of = first;
        return missing_pids(s, j, &l->messages);
}

static int by_priority(const void *a, const void *b, void *userdata) {
        const Job *const *jobs = userdata;
        size_t x = *(const size_t *) a, y = *(const size_t *) b;

        if (jobs[x]->priority != jobs[y]->priority)
                return -CMP(jobs[x]->priority, jobs[y]->priority);
        return CMP(x, y);
}

int ranks_match(const Snapshot *s, const Job *const *jobs, size_t n_jobs, RankList *ret) {
        _cleanup_free_ Fit *fits = calloc(MAX(s->n_tasks, (size_t) 1), sizeof(Fit));
        _cleanup_free_ size_t *order = calloc(MAX(n_jobs, (size_t) 1), sizeof(size_t));
        RankList l = {};
        size_t n = 0;
        int r = 0;

        if (!fits || !order)
                return -ENOMEM;
        for (size_t i = 0; i < n_jobs; i++)
                order[i] = i;
        qsort_r(order, n_jobs, sizeof(size_t), by_priority, (void *) jobs);
        for (size_t i = 0; i < s->n_tasks; i++) {
                fits[i] = (Fit){ .task = s->tasks + i, .job = -1, .order = SIZE_MAX };
                for (size_t k = 0; k < n_jobs && fits[i].job < 0; k++) {
                        fits[i].section = section_of(jobs[order[k]], s->tasks + i, &fits[i].order);
                        if (fits[i].section >= 0)
                                fits[i].job = (int) order[k];
                }
        }
        drop_relatives(s, fits);
        r = tell_claims(s, jobs, n_jobs, fits, &l.messages);
        for (size_t i = 0; i < s->n_tasks; i++)
                if (fits[i].job >= 0 && fits[i].section >= 0)
                        fits[n++] = fits[i];
        qsort(fits, n, sizeof(Fit), fit_cmp);

        for (size_t i = 0, at = 0; i < n_jobs && r >= 0; i++) {
                size_t k = 0;

                while (at + k < n && fits[at + k].job == (int) i)
                        k++;
                r = add_job(s, jobs[i], fits + at, k, &l);
                at += k;
        }
        if (r < 0) {
                rank_list_done(&l);
                return r;
        }
        *ret = l;
        return 0;
}

void rank_list_done(RankList *l) {
        for (size_t i = 0; i < l->n_ranks; i++)
                free(l->ranks[i].name);
        free(l->ranks);
        strv_free(l->messages);
        *l = (RankList){};
}
