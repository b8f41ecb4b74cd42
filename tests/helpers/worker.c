/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process to be placed, for tests and the demo: threads, some of them late, child processes, a name, an open device
 * node, CPU use. Prints "ready" when all but the late ones run and "late" when those do; ends on SIGTERM (0), or after
 * --seconds. Children have the same threads and end with their parent.
 *
 *   worker [--threads=N] [--late=N:SECONDS] [--children=N] [--name=COMM] [--burn] [--open=PATH] [--seconds=N]
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/macro.h"

static struct {
        unsigned threads, late, children, seconds;
        double late_after;
        const char *name, *open;
        bool burn;
} arg = { .threads = 1 };

static unsigned number(const char *option, const char *s) {
        char *end;
        unsigned long v = strtoul(s, &end, 10);

        if (end == s || *end || v > 100000) {
                fprintf(stderr, "worker: --%s=%s: not a number from 0 to 100000\n", option, s);
                exit(2);
        }
        return (unsigned) v;
}

static void parse_late(const char *s) {
        if (sscanf(s, "%u:%lf", &arg.late, &arg.late_after) == 2 && arg.late <= 100000 && arg.late_after >= 0)
                return;
        fprintf(stderr, "worker: --late=%s: give N:SECONDS\n", s);
        exit(2);
}

static void parse(int argc, char **argv) {
        static const struct option options[] = {
                { "threads", required_argument, NULL, 't' },  { "late", required_argument, NULL, 'l' },
                { "children", required_argument, NULL, 'c' }, { "name", required_argument, NULL, 'n' },
                { "burn", no_argument, NULL, 'b' },           { "open", required_argument, NULL, 'o' },
                { "seconds", required_argument, NULL, 's' },  {},
        };
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (c) {
                case 't': arg.threads = MAX(number("threads", optarg), 1U); break;
                case 'l': parse_late(optarg); break;
                case 'c': arg.children = number("children", optarg); break;
                case 'n': arg.name = optarg; break;
                case 'b': arg.burn = true; break;
                case 'o': arg.open = optarg; break;
                case 's': arg.seconds = number("seconds", optarg); break;
                default: exit(2);
                }
}

static void *thread(void *unused) {
        volatile unsigned long n = 0;

        for (;;)
                if (arg.burn)
                        n++;
                else
                        pause();
        return NULL;
}

static void start_threads(unsigned n) {
        pthread_attr_t attr;

        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 64 << 10);
        for (unsigned i = 0; i < n; i++) {
                pthread_t t;
                int e = pthread_create(&t, &attr, thread, NULL);

                if (e != 0) {
                        fprintf(stderr, "worker: thread %u cannot be started: %s\n", i, strerror(e));
                        exit(1);
                }
        }
        pthread_attr_destroy(&attr);
}

/* true in a child */
static bool start_children(void) {
        for (unsigned i = 0; i < arg.children; i++) {
                pid_t parent = getpid(), pid = fork();

                if (pid < 0) {
                        fprintf(stderr, "worker: child %u cannot be started: %s\n", i, strerror(errno));
                        exit(1);
                }
                if (pid > 0)
                        continue;
                prctl(PR_SET_PDEATHSIG, SIGTERM);
                if (getppid() != parent)
                        _exit(0);
                arg.late = 0;
                return true;
        }
        return false;
}

static void on_term(int signo) {
        _exit(0);
}

static void start_late(void) {
        struct timespec ts = { .tv_sec = (time_t) arg.late_after };

        ts.tv_nsec = (long) ((arg.late_after - (double) ts.tv_sec) * 1e9);
        (void) nanosleep(&ts, NULL);
        start_threads(arg.late);
        puts("late");
        (void) fflush(stdout);
}

int main(int argc, char **argv) {
        bool child;

        parse(argc, argv);
        (void) signal(SIGTERM, on_term);
        if (arg.name)
                prctl(PR_SET_NAME, arg.name);
        if (arg.open && open(arg.open, O_RDONLY | O_NONBLOCK) < 0) {
                fprintf(stderr, "worker: %s cannot be opened: %s\n", arg.open, strerror(errno));
                return 1;
        }
        child = start_children();
        start_threads(arg.threads - 1);
        if (!child) {
                puts("ready");
                (void) fflush(stdout);
        }
        if (arg.seconds > 0) {
                (void) signal(SIGALRM, on_term);
                (void) alarm(arg.seconds);
        }
        if (arg.late > 0)
                start_late();
        thread(NULL);
}
