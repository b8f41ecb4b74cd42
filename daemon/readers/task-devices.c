/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is on a device when it holds the device's compute node open. Nodes are compared by device number
 * (st_rdev), so that a node that a container knows by another name is found too; by path where there is no number to
 * compare (a recorded tree, a node that is gone). Which device a node is: what the snapshot says of it, else the PCI
 * address that the driver tells, else its number, counted over the devices of its kind.
 *
 * Control nodes (davinci_manager, cambricon_ctl, nvidiactl, hisi_hdc) are in no pattern: exporters and npu-smi hold
 * them too. Some runtimes open the nodes of all devices, or so far only the control node: then the visible-devices
 * variables tell the rest.
 */
#include "daemon/readers/task-devices.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <limits.h>
#include <sys/stat.h>

#include "common/fileio.h"
#include "common/text.h"
#include "daemon/readers/process.h"
#include "daemon/readers/rank-identity.h"

static const struct {
        const char *glob;
        const char *kind;
        unsigned first; /* number of the first device's node */
        bool opens;
} patterns[] = {
        { "/dev/davinci[0-9]*", "ascend", 0, true },
        { "/dev/vdavinci*", "ascend", 0, true },
        { "/dev/cambricon_dev[0-9]*", "cambricon", 0, true },
        { "/dev/kfd", "hygon", UINT_MAX, true },
        { "/dev/mkfd", "hygon", UINT_MAX, true },
        { "/dev/dri/renderD*", "hygon", 128, false },
        { "/dev/iluvatar[0-9]*", "iluvatar", 0, true },
        { "/dev/nvidia[0-9]*", "nvidia", 0, true },
};

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* Row for a node, by its last component: a pattern of the configuration may have the usual names in another place. */
static int pattern_of(const char *path) {
        for (size_t i = 0; i < ELEMENTSOF(patterns); i++)
                if (fnmatch(base_name(patterns[i].glob), base_name(path), 0) == 0)
                        return (int) i;
        return -1;
}

static unsigned number_of(const char *path) {
        const char *p = base_name(path);
        unsigned n;

        p += strcspn(p, "0123456789");
        _cleanup_free_ char *digits = strndup(p, strspn(p, "0123456789"));
        return digits && text_parse_uint(digits, 0, UINT_MAX - 1, &n) >= 0 ? n : UINT_MAX;
}

/* Hygon's and AMD's drivers have the same nodes. */
static bool same_kind(const char *kind, const char *device_kind) {
        return device_kind && (streq(kind, device_kind) || (streq(kind, "hygon") && streq(device_kind, "amd")));
}

static bool knows_nodes(const Device *d) {
        return d->nodes && d->nodes[0];
}

/* ---- node -> device ---- */

static unsigned device_by_nodes(const NodeTable *t, const char *path, dev_t rdev) {
        for (size_t i = 0; i < t->snapshot->n_devices; i++)
                for (char **n = t->snapshot->devices[i].nodes; n && *n; n++) {
                        _cleanup_free_ char *full = NULL;
                        struct stat st;

                        if (streq(*n, path))
                                return (unsigned) i;
                        full = rdev ? path_join(t->root, *n) : NULL;
                        if (full && stat(full, &st) >= 0 && S_ISCHR(st.st_mode) && st.st_rdev == rdev)
                                return (unsigned) i;
                }
        return TOPOLOGY_NONE;
}

static int driver_file(const NodeTable *t, const char *directory, const char *name, const char *file, char **ret) {
        if (asprintf(ret, "%s%s/%s/%s", t->root, directory, name, file) < 0)
                return *ret = NULL, -ENOMEM;
        return 0;
}

static bool render_node_confirms(const NodeTable *t, const DeviceNode *n, const Device *d, bool *told) {
        _cleanup_free_ char *path = NULL;
        char target[PATH_MAX];
        ssize_t k;

        if (driver_file(t, "/sys/class/drm", base_name(n->path), "device", &path) < 0)
                return false;
        k = readlink(path, target, sizeof(target) - 1);
        if (k <= 0)
                return false;
        target[k] = '\0';
        *told = true;
        return streq(base_name(target), d->pci);
}

static bool davinci_confirms(const NodeTable *t, const DeviceNode *n, const Device *d, bool *told) {
        _cleanup_free_ char *path = NULL;
        uint64_t id;

        if (driver_file(t, "/sys/bus/pci/devices", d->pci, "dev_id", &path) < 0 || read_u64_at(AT_FDCWD, path, &id) < 0)
                return false;
        *told = true;
        return id == n->number;
}

static bool nvidia_confirms(const NodeTable *t, const DeviceNode *n, const Device *d, bool *told) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        const char *minor;

        if (driver_file(t, "/proc/driver/nvidia/gpus", d->pci, "information", &path) < 0 ||
            read_file_at(AT_FDCWD, path, 1U << 16, &text, NULL) < 0 || !(minor = strstr(text, "Device Minor:")))
                return false;
        *told = true;
        return strtoul(minor + strlen("Device Minor:"), NULL, 10) == n->number;
}

/* Does the driver say that this node is this device? *told: it says something at all. */
static bool driver_confirms(const NodeTable *t, const DeviceNode *n, const Device *d, bool *told) {
        const char *name = base_name(n->path);

        if (!d->pci)
                return false;
        if (strncmp(name, "renderD", 7) == 0)
                return render_node_confirms(t, n, d, told);
        if (strncmp(name, "davinci", 7) == 0)
                return davinci_confirms(t, n, d, told);
        return strncmp(name, "nvidia", 6) == 0 && nvidia_confirms(t, n, d, told);
}

static unsigned device_by_number(const NodeTable *t, const DeviceNode *n, unsigned first) {
        unsigned k = 0;

        if (n->number == UINT_MAX || n->number < first)
                return TOPOLOGY_NONE;
        for (size_t i = 0; i < t->snapshot->n_devices; i++) {
                const Device *d = t->snapshot->devices + i;

                if (same_kind(n->kind, d->kind) && k++ == n->number - first)
                        return knows_nodes(d) ? TOPOLOGY_NONE : (unsigned) i;
        }
        return TOPOLOGY_NONE;
}

static void find_device(const NodeTable *t, DeviceNode *n, unsigned first) {
        bool told = false;

        n->device = device_by_nodes(t, n->path, n->rdev);
        if (n->device != TOPOLOGY_NONE || !n->kind || n->number == UINT_MAX)
                return;
        for (size_t i = 0; i < t->snapshot->n_devices; i++)
                if (same_kind(n->kind, t->snapshot->devices[i].kind) &&
                    driver_confirms(t, n, t->snapshot->devices + i, &told)) {
                        n->device = (unsigned) i;
                        return;
                }
        if (!told)
                n->device = device_by_number(t, n, first);
}

/* ---- the table ---- */

/* A name that no pattern of ours has: its letters may be the kind ("/dev/edu0"). */
static const char *kind_by_name(const Snapshot *s, const char *path) {
        const char *base = base_name(path);
        size_t n = strcspn(base, "0123456789");

        for (size_t i = 0; i < s->n_devices; i++)
                if (s->devices[i].kind && strlen(s->devices[i].kind) == n && strncmp(base, s->devices[i].kind, n) == 0)
                        return s->devices[i].kind;
        return NULL;
}

/* What can be said of a node from its path; path is not taken. */
static DeviceNode describe(const NodeTable *t, const char *path, dev_t rdev) {
        int i = pattern_of(path);
        DeviceNode n = {
                .path = (char *) path,
                .rdev = rdev,
                .device = TOPOLOGY_NONE,
                .opens = i < 0 || patterns[i].opens,
                .kind = i < 0 ? kind_by_name(t->snapshot, path) : patterns[i].kind,
                .number = i >= 0 && patterns[i].first == UINT_MAX ? UINT_MAX : number_of(path),
        };

        if (n.number != UINT_MAX || i < 0)
                find_device(t, &n, i < 0 ? 0 : patterns[i].first);
        return n;
}

static int add_node(NodeTable *t, const char *path, dev_t rdev) {
        DeviceNode *p;

        for (size_t i = 0; i < t->n_nodes; i++)
                if (streq(t->nodes[i].path, path))
                        return 0;
        p = reallocarray(t->nodes, t->n_nodes + 1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        t->nodes = p;
        p += t->n_nodes;
        *p = describe(t, path, rdev);
        p->path = strdup(path);
        if (!p->path)
                return -ENOMEM;
        t->n_nodes++;
        return 0;
}

static int add_glob(NodeTable *t, const char *pattern) {
        _cleanup_free_ char *full = NULL;
        size_t skip = strlen(t->root);
        glob_t g = {};
        int r;

        if (asprintf(&full, "%s%s", t->root, pattern) < 0)
                return full = NULL, -ENOMEM;
        r = strv_extend(&t->globs, pattern);
        if (r < 0)
                return r;
        switch (glob(full, GLOB_NOSORT, NULL, &g)) {
        case 0: break;
        case GLOB_NOSPACE: return -ENOMEM;
        default: return 0;
        }
        for (size_t i = 0; i < g.gl_pathc && r >= 0; i++) {
                struct stat st;

                if (stat(g.gl_pathv[i], &st) >= 0)
                        r = add_node(t, g.gl_pathv[i] + skip, S_ISCHR(st.st_mode) ? st.st_rdev : 0);
        }
        globfree(&g);
        return r;
}

int node_table_read(const char *root, char *const *globs, const Snapshot *s, NodeTable *ret) {
        NodeTable t = { .root = strdup(root), .snapshot = s };
        int r = t.root ? 0 : -ENOMEM;

        for (size_t i = 0; i < s->n_devices && r >= 0; i++)
                for (char **n = s->devices[i].nodes; n && *n && r >= 0; n++) {
                        _cleanup_free_ char *full = path_join(root, *n);
                        struct stat st;

                        r = full ? add_node(&t, *n, stat(full, &st) >= 0 && S_ISCHR(st.st_mode) ? st.st_rdev : 0)
                                 : -ENOMEM;
                }
        for (size_t i = 0; i < ELEMENTSOF(patterns) && r >= 0; i++)
                r = add_glob(&t, patterns[i].glob);
        for (char *const *g = globs; g && *g && r >= 0; g++)
                r = add_glob(&t, *g);
        if (r < 0) {
                node_table_done(&t);
                return r;
        }
        *ret = t;
        return 0;
}

void node_table_done(NodeTable *t) {
        for (size_t i = 0; i < t->n_nodes; i++)
                free(t->nodes[i].path);
        free(t->nodes);
        strv_free(t->globs);
        free(t->root);
        *t = (NodeTable){};
}

bool node_table_empty(const NodeTable *t) {
        return t->n_nodes == 0 && !*t->root;
}

/* ---- what a process holds ---- */

static const DeviceNode *known_node(const NodeTable *t, const char *path, dev_t rdev) {
        const DeviceNode *same_number = NULL;

        for (size_t i = 0; i < t->n_nodes; i++) {
                const DeviceNode *n = t->nodes + i;

                if (n->rdev != rdev) /* a path alone proves nothing: a container's davinci0 may be our davinci5 */
                        continue;
                if (streq(n->path, path))
                        return n;
                if (rdev && !same_number)
                        same_number = n;
        }
        return same_number;
}

static bool matches_globs(const NodeTable *t, const char *path) {
        for (char **g = t->globs; g && *g; g++)
                if (fnmatch(*g, path, FNM_PATHNAME) == 0)
                        return true;
        for (size_t i = 0; i < t->n_nodes; i++)
                if (streq(t->nodes[i].path, path))
                        return true;
        return false;
}

/* Every process holds these; they are not worth a stat. */
static bool is_common(const char *path) {
        static const char *const common[] = { "/dev/null",   "/dev/zero", "/dev/urandom",
                                              "/dev/random", "/dev/full", "/dev/tty" };

        for (size_t i = 0; i < ELEMENTSOF(common); i++)
                if (streq(path, common[i]))
                        return true;
        return strncmp(path, "/dev/pts/", 9) == 0 || strncmp(path, "/dev/shm/", 9) == 0 ||
               strncmp(path, "/dev/hugepages", 14) == 0;
}

static int add_device(Holding *h, unsigned device) {
        unsigned *p;

        for (size_t i = 0; i < h->n_devices; i++)
                if (h->devices[i] == device)
                        return 0;
        p = reallocarray(h->devices, h->n_devices + 1, sizeof(*p));
        if (!p)
                return -ENOMEM;
        h->devices = p;
        h->devices[h->n_devices++] = device;
        return 0;
}

static int hold(const NodeTable *t, int dir, const char *fd_name, const char *path, Holding *h) {
        DeviceNode from_path;
        const DeviceNode *n;
        struct stat st;
        dev_t rdev;
        bool named;

        if (*path != '/' || is_common(path))
                return 0;
        named = matches_globs(t, path);
        if (!named && !strstr(path, "/dev/")) /* a regular file: not even looked at, it may be on a dead NFS server */
                return 0;
        rdev = fstatat(dir, fd_name, &st, 0) >= 0 && S_ISCHR(st.st_mode) ? st.st_rdev : 0;
        if (rdev == 0 && !named)
                return 0;
        n = known_node(t, path, rdev);
        if (!n) {
                if (!named)
                        return 0;
                from_path = describe(t, path, rdev);
                n = &from_path;
        }
        h->compute |= n->opens;
        return n->device != TOPOLOGY_NONE ? add_device(h, n->device) : 0;
}

static int unsigned_cmp(const void *a, const void *b) {
        return CMP(*(const unsigned *) a, *(const unsigned *) b);
}

static void holding_sort(Holding *h) {
        if (h->n_devices > 1)
                qsort(h->devices, h->n_devices, sizeof(unsigned), unsigned_cmp);
}

int holding_read(const NodeTable *t, int proc_fd, pid_t pid, Holding *ret) {
        char path[PATH_MAX];
        Holding h = {};
        struct dirent *e;
        int fd, r = 0;
        DIR *d;

        (void) snprintf(path, sizeof(path), "%d/fd", (int) pid);
        fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT || errno == ESRCH ? -ESRCH : errno == EPERM ? -EACCES : -errno;
        d = fdopendir(fd);
        if (!d) {
                r = -errno;
                (void) close(fd);
                return r;
        }
        while (r >= 0 && (e = readdir(d))) {
                ssize_t n;

                if (!isdigit((unsigned char) e->d_name[0]))
                        continue;
                n = readlinkat(fd, e->d_name, path, sizeof(path) - 1);
                if (n <= 0) /* closed meanwhile; or EACCES: then all of them are */
                        continue;
                path[n] = '\0';
                r = hold(t, fd, e->d_name, path, &h);
        }
        (void) closedir(d);
        if (r < 0) {
                holding_done(&h);
                return r;
        }
        if (!h.compute) /* a render node alone: a display, or a video player */
                holding_done(&h);
        holding_sort(&h);
        *ret = h;
        return 0;
}

void holding_done(Holding *h) {
        free(h->devices);
        *h = (Holding){};
}

/* ---- what the environment adds ---- */

/* Numbers of the kind's nodes that the process's own /dev shows, in the order it counts them. */
static int seen_in_container(const NodeTable *t, pid_t pid, const char *kind, unsigned **ret, size_t *ret_n) {
        _cleanup_free_ unsigned *list = NULL;
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(patterns); i++) {
                _cleanup_free_ char *full = NULL;
                glob_t g = {};

                if (!same_kind(patterns[i].kind, kind) || patterns[i].first != 0)
                        continue;
                if (asprintf(&full, "%s/proc/%d/root%s", t->root, (int) pid, patterns[i].glob) < 0)
                        return full = NULL, -ENOMEM;
                if (glob(full, 0, NULL, &g) != 0)
                        continue;
                list = calloc(g.gl_pathc + 1, sizeof(unsigned));
                for (size_t k = 0; list && k < g.gl_pathc; k++) {
                        const char *inside = strstr(g.gl_pathv[k], "/root/") + 5;
                        struct stat st;
                        dev_t rdev = stat(g.gl_pathv[k], &st) >= 0 && S_ISCHR(st.st_mode) ? st.st_rdev : 0;
                        const DeviceNode *node = known_node(t, inside, rdev);

                        if (node && node->number != UINT_MAX)
                                list[n++] = node->number;
                }
                globfree(&g);
                if (!list)
                        return -ENOMEM;
                break;
        }
        if (n > 1)
                qsort(list, n, sizeof(unsigned), unsigned_cmp);
        *ret = TAKE_PTR(list);
        *ret_n = n;
        return 0;
}

/* The device of a kind that the host counts as number k: what a node with that number would be. */
static unsigned device_of_number(const NodeTable *t, const char *kind, unsigned k) {
        unsigned count = 0;

        for (size_t i = 0; i < t->n_nodes; i++)
                if (t->nodes[i].kind && same_kind(t->nodes[i].kind, kind) && t->nodes[i].number == k &&
                    t->nodes[i].opens)
                        return t->nodes[i].device;
        for (size_t i = 0; i < ELEMENTSOF(patterns); i++) {
                char path[64];

                if (patterns[i].first != 0 || !patterns[i].opens || !streq(patterns[i].kind, kind))
                        continue;
                (void) snprintf(path, sizeof(path), "%.*s%u", (int) strcspn(patterns[i].glob, "[*"), patterns[i].glob,
                                k);
                return describe(t, path, 0).device;
        }
        for (size_t i = 0; i < t->snapshot->n_devices; i++)
                if (t->snapshot->devices[i].kind && streq(t->snapshot->devices[i].kind, kind) && count++ == k)
                        return (unsigned) i;
        return TOPOLOGY_NONE;
}

static bool holds(const Holding *h, unsigned device) {
        for (size_t i = 0; i < h->n_devices; i++)
                if (h->devices[i] == device)
                        return true;
        return false;
}

/* One kind: 1 when `out` got what is visible of it, 0 when the environment does not tell. */
static int visible_of_kind(const NodeTable *t, pid_t pid, const char *kind, const char *block, size_t size,
                           Holding *out) {
        _cleanup_free_ unsigned *seen = NULL, *numbers = NULL;
        size_t n_seen, n;
        int r;

        r = seen_in_container(t, pid, kind, &seen, &n_seen);
        if (r >= 0)
                r = environ_visible_devices(block, size, kind, seen, n_seen, &numbers, &n);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                unsigned device = device_of_number(t, kind, numbers[i]);

                r = device == TOPOLOGY_NONE ? 0 : add_device(out, device);
                if (r < 0)
                        return r;
        }
        return 1;
}

/* Keeps of the held devices of a kind those that are visible; when that would leave none, the variables were wrong. */
static void narrow(const NodeTable *t, Holding *h, const char *kind, const Holding *visible) {
        size_t both = 0, n = 0;

        for (size_t i = 0; i < visible->n_devices; i++)
                both += holds(h, visible->devices[i]);
        if (both == 0)
                return;
        for (size_t i = 0; i < h->n_devices; i++)
                if (!streq(strempty(t->snapshot->devices[h->devices[i]].kind), kind) || holds(visible, h->devices[i]))
                        h->devices[n++] = h->devices[i];
        h->n_devices = n;
}

static size_t count_kind(const NodeTable *t, const Holding *h, const char *kind) {
        size_t n = 0;

        for (size_t i = 0; i < h->n_devices; i++)
                n += streq(strempty(t->snapshot->devices[h->devices[i]].kind), kind);
        return n;
}

int holding_apply_environ(const NodeTable *t, int proc_fd, pid_t pid, const char *block, size_t size, Holding *h) {
        bool none = h->n_devices == 0;
        int r = 0;

        for (size_t i = 0; i < t->snapshot->n_devices && r >= 0; i++) {
                const char *kind = t->snapshot->devices[i].kind;
                Holding visible = {};
                size_t held = kind ? count_kind(t, h, kind) : 1;
                bool first = true;

                for (size_t k = 0; k < i && first; k++)
                        first = !kind || !t->snapshot->devices[k].kind || !streq(t->snapshot->devices[k].kind, kind);
                if (!kind || !first || (!none && held <= 1))
                        continue;
                r = visible_of_kind(t, pid, kind, block, size, &visible);
                if (r > 0 && held > 1)
                        narrow(t, h, kind, &visible);
                else if (r > 0 && held == 0 &&
                         visible.n_devices == 1) /* several: which one it will open is not known yet */
                        r = add_device(h, visible.devices[0]);
                holding_done(&visible);
        }
        holding_sort(h);
        return r < 0 ? r : 0;
}
