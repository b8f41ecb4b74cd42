/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing the files of a group, and what is said when the kernel refuses: a bare "No space left on device" means that a
 * cpuset has no CPUs or no memory nodes, "Permission denied" that the one above it has not those that were wanted. Which
 * file, what was wanted, what is there, here and above.
 */
#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"

/* First line of a file of a group; v1's and the unified hierarchy's effective value before what was asked for. */
static char *file_text(const char *dir, const char *file) {
        _cleanup_free_ char *path = path_join(dir, file);
        char *text = NULL;

        return path && read_line_at(AT_FDCWD, path, &text) >= 0 ? text : NULL;
}

static char *above(const char *dir) {
        const char *slash = strrchr(dir, '/');

        return slash && slash > dir ? strndup(dir, (size_t) (slash - dir)) : NULL;
}

/* 1 said. A process enters no v1 cpuset that has not both. */
static int say_empty(const char *dir, const char *pid, Outcome *o) {
        static const char *const files[] = { "cpuset.cpus", "cpuset.mems" };
        _cleanup_free_ char *parent = above(dir);

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_free_ char *is = file_text(dir, files[i]), *has = parent ? file_text(parent, files[i]) : NULL;

                if (!is || *is)
                        continue;
                return strv_extendf(&o->messages,
                                    "Process %s cannot be moved into %s: %s/%s is empty (above it, %s/%s has \"%s\"); "
                                    "write there what its processes may use",
                                    pid, dir, dir, files[i], strempty(parent), files[i], strempty(has)) < 0
                               ? -ENOMEM
                               : 1;
        }
        return 0;
}

static int say_cpuset(const char *dir, const char *file, const char *text, int error, Outcome *o) {
        _cleanup_free_ char *is = file_text(dir, file), *parent = above(dir),
                            *has = parent ? file_text(parent, file) : NULL;

        return strv_extendf(&o->messages, "%s/%s cannot be set to \"%s\": %s; it has \"%s\", above it %s/%s has \"%s\"",
                            dir, file, text, strerror(error), strempty(is), strempty(parent), file, strempty(has));
}

static void say(const char *dir, const char *file, const char *text, int error, Outcome *o) {
        _cleanup_free_ char *is = NULL;

        if (error == ENOSPC && streq(file, "cgroup.procs") && say_empty(dir, text, o) != 0)
                return;
        if (strncmp(file, "cpuset.", strlen("cpuset.")) == 0) {
                (void) say_cpuset(dir, file, text, error, o);
                return;
        }
        is = streq(file, "cgroup.procs") ? NULL : file_text(dir, file);
        (void) strv_extendf(&o->messages, "%s/%s cannot be set to \"%s\": %s%s%s%s", dir, file, text, strerror(error),
                            is ? "; it has \"" : "", strempty(is), is ? "\"" : "");
}

int group_write(const char *dir, const char *file, const char *text, Outcome *o) {
        _cleanup_free_ char *path = path_join(dir, file);
        int r = path ? write_file_at(AT_FDCWD, path, text) : -ENOMEM;

        if (r < 0)
                say(dir, file, text, -r, o);
        return r < 0 ? r : 0;
}

int group_copy(const char *from, const char *to, const char *file, Outcome *o) {
        _cleanup_free_ char *path = path_join(from, file), *text = NULL;
        int r = path ? read_line_at(AT_FDCWD, path, &text) : -ENOMEM;

        if (r < 0) {
                (void) strv_extendf(&o->messages, "%s/%s cannot be read: %s", from, file, strerror(-r));
                return r;
        }
        return group_write(to, file, *text ? text : "\n", o);
}
