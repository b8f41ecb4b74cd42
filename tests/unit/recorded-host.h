/* SPDX-License-Identifier: Apache-2.0 */
/* A host of tests/data/proc laid out in a directory of its own below /tmp, with its symbolic links, for one test. */
#pragma once

#include "common/fileio.h"

typedef struct Recorded {
        char root[64];
} Recorded;

static inline void recorded_done(Recorded *r) {
        char command[100];

        (void) snprintf(command, sizeof(command), "rm -r %s", r->root);
        assert_int_equal(system(command), 0);
}

/* Use: _cleanup_(recorded_done) Recorded host = recorded("k8s"); */
static inline Recorded recorded(const char *name) {
        const char *top = getenv("TOP_SRCDIR");
        Recorded r = { .root = "/tmp/qsched-test-XXXXXX" };
        char path[400], target[200], *slash;
        FILE *f;

        assert_non_null(mkdtemp(r.root));
        (void) snprintf(path, sizeof(path), "cp -r %s/tests/data/proc/%s/. %s && chmod -R u+w %s", top ? top : ".",
                        name, r.root, r.root);
        assert_int_equal(system(path), 0);
        (void) snprintf(path, sizeof(path), "%s/symlinks", r.root);
        f = fopen(path, "re");
        assert_non_null(f);
        size_t n = strlen(r.root) + 1;
        (void) snprintf(path, sizeof(path), "%s/", r.root);
        while (fscanf(f, "%199s %199s", path + n, target) == 2) {
                slash = strrchr(path, '/');
                *slash = '\0';
                assert_int_equal(mkdir_parents(path, 0755), 0);
                *slash = '/';
                assert_int_equal(symlink(target, path), 0);
        }
        (void) fclose(f);
        return r;
}
