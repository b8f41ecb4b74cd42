/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rehearsal for what machine-check.c cannot foresee, hwloc's asserts among it: the load is done once in a forked
 * child with bounded memory and time, and only if that one ends well is it done here. The child tells by its exit
 * status and a sentence through a pipe; the end of that pipe says that it has ended, so the wait has a limit. A load
 * that fails is not tried here at all: hwloc forgets memory when it gives up.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/machine-internal.h"

/* Under a sanitizer address space means nothing: its shadow takes terabytes. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

enum { GUARD_GOOD = 0, GUARD_BAD = 42, GUARD_OOM = 43 }; /* all else is a crash; sanitizers end with 1 */

#define SENTENCE_MAX 4096U /* at most PIPE_BUF, so that the child never waits for us */

/* Address space that the process has already; the limit is for what comes on top. */
static uint64_t present_size(void) {
        _cleanup_free_ char *text = NULL;

        if (read_line_at(AT_FDCWD, "/proc/self/statm", &text) < 0)
                return 0;
        return strtoull(text, NULL, 10) * (uint64_t) sysconf(_SC_PAGESIZE);
}

__attribute__((__noreturn__)) static void guard_child(int (*try)(void *userdata, char **ret_message), void *userdata,
                                                      int fd) {
        rlim_t size = MACHINE_GUARD_MEMORY + present_size();
        struct rlimit memory = { size, size };
        struct rlimit core = { 0, 0 };
        char *message = NULL;
        int null, r;

        null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (null >= 0) {
                (void) dup2(null, STDOUT_FILENO);
                (void) dup2(null, STDERR_FILENO);
        }
        (void) setrlimit(RLIMIT_CORE, &core);
#ifndef SANITIZED
        (void) setrlimit(RLIMIT_AS, &memory);
#else
        (void) memory;
#endif
        r = try(userdata, &message);
        if (r < 0 && message && write(fd, message, MIN(strlen(message), (size_t) SENTENCE_MAX - 1)) < 0)
                _exit(GUARD_BAD); /* the sentence is lost, the verdict is not */
        _exit(r == -ENOMEM ? GUARD_OOM : r < 0 ? GUARD_BAD : GUARD_GOOD);
}

/* Reads what the child says until it has ended, that is, closed its end of the pipe. -ETIME when it takes too long. */
static int guard_listen(int fd, char *sentence) {
        struct timespec start, now;
        size_t n = 0;

        (void) clock_gettime(CLOCK_MONOTONIC, &start);
        for (;;) {
                struct pollfd p = { .fd = fd, .events = POLLIN };
                ssize_t k;

                (void) clock_gettime(CLOCK_MONOTONIC, &now);
                if (now.tv_sec - start.tv_sec > (time_t) MACHINE_GUARD_SECONDS)
                        return -ETIME;
                if (poll(&p, 1, 1000) <= 0)
                        continue;
                k = read(fd, sentence + n, SENTENCE_MAX - 1 - n);
                if (k < 0 && errno == EINTR)
                        continue;
                if (k <= 0)
                        break;
                n += k;
        }
        sentence[n] = '\0';
        return 0;
}

static int guard_verdict(const char *label, int late, int status, const char *sentence, char **ret_message) {
        if (late < 0)
                return text_fail(-EBADMSG, ret_message, "%s: hwloc is still reading it after %u seconds: not a machine",
                                 label, MACHINE_GUARD_SECONDS);
        if (!WIFEXITED(status))
                return text_fail(-EBADMSG, ret_message, "%s: hwloc crashes on it; what it describes contradicts itself",
                                 label);
        switch (WEXITSTATUS(status)) {
        case GUARD_GOOD: return 0;
        case GUARD_BAD:
                return text_fail(-EBADMSG, ret_message, "%s",
                                 *sentence ? sentence : "hwloc cannot read this as a machine");
        case GUARD_OOM:
                return text_fail(-EBADMSG, ret_message,
                                 "%s: hwloc would need more than %llu MiB to read it: not a machine", label,
                                 MACHINE_GUARD_MEMORY >> 20);
        default:
                return text_fail(-EBADMSG, ret_message, "%s: hwloc crashes on it; what it describes contradicts itself",
                                 label);
        }
}

int machine_guard(const char *label, int (*try)(void *userdata, char **ret_message), void *userdata,
                  char **ret_message) {
        char sentence[SENTENCE_MAX];
        int fds[2], status = 0, late, r;
        pid_t pid;

        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        pid = fork();
        if (pid < 0) {
                r = -errno;
                (void) close(fds[0]);
                (void) close(fds[1]);
                return r;
        }
        if (pid == 0) {
                (void) close(fds[0]);
                guard_child(try, userdata, fds[1]);
        }
        (void) close(fds[1]);
        late = guard_listen(fds[0], sentence);
        (void) close(fds[0]);
        if (late < 0)
                (void) kill(pid, SIGKILL);
        do
                r = waitpid(pid, &status, 0);
        while (r < 0 && errno == EINTR);
        if (r < 0)
                return -errno;
        return guard_verdict(label, late, status, sentence, ret_message);
}
