/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walls, for jobs with MemoryWall=yes. A wall turns "prefers these nodes" into "has no others", and with it a full node
 * into an out-of-memory kill while memory is free elsewhere. So: only groups of ours get one; only once all of the
 * process's pages that can move are there (on the unified hierarchy the kernel would move the rest in one go) and the
 * nodes have room for what the job says it needs, above the reserve; and at each tick one is taken away again whose
 * nodes are down to the reserve, or whose group waits for memory, while another node has room. What was refused, taken
 * away, or set otherwise by somebody else stays so until the job is applied again.
 */
#include <errno.h>

#include "common/json.h"
#include "common/log.h"
#include "daemon/manager-internal.h"
#include "daemon/readers/psi.h"

struct WallNote { /* why a process has no wall */
        Process process;
        char *job, *task;
        bool relaxed; /* it had one */
        char *why;
};

static void note_done(WallNote *n) {
        free(n->job);
        free(n->task);
        free(n->why);
}

void manager_walls_free(Manager *m) {
        for (size_t i = 0; i < m->n_walls; i++)
                note_done(&m->walls[i]);
        free(m->walls);
        m->walls = NULL;
        m->n_walls = 0;
}

static const WallNote *find_note(const Manager *m, Process p) {
        for (size_t i = 0; i < m->n_walls; i++)
                if (m->walls[i].process.pid == p.pid && m->walls[i].process.start_time == p.start_time)
                        return &m->walls[i];
        return NULL;
}

static void drop_note(Manager *m, size_t i) {
        note_done(&m->walls[i]);
        m->walls[i] = m->walls[--m->n_walls];
}

static void add_note(Manager *m, const char *job, const char *task, Process p, bool relaxed, const char *format, ...)
        _printf_(6, 7);
static void add_note(Manager *m, const char *job, const char *task, Process p, bool relaxed, const char *format, ...) {
        WallNote *more = reallocarray(m->walls, m->n_walls + 1, sizeof(*more)), *n;
        va_list ap;
        int r;

        if (!more) {
                (void) log_oom();
                return;
        }
        m->walls = more;
        n = &m->walls[m->n_walls];
        *n = (WallNote){
                .process = p, .job = strdup(strempty(job)), .task = strdup(strempty(task)), .relaxed = relaxed
        };
        va_start(ap, format);
        r = vasprintf(&n->why, format, ap);
        va_end(ap);
        if (r < 0)
                n->why = NULL;
        if (!n->job || !n->task || !n->why) {
                note_done(n);
                (void) log_oom();
                return;
        }
        m->n_walls++;
}

static void say_note(const Manager *m, Process p) {
        const WallNote *n = find_note(m, p);

        if (n)
                log_notice("Job %s: the memory of %s (pid %d) has %s: %s", n->job, n->task, (int) p.pid,
                           n->relaxed ? "no wall any more" : "no wall", n->why);
}

/* ---- room ---- */

/* Bytes above the reserve, of these nodes or of those that the machine has besides. */
static uint64_t room_on(const Manager *m, const Bitset *nodes, bool besides) {
        const Topology *t = collector_topology(m->collector);
        uint64_t sum = 0;

        for (unsigned i = 0; i < t->n_nodes; i++) {
                uint64_t reserve;
                NodeRoom room;

                if (bitset_test(nodes, t->nodes[i].os) == besides || node_room("", t->nodes[i].os, &room) < 0 ||
                    !room.exists || (besides && !t->nodes[i].ordinary))
                        continue;
                reserve = (uint64_t) ((double) room.total * m->config->move_params.reserve);
                room.free += room.cache; /* what comes later may take that */
                sum += room.free > reserve ? room.free - reserve : 0;
        }
        return sum;
}

typedef struct Needs {
        bool waits;            /* pages are on their way still */
        const char *short_of;  /* why a move ended early */
        uint64_t has, missing; /* bytes: in all, not on the plan's nodes */
} Needs;

static Needs needs_of(const Manager *m, const PlanTask *t) {
        Needs n = {};

        for (size_t i = 0; i < move_queue_size(m->moves); i++) {
                const MoveItem *item = move_queue_item(m->moves, i);
                const MoveReport *r = &item->report;
                uint64_t seen = r->seen - MIN(r->absent, r->seen);

                if (!streq(item->job, strempty(t->job)) || !streq(item->task, strempty(t->name)))
                        continue;
                n.waits = n.waits || !item->ended;
                if (!item->ended || r->stop == MOVE_GONE)
                        continue;
                if (r->stop != MOVE_DONE)
                        n.short_of = r->why;
                n.has += seen * r->page_size;
                n.missing += (seen - MIN(r->moved + r->already, seen)) * r->page_size;
        }
        return n;
}

static bool has_room(Manager *m, const PlanTask *t, const Needs *n) {
        uint64_t need = n->missing + (t->memory > n->has ? t->memory - n->has : 0), room = room_on(m, &t->mems, false);
        _cleanup_free_ char *nodes = NULL;
        char a[32], b[32];

        if (room > need)
                return true;
        (void) bitset_format(&t->mems, &nodes);
        add_note(
                m, t->job, t->name, t->process, false,
                "node %s has room for %s above its reserve, %s more are needed; free memory there and apply the job again",
                strempty(nodes), text_format_bytes(a, sizeof(a), room), text_format_bytes(b, sizeof(b), need));
        return false;
}

/* ---- set, relax ---- */

static void set_wall(Manager *m, const PlanTask *t) {
        Outcome o = {};
        int r = enforce_wall(m->enforcer, t->process, &t->mems, &o);

        manager_log_outcome(m, &o, "memory wall");
        if (r == 0 && !enforce_walled(m->enforcer, t->process))
                add_note(m, t->job, t->name, t->process, false, "%s",
                         o.messages ? o.messages[0] : "its group has no other nodes as it is");
        else if (r < 0)
                add_note(m, t->job, t->name, t->process, false, "it could not be set: %s", strerror(-r));
        outcome_done(&o);
}

static bool is_candidate(const Manager *m, const PlanTask *t) {
        return t->memory_wall && t->process.pid > 0 && !bitset_isempty(&t->mems) &&
               !manager_is_all_memory(m, &t->mems) && !find_note(m, t->process);
}

static void consider(Manager *m, const PlanTask *t) {
        Needs n;

        if (!is_candidate(m, t) || enforce_walled(m->enforcer, t->process) ||
            process_is(t->process.pid, t->process.start_time) != 1)
                return;
        n = needs_of(m, t);
        if (n.waits)
                return;
        if (!m->config->move)
                add_note(m, t->job, t->name, t->process, false,
                         "it needs Move=yes in [Memory], so that its pages are inside first");
        else if (n.short_of)
                add_note(m, t->job, t->name, t->process, false, "not all of it could be moved inside: %s", n.short_of);
        else if (has_room(m, t, &n))
                set_wall(m, t);
        say_note(m, t->process);
}

/* why: NULL, or a sentence. 1: there is none any more, and entries have moved; 0: it stays. */
static int take_away(Manager *m, const UndoEntry *wall, const char *task, const char *why) {
        _cleanup_free_ char *job = strdup(strempty(wall->job));
        Process p = wall->process;
        Outcome o = {};
        int r = job ? enforce_unwall(m->enforcer, wall, &o) : -ENOMEM;

        manager_log_outcome(m, &o, "memory wall");
        outcome_done(&o);
        if (r < 0)
                (void) log_warning_errno(r, "The memory wall of pid %d cannot be taken away: %m", (int) p.pid);
        if (r <= 0)
                return 0;
        if (why) {
                add_note(m, job, task, p, true, "%s; apply the job again for another try", why);
                say_note(m, p);
        }
        return 1;
}

/* A sentence; NULL: nobody has touched it. */
static char *why_theirs(const Manager *m, const UndoEntry *wall) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
        _cleanup_free_ char *nodes = NULL;
        char *why = NULL;

        if (enforce_wall_stands(m->enforcer, wall, &now) != 0 || bitset_format(&now, &nodes) < 0)
                return NULL;
        return asprintf(&why, "somebody else has given its group %s%s (cpuset.mems), which stays so",
                        *nodes ? "memory on node " : "no nodes of its own", nodes) < 0
                       ? NULL
                       : why;
}

/* A sentence; NULL: it does no harm. */
static char *why_relax(const Manager *m, const UndoEntry *wall) {
        _cleanup_(cgroup_info_done) CgroupInfo info = {};
        _cleanup_free_ char *nodes = NULL;
        char *why = NULL;
        Psi psi;

        if (bitset_format(&wall->new, &nodes) < 0 || room_on(m, &wall->new, true) == 0)
                return NULL;
        if (room_on(m, &wall->new, false) == 0)
                return asprintf(&why, "node %s is down to its reserve, and other nodes have room", nodes) < 0 ? NULL
                                                                                                              : why;
        if (cgroup_of_pid(collector_cgroups(m->collector), "", wall->process.pid, &info) < 0 ||
            !info.memory_directory || psi_memory_group(info.memory_directory, &psi) < 0 ||
            psi.some_avg10 <= m->config->move_params.pressure_max)
                return NULL;
        return asprintf(
                       &why,
                       "its group waited for memory %.1f %% of the last ten seconds, and other nodes than %s have room",
                       psi.some_avg10, nodes) < 0
                       ? NULL
                       : why;
}

static const PlanTask *plan_of(const Plan *plan, Process p) {
        for (size_t i = 0; plan && i < plan->n_tasks; i++)
                if (plan->tasks[i].process.pid == p.pid && plan->tasks[i].process.start_time == p.start_time)
                        return &plan->tasks[i];
        return NULL;
}

static const UndoEntry *next_wall(Manager *m, size_t *at) {
        size_t n;
        const UndoEntry *all = undo_entries(m->undo, &n);

        while (*at < n)
                if (all[(*at)++].type == UNDO_MEMS)
                        return &all[*at - 1];
        return NULL;
}

void manager_walls(Manager *m) {
        const UndoEntry *wall;

        for (size_t at = 0; (wall = next_wall(m, &at));) {
                char *theirs = why_theirs(m, wall);
                _cleanup_free_ char *why = theirs ? theirs : why_relax(m, wall);
                const PlanTask *t = plan_of(m->plan, wall->process);

                if (why && take_away(m, wall, t ? t->name : NULL, why) > 0)
                        at = 0;
        }
        for (size_t i = m->n_walls; i-- > 0;)
                if (process_is(m->walls[i].process.pid, m->walls[i].process.start_time) != 1 ||
                    !job_store_find(m->jobs, m->walls[i].job))
                        drop_note(m, i);
        for (size_t i = 0; m->plan && i < m->plan->n_tasks; i++)
                consider(m, &m->plan->tasks[i]);
}

static bool is_asked(const Request *q, const char *job) {
        for (size_t i = 0; i < q->n_all; i++)
                if (streq(q->all[i]->job->name, strempty(job)))
                        return true;
        return false;
}

/* Those that the new plan has elsewhere, or its job does not ask for any more: before pages move. */
static void take_away_old(Manager *m, const Request *q, const Plan *plan) {
        const UndoEntry *wall;

        for (size_t at = 0; (wall = next_wall(m, &at));) {
                const PlanTask *t = plan_of(plan, wall->process);

                if (!is_asked(q, wall->job) || (t && t->memory_wall && bitset_equal(&t->mems, &wall->new)))
                        continue;
                if (take_away(m, wall, NULL, NULL) > 0)
                        at = 0;
        }
}

void manager_walls_order(Manager *m, const Request *q, const Plan *plan, Outcome *o) {
        take_away_old(m, q, plan);
        for (size_t i = m->n_walls; q->kind != REQUEST_TICK && i-- > 0;)
                if (is_asked(q, m->walls[i].job))
                        drop_note(m, i);
        for (size_t i = 0; i < plan->n_tasks; i++) {
                const PlanTask *t = &plan->tasks[i];

                if (!is_candidate(m, t) || enforce_has_group(m->enforcer, t->process))
                        continue;
                add_note(
                        m, t->job, t->name, t->process, false,
                        "MemoryWall=yes is for processes that `qschedctl run` starts in a group of ours; whose group this "
                        "one is in says which memory nodes it has");
                if (find_note(m, t->process))
                        (void) strv_extendf(&o->messages, "%s (pid %d) gets no memory wall: %s", t->name,
                                            (int) t->process.pid, find_note(m, t->process)->why);
        }
}

/* A plan must not take our own wall for the owner's. */
void manager_look_through_walls(Manager *m, Snapshot *s) {
        const UndoEntry *wall;

        for (size_t at = 0; (wall = next_wall(m, &at));)
                for (size_t i = 0; i < s->n_tasks; i++) {
                        Task *t = &s->tasks[i];
                        const Bitset *wide = bitset_isempty(&wall->old) ? &s->topology->allowed_nodes : &wall->old;

                        if (t->pid == wall->process.pid && t->start_time == wall->process.start_time &&
                            bitset_copy(&t->mems, wide) < 0)
                                (void) log_oom();
                }
}

json_t *manager_show_walls(Manager *m) {
        json_t *a = json_array();
        const UndoEntry *wall;

        for (size_t at = 0; a && (wall = next_wall(m, &at));) {
                const PlanTask *t = plan_of(m->plan, wall->process);

                (void) json_array_append_new(a,
                                             json_pack("{s:o,s:o,s:i,s:o,s:s,s:n}", "job", json_text(wall->job), "task",
                                                       json_text(t ? t->name : NULL), "pid", (int) wall->process.pid,
                                                       "nodes", json_bitset(&wall->new), "state", "set", "why"));
        }
        for (size_t i = 0; a && i < m->n_walls; i++)
                (void) json_array_append_new(
                        a,
                        json_pack("{s:o,s:o,s:i,s:n,s:s,s:o}", "job", json_text(m->walls[i].job), "task",
                                  json_text(m->walls[i].task), "pid", (int) m->walls[i].process.pid, "nodes", "state",
                                  m->walls[i].relaxed ? "relaxed" : "refused", "why", json_text(m->walls[i].why)));
        return a;
}
