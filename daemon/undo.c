/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of the undo journal: opened under a lock on its directory, appended to with one write(2) per line, set aside
 * when it cannot be read, rewritten when most of it is dead. undo-replay.c says what the lines mean.
 *
 * A write that does not fit is cut off again (so the file stays whole) and its error forwarded: the caller then makes
 * no change; where not even that can be done, nothing is written until it can: the next line would join the half one. With nothing left to undo the file is emptied, which works on a full disk too.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "common/fileio.h"
#include "daemon/undo-internal.h"

#define UNDO_FILE_MAX (256U << 20)
#define UNDO_BAD_MAX 100U
#define UNDO_COMPACT_MIN 256U

static size_t live(const Undo *u) {
        return u->n_entries - u->n_dead;
}

static int put_line(FILE *f, json_t *line) {
        int r = !line || json_dumpf(line, f, JSON_COMPACT) < 0 || fputc('\n', f) == EOF ? -ENOMEM : 0;

        json_decref(line);
        return r;
}

static int put_entry(FILE *f, const UndoEntry *e) {
        json_t *o;
        int r;

        if ((e->type == UNDO_AFFINITY || e->type == UNDO_IRQ) && !e->committed && !bitset_isempty(&e->before)) {
                UndoEntry before = *e;

                before.id = e->before_id;
                before.pool = e->before_pool;
                r = undo_entry_to_json(&before, &e->before, true, &o);
                if (r >= 0)
                        r = put_line(f, o);
                if (r < 0)
                        return r;
        }
        r = undo_entry_to_json(e, &e->new, e->committed, &o);
        return r < 0 ? r : put_line(f, o);
}

static int put_boot(FILE *f, const Undo *u) {
        return put_line(f, json_pack("{s:s, s:s}", "t", "boot", "boot", strempty(u->boot)));
}

static int whole_text(const Undo *u, char **ret) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        FILE *f;
        int r;

        f = open_memstream(&text, &size);
        if (!f)
                return -ENOMEM;
        r = put_boot(f, u);
        for (size_t i = 0; r >= 0 && i < u->n_entries; i++) /* in place: the caller may hold pointers to them */
                if (u->entries[i].type != _UNDO_MAX)
                        r = put_entry(f, &u->entries[i]);
        for (size_t i = 0; r >= 0 && u->unknown && u->unknown[i]; i++)
                r = fprintf(f, "%s\n", u->unknown[i]) < 0 ? -ENOMEM : 0;
        if (fclose(f) == EOF && r >= 0)
                r = -ENOMEM;
        if (r >= 0)
                *ret = TAKE_PTR(text);
        return r;
}

static int open_file(Undo *u) {
        int fd = open(u->path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct stat st;

        if (fd < 0)
                return -errno;
        if (fstat(fd, &st) < 0) {
                int r = -errno;

                (void) close(fd);
                return r;
        }
        if (u->fd >= 0)
                (void) close(u->fd);
        u->fd = fd;
        u->size = st.st_size;
        u->torn = false;
        return 0;
}

/* Replaces the file by its live entries. The old one stays in force on failure. */
static int rewrite(Undo *u) {
        _cleanup_free_ char *text = NULL;
        int r = whole_text(u, &text);

        if (r >= 0)
                r = write_file_atomic(u->path, text, 0600);
        if (r >= 0)
                r = open_file(u);
        if (r < 0)
                return r;
        u->n_lines = 1 + live(u) + strv_length(u->unknown);
        u->begun = 0;
        return 0;
}

static void compact(Undo *u) {
        if (u->fd < 0)
                return;
        if (live(u) == 0 && !u->unknown) {
                if (ftruncate(u->fd, 0) == 0) {
                        u->size = 0;
                        u->torn = false;
                        u->n_lines = 0;
                        u->begun = 0;
                }
                return;
        }
        if (u->n_lines <= MAX(2 * live(u) + UNDO_COMPACT_MIN, u->compact_at))
                return;
        /* A full disk is no reason to try again with each line. */
        u->compact_at = rewrite(u) < 0 ? 2 * u->n_lines : 0;
}

static int line_text(const Undo *u, const json_t *line, char **ret, size_t *ret_size) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        int r = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return -ENOMEM;
        if (u->size == 0)
                r = put_boot(f, u);
        if (json_dumpf(line, f, JSON_COMPACT) < 0 || fputc('\n', f) == EOF)
                r = -ENOMEM;
        if (fclose(f) == EOF)
                r = -ENOMEM;
        if (r < 0)
                return r;
        *ret = TAKE_PTR(text);
        *ret_size = size;
        return 0;
}

static int cut_torn(Undo *u) {
        if (u->torn && ftruncate(u->fd, u->size) < 0)
                return -EIO;
        u->torn = false;
        return 0;
}

static int append(Undo *u, const json_t *line) {
        _cleanup_free_ char *text = NULL;
        size_t size;
        ssize_t n;
        int r;

        if (u->fd < 0)
                return -EBADF;
        r = cut_torn(u);
        if (r >= 0)
                r = line_text(u, line, &text, &size);
        if (r < 0)
                return r;
        n = write(u->fd, text, size);
        if (n == (ssize_t) size) {
                u->size += n;
                u->n_lines++;
                return 0;
        }
        r = n < 0 ? -errno : -ENOSPC;
        u->torn = n > 0;
        (void) cut_torn(u);
        return r;
}

/* Noted first, then true in memory; takes the line. */
static int note(Undo *u, json_t *line) {
        int r = line ? append(u, line) : -EINVAL;

        if (r >= 0)
                r = undo_replay(u, line);
        json_decref(line);
        return r;
}

/* What is done is done, even where the file can no longer say so: start finds nothing to put back then. */
static int note_end(Undo *u, json_t *line) {
        int r, k;

        if (!line)
                return -ENOMEM;
        r = append(u, line);
        k = undo_replay(u, line);
        json_decref(line);
        compact(u);
        return k < 0 ? k : r;
}

/* Somebody has removed the file: what is written to it now, nobody would find after a crash. */
static bool is_removed(const Undo *u) {
        struct stat st;

        return u->fd >= 0 && fstat(u->fd, &st) >= 0 && st.st_nlink == 0;
}

int undo_begin(Undo *u, const char *job, uint64_t *ret_id) {
        uint64_t id = undo_next_id(u);
        int r = is_removed(u) ? rewrite(u) : 0;
        off_t size = u->size;
        size_t n_lines = u->n_lines;

        if (r >= 0)
                r = note(u, json_pack("{s:s, s:I, s:s}", "t", "begin", "id", (json_int_t) id, "job", strempty(job)));
        if (r < 0)
                return r;
        u->begun = id;
        u->begun_size = size;
        u->begun_lines = n_lines;
        *ret_id = id;
        return 0;
}

static int note_entry(Undo *u, const UndoEntry *e) {
        json_t *line;
        int r = undo_entry_to_json(e, &e->new, e->committed, &line);

        return r < 0 ? r : note(u, line);
}

int undo_note_affinity(Undo *u, uint64_t id, const char *job, Process p, pid_t tid, uint64_t tid_start,
                       const Bitset *old, const Bitset *new, bool all, const Bitset *cpuset, const Bitset *pool) {
        return note_entry(u, &(UndoEntry){ .type = UNDO_AFFINITY,
                                           .id = id,
                                           .job = (char *) job,
                                           .process = p,
                                           .tid = tid,
                                           .tid_start = tid_start,
                                           .old = *old,
                                           .new = *new,
                                           .cpuset = cpuset ? *cpuset : BITSET_EMPTY,
                                           .pool = pool && !bitset_equal(pool, new) ? *pool : BITSET_EMPTY,
                                           .all = all });
}

int undo_note_inherited(Undo *u, const char *job, Process p, pid_t tid, uint64_t tid_start, const UndoEntry *from) {
        const Bitset *stood = from->committed ? &from->new : &from->before;

        if (bitset_isempty(stood)) /* born within this very transaction: nothing of ours stood before it */
                return 0;
        return note_entry(u, &(UndoEntry){ .type = UNDO_AFFINITY,
                                           .id = from->committed ? from->id : from->before_id,
                                           .job = (char *) job,
                                           .process = p,
                                           .tid = tid,
                                           .tid_start = tid_start,
                                           .old = from->old,
                                           .new = *stood,
                                           .cpuset = from->cpuset,
                                           .pool = from->committed ? from->pool : from->before_pool,
                                           .all = from->all,
                                           .committed = true });
}

int undo_note_cgroup(Undo *u, uint64_t id, const char *job, Process p, const char *controller, const char *old,
                     const char *new) {
        return note_entry(u, &(UndoEntry){ .type = UNDO_CGROUP,
                                           .id = id,
                                           .job = (char *) job,
                                           .process = p,
                                           .controller = (char *) controller,
                                           .old_path = (char *) old,
                                           .new_path = (char *) new });
}

int undo_note_cpus(Undo *u, uint64_t id, const char *job, Process p, const char *controller, const char *group,
                   const Bitset *old, const Bitset *new) {
        return note_entry(u, &(UndoEntry){ .type = UNDO_CPUS,
                                           .id = id,
                                           .job = (char *) job,
                                           .process = p,
                                           .controller = (char *) controller,
                                           .new_path = (char *) group,
                                           .old = *old,
                                           .new = *new });
}

int undo_note_mems(Undo *u, const char *job, Process p, const char *controller, const char *group, const Bitset *old,
                   const Bitset *new) {
        return note_entry(u, &(UndoEntry){ .type = UNDO_MEMS,
                                           .id = u->last_id,
                                           .job = (char *) job,
                                           .process = p,
                                           .controller = (char *) controller,
                                           .new_path = (char *) group,
                                           .old = *old,
                                           .new = *new,
                                           .committed = true });
}

int undo_note_irq(Undo *u, uint64_t id, const char *job, const UndoIrq *irq, const Bitset *old, const Bitset *new) {
        return note_entry(
                u,
                &(UndoEntry){ .type = UNDO_IRQ, .id = id, .job = (char *) job, .irq = *irq, .old = *old, .new = *new });
}

/* No transaction is cut off with it: others may follow a yield, and it stands. */
static int note_yield(Undo *u, const UndoEntry *e) {
        int r = note_entry(u, e);

        if (r >= 0)
                u->begun = 0;
        return r;
}

int undo_note_yield(Undo *u, const char *job, Process p, uint64_t since) {
        return note_yield(u, &(UndoEntry){ .type = UNDO_YIELD, .job = (char *) job, .process = p, .since = since });
}

int undo_note_yield_irq(Undo *u, const char *job, const UndoIrq *irq) {
        return note_yield(u, &(UndoEntry){ .type = UNDO_YIELD, .job = (char *) job, .irq = *irq });
}

int undo_note_dir(Undo *u, uint64_t id, const char *job, const char *path, const char *controller) {
        return note_entry(u, &(UndoEntry){ .type = UNDO_DIR,
                                           .id = id,
                                           .job = (char *) job,
                                           .new_path = (char *) path,
                                           .controller = (char *) controller });
}

int undo_commit(Undo *u, uint64_t id) {
        int r = note(u, json_pack("{s:s, s:I}", "t", "commit", "id", (json_int_t) id));

        if (r >= 0) {
                u->begun = 0;
                compact(u);
        }
        return r;
}

/* On a full disk the lines of the transaction are cut off instead: nothing but its own can have followed. */
static int cut_begun(Undo *u, uint64_t id) {
        if (u->begun != id || ftruncate(u->fd, u->begun_size) < 0)
                return -ENOSPC;
        u->size = u->begun_size;
        u->torn = false;
        u->n_lines = u->begun_lines;
        return 0;
}

int undo_abort(Undo *u, uint64_t id) {
        json_t *line = json_pack("{s:s, s:I}", "t", "abort", "id", (json_int_t) id);
        int r, k;

        if (!line)
                return -ENOMEM;
        r = append(u, line);
        if (r < 0 && u->fd >= 0)
                r = cut_begun(u, id);
        k = undo_replay(u, line);
        json_decref(line);
        u->begun = 0;
        compact(u);
        return k < 0 ? k : r;
}

static int abort_one(Undo *u, const UndoEntry *e) {
        if (e->type == UNDO_CPUS)
                return undo_forget(u, e);
        return note_end(u, json_pack("{s:s, s:I, s:i, s:I}", "t", "abort", "id", (json_int_t) e->id, "tid", e->tid,
                                     "tid_start", (json_int_t) e->tid_start));
}

int undo_abort_restored(Undo *u, uint64_t id) {
        size_t n = 0, n_restored = 0;
        int r = 0;

        for (size_t i = 0; i < u->n_entries; i++)
                if (undo_abortable(&u->entries[i], id)) {
                        n++;
                        n_restored += u->entries[i].restored;
                }
        if (n == n_restored)
                return undo_abort(u, id);
        u->begun = 0; /* others need its lines: they must not be cut off */
        for (size_t i = 0; i < u->n_entries; i++)
                if (undo_abortable(&u->entries[i], id) && u->entries[i].restored) {
                        int k = abort_one(u, &u->entries[i]);

                        if (r >= 0)
                                r = k;
                }
        return r;
}

int undo_revert(Undo *u, const char *job) {
        return note_end(u,
                        job ? json_pack("{s:s, s:s}", "t", "revert", "job", job) : json_pack("{s:s}", "t", "revert"));
}

int undo_forget(Undo *u, const UndoEntry *e) {
        return note_end(u, undo_undone_to_json(e));
}

Undo *undo_free(Undo *u) {
        if (!u)
                return NULL;
        undo_clear(u);
        free(u->entries);
        undo_index_done(u);
        free(u->boot);
        free(u->path);
        if (u->fd >= 0)
                (void) close(u->fd);
        if (u->dir_fd >= 0)
                (void) close(u->dir_fd);
        free(u);
        return NULL;
}

static int undo_new(Undo **ret) {
        Undo *u = calloc(1, sizeof(*u));

        if (!u)
                return -ENOMEM;
        u->fd = u->dir_fd = -1;
        *ret = u;
        return 0;
}

int undo_from_text(const char *text, size_t size, unsigned *ret_n_bad, Undo **ret) {
        _cleanup_(undo_freep) Undo *u = NULL;
        int r = undo_new(&u);

        if (r >= 0)
                r = undo_replay_text(u, text, size, ret_n_bad);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(u);
        return 0;
}

static int lock_directory(Undo *u, const char *directory) {
        if (mkdir(directory, 0755) < 0 && errno != EEXIST)
                return -errno;
        u->dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (u->dir_fd < 0)
                return -errno;
        if (flock(u->dir_fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? -EBUSY : -errno;
        u->path = path_join(directory, "undo.journal");
        return u->path ? 0 : -ENOMEM;
}

/* With all names taken the last one is used again: what is set aside keeps nothing from starting. */
static int bad_name(const Undo *u, char **ret) {
        for (unsigned i = 1;; i++) {
                _cleanup_free_ char *name = NULL;

                if (asprintf(&name, "%s.bad-%u", u->path, i) < 0) {
                        name = NULL;
                        return -ENOMEM;
                }
                if (i < UNDO_BAD_MAX && faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                        continue;
                if (i == UNDO_BAD_MAX)
                        (void) remove(name);
                *ret = TAKE_PTR(name);
                return 0;
        }
}

/* Nothing of it can be read: out of the way with it. */
static int set_aside(Undo *u, int error, char ***messages) {
        _cleanup_free_ char *name = NULL;
        int r = bad_name(u, &name);

        if (r < 0)
                return r;
        if (rename(u->path, name) < 0)
                return -errno;
        return strv_extendf(messages,
                            "%s cannot be read (%s): set aside as %s; changes made before this start cannot be undone",
                            u->path, strerror(-error), name);
}

/* Some lines cannot be read: a copy is set aside, the others stay in force. */
static int set_lines_aside(Undo *u, unsigned n_bad, char ***messages) {
        _cleanup_free_ char *name = NULL;
        int r = bad_name(u, &name);

        if (r >= 0 && link(u->path, name) < 0)
                r = -errno;
        if (r >= 0) {
                r = rewrite(u);
                if (r < 0)
                        (void) unlink(name);
        }
        if (r < 0)
                return strv_extendf(messages,
                                    "%s has %u unreadable lines, which are ignored; it cannot be set aside: %s",
                                    u->path, n_bad, strerror(-r));
        return strv_extendf(messages,
                            "%s has %u unreadable lines: set aside as %s, the %zu readable entries stay in force",
                            u->path, n_bad, name, live(u));
}

/* It was read, but is none that is written to (another owner, a link to somewhere): a file of ours takes its place. */
static int set_unwritable_aside(Undo *u, int error, char ***messages) {
        _cleanup_free_ char *name = NULL;
        int r = bad_name(u, &name);

        if (r >= 0 && rename(u->path, name) < 0)
                r = -errno;
        if (r >= 0)
                r = rewrite(u);
        if (r < 0)
                return r;
        return strv_extendf(messages,
                            "%s cannot be written (%s): set aside as %s, its %zu readable entries stay in force",
                            u->path, strerror(-error), name, live(u));
}

/* Where the file could not be rewritten, the next line must not join a half one. */
static void cut_half_line(Undo *u, const char *text, size_t size) {
        if (u->size != (off_t) size || size == 0 || text[size - 1] == '\n')
                return;
        while (size > 0 && text[size - 1] != '\n')
                size--;
        if (ftruncate(u->fd, size) == 0)
                u->size = size;
}

/* No mask outlives the boot it was set in, while pids and start times come again. */
static int check_boot(Undo *u, char ***messages) {
        _cleanup_free_ char *now = NULL;
        size_t n = live(u);
        bool same;
        int r = read_line_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", &now);

        if (r < 0)
                return r == -ENOMEM ? r : 0;
        same = !u->boot || streq(u->boot, now);
        free(u->boot);
        u->boot = TAKE_PTR(now);
        if (same)
                return 0;
        undo_clear(u);
        compact(u);
        return n == 0 ? 0 : strv_extendf(messages, "%s is from an earlier boot: its %zu entries are void", u->path, n);
}

int undo_open(const char *directory, char ***messages, Undo **ret) {
        _cleanup_(undo_freep) Undo *u = NULL;
        _cleanup_free_ char *text = NULL;
        unsigned n_bad = 0;
        size_t size = 0;
        int r = undo_new(&u);

        if (r >= 0)
                r = lock_directory(u, directory);
        if (r < 0)
                return r;
        r = read_regular_file(u->path, UNDO_FILE_MAX, &text, &size);
        if (r == -ENOMEM)
                return r;
        if (r < 0 && r != -ENOENT)
                r = set_aside(u, r, messages);
        else if (r >= 0)
                r = undo_replay_text(u, text, size, &n_bad);
        else
                r = 0;
        if (r >= 0)
                r = open_file(u);
        if (r < 0 && u->fd < 0 && r != -ENOMEM) {
                r = set_unwritable_aside(u, r, messages);
                n_bad = 0;
        }
        if (r >= 0 && n_bad > 0)
                r = set_lines_aside(u, n_bad, messages);
        if (r >= 0 && n_bad > 0)
                cut_half_line(u, text, size);
        if (r >= 0)
                r = check_boot(u, messages);
        if (r >= 0 && u->unknown)
                r = strv_extendf(messages, "%s has %zu lines of a kind that only a later qschedd knows: kept for it",
                                 u->path, strv_length(u->unknown));
        if (r < 0)
                return r;
        compact(u);
        *ret = TAKE_PTR(u);
        return 0;
}
