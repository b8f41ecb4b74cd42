/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the lines of the undo journal mean. Each change of the entries in memory is made by replaying the line that was
 * written for it, so a restart arrives at the same entries as the daemon that wrote them.
 *
 * Entries are found through undo-index.c; a forgotten entry keeps its place (so that pointers to others stay valid in a
 * loop that forgets) until undo_entries() closes the gaps.
 */
#include <errno.h>
#include <limits.h>

#include "daemon/undo-internal.h"

static void entry_done(UndoEntry *e) {
        free(e->job);
        bitset_done(&e->old);
        bitset_done(&e->new);
        bitset_done(&e->before);
        bitset_done(&e->cpuset);
        bitset_done(&e->pool);
        bitset_done(&e->before_pool);
        free(e->old_path);
        free(e->new_path);
        free(e->controller);
        free(e->irq.device);
        free(e->irq.name);
        *e = (UndoEntry){ .type = _UNDO_MAX };
}

static UndoEntry *entry_add(Undo *u) {
        if (u->n_entries == u->n_allocated) {
                size_t n = u->n_allocated ? u->n_allocated * 2 : 64;
                UndoEntry *e = reallocarray(u->entries, n, sizeof(*e));

                if (!e)
                        return NULL;
                u->entries = e;
                u->n_allocated = n;
        }
        if (undo_index_grow(u) < 0)
                return NULL;
        u->entries[u->n_entries] = (UndoEntry){ .type = _UNDO_MAX };
        return &u->entries[u->n_entries];
}

static UndoEntry *find_tid(const Undo *u, pid_t tid, uint64_t tid_start) {
        return (UndoEntry *) undo_find_tid(u, tid, tid_start);
}

static UndoEntry *find_cgroup(const Undo *u, Process p, const char *controller) {
        const UndoEntry *e = NULL;

        while ((e = undo_next_of(u, p, e)))
                if (e->type == UNDO_CGROUP && streq(e->controller, controller))
                        return (UndoEntry *) e;
        return NULL;
}

static UndoEntry *find_path(const Undo *u, UndoType type, const char *path) {
        for (size_t i = 0; i < u->n_entries; i++)
                if (u->entries[i].type == type && streq(u->entries[i].new_path, path))
                        return &u->entries[i];
        return NULL;
}

static UndoEntry *find_yield(const Undo *u, Process p) {
        const UndoEntry *e = NULL;

        while ((e = undo_next_of(u, p, e)))
                if (e->type == UNDO_YIELD && !e->irq.device)
                        return (UndoEntry *) e;
        return NULL;
}

static UndoEntry *find_irq(const Undo *u, UndoType type, const UndoIrq *irq) {
        for (size_t i = 0; i < u->n_entries; i++) {
                UndoEntry *e = &u->entries[i];

                if (e->type == type && e->irq.device && e->irq.irq == irq->irq && streq(e->irq.device, irq->device) &&
                    streq(e->irq.name, irq->name))
                        return e;
        }
        return NULL;
}

static void entry_forget(Undo *u, UndoEntry *e) {
        entry_done(e);
        u->n_dead++;
}

const UndoEntry *undo_find_cgroup(const Undo *u, Process p, const char *controller) {
        return find_cgroup(u, p, controller);
}

const UndoEntry *undo_find_cpus(const Undo *u, const char *group) {
        return find_path(u, UNDO_CPUS, group);
}

const UndoEntry *undo_find_mems(const Undo *u, const char *group) {
        return find_path(u, UNDO_MEMS, group);
}

const UndoEntry *undo_find_yield(const Undo *u, Process p) {
        return find_yield(u, p);
}

const UndoEntry *undo_find_yield_irq(const Undo *u, const UndoIrq *irq) {
        return find_irq(u, UNDO_YIELD, irq);
}

void undo_restored(Undo *u, const UndoEntry *e) {
        u->entries[e - u->entries].restored = true;
}

bool undo_committed(const Undo *u, uint64_t id) {
        for (size_t i = 0; i < u->n_entries; i++)
                if (u->entries[i].type != _UNDO_MAX && u->entries[i].id == id && u->entries[i].committed)
                        return true;
        return false;
}

uint64_t undo_next_id(const Undo *u) {
        return u->last_id + 1;
}

const UndoEntry *undo_entries(Undo *u, size_t *ret_n) {
        if (u->n_dead > 0) {
                size_t n = 0;

                for (size_t i = 0; i < u->n_entries; i++)
                        if (u->entries[i].type != _UNDO_MAX)
                                u->entries[n++] = u->entries[i];
                u->n_entries = n;
                u->n_dead = 0;
                undo_index_fill(u);
        }
        *ret_n = u->n_entries;
        return u->entries;
}

void undo_clear(Undo *u) {
        for (size_t i = 0; i < u->n_entries; i++)
                entry_done(&u->entries[i]);
        u->n_entries = u->n_dead = 0;
        undo_index_fill(u);
        strv_free(u->unknown);
        u->unknown = NULL;
}

/* Members of a line: 0 or -EBADMSG. */

static int member_number(const json_t *o, const char *name, uint64_t max, uint64_t *ret) {
        const json_t *v = json_object_get(o, name);

        if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t) json_integer_value(v) > max)
                return -EBADMSG;
        *ret = json_integer_value(v);
        return 0;
}

static int member_pid(const json_t *o, const char *name, pid_t *ret) {
        uint64_t v;

        if (member_number(o, name, INT_MAX, &v) < 0 || v == 0)
                return -EBADMSG;
        *ret = (pid_t) v;
        return 0;
}

static int member_process(const json_t *o, Process *ret) {
        if (member_pid(o, "pid", &ret->pid) < 0)
                return -EBADMSG;
        return member_number(o, "start", INT64_MAX, &ret->start_time);
}

static int member_string(const json_t *o, const char *name, char **ret) {
        const char *s = json_string_value(json_object_get(o, name));

        if (!s)
                return -EBADMSG;
        *ret = strdup(s);
        return *ret ? 0 : -ENOMEM;
}

static int member_set(const json_t *o, const char *name, Bitset *ret) {
        const char *s = json_string_value(json_object_get(o, name));
        int r;

        if (!s)
                return -EBADMSG;
        r = bitset_parse(s, ret);
        if (r == -ENOMEM)
                return r;
        return r < 0 || bitset_isempty(ret) ? -EBADMSG : 0;
}

/* A group whose CPUs were never set has none. */
static int member_cpus(const json_t *o, const char *name, Bitset *ret) {
        const char *s = json_string_value(json_object_get(o, name));

        return s && !*s ? 0 : member_set(o, name, ret);
}

static int member_common(Undo *u, const json_t *o, UndoEntry *e) {
        int r = member_number(o, "id", INT64_MAX - 1, &e->id);

        if (r < 0)
                return r;
        e->committed = json_is_true(json_object_get(o, "committed"));
        u->last_id = MAX(u->last_id, e->id);
        return member_string(o, "job", &e->job);
}

static void take_set(Bitset *to, Bitset *from) {
        bitset_done(to);
        *to = *from;
        *from = BITSET_EMPTY;
}

/* A second note on the same thing: its old value is the first one's. Takes what it needs from `from`. */
static void entry_renew(UndoEntry *e, UndoEntry *from) {
        if (e->type == UNDO_AFFINITY || e->type == UNDO_IRQ) {
                if (from->committed)
                        bitset_zero(&e->before);
                else if (e->committed) {
                        take_set(&e->before, &e->new);
                        take_set(&e->before_pool, &e->pool);
                        e->before_id = e->id;
                }
                take_set(&e->new, &from->new);
                take_set(&e->cpuset, &from->cpuset);
                take_set(&e->pool, &from->pool);
        }
        if (e->type == UNDO_CPUS || e->type == UNDO_MEMS)
                take_set(&e->new, &from->new);
        e->irq.banned |= from->irq.banned;
        if (e->type == UNDO_CGROUP) {
                free(e->new_path);
                e->new_path = TAKE_PTR(from->new_path);
        }
        free(e->job);
        e->job = TAKE_PTR(from->job);
        e->id = from->id;
        e->committed = from->committed;
        e->restored = false;
}

static int replay_entry(Undo *u, UndoEntry *e, UndoEntry *known, int r) {
        if (r >= 0 && !known) {
                UndoEntry *n = entry_add(u);

                if (n) {
                        *n = *e;
                        u->n_entries++;
                        undo_index_add(u, u->n_entries - 1);
                        return 0;
                }
                r = -ENOMEM;
        } else if (r >= 0)
                entry_renew(known, e);
        entry_done(e);
        return r;
}

static int replay_affinity(Undo *u, const json_t *o) {
        UndoEntry e = { .type = UNDO_AFFINITY };
        int r = member_common(u, o, &e);

        if (r >= 0)
                r = member_process(o, &e.process);
        if (r >= 0)
                r = member_pid(o, "tid", &e.tid);
        if (r >= 0)
                r = member_number(o, "tid_start", INT64_MAX, &e.tid_start);
        if (r >= 0)
                r = member_set(o, "old", &e.old);
        if (r >= 0)
                r = member_set(o, "new", &e.new);
        if (r >= 0 && json_object_get(o, "cpuset"))
                r = member_set(o, "cpuset", &e.cpuset);
        if (r >= 0 && json_object_get(o, "pool"))
                r = member_set(o, "pool", &e.pool);
        e.all = json_is_true(json_object_get(o, "all"));
        return replay_entry(u, &e, r < 0 ? NULL : find_tid(u, e.tid, e.tid_start), r);
}

/* A damaged line that still reads well must not move anybody's processes or write to anybody's group. */
static bool is_group_of_ours(const char *path) {
        return strncmp(path, "/qsched.slice/", strlen("/qsched.slice/")) == 0 && !strstr(path, "/..");
}

static int replay_cgroup(Undo *u, const json_t *o) {
        UndoEntry e = { .type = UNDO_CGROUP };
        int r = member_common(u, o, &e);

        if (r >= 0)
                r = member_process(o, &e.process);
        if (r >= 0)
                r = member_string(o, "old", &e.old_path);
        if (r >= 0)
                r = member_string(o, "new", &e.new_path);
        if (r >= 0)
                r = member_string(o, "controller", &e.controller);
        if (r >= 0 && (e.old_path[0] != '/' || !is_group_of_ours(e.new_path)))
                r = -EBADMSG;
        return replay_entry(u, &e, r < 0 ? NULL : find_cgroup(u, e.process, e.controller), r);
}

static int replay_group_set(Undo *u, const json_t *o, UndoType type) {
        UndoEntry e = { .type = type };
        int r = member_common(u, o, &e);

        if (r >= 0)
                r = member_process(o, &e.process);
        if (r >= 0)
                r = member_string(o, "controller", &e.controller);
        if (r >= 0)
                r = member_string(o, "path", &e.new_path);
        if (r >= 0)
                r = member_cpus(o, "old", &e.old);
        if (r >= 0)
                r = member_set(o, "new", &e.new);
        if (r >= 0 && (!is_group_of_ours(e.new_path) || (type == UNDO_CPUS && e.committed)))
                r = -EBADMSG;
        return replay_entry(u, &e, r < 0 ? NULL : find_path(u, type, e.new_path), r);
}

static int replay_cpus(Undo *u, const json_t *o) {
        return replay_group_set(u, o, UNDO_CPUS);
}

static int replay_mems(Undo *u, const json_t *o) {
        return replay_group_set(u, o, UNDO_MEMS);
}

static int replay_dir(Undo *u, const json_t *o) {
        UndoEntry e = { .type = UNDO_DIR };
        int r = member_common(u, o, &e);

        if (r >= 0)
                r = member_string(o, "path", &e.new_path);
        if (r >= 0 && e.new_path[0] != '/')
                r = -EBADMSG;
        if (r >= 0 && json_object_get(o, "controller"))
                r = member_string(o, "controller", &e.controller);
        return replay_entry(u, &e, r < 0 ? NULL : find_path(u, UNDO_DIR, e.new_path), r);
}

static int member_irq(const json_t *o, UndoIrq *ret) {
        uint64_t irq;
        int r = member_number(o, "irq", INT_MAX, &irq);

        if (r >= 0)
                r = member_string(o, "device", &ret->device);
        if (r >= 0)
                r = member_string(o, "name", &ret->name);
        if (r >= 0)
                ret->irq = (unsigned) irq;
        return r;
}

static int replay_irq(Undo *u, const json_t *o) {
        UndoEntry e = { .type = UNDO_IRQ };
        int r = member_common(u, o, &e);

        if (r >= 0)
                r = member_irq(o, &e.irq);
        if (r >= 0)
                r = member_set(o, "old", &e.old);
        if (r >= 0)
                r = member_set(o, "new", &e.new);
        e.irq.banned = json_is_true(json_object_get(o, "banned"));
        return replay_entry(u, &e, r < 0 ? NULL : find_irq(u, UNDO_IRQ, &e.irq), r);
}

static int replay_yield(Undo *u, const json_t *o) {
        UndoEntry e = { .type = UNDO_YIELD, .committed = true };
        bool irq = json_object_get(o, "irq");
        int r = member_string(o, "job", &e.job);

        if (r >= 0)
                r = irq ? member_irq(o, &e.irq) : member_process(o, &e.process);
        if (r >= 0 && !irq && json_object_get(o, "since"))
                r = member_number(o, "since", INT64_MAX, &e.since);
        return replay_entry(u, &e, r < 0 ? NULL : irq ? find_irq(u, UNDO_YIELD, &e.irq) : find_yield(u, e.process), r);
}

static int replay_commit(Undo *u, const json_t *o) {
        uint64_t id;

        if (member_number(o, "id", INT64_MAX - 1, &id) < 0)
                return -EBADMSG;
        for (size_t i = 0; i < u->n_entries; i++) {
                UndoEntry *e = &u->entries[i];

                if (e->type == _UNDO_MAX || e->id != id)
                        continue;
                if (e->type == UNDO_CPUS) {
                        entry_forget(u, e);
                        continue;
                }
                e->committed = true;
                bitset_zero(&e->before);
        }
        return 0;
}

bool undo_abortable(const UndoEntry *e, uint64_t id) {
        return e->type != _UNDO_MAX && e->type != UNDO_CGROUP && e->type != UNDO_DIR && e->type != UNDO_MEMS &&
               e->id == id && !e->committed;
}

static void entry_abort(Undo *u, UndoEntry *e) {
        if (bitset_isempty(&e->before)) {
                entry_forget(u, e);
                return;
        }
        take_set(&e->new, &e->before);
        take_set(&e->pool, &e->before_pool);
        e->id = e->before_id;
        e->committed = true;
        e->restored = false;
}

/* Groups and directories stay noted until each has been left, or removed. */
static int replay_abort(Undo *u, const json_t *o) {
        uint64_t id, start;
        UndoEntry *one;
        pid_t tid;

        if (member_number(o, "id", INT64_MAX - 1, &id) < 0)
                return -EBADMSG;
        if (!json_object_get(o, "tid")) {
                for (size_t i = 0; i < u->n_entries; i++)
                        if (undo_abortable(&u->entries[i], id))
                                entry_abort(u, &u->entries[i]);
                return 0;
        }
        if (member_pid(o, "tid", &tid) < 0 || member_number(o, "tid_start", INT64_MAX, &start) < 0)
                return -EBADMSG;
        one = find_tid(u, tid, start);
        if (one && undo_abortable(one, id))
                entry_abort(u, one);
        return 0;
}

static int replay_revert(Undo *u, const json_t *o) {
        const json_t *v = json_object_get(o, "job");

        if (v && !json_is_string(v))
                return -EBADMSG;
        for (size_t i = 0; i < u->n_entries; i++) {
                UndoEntry *e = &u->entries[i];

                if ((e->type != UNDO_AFFINITY && e->type != UNDO_CGROUP && e->type != UNDO_MEMS) ||
                    (v && !streq(e->job, json_string_value(v))))
                        continue;
                e->committed = false;
                bitset_zero(&e->before);
        }
        return 0;
}

static int undone_irq(Undo *u, const json_t *o) {
        UndoIrq irq = {};
        int r = member_irq(o, &irq);
        UndoEntry *e = r < 0 ? NULL
                             : find_irq(u, json_is_true(json_object_get(o, "yield")) ? UNDO_YIELD : UNDO_IRQ, &irq);

        if (e)
                entry_forget(u, e);
        free(irq.device);
        free(irq.name);
        return r;
}

static int replay_undone(Undo *u, const json_t *o) {
        const char *path = json_string_value(json_object_get(o, "path"));
        const char *controller = json_string_value(json_object_get(o, "controller"));
        const char *group = json_string_value(json_object_get(o, "group"));
        const char *wall = json_string_value(json_object_get(o, "wall"));
        UndoEntry *e = NULL;
        uint64_t start;
        Process p;
        pid_t tid;

        if (json_object_get(o, "irq"))
                return undone_irq(u, o);
        if (path)
                e = find_path(u, UNDO_DIR, path);
        else if (group)
                e = find_path(u, UNDO_CPUS, group);
        else if (wall)
                e = find_path(u, UNDO_MEMS, wall);
        else if (json_is_true(json_object_get(o, "yield")) && member_process(o, &p) >= 0)
                e = find_yield(u, p);
        else if (controller && member_process(o, &p) >= 0)
                e = find_cgroup(u, p, controller);
        else if (member_pid(o, "tid", &tid) >= 0 && member_number(o, "tid_start", INT64_MAX, &start) >= 0)
                e = find_tid(u, tid, start);
        else
                return -EBADMSG;
        if (e)
                entry_forget(u, e);
        return 0;
}

static int replay_begin(Undo *u, const json_t *o) {
        uint64_t id;

        if (member_number(o, "id", INT64_MAX - 1, &id) < 0)
                return -EBADMSG;
        u->last_id = MAX(u->last_id, id);
        return 0;
}

static int replay_boot(Undo *u, const json_t *o) {
        char *boot = NULL;
        int r = member_string(o, "boot", &boot);

        if (r < 0)
                return r;
        free(u->boot);
        u->boot = boot;
        return 0;
}

static const struct {
        const char *name;
        int (*replay)(Undo *u, const json_t *o);
} kinds[] = {
        { "begin", replay_begin }, { "affinity", replay_affinity }, { "cgroup", replay_cgroup },
        { "cpus", replay_cpus },   { "dir", replay_dir },           { "commit", replay_commit },
        { "abort", replay_abort }, { "revert", replay_revert },     { "undone", replay_undone },
        { "boot", replay_boot },   { "irq", replay_irq },           { "yield", replay_yield },
        { "mems", replay_mems },
};

int undo_replay(Undo *u, const json_t *line) {
        const char *t = json_string_value(json_object_get(line, "t"));

        for (size_t i = 0; t && i < ELEMENTSOF(kinds); i++)
                if (streq(t, kinds[i].name))
                        return kinds[i].replay(u, line);
        return t ? -EOPNOTSUPP : -EBADMSG;
}

int undo_replay_text(Undo *u, const char *text, size_t size, unsigned *ret_n_bad) {
        unsigned n_bad = 0;

        while (size > 0) {
                const char *end = memchr(text, '\n', size);
                size_t n = end ? (size_t) (end - text) : size;
                /* The newline is the end of a write: a line without one was cut off. */
                json_t *o = end ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
                int r = o ? undo_replay(u, o) : -EBADMSG;

                json_decref(o);
                if (r == -EOPNOTSUPP)
                        r = strv_extendf(&u->unknown, "%.*s", (int) n, text);
                if (r == -ENOMEM)
                        return r;
                if (r < 0)
                        n_bad++;
                u->n_lines++;
                n = MIN(n + 1, size);
                text += n;
                size -= n;
        }
        *ret_n_bad = n_bad;
        return 0;
}
