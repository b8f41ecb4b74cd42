/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps and chunks. A step either looks for pages or, when there are enough of them for a chunk or none are to come,
 * moves one chunk.
 *
 * What move_pages(2) says is not the whole truth: when some pages cannot be moved it stops at their batch and leaves the
 * states of the rest unwritten, and of a transparent huge page, which goes as a whole, it calls the second address busy.
 * So whatever was not plainly moved is asked about again, and what was not tried goes back to those that wait.
 */
#include "daemon/move-pages.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/syscall.h>

#include "common/clock.h"
#include "common/fileio.h"
#include "daemon/move-pages-internal.h"
#include "daemon/readers/tasks.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#define MPOL_MF_MOVE (1 << 1)
#define NOT_TRIED INT_MIN

const MoveParams move_params_default = {
        .stall_usec = 20000,
        .walk_usec = 10000000,
        .pressure_max = 10,
        .reserve = 0.05,
        .group_reserve = 0.05,
};

static uint64_t kernel_now(void *userdata) {
        return clock_monotonic_usec();
}

static long kernel_move(void *userdata, pid_t pid, size_t n, void *const *pages, const int *nodes, int *status) {
        long r = syscall(SYS_move_pages, pid, n, pages, nodes, status, MPOL_MF_MOVE);

        return r < 0 ? -errno : r;
}

/* kcmp orders: 0 the same, 1 and 2 less and greater, 3 different. */
static bool kernel_same_space(void *userdata, pid_t a, pid_t b) {
        return syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0) == 0;
}

const MoveOps move_ops_kernel = { kernel_now, kernel_move, kernel_same_space, NULL };

static bool this_system(const MovePages *m) {
        return m->root[0] == '\0';
}

MovePages *move_pages_free(MovePages *m) {
        if (!m)
                return NULL;
        walk_done(m);
        if (m->pidfd >= 0)
                (void) close(m->pidfd);
        free(m->root);
        free(m->group_dir);
        bitset_done(&m->nodes);
        move_report_done(&m->report);
        free(m->queue);
        free(m->entries);
        free(m->pending);
        free(m->pages);
        free(m->target);
        free(m->status);
        free(m);
        return NULL;
}

static int allocate(MovePages *m) {
        m->queue = calloc(MOVE_WINDOW, sizeof(*m->queue));
        m->entries = calloc(MOVE_WINDOW, sizeof(*m->entries));
        m->pending = calloc(MOVE_PENDING_MAX, sizeof(*m->pending));
        m->pages = calloc(MOVE_CHUNK_MAX, sizeof(*m->pages));
        m->target = calloc(MOVE_CHUNK_MAX, sizeof(*m->target));
        m->status = calloc(MAX(MOVE_CHUNK_MAX, MOVE_WINDOW), sizeof(*m->status));
        return m->queue && m->entries && m->pending && m->pages && m->target && m->status ? 0 : -ENOMEM;
}

static int set_up(MovePages *m, const Bitset *nodes, const MoveParams *params) {
        m->params = *params;
        m->root = strdup(strempty(params->root));
        m->group_dir = params->group_dir ? strdup(params->group_dir) : NULL;
        if (!m->root || (params->group_dir && !m->group_dir))
                return -ENOMEM;
        m->params.root = m->root;
        m->params.group_dir = m->group_dir;
        m->params.stall_usec = MAX(m->params.stall_usec, UINT64_C(1));
        int r = bitset_copy(&m->nodes, nodes);

        return r < 0 ? r : allocate(m);
}

/* The pidfd first: what it is of is then asked, so that it is of that one. */
static int hold_process(MovePages *m) {
        int r;

        m->pidfd = (int) syscall(SYS_pidfd_open, m->report.process.pid, 0);
        if (m->pidfd < 0 && errno != ENOSYS && errno != EPERM)
                return errno == EINVAL ? -ESRCH : -errno;
        r = process_is(m->report.process.pid, m->report.process.start_time);
        return r > 0 ? 0 : r < 0 ? r : -ESRCH;
}

int move_pages_new(Process process, const Bitset *nodes, const MoveParams *params, const MoveOps *ops,
                   MovePages **ret) {
        _cleanup_(move_pages_freep) MovePages *m = NULL;
        int r;

        if (bitset_isempty(nodes) || process.pid <= 0)
                return -EINVAL;
        m = calloc(1, sizeof(*m));
        if (!m)
                return -ENOMEM;
        m->pidfd = m->maps_fd = m->pagemap_fd = -1;
        m->ops = ops ? *ops : move_ops_kernel;
        m->report.process = process;
        m->report.page_size = (uint64_t) sysconf(_SC_PAGESIZE);
        m->report.chunk = m->ask = MOVE_CHUNK_FIRST;
        r = set_up(m, nodes, params ? params : &move_params_default);
        if (r >= 0 && this_system(m))
                r = hold_process(m);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(m);
        return 0;
}

int move_finish(MovePages *m, MoveStop stop, int error, const char *format, ...) {
        va_list ap;
        int r;

        m->over = true;
        m->report.stop = stop;
        m->report.error = error;
        m->report.left = m->n_pending;
        m->n_pending = 0;
        walk_done(m);
        free(m->report.why);
        va_start(ap, format);
        r = vasprintf(&m->report.why, format, ap);
        va_end(ap);
        if (r < 0)
                m->report.why = NULL;
        return r < 0 ? -ENOMEM : 0;
}

void move_pages_cancel(MovePages *m) {
        if (!m->over)
                (void) move_finish(m, MOVE_CANCELLED, 0, "it was called off");
}

const MoveReport *move_pages_report(const MovePages *m) {
        return &m->report;
}

long move_query(MovePages *m, size_t n, void *const *pages, int *status) {
        return n > 0 ? m->ops.move(m->ops.userdata, m->report.process.pid, n, pages, NULL, status) : 0;
}

static bool alive(const MovePages *m) {
        struct pollfd p = { .fd = m->pidfd, .events = POLLIN };

        if (!this_system(m))
                return true;
        if (m->pidfd >= 0)
                return poll(&p, 1, 0) == 0;
        return process_is(m->report.process.pid, m->report.process.start_time) > 0;
}

/* On its way out a process has lost its memory before it counts as ended, and the kernel says EINVAL. */
static bool lost_memory(const MovePages *m) {
        _cleanup_free_ char *text = NULL;
        char path[40];

        (void) snprintf(path, sizeof(path), "/proc/%d/statm", (int) m->report.process.pid);
        return this_system(m) && (read_file_at(AT_FDCWD, path, 4096, &text, NULL) < 0 || strncmp(text, "0 ", 2) == 0);
}

/* A whole call failed. */
static int call_failed(MovePages *m, int error) {
        if (error == EINVAL && lost_memory(m))
                error = ESRCH;
        switch (error) {
        case ESRCH: return move_finish(m, MOVE_GONE, 0, "the process has ended");
        case EACCES:
        case ENODEV:
                return move_finish(m, MOVE_NODE_DENIED, error,
                                   "the kernel does not let the process have memory there: %s", strerror(error));
        case ENOMEM: return move_finish(m, MOVE_NODE_FULL, error, "the kernel found no free memory there");
        default: return move_finish(m, MOVE_REFUSED, error, "move_pages: %s", strerror(error));
        }
}

/* Part of a call's time does not depend on its size (on large hosts the kernel waits for every CPU once per call). When
 * a smaller call after a too long one was no shorter, it was that, and smaller chunks only make more such calls. */
static void shrink_chunk(MovePages *m, size_t n, uint64_t took) {
        MoveReport *r = &m->report;
        bool fixed = n < m->long_n && took > m->long_usec * 3 / 4;
        double fits = (double) n * (double) m->params.stall_usec / (double) took;

        r->overruns++;
        r->chunk = fixed ? MIN((unsigned) m->long_n * 2, MOVE_CHUNK_MAX) : MAX((unsigned) (fits * 0.7), 1U);
        m->long_n = n;
        m->long_usec = took;
}

static void adapt_chunk(MovePages *m, size_t n, uint64_t took) {
        MoveReport *r = &m->report;

        r->calls++;
        r->stall_usec += took;
        r->stall_max_usec = MAX(r->stall_max_usec, took);
        if (took > m->params.stall_usec) {
                shrink_chunk(m, n, took);
                return;
        }
        m->long_n = 0;
        if (took < m->params.stall_usec / 2 && n == r->chunk)
                r->chunk = MIN(r->chunk * 2, MOVE_CHUNK_MAX);
}

static void count_moved(MoveReport *r, int status, int where, const Bitset *nodes) {
        if (where >= 0 && bitset_test(nodes, (unsigned) where))
                r->moved++;
        else if (status == -EACCES)
                r->shared++;
        else if (status == -EBUSY || status == -EAGAIN)
                r->busy++;
        else if (status == -ENOENT || status == -EFAULT || where == -ENOENT || where == -EFAULT)
                r->absent++;
        else
                r->failed++;
}

/* pages[] and status[] after a call: those that were plainly moved leave, the others are asked about. */
static size_t keep_doubtful(MovePages *m, size_t n) {
        size_t kept = 0;

        for (size_t i = 0; i < n; i++)
                if (m->status[i] >= 0 && bitset_test(&m->nodes, (unsigned) m->status[i]))
                        m->report.moved++;
                else {
                        m->pages[kept] = m->pages[i];
                        m->status[kept++] = m->status[i];
                }
        return kept;
}

/* target[] serves as the answer: the call that needed it is over. */
static int settle(MovePages *m, size_t n) {
        uint64_t before = m->report.moved, start = m->ops.now(m->ops.userdata);
        size_t kept = keep_doubtful(m, n), again = 0;
        long r = move_query(m, kept, m->pages, m->target);
        bool drop;

        m->report.walk_usec += m->ops.now(m->ops.userdata) - start;
        if (r < 0) {
                memcpy(m->pending + m->n_pending, m->pages, kept * sizeof(*m->pages));
                m->n_pending += kept;
                return call_failed(m, (int) -r);
        }
        for (size_t i = 0; i < kept; i++) {
                bool there = m->target[i] >= 0 && bitset_test(&m->nodes, (unsigned) m->target[i]);

                if (m->status[i] != NOT_TRIED || there || m->target[i] < 0)
                        count_moved(&m->report, m->status[i], m->target[i], &m->nodes);
                else
                        m->pages[again++] = m->pages[i];
        }
        if (again == 0)
                return 0;
        /* Nothing moved: something in it holds up the rest. Smaller chunks find it. */
        drop = m->report.moved == before && n <= 16;
        if (m->report.moved == before)
                m->report.chunk = MAX((unsigned) n / 2, 1U);
        if (drop)
                m->report.busy += again;
        else
                for (size_t i = 0; i < again; i++)
                        m->pending[m->n_pending++] = m->pages[i];
        return 0;
}

static int move_chunk(MovePages *m) {
        uint64_t room, start;
        unsigned node = 0;
        size_t n;
        long r;
        int k;

        k = limits_check(m, &node, &room);
        if (k < 0 || m->over)
                return k;
        n = MIN(MIN((size_t) m->report.chunk, m->n_pending), (size_t) MIN(room, (uint64_t) MOVE_CHUNK_MAX));
        /* Ascending from the front of what waits, so that a huge page's addresses go together. */
        memcpy(m->pages, m->pending, n * sizeof(*m->pages));
        for (size_t i = 0; i < n; i++) {
                m->target[i] = (int) node;
                m->status[i] = NOT_TRIED;
        }
        start = m->ops.now(m->ops.userdata);
        r = m->ops.move(m->ops.userdata, m->report.process.pid, n, m->pages, m->target, m->status);
        if (r < 0) /* they stay in pending, and count as left */
                return call_failed(m, (int) -r);
        adapt_chunk(m, n, m->ops.now(m->ops.userdata) - start);
        m->n_pending -= n;
        memmove(m->pending, m->pending + n, m->n_pending * sizeof(*m->pending));
        return settle(m, n);
}

static int begin(MovePages *m) {
        m->begun = true;
        return walk_open(m);
}

static bool walked(const MovePages *m) {
        return m->state == WALK_END && m->queue_at == m->n_queue;
}

static bool out_of_time(const MovePages *m) {
        return m->params.walk_usec > 0 && m->report.walk_usec > m->params.walk_usec;
}

static int step(MovePages *m) {
        bool ended = walked(m) || out_of_time(m);

        if (!alive(m))
                return move_finish(m, MOVE_GONE, 0, "the process has ended");
        if (!m->begun)
                return begin(m);
        if (m->n_pending >= m->report.chunk || (ended && m->n_pending > 0))
                return move_chunk(m);
        if (walked(m))
                return move_finish(m, MOVE_DONE, 0, "done");
        if (ended)
                return move_finish(m, MOVE_BUDGET, 0,
                                   "looking for its pages took longer than the %.1f s that are allowed",
                                   (double) m->params.walk_usec / 1e6);
        return walk_unit(m);
}

int move_pages_step(MovePages *m) {
        int r;

        if (m->over)
                return 0;
        r = step(m);
        if (r == -ESRCH || (r == -EINVAL && lost_memory(m)))
                r = move_finish(m, MOVE_GONE, 0, "the process has ended");
        else if (r == -EACCES || r == -EPERM)
                r = move_finish(m, MOVE_REFUSED, -r, "its memory may not be looked at: %s", strerror(-r));
        else if (r < 0 && !m->over)
                (void) move_finish(m, MOVE_REFUSED, -r, "%s", strerror(-r));
        return r < 0 ? r : !m->over;
}
