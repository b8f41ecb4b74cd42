/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may place what. All jobs applied with authority are one scope; those of one user without are another. A process
 * belongs to the jobs with authority first; the jobs of a user without fill their ranks with that user's processes
 * only, however wide their Match= is. So what one scope is planned for does not depend on another's jobs, but for what
 * those with authority have taken.
 *
 * A scope's signature is what it was planned for: the machine in a line, and which process fills which of its ranks,
 * with what its cpuset allows, in a line each. When it is another one, the tick plans again.
 */
#include <errno.h>

#include "daemon/manager-internal.h"

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

/* The job of this scope that the task fills a rank of; collecting has called it JOB/N then. */
static const Job *rank_of(const Task *t, AppliedJob *const *jobs, size_t n, uid_t key) {
        for (size_t i = 0; t->job && i < n; i++) {
                const char *name = jobs[i]->job->name;
                size_t k = strlen(name);

                if (job_scope(jobs[i]) == key && streq(name, t->job) && t->name && strncmp(t->name, name, k) == 0 &&
                    t->name[k] == '/')
                        return jobs[i]->job;
        }
        return NULL;
}

/* Names of devices, not how they are: who is bad is told apart. */
static int write_machine(FILE *f, const Snapshot *s) {
        const Topology *t = s->topology;
        _cleanup_free_ char *online = NULL, *allowed = NULL, *isolated = NULL, *nodes = NULL;

        if (bitset_format(&t->online, &online) < 0 || bitset_format(&t->allowed, &allowed) < 0 ||
            bitset_format(&t->isolated, &isolated) < 0 || bitset_format(&t->allowed_nodes, &nodes) < 0)
                return -ENOMEM;
        fprintf(f, "machine %s %s %s %s", online, allowed, isolated, nodes);
        for (unsigned i = 0; i < t->n_nodes; i++)
                fprintf(f, " %u:%d", t->nodes[i].os, t->nodes[i].memory > 0);
        for (size_t i = 0; i < s->n_devices; i++)
                fprintf(f, " %s=%s@%u", s->devices[i].name, strempty(s->devices[i].pci), s->devices[i].node);
        fputc('\n', f);
        return 0;
}

/* A cpuset that is rewritten or left changes what can be. */
static int write_rank(FILE *f, const Task *t) {
        _cleanup_free_ char *allowed = NULL, *fixed = NULL;

        if (bitset_format(&t->allowed_cpus, &allowed) < 0)
                return -ENOMEM;
        if (t->fixed && bitset_format(&t->cpus, &fixed) < 0)
                return -ENOMEM;
        fprintf(f, "%s %d %" PRIu64 " %s %s\n", t->name, (int) t->pid, t->start_time, allowed, strempty(fixed));
        return 0;
}

int scope_signature(const Snapshot *s, AppliedJob *const *jobs, size_t n, uid_t key, char **ret) {
        char *text = NULL;
        size_t size = 0;
        FILE *f;
        int r;

        f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        r = write_machine(f, s);
        for (size_t i = 0; r >= 0 && i < s->n_tasks; i++)
                if (rank_of(&s->tasks[i], jobs, n, key))
                        r = write_rank(f, &s->tasks[i]);
        if (fclose(f) != 0 || r < 0) {
                free(text);
                return -ENOMEM;
        }
        *ret = text;
        return 0;
}

bool scope_has_news(const Scope *scope, const char *signature) {
        const char *old = scope->signature;

        for (const char *line = signature; old && *line; line += strcspn(line, "\n") + 1) {
                size_t n = strcspn(line, "\n") + 1;
                const char *p = old;

                while (*p && strncmp(p, line, n) != 0)
                        p += strcspn(p, "\n") + 1;
                if (!*p)
                        return true;
        }
        return !old;
}

void scopes_forget(Manager *m) {
        for (size_t i = 0; i < m->n_scopes; i++) {
                free(m->scopes[i].signature);
                m->scopes[i].signature = NULL;
        }
}

void scope_planned(Manager *m, uid_t key, const Snapshot *s, AppliedJob *const *jobs, size_t n) {
        Scope *scope = manager_scope(m, key, true);
        char *signature = NULL;

        if (!scope || scope_signature(s, jobs, n, key, &signature) < 0)
                return;
        free(scope->signature);
        scope->signature = signature;
}

void drop_foreign_children(Task *t) {
        size_t n = 0;
        uid_t uid;

        for (size_t i = 0; i < t->n_children; i++)
                if (process_uid(t->children[i].pid, &uid) >= 0 && uid == t->uid)
                        t->children[n++] = t->children[i];
        t->n_children = n;
}

/* The mask that a process had before we came is as far as its user could go without us; what we gave it since may be
 * less. */
static int confine_cpus(const Manager *m, Task *t) {
        const UndoEntry *e = undo_find_tid(m->undo, t->pid, t->start_time);
        const Bitset *limit = e ? &e->old : &t->cpus;

        if (bitset_isempty(&t->allowed_cpus)) /* no cpuset: which decide() takes for "all" */
                return bitset_copy(&t->allowed_cpus, limit);
        bitset_and(&t->allowed_cpus, limit);
        return bitset_isempty(&t->allowed_cpus) ? bitset_copy(&t->allowed_cpus, &t->cpus) : 0;
}

static int check_task(Manager *m, const Request *q, const Task *t, char **ret_message) {
        const UndoEntry *e = undo_find_tid(m->undo, t->pid, t->start_time);
        const AppliedJob *placed = e ? job_store_find(m->jobs, strempty(e->job)) : NULL;
        const AppliedJob *taken = t->job ? job_store_find(m->jobs, t->job) : NULL;

        if (t->uid != q->caller.uid)
                return text_fail(-EACCES, ret_message,
                                 "Process %d (%s) belongs to user %u: placing it needs authority, user %u may "
                                 "place only processes of their own",
                                 (int) t->pid, strempty(t->comm), (unsigned) t->uid, (unsigned) q->caller.uid);
        if (taken && job_scope(taken) == q->scope)
                taken = NULL;
        if (placed && job_scope(placed) == q->scope)
                placed = NULL;
        if (taken || placed)
                return text_fail(-EACCES, ret_message,
                                 "Process %d (%s) is placed by job \"%s\", which is somebody else's: placing it "
                                 "anew needs authority",
                                 (int) t->pid, strempty(t->comm), (taken ? taken : placed)->job->name);
        return 0;
}

/* Processes that are named one by one are not passed over in silence as those are that a pattern fits. */
static int check_pids(Manager *m, const Request *q, const Snapshot *s, const Job *j, char **ret_message) {
        for (size_t i = 0; i < j->n_ranks; i++) {
                const Match *match = j->ranks[i].match;

                for (size_t k = 0; match && match->kind == MATCH_PID && k < match->n_pids; k++) {
                        const Task *t = snapshot_task(s, match->pids[k]);
                        int r = t ? check_task(m, q, t, ret_message) : 0;

                        if (r < 0)
                                return r;
                }
        }
        return 0;
}

static int check_asked(Manager *m, const Request *q, const Snapshot *s, char **ret_message) {
        for (size_t i = 0; i < q->n_jobs; i++) {
                const AppliedJob *old = job_store_find(m->jobs, q->jobs[i]->job->name);
                int r;

                if (old && job_scope(old) != q->scope)
                        return text_fail(-EACCES, ret_message,
                                         "Job \"%s\" is in force and somebody else's: replacing it needs authority; "
                                         "choose another name",
                                         old->job->name);
                r = check_pids(m, q, s, q->jobs[i]->job, ret_message);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* A task with a job that is none of those decided on is foreign to them. */
static int hide_others(const Request *q, Snapshot *s) {
        for (size_t i = 0; i < s->n_tasks; i++)
                if (!s->tasks[i].job && s->tasks[i].uid != q->caller.uid && !(s->tasks[i].job = strdup("")))
                        return -ENOMEM;
        return 0;
}

static bool is_asked(const Request *q, const Job *j) {
        for (size_t i = 0; i < q->n_jobs; i++)
                if (q->jobs[i]->job == j)
                        return true;
        return false;
}

/* Without authority: jobs of one's own, ranks that are all filled by one's own processes, none of which somebody else
 * has placed; and each only inside the mask it had before we came. */
int request_confine(Manager *m, const Request *q, Snapshot *s, const Job *const *jobs, size_t n_jobs,
                    char **ret_message) {
        RankList list = {};
        int r;

        r = check_asked(m, q, s, ret_message);
        if (r >= 0)
                r = hide_others(q, s);
        if (r >= 0)
                r = ranks_match(s, jobs, n_jobs, &list);
        for (size_t i = 0; i < list.n_ranks && r >= 0; i++) {
                const Rank *rank = &list.ranks[i];
                Task *t = rank->task ? &s->tasks[rank->task - s->tasks] : NULL;

                if (t) {
                        r = check_task(m, q, t, ret_message);
                        drop_foreign_children(t);
                        if (r >= 0)
                                r = confine_cpus(m, t);
                } else if (is_asked(q, rank->job))
                        r = text_fail(-EACCES, ret_message,
                                      "Rank %s has no process of user %u: without authority only running processes "
                                      "of one's own may be placed",
                                      rank->name, (unsigned) q->caller.uid);
        }
        rank_list_done(&list);
        return r < 0 ? r : 0;
}
