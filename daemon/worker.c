/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread that waits for a Solve, calls decide() and rings an eventfd. Everything that is shared is behind the
 * lock, except Solve.stop (atomic) and the Solve itself, which belongs to the thread from submit to the ring.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "common/clock.h"
#include "daemon/worker.h"

#define HANG_USEC (30U * 1000000U) /* a solver looks at stop many times a second */

struct Worker {
        pthread_t thread;
        pthread_mutex_t lock;
        pthread_cond_t wake;
        bool quit, running;
        Solve *solve; /* submitted, not yet given back */
        bool taken;   /* by the thread */
        int fd;
        sd_event_source *source;
        WorkerDone done;
        void *userdata;
};

uint64_t now_monotonic(void) {
        return clock_monotonic_usec();
}

static uint64_t solve_clock(void *userdata) {
        return now_monotonic();
}

Solve *solve_free(Solve *s) {
        if (!s)
                return NULL;
        snapshot_free(s->snapshot);
        free(s->jobs);
        bitset_done(&s->params.housekeeping);
        free(s->solver);
        free(s->message);
        plan_free(s->plan);
        free(s);
        return NULL;
}

static void solve_run(Solve *s) {
        s->params.clock = solve_clock;
        s->params.stop = &s->stop;
        s->r = decide(s->snapshot, s->jobs, s->n_jobs, &s->params, &s->plan, &s->message);
}

static void *worker_main(void *userdata) {
        Worker *w = userdata;

        (void) pthread_mutex_lock(&w->lock);
        for (;;) {
                const uint64_t one = 1;

                while (!w->quit && (!w->solve || w->taken))
                        (void) pthread_cond_wait(&w->wake, &w->lock);
                if (w->quit)
                        break;
                w->taken = true;
                (void) pthread_mutex_unlock(&w->lock);
                solve_run(w->solve);
                (void) pthread_mutex_lock(&w->lock);
                w->running = false;
                if (write(w->fd, &one, sizeof(one)) < 0) /* cannot fail: the counter is at most one */
                        abort();
        }
        (void) pthread_mutex_unlock(&w->lock);
        return NULL;
}

static int worker_rang(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        Worker *w = userdata;
        Solve *s;
        uint64_t n;

        if (read(fd, &n, sizeof(n)) < 0)
                return errno == EAGAIN ? 0 : -errno;
        (void) pthread_mutex_lock(&w->lock);
        s = w->running ? NULL : TAKE_PTR(w->solve);
        (void) pthread_mutex_unlock(&w->lock);
        if (s)
                w->done(w->userdata, s);
        return 0;
}

int worker_new(sd_event *event, WorkerDone done, void *userdata, Worker **ret) {
        Worker *w;
        int r;

        w = calloc(1, sizeof(*w));
        if (!w)
                return -ENOMEM;
        w->done = done;
        w->userdata = userdata;
        (void) pthread_mutex_init(&w->lock, NULL);
        (void) pthread_cond_init(&w->wake, NULL);
        w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = w->fd < 0 ? -errno : sd_event_add_io(event, &w->source, w->fd, EPOLLIN, worker_rang, w);
        if (r >= 0)
                r = -pthread_create(&w->thread, NULL, worker_main, w);
        if (r < 0) {
                sd_event_source_unref(w->source);
                closep(&w->fd);
                free(w);
                return r;
        }
        *ret = w;
        return 0;
}

Worker *worker_free(Worker *w) {
        if (!w)
                return NULL;
        (void) pthread_mutex_lock(&w->lock);
        w->quit = true;
        if (w->solve)
                atomic_store(&w->solve->stop, true);
        (void) pthread_cond_signal(&w->wake);
        (void) pthread_mutex_unlock(&w->lock);
        (void) pthread_join(w->thread, NULL);
        sd_event_source_unref(w->source);
        closep(&w->fd);
        solve_free(w->solve);
        (void) pthread_cond_destroy(&w->wake);
        (void) pthread_mutex_destroy(&w->lock);
        free(w);
        return NULL;
}

bool worker_busy(const Worker *w) {
        return !w || w->solve;
}

int worker_submit(Worker *w, Solve *s) {
        if (w->solve)
                return -EBUSY;
        (void) pthread_mutex_lock(&w->lock);
        w->solve = s;
        w->taken = false;
        w->running = true;
        (void) pthread_cond_signal(&w->wake);
        (void) pthread_mutex_unlock(&w->lock);
        return 0;
}

void worker_watch(Worker *w) {
        if (w->solve && w->solve->deadline_usec > 0 && now_monotonic() > w->solve->deadline_usec)
                atomic_store(&w->solve->stop, true);
}

bool worker_hangs(const Worker *w, uint64_t now) {
        return w->solve && w->solve->deadline_usec > 0 && now > w->solve->deadline_usec + HANG_USEC;
}
