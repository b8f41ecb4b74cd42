/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process whose memory is on one node: N MiB bound there, touched, and the binding then taken off again, so that the
 * pages may be moved. Prints "ready ADDRESS"; the pages hold a pattern. On SIGUSR1 it reads all of them once and prints
 * "intact" (or "broken") with the time that took and the longest that one page took since the last such line, which
 * with --watch covers the time in between as well. Ends on SIGTERM.
 *
 *   far-memory [--huge] [--fork] [--share] [--watch] [--name=COMM] MIB NODE|any
 *
 * --huge asks for transparent huge pages; --fork leaves a child that maps all of them as well, --share one that lives in
 * the same address space.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "common/macro.h"

#define MPOL_DEFAULT 0
#define MPOL_BIND 2

static volatile sig_atomic_t asked;

static void on_signal(int n) {
        asked = 1;
}

static uint64_t now(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t) ts.tv_sec * 1000000 + (uint64_t) ts.tv_nsec / 1000;
}

static void die(const char *what) {
        fprintf(stderr, "far-memory: %s: %s\n", what, strerror(errno));
        exit(1);
}

static void policy(char *p, size_t size, int mode, unsigned long node) {
        unsigned long mask = mode == MPOL_BIND ? 1UL << node : 0;

        if (syscall(SYS_mbind, p, size, mode, mode == MPOL_BIND ? &mask : NULL, mode == MPOL_BIND ? 64UL : 0UL, 0U) < 0)
                die("mbind");
}

static uint64_t pattern(size_t i) {
        return i * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

static uint64_t longest;

/* One word of each page. */
static bool read_all(const char *p, size_t size, size_t page) {
        uint64_t before = now(), after;
        bool good = true;

        for (size_t at = 0; at < size; at += page) {
                good &= *(const volatile uint64_t *) (const void *) (p + at) == pattern(at);
                after = now();
                longest = MAX(longest, after - before);
                before = after;
        }
        return good;
}

static void answer(const char *p, size_t size, size_t page) {
        uint64_t start = now();
        bool good = read_all(p, size, page);

        asked = 0;
        printf("%s read_us=%" PRIu64 " longest_us=%" PRIu64 "\n", good ? "intact" : "broken", now() - start, longest);
        (void) fflush(stdout);
        longest = 0;
}

static int wait_for_end(void *unused) {
        (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
        for (;;)
                pause();
        return 0;
}

static void share(void) {
        static char stack[64 << 10] __attribute__((aligned(16)));

        if (clone(wait_for_end, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL) < 0)
                die("clone");
}

int main(int argc, char **argv) {
        static const struct option options[] = {
                { "huge", no_argument, NULL, 'h' },       { "fork", no_argument, NULL, 'f' },
                { "share", no_argument, NULL, 's' },      { "watch", no_argument, NULL, 'w' },
                { "name", required_argument, NULL, 'n' }, {}
        };
        size_t size, page = (size_t) sysconf(_SC_PAGESIZE);
        bool huge = false, forks = false, shares = false, watch = false;
        struct sigaction action = { .sa_handler = on_signal };
        sigset_t set;
        char *p;
        int c;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
                huge |= c == 'h';
                forks |= c == 'f';
                shares |= c == 's';
                watch |= c == 'w';
                if (c == 'n')
                        (void) prctl(PR_SET_NAME, optarg);
                if (c == '?')
                        return 2;
        }
        if (argc - optind != 2) {
                fputs("usage: far-memory [--huge] [--fork] [--share] [--watch] [--name=COMM] MIB NODE|any\n", stderr);
                return 2;
        }
        size = strtoul(argv[optind], NULL, 10) << 20;
        p = mmap(NULL, size + (2 << 20), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
                die("mmap");
        p = (char *) (((uintptr_t) p + (2 << 20) - 1) & ~(uintptr_t) ((2 << 20) - 1));
        (void) madvise(p, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        if (!streq(argv[optind + 1], "any"))
                policy(p, size, MPOL_BIND, strtoul(argv[optind + 1], NULL, 10));
        for (size_t at = 0; at < size; at += page)
                *(uint64_t *) (void *) (p + at) = pattern(at);
        if (!streq(argv[optind + 1], "any"))
                policy(p, size, MPOL_DEFAULT, 0);
        if (forks && fork() == 0) {
                (void) prctl(PR_SET_PDEATHSIG, SIGTERM);
                for (;;)
                        pause();
        }
        if (shares)
                share();
        (void) sigemptyset(&set);
        (void) sigaddset(&set, SIGUSR1);
        (void) sigprocmask(SIG_BLOCK, &set, NULL);
        (void) sigaction(SIGUSR1, &action, NULL);
        printf("ready %" PRIxPTR "\n", (uintptr_t) p);
        (void) fflush(stdout);
        (void) sigemptyset(&set);
        for (;;) {
                sigset_t waiting;

                if (watch)
                        (void) read_all(p, size, page);
                (void) sigpending(&waiting);
                if (watch && !sigismember(&waiting, SIGUSR1))
                        continue;
                (void) sigsuspend(&set); /* takes the one that waits, too */
                if (asked)
                        answer(p, size, page);
        }
}
