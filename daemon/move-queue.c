/* SPDX-License-Identifier: Apache-2.0 */
/* The list of moves: n_ended that have ended, in that order, then those that wait, the one that runs among them. */
#include "daemon/move-queue.h"

#include <errno.h>

#include "daemon/readers/tasks.h"

#define ITEMS_KEPT 1024U /* so many that ended are kept whether their process lives or not */
#define REST_MIN_USEC 500U

struct MoveQueue {
        MoveOps ops;
        MoveHooks hooks;
        MoveParams params;
        MoveItem **items;
        size_t n_items, n_ended, n_allocated;
        MoveItem *running;
        MovePages *pages; /* its move */
};

static MoveItem *item_free(MoveItem *i) {
        if (!i)
                return NULL;
        free(i->job);
        free(i->task);
        bitset_done(&i->nodes);
        move_report_done(&i->report);
        free(i);
        return NULL;
}
DEFINE_CLEANUP(MoveItem *, item_free);

int move_queue_new(const MoveOps *ops, const MoveHooks *hooks, MoveQueue **ret) {
        MoveQueue *q = calloc(1, sizeof(*q));

        if (!q)
                return -ENOMEM;
        q->ops = ops ? *ops : move_ops_kernel;
        q->hooks = hooks ? *hooks : (MoveHooks){};
        q->params = move_params_default;
        *ret = q;
        return 0;
}

MoveQueue *move_queue_free(MoveQueue *q) {
        if (!q)
                return NULL;
        move_pages_free(q->pages);
        for (size_t i = 0; i < q->n_items; i++)
                item_free(q->items[i]);
        free(q->items);
        free(q);
        return NULL;
}

void move_queue_set_params(MoveQueue *q, const MoveParams *params) {
        q->params = *params;
}

static void take_out(MoveQueue *q, size_t i) {
        if (i < q->n_ended)
                q->n_ended--;
        memmove(q->items + i, q->items + i + 1, (q->n_items - i - 1) * sizeof(*q->items));
        q->n_items--;
}

static size_t index_of(const MoveQueue *q, const MoveItem *item) {
        size_t i = 0;

        while (q->items[i] != item)
                i++;
        return i;
}

/* From those that wait to those that have ended; the owner hears of it. */
static void end_item(MoveQueue *q, MoveItem *item) {
        take_out(q, index_of(q, item));
        memmove(q->items + q->n_ended + 1, q->items + q->n_ended, (q->n_items - q->n_ended) * sizeof(*q->items));
        q->items[q->n_ended++] = item;
        q->n_items++;
        item->ended = true;
        if (q->running == item)
                q->running = NULL;
        if (q->hooks.ended)
                q->hooks.ended(q->hooks.userdata, item);
}

static void end_running(MoveQueue *q) {
        MoveItem *item = q->running;

        item->took_usec = q->ops.now(q->ops.userdata) - item->begun_usec;
        move_pages_take_report(q->pages, &item->report);
        q->pages = move_pages_free(q->pages);
        end_item(q, item);
}

/* It never began. */
static void end_refused(MoveQueue *q, MoveItem *item, int error) {
        item->report.process = item->process;
        item->report.page_size = (uint64_t) sysconf(_SC_PAGESIZE);
        item->report.stop = error == ESRCH ? MOVE_GONE : MOVE_REFUSED;
        item->report.error = error;
        item->report.why = strdup(error == ESRCH   ? "the process has ended"
                                  : error == EPERM ? "it is another user's process by now"
                                                   : strerror(error));
        end_item(q, item);
}

static void drop_item(MoveQueue *q, size_t i) {
        MoveItem *item = q->items[i];

        if (item == q->running) {
                move_pages_cancel(q->pages);
                end_running(q); /* is told of, and among those that ended now */
                i = index_of(q, item);
        }
        take_out(q, i);
        item_free(item);
}

void move_queue_drop(MoveQueue *q, bool (*drop)(const MoveItem *item, const void *what), const void *what) {
        for (size_t i = q->n_items; i-- > 0;)
                if (drop(q->items[i], what))
                        drop_item(q, i);
}

static bool process_equal(const Process *a, const Process *b) {
        return a->pid == b->pid && a->start_time == b->start_time;
}

static bool same_wish(const MoveItem *a, const MoveItem *b) {
        return streq(a->job, b->job) && bitset_equal(&a->nodes, &b->nodes);
}

/* 1: a like one is there; 0: none is, any more. */
static int find_like(MoveQueue *q, const MoveItem *wish, bool again) {
        for (size_t i = 0; i < q->n_items; i++) {
                const MoveItem *item = q->items[i];

                if (!process_equal(&item->process, &wish->process))
                        continue;
                if (same_wish(item, wish) && (!item->ended || !again || item->report.stop == MOVE_DONE))
                        return 1;
                drop_item(q, i);
                return 0;
        }
        return 0;
}

static void trim(MoveQueue *q) {
        for (size_t i = 0; q->n_ended > ITEMS_KEPT && i < q->n_ended;)
                if (process_is(q->items[i]->process.pid, q->items[i]->process.start_time) == 1)
                        i++;
                else
                        drop_item(q, i);
}

static int copy_wish(const MoveItem *wish, MoveItem **ret) {
        _cleanup_(item_freep) MoveItem *item = calloc(1, sizeof(*item));
        int r;

        if (!item)
                return -ENOMEM;
        item->job = strdup(wish->job);
        item->task = strdup(wish->task);
        item->process = wish->process;
        item->uid = wish->uid;
        item->first = wish->first;
        r = item->job && item->task ? bitset_copy(&item->nodes, &wish->nodes) : -ENOMEM;
        if (r >= 0)
                *ret = TAKE_PTR(item);
        return r;
}

int move_queue_add(MoveQueue *q, const MoveItem *wish, bool again) {
        MoveItem *item;
        int r;

        if (find_like(q, wish, again))
                return 0;
        if (q->n_items == q->n_allocated)
                trim(q); /* it reads each process: not with each */
        if (q->n_items == q->n_allocated) {
                size_t n = MAX(2 * q->n_allocated, (size_t) 16);
                MoveItem **more = reallocarray(q->items, n, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                q->items = more;
                q->n_allocated = n;
        }
        r = copy_wish(wish, &item);
        if (r < 0)
                return r;
        q->items[q->n_items++] = item;
        return 1;
}

static MoveItem *next_item(MoveQueue *q) {
        for (size_t i = q->n_ended; i < q->n_items; i++)
                if (q->items[i]->first)
                        return q->items[i];
        return q->n_ended < q->n_items ? q->items[q->n_ended] : NULL;
}

/* Another process whose memory is this one's has been moved there. */
static bool space_is_done(const MoveQueue *q, const MoveItem *item) {
        for (size_t i = 0; q->ops.same_space && i < q->n_ended; i++) {
                const MoveItem *other = q->items[i];

                if (other->begun && same_wish(other, item) &&
                    q->ops.same_space(q->ops.userdata, other->process.pid, item->process.pid))
                        return true;
        }
        return false;
}

static int begin_item(MoveQueue *q, MoveItem *item) {
        _cleanup_free_ char *group_dir = NULL;
        MoveParams params = q->params;
        int r = 0;

        if (space_is_done(q, item)) {
                drop_item(q, index_of(q, item));
                return 0;
        }
        if (q->hooks.begin)
                r = q->hooks.begin(q->hooks.userdata, item, &group_dir);
        params.group_dir = group_dir;
        if (r >= 0)
                r = move_pages_new(item->process, &item->nodes, &params, &q->ops, &q->pages);
        if (r < 0) {
                end_refused(q, item, -r);
                return r == -ENOMEM ? r : 0;
        }
        item->begun = true;
        item->begun_usec = q->ops.now(q->ops.userdata);
        q->running = item;
        return 0;
}

static int step(MoveQueue *q) {
        int r;

        if (!q->running)
                return begin_item(q, next_item(q));
        r = move_pages_step(q->pages);
        if (r <= 0)
                end_running(q);
        return MIN(r, 0);
}

int move_queue_step(MoveQueue *q, uint64_t *ret_rest_usec) {
        uint64_t start = q->ops.now(q->ops.userdata);
        int r;

        if (q->n_ended == q->n_items)
                return 0;
        r = step(q);
        *ret_rest_usec = MAX(q->ops.now(q->ops.userdata) - start, (uint64_t) REST_MIN_USEC);
        return r < 0 ? r : q->n_ended < q->n_items;
}

size_t move_queue_size(const MoveQueue *q) {
        return q->n_items;
}

const MoveItem *move_queue_item(const MoveQueue *q, size_t i) {
        return q->items[i];
}

const MoveReport *move_queue_report(const MoveQueue *q, const MoveItem *item) {
        if (item->ended)
                return &item->report;
        return item == q->running ? move_pages_report(q->pages) : NULL;
}
