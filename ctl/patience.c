/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan in the foreground has no limit of time, for the same input shall give the same plan. So that nobody wonders,
 * a thread tells on standard error how long it takes already: on a terminal in one line that is written anew and wiped
 * at the end, elsewhere once. SIGINT sets the solver's stop flag: what comes is the best so far. A second SIGINT ends all.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "common/clock.h"
#include "common/log.h"
#include "ctl/ctl.h"

#define LINE_AFTER_SEC 10U

static atomic_bool interrupted; /* the handler's: a signal has no other place to write to */

struct Patience {
        const PatienceWords *words;
        struct sigaction before;
        bool handles, runs;
        pthread_t thread;
        pthread_mutex_t mutex;
        pthread_cond_t wake;
        bool done;
};

static void on_interrupt(int sig) {
        atomic_store_explicit(&interrupted, true, memory_order_relaxed);
}

/* Returns false when the solve has ended. */
static bool wait_until(Patience *p, uint64_t at_usec) {
        const struct timespec until = { (time_t) (at_usec / USEC_PER_SEC), (long) (at_usec % USEC_PER_SEC) * 1000 };
        int r = 0;

        while (!p->done && r != ETIMEDOUT)
                r = pthread_cond_timedwait(&p->wake, &p->mutex, &until);
        return !p->done;
}

static void tell_terminal(const Patience *p, uint64_t usec) {
        char status[64] = "";

        if (p->words->status)
                p->words->status(p->words->userdata, status, sizeof(status));
        fprintf(stderr, "\r\033[KSolving, %.*f s; %s%sCtrl-C ends it with the best %s so far",
                p->words->tick_usec < USEC_PER_SEC, (double) usec / USEC_PER_SEC, status, *status ? "; " : "",
                p->words->what);
}

static void *tell(void *userdata) {
        Patience *p = userdata;
        bool terminal = isatty(STDERR_FILENO), told = false;
        uint64_t begin = clock_monotonic_usec(), tick = terminal ? p->words->tick_usec : USEC_PER_SEC;

        pthread_mutex_lock(&p->mutex);
        for (unsigned n = 1; wait_until(p, begin + n * tick); n++) {
                if (terminal && n >= 2) {
                        tell_terminal(p, n * tick);
                        told = true;
                } else if (!terminal && n == LINE_AFTER_SEC && !p->words->limited)
                        log_warning("Still solving after %u s; SIGINT (Ctrl-C) ends it with the best %s so far.", n,
                                    p->words->what);
        }
        pthread_mutex_unlock(&p->mutex);
        if (told)
                fputs("\r\033[K", stderr);
        return NULL;
}

static void handle_interrupt(Patience *p) {
        const struct sigaction handle = { .sa_handler = on_interrupt, .sa_flags = SA_RESETHAND | SA_RESTART };

        if (sigaction(SIGINT, NULL, &p->before) < 0 || p->before.sa_handler == SIG_IGN)
                return; /* who started this in the background wants it so */
        p->handles = sigaction(SIGINT, &handle, NULL) >= 0;
}

Patience *patience_begin(const PatienceWords *words, const atomic_bool **ret_stop) {
        Patience *p = calloc(1, sizeof(*p));
        pthread_condattr_t monotonic;

        atomic_store(&interrupted, false);
        *ret_stop = &interrupted;
        if (!p)
                return NULL;
        p->words = words;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_mutex_init(&p->mutex, NULL);
        pthread_cond_init(&p->wake, &monotonic);
        pthread_condattr_destroy(&monotonic);
        handle_interrupt(p);
        p->runs = pthread_create(&p->thread, NULL, tell, p) == 0; /* without it there is only nothing to see */
        return p;
}

void patience_end(Patience *p) {
        const char *what;

        if (!p)
                return;
        what = p->words->what;
        if (p->runs) {
                pthread_mutex_lock(&p->mutex);
                p->done = true;
                pthread_cond_signal(&p->wake);
                pthread_mutex_unlock(&p->mutex);
                pthread_join(p->thread, NULL);
        }
        if (p->handles)
                (void) sigaction(SIGINT, &p->before, NULL);
        pthread_cond_destroy(&p->wake);
        pthread_mutex_destroy(&p->mutex);
        free(p);
        if (atomic_load(&interrupted))
                log_warning("Stopped: this is the best %s so far, another run may end with another one.", what);
}
