/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process to be placed, for tests and the demo: threads, some of them late, some with names of their own, child
 * processes, a name, an open device node, CPU use. Prints "ready" when all but the late ones run and "late" when those
 * do; ends on SIGTERM (0), or after --seconds. Children have the same threads, but none of the named ones, and end with
 * their parent.
 *
 * With --bind its threads give themselves one CPU, as frameworks do, after so many seconds.
 *
 *   worker [--threads=N] [--named=NAME,…] [--late=N:SECONDS [--late-named=NAME,…]] [--children=N] [--name=COMM]
 *          [--burn] [--open=PATH] [--seconds=N]
 *          [--bind=CPU:SECONDS]
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "common/macro.h"

static struct {
        unsigned threads, late, children, seconds, bind;
        double late_after, bind_after;
        const char *name, *open;
        char *named, *late_named;
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

static void parse_bind(const char *s) {
        if (sscanf(s, "%u:%lf", &arg.bind, &arg.bind_after) == 2 && arg.bind < CPU_SETSIZE && arg.bind_after > 0)
                return;
        fprintf(stderr, "worker: --bind=%s: give CPU:SECONDS\n", s);
        exit(2);
}

static void parse(int argc, char **argv) {
        static const struct option options[] = {
                { "threads", required_argument, NULL, 't' },
                { "late", required_argument, NULL, 'l' },
                { "children", required_argument, NULL, 'c' },
                { "name", required_argument, NULL, 'n' },
                { "burn", no_argument, NULL, 'b' },
                { "open", required_argument, NULL, 'o' },
                { "seconds", required_argument, NULL, 's' },
                { "named", required_argument, NULL, 'N' },
                { "late-named", required_argument, NULL, 'L' },
                { "bind", required_argument, NULL, 'B' },
                {},
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
                case 'B': parse_bind(optarg); break;
                case 'N': arg.named = optarg; break;
                case 'L': arg.late_named = optarg; break;
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

/* So many that keep the name of the main thread, and one for each name. */
static void start_threads(unsigned n, char *names) {
        pthread_attr_t attr;

        pthread_attr_init(&attr);
        pthread_attr_setstacksize(&attr, 64 << 10);
        for (unsigned i = 0; i < n || names; i++) {
                char *name = i < n ? NULL : strsep(&names, ",");
                pthread_t t;
                int e = pthread_create(&t, &attr, thread, NULL);

                if (e == 0 && name)
                        e = pthread_setname_np(t, name);
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
                arg.late_named = NULL;
                return true;
        }
        return false;
}

static void on_term(int signo) {
        _exit(0);
}

static void wait_for(double seconds) {
        struct timespec ts = { .tv_sec = (time_t) seconds };

        ts.tv_nsec = (long) ((seconds - (double) ts.tv_sec) * 1e9);
        (void) nanosleep(&ts, NULL);
}

static void bind_threads(void) {
        struct dirent *de;
        cpu_set_t set;
        DIR *d;

        wait_for(arg.bind_after);
        CPU_ZERO(&set);
        CPU_SET(arg.bind, &set);
        d = opendir("/proc/self/task");
        while (d && (de = readdir(d)))
                if (de->d_name[0] != '.')
                        (void) sched_setaffinity((pid_t) atoi(de->d_name), sizeof(set), &set);
        if (d)
                (void) closedir(d);
        puts("bound");
        (void) fflush(stdout);
}

static void start_late(void) {
        wait_for(arg.late_after);
        start_threads(arg.late, arg.late_named);
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
        start_threads(arg.threads - 1, child ? NULL : arg.named);
        if (!child) {
                puts("ready");
                (void) fflush(stdout);
        }
        if (arg.seconds > 0) {
                (void) signal(SIGALRM, on_term);
                (void) alarm(arg.seconds);
        }
        if (arg.bind_after > 0)
                bind_threads();
        if (arg.late > 0 || arg.late_named)
                start_late();
        thread(NULL);
}
