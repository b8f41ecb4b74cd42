/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rehearsal for what machine-check.c cannot foresee, hwloc's asserts among it: the load is done once in a forked
 * child with bounded memory and time, and only if that one ends well is it done here. The child tells by its exit
 * status; that it has ended at all shows as the end of a pipe, so the wait has a limit.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "common/text.h"
#include "daemon/readers/machine-internal.h"

/* Under a sanitizer address space means nothing: its shadow takes terabytes. */
#if defined(__has_feature)
#  if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#    define SANITIZED 1
#  endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#  define SANITIZED 1
#endif

enum { GUARD_GOOD = 0, GUARD_BAD = 42, GUARD_OOM = 43 }; /* all else is a crash; sanitizers end with 1 */

__attribute__((__noreturn__)) static void guard_child(int (*try)(void *userdata), void *userdata) {
        struct rlimit memory = { MACHINE_GUARD_MEMORY, MACHINE_GUARD_MEMORY };
        struct rlimit core = { 0, 0 };
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
        r = try(userdata);
        _exit(r == -ENOMEM ? GUARD_OOM : r < 0 ? GUARD_BAD : GUARD_GOOD);
}

/* Waits until the child has closed its end of the pipe, that is, has ended; kills it when it takes too long. */
static int guard_wait(pid_t pid, int fd, bool *ret_late, int *ret_status) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int r;

        do
                r = poll(&p, 1, MACHINE_GUARD_SECONDS * 1000);
        while (r < 0 && errno == EINTR);
        *ret_late = r == 0;
        if (r <= 0)
                (void) kill(pid, SIGKILL);
        do
                r = waitpid(pid, ret_status, 0);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : 0;
}

int machine_guard(const char *label, int (*try)(void *userdata), void *userdata, char **ret_message) {
        int fds[2], status = 0, r;
        bool late;
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
                guard_child(try, userdata);
        }
        (void) close(fds[1]);
        r = guard_wait(pid, fds[0], &late, &status);
        (void) close(fds[0]);
        if (r < 0)
                return r;
        if (late)
                return text_fail(-EBADMSG, ret_message, "%s: hwloc is still reading it after %u seconds: not a machine", label,
                                 MACHINE_GUARD_SECONDS);
        if (WIFEXITED(status) && WEXITSTATUS(status) == GUARD_OOM)
                return text_fail(-EBADMSG, ret_message, "%s: hwloc would need more than %llu MiB to read it: not a machine", label,
                                 MACHINE_GUARD_MEMORY >> 20);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != GUARD_GOOD && WEXITSTATUS(status) != GUARD_BAD))
                return text_fail(-EBADMSG, ret_message, "%s: hwloc crashes on it; what it describes contradicts itself", label);
        return 0; /* also when the load failed: done again here, it tells why */
}
