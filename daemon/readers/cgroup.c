/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, read only. Which controller is where is taken from /proc/self/mountinfo, never from usual paths: v1,
 * v2, and hybrid hosts where cpuset is a v1 tree and the unified one stands beside. A process has one path per
 * hierarchy; its CPUs come from the tree that has cpuset, its quota from the one with cpu, and so on. A value that a
 * group does not have is inherited: the nearest ancestor that has one decides (the tightest, for limits).
 *
 * In a container a mount may show only part of its hierarchy, while /proc/PID/cgroup names paths from its top: what the
 * mount shows is cut off the path. A group outside of what is shown cannot be read, and is treated as silent.
 */
#include "daemon/readers/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>

#include "common/fileio.h"
#include "common/text.h"

#define V1_MEMORY_NONE (UINT64_C(1) << 62) /* v1 says "no limit" as LONG_MAX rounded down to pages */

const char *const cgroup_mode_names[] = { "none", "v1", "hybrid", "v2", NULL };

/* ---- where the trees are ---- */

static char **mount_of(Cgroups *c, CgroupTree tree) {
        switch (tree) {
        case CGROUP_CPUSET: return &c->cpuset;
        case CGROUP_CPU: return &c->cpu;
        case CGROUP_MEMORY: return &c->memory;
        case CGROUP_SYSTEMD: return &c->systemd;
        default: return &c->unified;
        }
}

/* mountinfo writes blank, tab, newline and backslash as \040 and the like. */
static void unescape_octal(char *s) {
        char *to = s;

        for (; *s; s++) {
                if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' &&
                    s[3] <= '7') {
                        *to++ = (char) ((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
                        s += 3;
                } else
                        *to++ = *s;
        }
        *to = '\0';
}

static bool has_word(const char *list, const char *word) {
        size_t n = strlen(word);

        for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL)
                if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
                        return true;
        return false;
}

/* A whole hierarchy is better than a part of it (a container's, bind-mounted somewhere). */
static int note_mount(Cgroups *c, CgroupTree tree, const char *root, const char *shown, const char *point) {
        _cleanup_free_ char *path = NULL, *part = NULL;
        char **mount = mount_of(c, tree);

        if (*mount && (streq(c->shown[tree], "/") || !streq(shown, "/")))
                return 0;
        if (asprintf(&path, "%s%s", root, point) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        part = strdup(shown);
        if (!part)
                return -ENOMEM;
        free(*mount);
        free(c->shown[tree]);
        *mount = TAKE_PTR(path);
        c->shown[tree] = TAKE_PTR(part);
        return 0;
}

static int note_mountinfo_line(Cgroups *c, const char *root, char *line, bool *v1) {
        static const char *const options[] = { "cpuset", "cpu", "memory", "name=systemd" };
        char *words[64], *save = NULL;
        size_t n = 0, dash;
        int r = 0;

        for (char *w = strtok_r(line, " ", &save); w && n < ELEMENTSOF(words); w = strtok_r(NULL, " ", &save))
                words[n++] = w;
        for (dash = 6; dash < n && !streq(words[dash], "-"); dash++)
                ;
        if (dash + 3 >= n)
                return 0;
        unescape_octal(words[3]);
        unescape_octal(words[4]);
        if (streq(words[dash + 1], "cgroup2"))
                return note_mount(c, CGROUP_UNIFIED, root, words[3], words[4]);
        if (!streq(words[dash + 1], "cgroup"))
                return 0;
        *v1 = true;
        for (size_t i = 0; i < ELEMENTSOF(options) && r >= 0; i++)
                if (has_word(words[dash + 3], options[i]))
                        r = note_mount(c, (CgroupTree) i, root, words[3], words[4]);
        return r;
}

int cgroups_parse_mountinfo(const char *text, const char *root, Cgroups *ret) {
        Cgroups c = {};
        bool v1 = false;
        int r = 0;

        while (*text && r >= 0) {
                size_t n = strcspn(text, "\n");
                _cleanup_free_ char *line = strndup(text, n);

                r = line ? note_mountinfo_line(&c, root, line, &v1) : -ENOMEM;
                text += n + (text[n] == '\n');
        }
        if (r < 0) {
                cgroups_done(&c);
                return r;
        }
        c.mode = v1 ? (c.unified ? CGROUP_HYBRID : CGROUP_V1) : c.unified ? CGROUP_V2 : CGROUP_NONE;
        *ret = c;
        return 0;
}

int cgroups_read(const char *root, Cgroups *ret) {
        _cleanup_free_ char *path = NULL, *text = NULL, *controllers = NULL;
        Cgroups c = {};
        int r;

        path = path_join(*root ? root : "/", "proc/self/mountinfo");
        if (!path)
                return -ENOMEM;
        r = read_file_at(AT_FDCWD, path, FILEIO_MAX_DEFAULT, &text, NULL);
        if (r < 0)
                return r;
        r = cgroups_parse_mountinfo(text, root, &c);
        if (r < 0)
                return r;
        if (c.unified && !c.cpuset) {
                free(path);
                path = path_join(c.unified, "cgroup.controllers");
                if (path && read_line_at(AT_FDCWD, path, &controllers) >= 0) {
                        for (char *p = controllers; *p; p++)
                                if (*p == ' ')
                                        *p = ',';
                        c.unified_cpuset = has_word(controllers, "cpuset");
                }
        }
        *ret = c;
        return 0;
}

void cgroups_done(Cgroups *c) {
        for (CgroupTree i = 0; i < _CGROUP_TREE_MAX; i++) {
                free(*mount_of(c, i));
                free(c->shown[i]);
        }
        *c = (Cgroups){};
}

/* ---- where a process is ---- */

static int set_path(char **paths, CgroupTree tree, const char *path) {
        static const char deleted[] = " (deleted)";
        size_t n = strlen(path);

        if (n > sizeof(deleted) - 1 && streq(path + n - (sizeof(deleted) - 1), deleted))
                n -= sizeof(deleted) - 1;
        free(paths[tree]);
        paths[tree] = strndup(path, n);
        return paths[tree] ? 0 : -ENOMEM;
}

int cgroup_parse_pid(const char *text, char *paths[_CGROUP_TREE_MAX]) {
        static const char *const controllers[] = { "cpuset", "cpu", "memory", "name=systemd" };
        int r = 0;

        for (CgroupTree i = 0; i < _CGROUP_TREE_MAX; i++)
                paths[i] = NULL;
        while (*text && r >= 0) {
                size_t n = strcspn(text, "\n");
                _cleanup_free_ char *line = strndup(text, n);
                char *list, *path;

                if (!line)
                        r = -ENOMEM;
                text += n + (text[n] == '\n');
                list = line ? strchr(line, ':') : NULL;
                path = list ? strchr(list + 1, ':') : NULL; /* the path itself may have more colons */
                if (!path || path[1] != '/')
                        continue;
                *path++ = '\0';
                if (list[1] == '\0')
                        r = set_path(paths, CGROUP_UNIFIED, path);
                for (size_t i = 0; i < ELEMENTSOF(controllers) && r >= 0; i++)
                        if (has_word(list + 1, controllers[i]))
                                r = set_path(paths, (CgroupTree) i, path);
        }
        if (r < 0)
                for (CgroupTree i = 0; i < _CGROUP_TREE_MAX; i++) {
                        free(paths[i]);
                        paths[i] = NULL;
                }
        return r;
}

/* Directory of a group, and the length of its mount: the last ancestor to look at. NULL when it is not to be seen. */
static char *group_directory(const Cgroups *c, CgroupTree tree, const char *path, size_t *ret_mount) {
        const char *mount = *mount_of((Cgroups *) c, tree), *shown = c->shown[tree];
        char *directory;
        size_t n;

        if (!mount || !path || strstr(path, "/..") == path)
                return NULL;
        if (shown && !streq(shown, "/") && strncmp(shown, "/..", 3) != 0) {
                n = strlen(shown);
                if (strncmp(path, shown, n) != 0 || (path[n] != '/' && path[n] != '\0'))
                        return NULL;
                path += n;
        }
        if (asprintf(&directory, "%s%s", mount, path) < 0)
                return NULL;
        *ret_mount = strlen(mount);
        for (n = strlen(directory); n > *ret_mount && directory[n - 1] == '/'; n--)
                directory[n - 1] = '\0';
        return directory;
}

/* One step up; false at the mount. */
static bool go_up(char *directory, size_t mount) {
        char *slash = strrchr(directory, '/');

        if (!slash || (size_t) (slash - directory) < mount)
                return false;
        *slash = '\0';
        return true;
}

static int read_value(const char *directory, const char *file, char **ret) {
        _cleanup_free_ char *path = path_join(directory, file);

        return path ? read_line_at(AT_FDCWD, path, ret) : -ENOMEM;
}

/* ---- what that allows ---- */

/* The first group from here upwards where one of the files holds a list that is not empty; ret_directory may be NULL. */
static int nearest_list(const Cgroups *c, CgroupTree tree, const char *path, const char *const *files, Bitset *ret,
                        char **ret_directory) {
        size_t mount;
        _cleanup_free_ char *directory = group_directory(c, tree, path, &mount);

        if (!directory)
                return 0;
        do {
                for (const char *const *f = files; *f; f++) {
                        _cleanup_free_ char *text = NULL;

                        if (read_value(directory, *f, &text) < 0 || !*text || bitset_parse(text, ret) < 0)
                                continue;
                        if (ret_directory)
                                *ret_directory = TAKE_PTR(directory);
                        return 0;
                }
        } while (go_up(directory, mount));
        return 0;
}

static double quota_of(const char *directory, bool v2) {
        _cleanup_free_ char *text = NULL, *length = NULL;
        double quota, period;
        char *end;

        if (read_value(directory, v2 ? "cpu.max" : "cpu.cfs_quota_us", &text) < 0)
                return NAN;
        quota = strtod(text, &end);
        if (end == text || !(quota > 0)) /* "max", "-1" */
                return NAN;
        if (v2)
                period = strtod(end, NULL);
        else
                period = read_value(directory, "cpu.cfs_period_us", &length) < 0 ? 0 : strtod(length, NULL);
        return period > 0 ? quota / period : NAN;
}

static int tightest_quota(const Cgroups *c, char *const *paths, CgroupInfo *i) {
        CgroupTree tree = c->cpu ? CGROUP_CPU : CGROUP_UNIFIED;
        size_t mount;
        _cleanup_free_ char *directory = group_directory(c, tree, paths[tree], &mount);

        if (!directory)
                return 0;
        do {
                double q = quota_of(directory, tree == CGROUP_UNIFIED);

                if (isnan(q) || q >= i->quota)
                        continue;
                i->quota = q;
                free(i->quota_group);
                i->quota_group = strdup(directory);
                if (!i->quota_group)
                        return -ENOMEM;
        } while (go_up(directory, mount));
        return 0;
}

static uint64_t tightest_memory(const char *group, const Cgroups *c) {
        const char *mount = c->memory ? c->memory : c->unified;
        _cleanup_free_ char *directory = strdup(group);
        uint64_t least = UINT64_MAX;

        if (!directory)
                return least;
        do {
                _cleanup_free_ char *text = NULL;
                uint64_t v;

                if (read_value(directory, c->memory ? "memory.limit_in_bytes" : "memory.max", &text) >= 0 &&
                    text_parse_u64(text, &v) >= 0 && v < V1_MEMORY_NONE)
                        least = MIN(least, v);
        } while (go_up(directory, strlen(mount)));
        return least;
}

/* kubelet writes 1024 shares per CPU; on v2 the runtime turns shares into a weight by the line 2..262144 -> 1..10000.
 * (Runtimes since 2025 use a curve through 1024 -> 100: read by the line that gives 2.5 times too much, never too little.) */
static double pod_request(const Cgroups *c, char *const *paths) {
        CgroupTree tree = c->cpu ? CGROUP_CPU : CGROUP_UNIFIED;
        size_t mount;
        _cleanup_free_ char *directory = group_directory(c, tree, paths[tree], &mount), *text = NULL;
        uint64_t v;

        if (!directory || read_value(directory, c->cpu ? "cpu.shares" : "cpu.weight", &text) < 0 ||
            text_parse_u64(text, &v) < 0)
                return NAN;
        double shares = c->cpu ? (double) v : 2 + ((double) v - 1) * 262142 / 9999;
        return shares > 2 ? shares / 1024 : NAN; /* 2: best effort, nothing promised */
}

static unsigned how_telling(OwnerKind kind) {
        switch (kind) {
        case OWNER_NONE: return 0;
        case OWNER_GROUP: return 1;
        case OWNER_UNIT:
        case OWNER_SCOPE: /* slurmd.service holds steps, docker.service may hold containers */ return 2;
        default: return 3;
        }
}

static int owner_of(char *const *paths, CgroupTree first, CgroupInfo *i) {
        /* The tree that allots CPUs tells first; the others only when they tell more. */
        const CgroupTree order[] = { first, CGROUP_SYSTEMD, CGROUP_UNIFIED, CGROUP_MEMORY };

        for (size_t k = 0; k < ELEMENTSOF(order); k++) {
                _cleanup_free_ char *owner = NULL;
                OwnerKind kind = paths[order[k]] ? cgroup_owner(paths[order[k]], &owner) : OWNER_NONE;

                if (how_telling(kind) <= how_telling(i->owner_kind) || (k > 0 && kind == OWNER_GROUP))
                        continue;
                free(i->owner);
                i->owner = TAKE_PTR(owner);
                i->owner_kind = kind;
                if (!i->owner)
                        return -ENOMEM;
        }
        return 0;
}

static int outer_list(const Cgroups *c, CgroupTree tree, const char *path, const char *const *files, Bitset *ret) {
        _cleanup_free_ char *above = strndup(path, (size_t) (strrchr(path, '/') - path));

        return above ? nearest_list(c, tree, *above ? above : "/", files, ret, NULL) : -ENOMEM;
}

static const char *const cpus_v1[] = { "cpuset.effective_cpus", "cpuset.cpus", NULL };
static const char *const cpus_v2[] = { "cpuset.cpus.effective", NULL };

static CgroupTree main_tree(const Cgroups *c) {
        return c->cpuset ? CGROUP_CPUSET : c->unified || !c->systemd ? CGROUP_UNIFIED : CGROUP_SYSTEMD;
}

static int fill_cpuset(const Cgroups *c, char *const *paths, CgroupInfo *i) {
        CgroupTree tree = main_tree(c);

        i->path = strdup(paths[tree] ? paths[tree] : "/");
        if (!i->path)
                return -ENOMEM;
        if (!c->cpuset && !c->unified_cpuset)
                return 0;
        return nearest_list(c, tree, paths[tree], c->cpuset ? cpus_v1 : cpus_v2, &i->cpus, &i->cpuset_directory);
}

static int fill_rest(const Cgroups *c, char *const *paths, CgroupInfo *i) {
        static const char *const mems_v1[] = { "cpuset.effective_mems", "cpuset.mems", NULL };
        static const char *const mems_v2[] = { "cpuset.mems.effective", NULL };
        CgroupTree tree = main_tree(c), memory = c->memory ? CGROUP_MEMORY : CGROUP_UNIFIED;
        size_t mount;
        int r = 0;

        if (c->cpuset || c->unified_cpuset)
                r = nearest_list(c, tree, paths[tree], c->cpuset ? mems_v1 : mems_v2, &i->mems, NULL);
        if (r >= 0)
                r = tightest_quota(c, paths, i);
        if (r < 0)
                return r;
        i->memory_directory = group_directory(c, memory, paths[memory], &mount);
        i->memory_max = i->memory_directory ? tightest_memory(i->memory_directory, c) : UINT64_MAX;
        r = owner_of(paths, tree, i);
        if (r >= 0 && i->owner_kind == OWNER_QSCHED && i->cpuset_directory)
                r = outer_list(c, tree, i->path, c->cpuset ? cpus_v1 : cpus_v2, &i->outer_cpus);
        if (r < 0)
                return r;
        if (i->owner_kind == OWNER_POD)
                i->request = pod_request(c, paths);
        else if (i->owner_kind == OWNER_SLURM && !bitset_isempty(&i->cpus))
                i->request = bitset_weight(&i->cpus);
        /* Nobody is promised more than he may use. */
        if (!isnan(i->quota) && i->request > i->quota)
                i->request = i->quota;
        if (!bitset_isempty(&i->cpus) && i->request > bitset_weight(&i->cpus))
                i->request = bitset_weight(&i->cpus);
        return 0;
}

static int read_text(const char *root, pid_t pid, char **ret) {
        _cleanup_free_ char *path = NULL;
        int r;

        if (asprintf(&path, "%s/proc/%d/cgroup", root, (int) pid) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        r = read_file_at(AT_FDCWD, path, 1U << 20, ret, NULL);
        return r == -ENOENT ? -ESRCH : r;
}

static int fill_info(const Cgroups *c, const char *text, bool cpuset_only, CgroupInfo *ret) {
        CgroupInfo i = { .quota = NAN, .request = NAN, .memory_max = UINT64_MAX };
        char *paths[_CGROUP_TREE_MAX];
        int r = cgroup_parse_pid(text, paths);

        if (r < 0)
                return r;
        r = fill_cpuset(c, paths, &i);
        if (r >= 0 && !cpuset_only)
                r = fill_rest(c, paths, &i);
        for (CgroupTree k = 0; k < _CGROUP_TREE_MAX; k++)
                free(paths[k]);
        if (r < 0) {
                cgroup_info_done(&i);
                return r;
        }
        *ret = i;
        return 0;
}

static int read_info(const Cgroups *c, const char *root, pid_t pid, bool cpuset_only, CgroupInfo *ret) {
        _cleanup_free_ char *text = NULL;
        int r = read_text(root, pid, &text);

        return r < 0 ? r : fill_info(c, text, cpuset_only, ret);
}

int cgroup_of_pid(const Cgroups *c, const char *root, pid_t pid, CgroupInfo *ret) {
        return read_info(c, root, pid, false, ret);
}

int cgroup_cpuset_of_pid(const Cgroups *c, const char *root, pid_t pid, CgroupInfo *ret) {
        return read_info(c, root, pid, true, ret);
}

int cgroup_recall(const Cgroups *c, const char *root, pid_t pid, CgroupMemo *memo, const CgroupInfo **ret) {
        _cleanup_free_ char *text = NULL;
        int r = read_text(root, pid, &text);

        if (r >= 0 && (!memo->text || !streq(text, memo->text))) {
                cgroup_memo_done(memo);
                r = fill_info(c, text, false, &memo->info);
                if (r >= 0)
                        memo->text = TAKE_PTR(text);
        }
        if (r < 0)
                return r;
        *ret = &memo->info;
        return 0;
}

void cgroup_memo_done(CgroupMemo *memo) {
        free(memo->text);
        cgroup_info_done(&memo->info);
        *memo = (CgroupMemo){};
}

void cgroup_info_done(CgroupInfo *i) {
        free(i->path);
        free(i->owner);
        free(i->quota_group);
        free(i->memory_directory);
        free(i->cpuset_directory);
        bitset_done(&i->outer_cpus);
        bitset_done(&i->cpus);
        bitset_done(&i->mems);
        *i = (CgroupInfo){};
}

/* ---- memory by node ---- */

static void add_nodes(const char *line, uint64_t unit, const Topology *t, uint64_t *bytes) {
        const char *p = line;

        while ((p = strpbrk(p, " \n")) && *p == ' ') {
                char *end;

                if (*++p != 'N' || !isdigit((unsigned char) p[1]))
                        continue;
                unsigned long node = strtoul(p + 1, &end, 10);
                unsigned i = *end == '=' && node < UINT_MAX ? topology_node_by_os(t, (unsigned) node) : TOPOLOGY_NONE;
                if (i != TOPOLOGY_NONE)
                        bytes[i] += strtoull(end + 1, NULL, 10) * unit;
        }
}

int cgroup_parse_numa_stat(const char *text, uint64_t page_size, const Topology *t, uint64_t *bytes) {
        bool found = false;

        /* v1: pages, the line "total=9 N0=5 N1=4" is the group's own. v2: bytes, anon and file (shmem is part of file). */
        for (const char *p = text; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
                bool v1 = strncmp(p, "total=", 6) == 0;

                if (!v1 && strncmp(p, "anon ", 5) != 0 && strncmp(p, "file ", 5) != 0)
                        continue;
                add_nodes(p, v1 ? page_size : 1, t, bytes);
                found = true;
        }
        return found ? 0 : -ENODATA;
}

/* One line in cgroup.procs: the group is one process's alone. Groups below it hold other processes. */
static bool holds_one(const char *directory) {
        _cleanup_free_ char *path = path_join(directory, "cgroup.procs");
        _cleanup_close_ int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        char text[64]; /* of two lines there is room: no need to have it list thousands */
        ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
        const char *newline;

        if (n < 0)
                return false;
        text[n] = '\0';
        newline = strchr(text, '\n');
        return isdigit((unsigned char) *text) && (!newline || !newline[1]);
}

int cgroup_memory_by_node(const Cgroups *c, const CgroupInfo *i, const Topology *t, uint64_t **ret) {
        _cleanup_free_ uint64_t *bytes = NULL;
        _cleanup_free_ char *path = NULL, *text = NULL;
        int r;

        if (!i->memory_directory || !holds_one(i->memory_directory))
                return -ENODATA;
        path = path_join(i->memory_directory, "memory.numa_stat");
        bytes = calloc(MAX(t->n_nodes, 1U), sizeof(uint64_t));
        if (!path || !bytes)
                return -ENOMEM;
        r = read_file_at(AT_FDCWD, path, 1U << 20, &text, NULL);
        if (r < 0)
                return r == -ENOENT || r == -ENODEV ? -ENODATA : r;
        r = cgroup_parse_numa_stat(text, (uint64_t) sysconf(_SC_PAGESIZE), t, bytes);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(bytes);
        return 0;
}
