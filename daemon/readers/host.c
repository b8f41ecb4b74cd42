/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The readers in the order in which they build on each other: devices, then tasks (which hold their nodes), then names
 * (a task that fills a rank is called after it).
 */
#include "daemon/readers/host.h"

#include <errno.h>

#include "common/clock.h"
#include "common/text.h"

static int call_task(Task *t, const Rank *rank) {
        _cleanup_free_ char *name = strdup(rank->name), *job = strdup(rank->job->name);

        if (!name || !job)
                return -ENOMEM;
        free(t->name);
        t->name = TAKE_PTR(name);
        free(t->job);
        t->job = TAKE_PTR(job);
        return 0;
}

/* A task that fills a rank carries its name and its job from here on. */
static int name_ranks(Snapshot *s, const Job *const *jobs, size_t n_jobs) {
        RankList list = {};
        int r;

        r = ranks_match(s, jobs, n_jobs, &list);
        for (size_t i = 0; r >= 0 && i < list.n_ranks; i++)
                if (list.ranks[i].task)
                        r = call_task(&s->tasks[list.ranks[i].task - s->tasks], &list.ranks[i]);
        rank_list_done(&list);
        return r < 0 ? r : 0;
}

/* The jobs of one user fit only that user's tasks: the others' belong to a job of no name meanwhile. */
static int name_ranks_of(Snapshot *s, const TaskReadParams *p, uid_t user) {
        static char nobody[] = "";
        _cleanup_free_ const Job **jobs = calloc(p->n_jobs + 1, sizeof(*jobs));
        size_t n = 0;
        int r;

        if (!jobs)
                return -ENOMEM;
        for (size_t i = 0; i < p->n_jobs; i++)
                if ((p->job_users ? p->job_users[i] : TASK_ANY_USER) == user)
                        jobs[n++] = p->jobs[i];
        if (n == 0)
                return 0;
        for (size_t i = 0; user != TASK_ANY_USER && i < s->n_tasks; i++)
                if (!s->tasks[i].job && s->tasks[i].uid != user)
                        s->tasks[i].job = nobody;
        r = name_ranks(s, jobs, n);
        for (size_t i = 0; i < s->n_tasks; i++)
                if (s->tasks[i].job == nobody)
                        s->tasks[i].job = NULL;
        return r;
}

static int name_all(Snapshot *s, const TaskReadParams *p) {
        int r;

        r = name_ranks_of(s, p, TASK_ANY_USER);
        for (size_t i = 0; p->job_users && r >= 0 && i < p->n_jobs; i++) {
                bool done = p->job_users[i] == TASK_ANY_USER;

                for (size_t k = 0; k < i; k++)
                        done = done || p->job_users[k] == p->job_users[i];
                if (!done)
                        r = name_ranks_of(s, p, p->job_users[i]);
        }
        return r;
}

static int read_reserved(const char *root, Snapshot *s) {
        int r;

        r = kubelet_reserved(root, &s->reserved, &s->reserved_reason);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                return strv_extendf(&s->warnings,
                                    "kubelet's CPU manager state could not be read (%s): its CPUs are not kept free",
                                    strerror(-r));
        return 0;
}

int host_read(const char *root, const DeviceText *devices, TaskReader *reader, const TaskReadParams *p, Snapshot *s,
              char **ret_message) {
        int r;

        s->time_usec = clock_realtime_usec();
        r = devices_read(s, devices, ret_message);
        if (r < 0)
                return r;
        r = tasks_read(reader, p, s);
        if (r < 0)
                return text_fail(r, ret_message, "Processes could not be read: %s", strerror(-r));
        r = read_reserved(root, s);
        if (r < 0)
                return r;
        snapshot_sort(s);
        return name_all(s, p);
}
