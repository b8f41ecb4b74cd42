/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages follow the plan. After an order has been committed each of its processes waits in the queue (daemon/move-queue.h)
 * for its pages to be moved to the plan's nodes; at a tick or a re-plan only those whose masks were written then. A timer
 * does a step of some milliseconds and rests as long, so that neither the tick nor a call waits for longer than a step.
 *
 * Nothing of it is part of the order's transaction: where pages are is no setting, and is not put back. Of a job without
 * authority only processes that are still its user's are touched, since the kernel would let us move anybody's.
 */
#include <errno.h>

#include "common/json.h"
#include "common/log.h"
#include "daemon/manager-internal.h"

#define MOVES_SHOWN 16U /* of one job, that have ended */
#define TIMER_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 10)
#define TIMER_ACCURACY_USEC 100U

/* ---- the queue's owner ---- */

static int on_begin(void *userdata, const MoveItem *item, char **ret_group_dir) {
        _cleanup_(cgroup_info_done) CgroupInfo info = {};
        Manager *m = userdata;
        uid_t uid;
        int r;

        if (process_is(item->process.pid, item->process.start_time) != 1)
                return -ESRCH;
        r = process_uid(item->process.pid, &uid);
        if (r < 0)
                return r;
        if (item->uid != TASK_ANY_USER && item->uid != uid)
                return -EPERM;
        r = cgroup_of_pid(collector_cgroups(m->collector), "", item->process.pid, &info);
        if (r >= 0)
                *ret_group_dir = TAKE_PTR(info.memory_directory);
        return r;
}

/* What was there already is no news, nor is a process that ended before anything happened. */
static bool worth_telling(const MoveReport *r) {
        return r->moved > 0 || r->left > 0 || r->failed > 0 ||
               (r->stop != MOVE_DONE && r->stop != MOVE_GONE && r->stop != MOVE_CANCELLED);
}

static void on_ended(void *userdata, const MoveItem *item) {
        const MoveReport *r = &item->report;
        _cleanup_free_ char *nodes = NULL, *sentence = move_report_sentence(r);
        const char *advice = move_stop_advice(r->stop);

        if (!sentence || bitset_format(&item->nodes, &nodes) < 0) {
                (void) log_oom();
                return;
        }
        if (worth_telling(r))
                log_info("Job %s: memory of %s (pid %d) to node %s: %s%s%s", item->job, item->task,
                         (int) item->process.pid, nodes, sentence, advice ? "; " : "", strempty(advice));
        else
                log_debug("Job %s: memory of %s (pid %d) to node %s: %s", item->job, item->task,
                          (int) item->process.pid, nodes, sentence);
}

int manager_moves_new(Manager *m) {
        const MoveHooks hooks = { on_begin, on_ended, m };
        int r = move_queue_new(NULL, &hooks, &m->moves);

        if (r >= 0)
                move_queue_set_params(m->moves, &m->config->move_params);
        return r;
}

void manager_moves_free(Manager *m) {
        sd_event_source_disable_unref(m->move_timer);
        m->move_timer = NULL;
        m->moves = move_queue_free(m->moves);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        Manager *m = userdata;
        uint64_t rest = 0;
        int r = move_queue_step(m->moves, &rest);

        if (r < 0)
                (void) log_warning_errno(r, "Failed to move memory: %m");
        if (r == 0)
                return sd_event_source_set_enabled(source, SD_EVENT_OFF);
        (void) sd_event_source_set_time(source, now_monotonic() + rest);
        return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int start_timer(Manager *m) {
        int on = SD_EVENT_OFF, r;

        if (!m->move_timer) {
                r = sd_event_add_time(m->event, &m->move_timer, CLOCK_MONOTONIC, now_monotonic(), TIMER_ACCURACY_USEC,
                                      on_timer, m);
                return r < 0 ? r : sd_event_source_set_priority(m->move_timer, TIMER_PRIORITY);
        }
        r = sd_event_source_get_enabled(m->move_timer, &on);
        if (r < 0 || on != SD_EVENT_OFF)
                return MIN(r, 0);
        r = sd_event_source_set_time(m->move_timer, now_monotonic());
        return r < 0 ? r : sd_event_source_set_enabled(m->move_timer, SD_EVENT_ONESHOT);
}

/* ---- which processes ---- */

typedef struct Verdict { /* of one process, from the changes of an outcome */
        pid_t pid;
        bool written, left; /* some mask was; some was somebody else's or refused */
} Verdict;

typedef struct Verdicts {
        Verdict *list; /* by pid */
        size_t n;
} Verdicts;

static int verdict_cmp(const void *a, const void *b) {
        return CMP(((const Verdict *) a)->pid, ((const Verdict *) b)->pid);
}

static int judge(const Outcome *o, Verdicts *ret) {
        Verdict *list = calloc(o->n_changes + 1, sizeof(*list));
        size_t n = 0, k = 0;

        if (!list)
                return -ENOMEM;
        for (size_t i = 0; i < o->n_changes; i++) {
                const Change *c = &o->changes[i];

                if (c->path || c->irq.device)
                        continue;
                if (n == 0 || list[n - 1].pid != c->process.pid)
                        list[n++] = (Verdict){ .pid = c->process.pid };
                list[n - 1].written |= c->result == CHANGE_DONE || c->result == CHANGE_NARROWED;
                list[n - 1].left |= c->result == CHANGE_DRIFT || c->result == CHANGE_REFUSED;
        }
        qsort(list, n, sizeof(*list), verdict_cmp);
        for (size_t i = 1; i < n; i++)
                if (list[i].pid != list[k].pid)
                        list[++k] = list[i];
                else {
                        list[k].written |= list[i].written;
                        list[k].left |= list[i].left;
                }
        *ret = (Verdicts){ list, n > 0 ? k + 1 : 0 };
        return 0;
}

typedef struct Adding {
        Manager *m;
        Verdicts verdicts;
        bool order; /* all that are placed, and once more what ended early; else only those whose masks were written */
} Adding;

static bool is_meant(const Adding *a, Process p) {
        const Verdict *v = bsearch(&(Verdict){ .pid = p.pid }, a->verdicts.list, a->verdicts.n, sizeof(Verdict),
                                   verdict_cmp);

        return v ? v->written || (a->order && !v->left) : a->order;
}

bool manager_is_all_memory(const Manager *m, const Bitset *nodes) {
        const Topology *t = collector_topology(m->collector);

        for (unsigned i = 0; i < t->n_nodes; i++)
                if (t->nodes[i].memory > 0 && !bitset_test(nodes, t->nodes[i].os))
                        return false;
        return true;
}

static int add_task(const Adding *a, const PlanTask *t) {
        const AppliedJob *j = job_store_find(a->m->jobs, strempty(t->job));
        bool confined = j && j->confined;
        MoveItem wish = { .job = (char *) strempty(t->job),
                          .task = t->name,
                          .nodes = t->mems,
                          .uid = confined ? j->uid : TASK_ANY_USER,
                          .first = !confined };
        int r = 0;

        if (t->process.pid <= 0 || t->fixed || bitset_isempty(&t->mems) || manager_is_all_memory(a->m, &t->mems))
                return 0;
        for (size_t i = 0; i <= t->n_children && r >= 0; i++) {
                wish.process = i == 0 ? t->process : t->children[i - 1];
                if (is_meant(a, wish.process))
                        r = move_queue_add(a->m->moves, &wish, a->order);
        }
        return r;
}

static void add_plan(Manager *m, const Plan *plan, const Outcome *o, bool order) {
        Adding a = { .m = m, .order = order };
        int r;

        if (!m->config->move || !plan)
                return;
        r = judge(o, &a.verdicts);
        for (size_t i = 0; i < plan->n_tasks && r >= 0; i++)
                r = add_task(&a, &plan->tasks[i]);
        free(a.verdicts.list);
        if (r >= 0 && move_queue_size(m->moves) > 0)
                r = start_timer(m);
        if (r < 0)
                (void) log_warning_errno(r, "Not all memory of placed tasks can be moved: %m");
}

typedef struct Replaced {
        const Request *request;
        const Plan *plan;
} Replaced;

static const PlanTask *plan_of(const Plan *plan, Process p) {
        for (size_t i = 0; i < plan->n_tasks; i++) {
                const PlanTask *t = &plan->tasks[i];

                for (size_t k = 0; k <= t->n_children; k++) {
                        const Process *q = k == 0 ? &t->process : &t->children[k - 1];

                        if (q->pid == p.pid && q->start_time == p.start_time)
                                return t;
                }
        }
        return NULL;
}

/* A job of the request, whose new plan has no such move. */
static bool is_replaced(const MoveItem *item, const void *what) {
        const Replaced *w = what;
        const PlanTask *t;
        bool asked = false;

        for (size_t i = 0; i < w->request->n_all; i++)
                asked = asked || streq(w->request->all[i]->job->name, item->job);
        if (!asked)
                return false;
        t = plan_of(w->plan, item->process);
        return !t || !streq(strempty(t->job), item->job) || !bitset_equal(&t->mems, &item->nodes);
}

void manager_move_order(Manager *m, const Request *q, const Plan *plan, const Outcome *o) {
        move_queue_drop(m->moves, is_replaced, &(Replaced){ q, plan });
        add_plan(m, plan, o, q->kind != REQUEST_TICK);
}

void manager_move_late(Manager *m, const Outcome *o) {
        if (o->n_written > 0)
                add_plan(m, m->plan, o, false);
}

static bool is_of_job(const MoveItem *item, const void *what) {
        return !what || streq(item->job, what);
}

void manager_move_forget(Manager *m, const char *job) {
        move_queue_drop(m->moves, is_of_job, job);
}

static bool is_not_ended(const MoveItem *item, const void *what) {
        return !item->ended;
}

void manager_move_cancel(Manager *m) {
        move_queue_drop(m->moves, is_not_ended, NULL);
}

void manager_move_reload(Manager *m) {
        move_queue_set_params(m->moves, &m->config->move_params);
        if (!m->config->move)
                manager_move_cancel(m);
}

/* ---- what is shown ---- */

static json_t *show_item(const Manager *m, const MoveItem *item) {
        const MoveReport *report = move_queue_report(m->moves, item);
        _cleanup_free_ char *sentence = report ? move_report_sentence(report) : NULL;
        const char *advice = report ? move_stop_advice(report->stop) : NULL;
        json_t *j = NULL;

        if (report && move_report_to_json(report, &j) < 0)
                return NULL;
        if (!j)
                j = json_pack("{s:i,s:s}", "pid", (int) item->process.pid, "stop", "waiting");
        if (!j)
                return NULL;
        (void) json_object_set_new(j, "job", json_text(item->job));
        (void) json_object_set_new(j, "task", json_text(item->task));
        (void) json_object_set_new(j, "nodes", json_bitset(&item->nodes));
        if (sentence)
                (void) json_object_set_new(j, "sentence", json_text(sentence));
        if (advice)
                (void) json_object_set_new(j, "advice", json_text(advice));
        if (item->ended)
                (void) json_object_set_new(j, "took_us", json_integer((json_int_t) item->took_usec));
        return j;
}

/* How many of its job ended after it? */
static unsigned ended_after(const Manager *m, size_t at) {
        const MoveItem *item = move_queue_item(m->moves, at);
        unsigned n = 0;

        for (size_t i = at + 1; i < move_queue_size(m->moves) && n < MOVES_SHOWN; i++) {
                const MoveItem *other = move_queue_item(m->moves, i);

                n += other->ended && streq(other->job, item->job);
        }
        return n;
}

json_t *manager_show_moves(const Manager *m) {
        json_t *running = json_null(), *last = json_array();
        json_int_t waiting = 0;

        for (size_t i = 0; last && i < move_queue_size(m->moves); i++) {
                const MoveItem *item = move_queue_item(m->moves, i);

                if (item->ended && ended_after(m, i) < MOVES_SHOWN)
                        (void) json_array_append_new(last, show_item(m, item));
                else if (!item->ended && move_queue_report(m->moves, item))
                        running = show_item(m, item);
                else if (!item->ended)
                        waiting++;
        }
        return json_pack("{s:b,s:I,s:o,s:o}", "enabled", (int) m->config->move, "waiting", waiting, "running",
                         running ? running : json_null(), "last", last);
}

json_t *manager_explain_moves(const Manager *m, const PlanTask *t) {
        json_t *a = json_array();

        for (size_t i = 0; a && i < move_queue_size(m->moves); i++) {
                const MoveItem *item = move_queue_item(m->moves, i);

                if (streq(item->job, strempty(t->job)) && streq(item->task, strempty(t->name)))
                        (void) json_array_append_new(a, show_item(m, item));
        }
        return a;
}
