/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who belongs to whom among the candidates. Two kinds of them are no tasks:
 *   a launcher  found only by its command line, holding nothing, above processes that are the real thing (torchrun, a
 *               shell whose -c text contains the pattern, a parent that spawned the holders);
 *   a copy      forked from a task and holding nothing more (a data loader inherits command line and descriptors): one
 *               of its children, like every other descendant.
 */
#include "daemon/readers/tasks-internal.h"

#include <errno.h>

#include "daemon/readers/rank-identity.h"

#define ENVIRON_MAX (4U << 20)

Proc *tasks_ancestor(const Pass *x, const Proc *p) {
        int i = p->parent;

        for (unsigned depth = 0; i >= 0 && depth < TASKS_DEPTH_MAX; depth++, i = x->procs[i].parent)
                if (x->procs[i].candidate && !x->procs[i].copy)
                        return x->procs + i;
        return NULL;
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

static void mark_copies(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                Proc *p = x->procs + i, *a;

                if (!p->candidate || p->by_pid || !(a = tasks_ancestor(x, p)))
                        continue;
                bool forked = same_text(p->cmdline, a->cmdline) && holds_subset(p, a) && p->rank == a->rank;
                /* Noted by the undo journal because it was placed along with its parent. */
                bool noted = p->extra >= 0 && a->extra >= 0 && p->job < 0 && !p->holding.compute &&
                             same_text(strempty(x->params->extra_jobs ? x->params->extra_jobs[p->extra] : NULL),
                                       strempty(x->params->extra_jobs ? x->params->extra_jobs[a->extra] : NULL));
                p->copy = forked || noted;
        }
}

/* Who holds nothing and has other ranks below it starts them: the RANK it inherited from its pod or step is not its own. */
static void unrank_launchers(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                const Proc *p = x->procs + i;
                Proc *top = x->procs + i;

                if (!p->candidate || p->copy || p->rank < 0)
                        continue;
                for (unsigned depth = 0; (top = tasks_ancestor(x, top)) && depth < TASKS_DEPTH_MAX; depth++)
                        if (!top->holding.compute && top->rank != p->rank)
                                top->rank = -1;
        }
}

/* Tells all candidates above p what they have below them. */
static void count_below(Pass *x, const Proc *p) {
        Proc *top = (Proc *) p;

        for (unsigned depth = 0; (top = tasks_ancestor(x, top)) && depth < TASKS_DEPTH_MAX; depth++) {
                if (top->job < 0)
                        continue;
                if (p->job == top->job)
                        top->n_matched += !same_text(p->cmdline, top->cmdline) ||
                                          (p->rank >= 0 && p->rank != top->rank);
                if (p->job < 0 || p->job == top->job)
                        top->n_holders += p->holding.compute;
        }
}

/* See the head of this file. A section of Count=1 wants the whole family as its one rank. */
static void mark_launchers(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++)
                if (x->procs[i].candidate && !x->procs[i].copy)
                        count_below(x, x->procs + i);
        for (size_t i = 0; i < x->n_procs; i++) {
                Proc *p = x->procs + i;

                if (!p->candidate || p->copy || p->job < 0 || p->by_pid || p->extra >= 0 || p->holding.compute)
                        continue;
                p->launcher = p->n_matched > 0 ||
                              (p->n_holders > 1 && x->params->jobs[p->job]->ranks[p->section].count != 1);
        }
}

/* Holders that fit no Match= of their own belong to the job of the nearest candidate above them. */
static void inherit_jobs(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                Proc *p = x->procs + i;
                const Proc *a = p;

                if (!p->candidate || p->copy || p->job >= 0 || p->extra >= 0)
                        continue;
                for (unsigned depth = 0; (a = tasks_ancestor(x, a)) && depth < TASKS_DEPTH_MAX && !p->heir_job;
                     depth++) {
                        if (a->extra >= 0 && x->params->extra_jobs)
                                p->heir_job = x->params->extra_jobs[a->extra];
                        if (!p->heir_job && a->job >= 0) {
                                p->heir_job = x->params->jobs[a->job]->name;
                                p->heir_ranks = x->params->jobs[a->job]->ranks[a->section].name;
                        }
                }
        }
}

/* `sh -c "qschedctl apply train.job"` and `sudo qschedctl …` fit a pattern meant for the job. (A rank may well run
 * qschedctl to place itself: only who names it is passed over.) */
static void drop_operators(Pass *x) {
        for (size_t i = 0; i < x->n_procs; i++) {
                int k = x->procs[i].own ? x->procs[i].parent : -1;

                for (unsigned depth = 0; k >= 0 && depth < TASKS_DEPTH_MAX; depth++, k = x->procs[k].parent) {
                        Proc *p = x->procs + k;

                        if (p->candidate && p->extra < 0 && !p->by_pid && !p->holding.compute &&
                            strstr(strempty(p->cmdline), "qsched"))
                                p->candidate = false;
                }
        }
}

int tasks_sort_families(Pass *x) {
        drop_operators(x);
        for (size_t i = 0; i < x->n_procs; i++)
                if (x->procs[i].candidate) {
                        int r = read_candidate(x, x->procs + i);

                        if (r < 0)
                                return r;
                }
        mark_copies(x);
        unrank_launchers(x);
        mark_launchers(x);
        inherit_jobs(x);
        return 0;
}
