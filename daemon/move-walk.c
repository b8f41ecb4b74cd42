/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages: mappings from maps (once, 64 KiB per step), pages that are in memory from pagemap (a window per step),
 * where they are from the kernel's query, whose size follows the time it takes. Nothing is kept of pages that are where
 * they should be. Mappings go by size: the terabytes that some runtimes map and hardly use come last, and when the time
 * for looking is used up it is used up on them (1 TiB of holes is 2 GiB of pagemap, about a second).
 */
#include <errno.h>
#include <fcntl.h>

#include "daemon/move-pages-internal.h"

#define MAPS_STEP (64U << 10)
#define PAGEMAP_PRESENT (UINT64_C(1) << 63)

static bool path_is_below(const char *path, const char *directory) {
        return strncmp(path, directory, strlen(directory)) == 0;
}

static MappingKind kind_of_path(const char *path) {
        static const char *const special[] = { "[vdso]", "[vvar", "[vsyscall]", "[uprobes]" };

        for (size_t i = 0; i < ELEMENTSOF(special); i++)
                if (path_is_below(path, special[i]))
                        return MAPPING_SPECIAL;
        if (path_is_below(path, "/anon_hugepage") || path_is_below(path, "/dev/hugepages"))
                return MAPPING_HUGE;
        if (path_is_below(path, "/dev/") && !path_is_below(path, "/dev/shm/") && !path_is_below(path, "/dev/zero"))
                return MAPPING_DEVICE;
        return path_is_below(path, "anon_inode:") ? MAPPING_DEVICE : MAPPING_MOVABLE;
}

MappingKind mapping_parse(const char *line, Mapping *ret) {
        char access[5] = "", path[32] = "";
        uint64_t start, end;

        *ret = (Mapping){};
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %*s %31s", &start, &end, access, path) < 3 ||
            end <= start)
                return MAPPING_SPECIAL;
        *ret = (Mapping){ start, end };
        if (strncmp(access, "---", 3) == 0)
                return MAPPING_RESERVED;
        return kind_of_path(path);
}

static int add_mapping(MovePages *m, const char *line) {
        Mapping mapping;

        switch (mapping_parse(line, &mapping)) {
        case MAPPING_MOVABLE: break;
        case MAPPING_HUGE:
        case MAPPING_DEVICE: m->report.passed_over += mapping.end - mapping.start; return 0;
        case MAPPING_RESERVED:
        case MAPPING_SPECIAL: return 0;
        }
        if (m->n_mappings == m->n_allocated) {
                size_t n = m->n_allocated ? 2 * m->n_allocated : 256;
                Mapping *more = reallocarray(m->mappings, n, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                m->mappings = more;
                m->n_allocated = n;
        }
        m->mappings[m->n_mappings++] = mapping;
        return 0;
}

static int open_proc(const MovePages *m, const char *name) {
        _cleanup_free_ char *path = NULL;
        int fd;

        if (asprintf(&path, "%s/proc/%d/%s", m->root, (int) m->report.process.pid, name) < 0)
                return -ENOMEM;
        fd = open(path, O_RDONLY | O_CLOEXEC);
        return fd >= 0 ? fd : errno == ENOENT ? -ESRCH : -errno;
}

int walk_open(MovePages *m) {
        m->maps_fd = open_proc(m, "maps");
        if (m->maps_fd < 0)
                return m->maps_fd;
        m->pagemap_fd = open_proc(m, "pagemap");
        m->text = malloc(MAPS_STEP + 1);
        return m->text ? 0 : -ENOMEM;
}

void walk_done(MovePages *m) {
        if (m->maps_fd >= 0)
                (void) close(m->maps_fd);
        if (m->pagemap_fd >= 0)
                (void) close(m->pagemap_fd);
        m->maps_fd = m->pagemap_fd = -1;
        free(m->text);
        free(m->mappings);
        m->text = NULL;
        m->mappings = NULL;
        m->n_mappings = m->n_allocated = 0;
}

/* Whole lines of what has been read; the rest waits. */
static int take_lines(MovePages *m) {
        char *line = m->text, *end;
        int r = 0;

        m->text[m->text_size] = '\0';
        while (r >= 0 && (end = strchr(line, '\n'))) {
                *end = '\0';
                r = add_mapping(m, line);
                line = end + 1;
        }
        m->text_size -= (size_t) (line - m->text);
        memmove(m->text, line, m->text_size);
        if (m->text_size == MAPS_STEP) /* a path longer than that: its line is lost */
                m->text_size = 0;
        return r;
}

static int mapping_cmp(const void *a, const void *b) {
        const Mapping *x = a, *y = b;

        if (x->end - x->start != y->end - y->start)
                return CMP(x->end - x->start, y->end - y->start);
        return CMP(x->start, y->start);
}

static int read_maps(MovePages *m) {
        ssize_t n = read(m->maps_fd, m->text + m->text_size, MAPS_STEP - m->text_size);

        if (n < 0)
                return errno == ESRCH ? move_finish(m, MOVE_GONE, 0, "the process has ended") : -errno;
        if (n > 0) {
                m->text_size += (size_t) n;
                return take_lines(m);
        }
        if (m->n_mappings > 0)
                qsort(m->mappings, m->n_mappings, sizeof(*m->mappings), mapping_cmp);
        m->state = m->n_mappings > 0 ? WALK_PAGES : WALK_END;
        m->cursor = m->n_mappings > 0 ? m->mappings[0].start : 0;
        return 0;
}

/* The pages of one window that are in memory go into the queue. */
static void look_at_window(MovePages *m, uint64_t start, size_t n) {
        uint64_t page = m->report.page_size, *entries = m->entries;
        ssize_t got = 0;

        m->queue_at = m->n_queue = 0;
        if (m->pagemap_fd >= 0) {
                got = pread(m->pagemap_fd, entries, n * sizeof(*entries), (off_t) (start / page * sizeof(*entries)));
                got = MAX(got, (ssize_t) 0) / (ssize_t) sizeof(*entries);
        }
        for (size_t i = 0; i < n; i++)
                if (m->pagemap_fd < 0 || ((ssize_t) i < got && (entries[i] & PAGEMAP_PRESENT)))
                        m->queue[m->n_queue++] = (void *) (uintptr_t) (start + i * page);
}

static void next_window(MovePages *m) {
        const Mapping *at = &m->mappings[m->at];
        uint64_t page = m->report.page_size;
        size_t n = (size_t) MIN((at->end - m->cursor) / page, (uint64_t) MOVE_WINDOW);

        look_at_window(m, m->cursor, n);
        m->cursor += n * page;
        if (n > 0 && m->cursor < at->end)
                return;
        if (++m->at < m->n_mappings)
                m->cursor = m->mappings[m->at].start;
        else
                m->state = WALK_END;
}

/* Which nodes there are is not known before: the list grows. */
static int count_found(MoveReport *r, unsigned node) {
        if (node >= r->n_found) {
                uint64_t *more = reallocarray(r->found, node + 1, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                memset(more + r->n_found, 0, (node + 1 - r->n_found) * sizeof(*more));
                r->found = more;
                r->n_found = node + 1;
        }
        r->found[node]++;
        return 0;
}

static int count_queried(MovePages *m, void *page, int status) {
        m->report.seen++;
        if (status == -ENOENT || status == -EFAULT) /* gone since, or the zero page */
                m->report.absent++;
        else if (status == -EACCES)
                m->report.shared++;
        else if (status < 0)
                m->report.failed++;
        else if (bitset_test(&m->nodes, (unsigned) status))
                m->report.already++;
        else
                m->pending[m->n_pending++] = page;
        return status >= 0 ? count_found(&m->report, (unsigned) status) : 0;
}

static int ask_where(MovePages *m) {
        size_t n = MIN(MIN((size_t) m->ask, m->n_queue - m->queue_at), MOVE_PENDING_MAX - m->n_pending);
        uint64_t start = m->ops.now(m->ops.userdata), took;
        long r = move_query(m, n, m->queue + m->queue_at, m->status);

        if (r < 0)
                return (int) r;
        for (size_t i = 0; i < n; i++) {
                int k = count_queried(m, m->queue[m->queue_at + i], m->status[i]);

                if (k < 0)
                        return k;
        }
        m->queue_at += n;
        took = m->ops.now(m->ops.userdata) - start;
        if (took > m->params.stall_usec / 2)
                m->ask = MAX(m->ask / 2, 16U);
        else if (took < m->params.stall_usec / 8 && n == m->ask)
                m->ask = MIN(m->ask * 2, MOVE_WINDOW);
        return 0;
}

static bool looked_enough(const MovePages *m) {
        return m->n_pending >= m->report.chunk || (m->state == WALK_END && m->queue_at == m->n_queue);
}

/* Windows without a page are many in a sparse address space, and so are small mappings: as many as fit into a part of
 * the bound. */
static int walk_pages(MovePages *m) {
        uint64_t start = m->ops.now(m->ops.userdata);
        int r = 0;

        do
                if (m->queue_at < m->n_queue)
                        r = ask_where(m);
                else
                        next_window(m);
        while (r >= 0 && !looked_enough(m) && m->ops.now(m->ops.userdata) - start < m->params.stall_usec / 4);
        return r;
}

int walk_unit(MovePages *m) {
        uint64_t start = m->ops.now(m->ops.userdata), took;
        int r = m->state == WALK_MAPS ? read_maps(m) : walk_pages(m);

        took = m->ops.now(m->ops.userdata) - start;
        m->report.walk_usec += took;
        m->report.walk_max_usec = MAX(m->report.walk_max_usec, took);
        return r;
}
