/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked before each chunk: does anybody wait for memory, which target has room above its reserve and is in the
 * process's cpuset.mems, is the cgroup far enough from its limit? Page cache that can go at once (inactive_file) does
 * not count as used of a cgroup: else every container that has read files would be full. Of a node it does: the kernel
 * would drop it while the process waits, for longer than any bound; it is told, since it can be dropped by hand.
 */
#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "daemon/move-pages-internal.h"
#include "daemon/readers/process.h"
#include "daemon/readers/psi.h"

#define ROOM_MIN (2U << 20) /* a transparent huge page goes as a whole */
#define GROUP_DEPTH_MAX 64

/* The number after `name` at the start of a line ("Node 0 MemFree:" counts from MemFree:). */
static bool line_number(const char *text, const char *name, uint64_t *ret) {
        size_t n = strlen(name);

        for (const char *p = text; (p = strstr(p, name)); p += n)
                if ((p == text || p[-1] == '\n' || p[-1] == ' ') && (p[n] == ' ' || p[n] == '\t')) {
                        char *end;

                        *ret = strtoull(p + n, &end, 10);
                        return end != p + n;
                }
        return false;
}

int node_room(const char *root, unsigned os, NodeRoom *ret) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        uint64_t total, available, cache = 0, dirty = 0, writeback = 0;
        int r;

        *ret = (NodeRoom){};
        if (asprintf(&path, "%s/sys/devices/system/node/node%u/meminfo", root, os) < 0)
                return -ENOMEM;
        r = read_file_at(AT_FDCWD, path, 64U << 10, &text, NULL);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        if (!line_number(text, "MemTotal:", &total) || !line_number(text, "MemFree:", &available))
                return 0;
        (void) line_number(text, "Inactive(file):", &cache);
        (void) line_number(text, "Dirty:", &dirty);
        (void) line_number(text, "Writeback:", &writeback);
        cache -= MIN(cache, dirty + writeback);
        *ret = (NodeRoom){ true, total * 1024, available * 1024, cache * 1024 };
        return 0;
}

/* Empty: all. */
static int mems_allowed(const MovePages *m, Bitset *ret) {
        _cleanup_close_ int proc_fd = proc_open(m->root);
        ProcStatus status;
        int r;

        if (proc_fd < 0)
                return proc_fd;
        r = proc_read_status(proc_fd, m->report.process.pid, 0, &status);
        if (r < 0)
                return r;
        *ret = status.mems;
        bitset_done(&status.cpus);
        return 0;
}

static int say_full(MovePages *m, const char *wanted, uint64_t cache) {
        _cleanup_free_ char *hint = NULL;
        char bytes[32];

        if (cache > ROOM_MIN && asprintf(&hint, "; %s of page cache there can go: echo 1 >/proc/sys/vm/drop_caches",
                                         text_format_bytes(bytes, sizeof(bytes), cache)) < 0)
                return -ENOMEM;
        return move_finish(m, MOVE_NODE_FULL, 0,
                           "node %s has no room: %.0f %% of a node's memory stay free (MemFree in its meminfo)%s",
                           wanted, m->params.reserve * 100, strempty(hint));
}

static int deny_nodes(MovePages *m, const Bitset *allowed, unsigned n_full, uint64_t cache) {
        _cleanup_free_ char *wanted = NULL, *has = NULL;
        int r = bitset_format(&m->nodes, &wanted);

        if (r >= 0)
                r = bitset_format(allowed, &has);
        if (r < 0)
                return r;
        if (n_full > 0)
                return say_full(m, wanted, cache);
        if (!bitset_isempty(allowed) && !bitset_intersects(allowed, &m->nodes))
                return move_finish(m, MOVE_NODE_DENIED, 0, "node %s is not in the process's cpuset.mems, which is %s",
                                   wanted, has);
        return move_finish(m, MOVE_NODE_DENIED, 0, "node %s has no memory here", wanted);
}

static int pick_node(MovePages *m, unsigned *ret_node, uint64_t *ret_pages) {
        _cleanup_(bitset_done) Bitset allowed = BITSET_EMPTY;
        uint64_t best = 0, cache = 0;
        unsigned n_full = 0;
        int r = mems_allowed(m, &allowed);

        if (r == -ESRCH)
                return move_finish(m, MOVE_GONE, 0, "the process has ended");
        if (r < 0)
                return r;
        BITSET_FOREACH (os, &m->nodes) {
                NodeRoom room;
                uint64_t reserve;

                if (!bitset_isempty(&allowed) && !bitset_test(&allowed, (unsigned) os))
                        continue;
                r = node_room(m->root, (unsigned) os, &room);
                if (r < 0)
                        return r;
                if (!room.exists || room.total == 0)
                        continue;
                reserve = (uint64_t) ((double) room.total * m->params.reserve);
                if (room.free < reserve + ROOM_MIN) {
                        n_full++;
                        cache += room.cache;
                } else if (room.free - reserve > best) {
                        best = room.free - reserve;
                        *ret_node = (unsigned) os;
                }
        }
        *ret_pages = best / m->report.page_size;
        return best > 0 ? 0 : deny_nodes(m, &allowed, n_full, cache);
}

/* 1 there is more pressure than allowed, and that was said; 0 not, or unknown. */
static int judge_pressure(MovePages *m, int known, const Psi *psi, const char *whose) {
        if (known < 0)
                return known == -ENOMEM ? known : 0;
        m->report.pressure_known = true;
        if (psi->some_avg10 <= m->params.pressure_max)
                return 0;
        known = move_finish(
                m, MOVE_PRESSURE, 0,
                "tasks of %s waited for memory %.1f %% of the last ten seconds (some avg10), allowed is %.1f %%", whose,
                psi->some_avg10, m->params.pressure_max);
        return known < 0 ? known : 1;
}

static int check_pressure(MovePages *m) {
        Psi psi;
        int r = psi_memory(m->root, &psi);

        r = judge_pressure(m, r, &psi, "the host");
        if (r != 0 || !m->group_dir)
                return r;
        r = psi_memory_group(m->group_dir, &psi);
        return judge_pressure(m, r, &psi, "its cgroup");
}

/* One group: 0 and its numbers, -ENODATA: no limit, or no such files. */
static int group_read(const char *dir, uint64_t *ret_limit, uint64_t *ret_used) {
        static const struct {
                const char *limit, *usage, *cache;
        } files[] = { { "memory.max", "memory.current", "inactive_file" },
                      { "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file" } };
        _cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        for (size_t i = 0; fd >= 0 && i < ELEMENTSOF(files); i++) {
                _cleanup_free_ char *stat = NULL;
                uint64_t cache;

                if (read_u64_at(fd, files[i].limit, ret_limit) < 0 || read_u64_at(fd, files[i].usage, ret_used) < 0)
                        continue;
                if (*ret_limit >= INT64_MAX - UINT32_MAX) /* how v1 says "none" */
                        return -ENODATA;
                if (read_file_at(fd, "memory.stat", 64U << 10, &stat, NULL) >= 0 &&
                    line_number(stat, files[i].cache, &cache))
                        *ret_used -= MIN(cache, *ret_used);
                return 0;
        }
        return -ENODATA;
}

/* 1 its cgroup, or one above it, is near its limit, and that was said. */
static int check_group(MovePages *m) {
        _cleanup_free_ char *dir = m->group_dir ? strdup(m->group_dir) : NULL;

        if (!dir)
                return m->group_dir ? -ENOMEM : 0;
        for (unsigned depth = 0; depth < GROUP_DEPTH_MAX && *dir; depth++) {
                uint64_t limit, used;
                char *slash;

                if (group_read(dir, &limit, &used) >= 0 &&
                    (double) used > (double) limit * (1 - m->params.group_reserve)) {
                        char a[32], b[32];
                        int r = move_finish(m, MOVE_GROUP_FULL, 0,
                                            "its cgroup %s uses %s of %s, %.0f %% of which stay free", dir,
                                            text_format_bytes(a, sizeof(a), used),
                                            text_format_bytes(b, sizeof(b), limit), m->params.group_reserve * 100);

                        return r < 0 ? r : 1;
                }
                slash = strrchr(dir, '/');
                if (!slash)
                        break;
                *slash = '\0';
        }
        return 0;
}

int limits_check(MovePages *m, unsigned *ret_node, uint64_t *ret_pages) {
        int r;

        *ret_pages = 0;
        r = check_pressure(m);
        if (r == 0)
                r = check_group(m);
        return r != 0 ? MIN(r, 0) : pick_node(m, ret_node, ret_pages);
}
