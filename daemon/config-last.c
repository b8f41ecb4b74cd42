/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See config-last.h. A new set of copies is made in a folder beside the old one and renamed into its place. In between
 * the two renames there is none, which is as before the first start.
 */
#include "daemon/config-last.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <ftw.h>
#include <sys/stat.h>

#include "common/fileio.h"

#ifndef QSCHED_CONFIG_FILE
#define QSCHED_CONFIG_FILE "/etc/qsched/qschedd.conf"
#endif

#define COPY_MAX (16U << 20)

static int copy(const char *from, const char *directory, const char *name) {
        _cleanup_free_ char *text = NULL, *to = path_join(directory, name);
        size_t size;
        int r = to ? read_regular_file(from, COPY_MAX, &text, &size) : -ENOMEM;

        if (r < 0)
                return r;
        return strlen(text) == size ? write_file_atomic(to, text, 0600) : -EBADMSG;
}

static int is_drop_in(const struct dirent *e) {
        return fnmatch("*.conf", e->d_name, FNM_PERIOD) == 0;
}

static int copy_drop_ins(const char *config, const char *directory) {
        _cleanup_free_ char *from = NULL, *to = path_join(directory, "qschedd.conf.d");
        struct dirent **entries = NULL;
        int n, r = 0;

        if (!to || asprintf(&from, "%s.d", config) < 0) {
                from = NULL;
                return -ENOMEM;
        }
        n = scandir(from, &entries, is_drop_in, alphasort);
        if (n < 0)
                return errno == ENOENT ? 0 : -errno;
        if (mkdir(to, 0700) < 0)
                r = -errno;
        for (int i = 0; i < n; i++) {
                _cleanup_free_ char *file = path_join(from, entries[i]->d_name);

                if (r >= 0)
                        r = file ? copy(file, to, entries[i]->d_name) : -ENOMEM;
                free(entries[i]);
        }
        free(entries);
        return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
        (void) remove(path);
        return 0;
}

static void remove_tree(const char *path) {
        (void) nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The main file may be missing: then all of it is defaults, and an empty copy says just that. */
static int copy_all(const char *config, const char *devices, const char *directory) {
        int r = copy(config, directory, "qschedd.conf");

        if (r == -ENOENT) {
                _cleanup_free_ char *empty = path_join(directory, "qschedd.conf");

                r = empty ? write_file_atomic(empty, "", 0600) : -ENOMEM;
        }
        if (r >= 0)
                r = copy_drop_ins(config, directory);
        if (r >= 0 && devices)
                r = copy(devices, directory, "devices");
        return r;
}

int config_last_save(const char *state, const char *config, const char *devices) {
        _cleanup_free_ char *directory = path_join(state, "config"), *new = path_join(state, "config.new"),
                            *old = path_join(state, "config.old");
        int r;

        if (!directory || !new || !old)
                return -ENOMEM;
        remove_tree(new);
        remove_tree(old);
        if (mkdir(new, 0700) < 0)
                return -errno;
        r = copy_all(config ? config : QSCHED_CONFIG_FILE, devices, new);
        if (r < 0) {
                remove_tree(new);
                return r;
        }
        if (rename(directory, old) < 0 && errno != ENOENT)
                return -errno;
        if (rename(new, directory) < 0)
                return -errno;
        remove_tree(old);
        return 0;
}

int config_last_find(const char *state, char **ret_config, char **ret_devices) {
        _cleanup_free_ char *directory = path_join(state, "config"), *config = NULL, *devices = NULL;

        config = directory ? path_join(directory, "qschedd.conf") : NULL;
        devices = directory ? path_join(directory, "devices") : NULL;
        if (!config || !devices)
                return -ENOMEM;
        if (access(config, F_OK) < 0)
                return -errno;
        *ret_devices = access(devices, F_OK) < 0 ? NULL : TAKE_PTR(devices);
        *ret_config = TAKE_PTR(config);
        return 0;
}
