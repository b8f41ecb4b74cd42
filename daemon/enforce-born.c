/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and child processes born since a process was placed have no entry in the journal, but one of the masks that we
 * wrote in it: a revert gives them what the thread with that mask gets back. Not so those whose rank was yielded when they
 * were there already: their masks are theirs, and so have no entry.
 */
#include <dirent.h>
#include <errno.h>

#include "daemon/enforce-revert-internal.h"
#include "daemon/readers/process.h"
#include "daemon/readers/tasks.h"

void family_done(Family *f) {
        free(f->pids);
        free(f->parents);
        *f = (Family){};
}

static int family_add(Family *f, size_t *allocated, pid_t pid, pid_t parent) {
        if (f->n == *allocated) {
                size_t n = *allocated ? *allocated * 2 : 256;
                Process *pids = reallocarray(f->pids, n, sizeof(*pids));
                pid_t *parents;

                if (!pids)
                        return -ENOMEM;
                f->pids = pids;
                parents = reallocarray(f->parents, n, sizeof(*parents));
                if (!parents)
                        return -ENOMEM;
                f->parents = parents;
                *allocated = n;
        }
        f->pids[f->n] = (Process){ .pid = pid };
        f->parents[f->n++] = parent;
        return 0;
}

static int family_read(Family *f) {
        DIR *d = opendir("/proc");
        size_t allocated = 0;
        struct dirent *de;
        int r = 0;

        if (!d)
                return -errno;
        while (r >= 0 && (de = readdir(d))) {
                pid_t pid, parent;

                if (text_parse_pid(de->d_name, &pid) >= 0 && process_parent(pid, &parent) >= 0)
                        r = family_add(f, &allocated, pid, parent);
        }
        (void) closedir(d);
        return r;
}

static const Bitset *born_target(const Restore *s, const Bitset *current) {
        for (size_t i = 0; i < s->n_born; i++)
                if (mask_stands(current, &s->born[i]->new, &s->allowed.cpus))
                        return restore_target(s, s->born[i]);
        return NULL;
}

/* Its rank was yielded when it was there already, and what we noted of it dropped: the mask is theirs, though it be one
 * that we wrote elsewhere in the process. */
static bool is_theirs(const Restore *s, Process p, const Thread *t) {
        for (unsigned depth = 0; depth < 64 && p.pid > 1; depth++) {
                const UndoEntry *yield = undo_find_yield(s->e->undo, p);

                if (yield)
                        return t->start <= yield->since;
                if (process_parent(p.pid, &p.pid) < 0 || process_start_time(p.pid, &p.start_time) < 0)
                        break;
        }
        return false;
}

static int restore_born_thread(Restore *s, const Identity *i, pid_t tid) {
        _cleanup_(bitset_done) Bitset current = BITSET_EMPTY, got = BITSET_EMPTY;
        const Bitset *target;
        ChangeResult result;
        int error = 0, r;
        Thread t;

        r = thread_read(i, tid, &t);
        if (r >= 0)
                r = mask_read(tid, &current);
        if (r == -ESRCH || (r >= 0 && undo_find_tid(s->e->undo, tid, t.start)))
                return 0;
        target = r < 0 ? NULL : born_target(s, &current);
        if (!target || is_theirs(s, i->process, &t))
                return r;
        if (bitset_equal(&current, target)) /* its process had this by itself */
                return outcome_add(s->o, CHANGE_SAME, s->job, i->process, &t, &current, target, &current, 0);
        result = restore_write(s, i, tid, target, &got, &error);
        return outcome_add(s->o, result, s->job, i->process, &t, &current, target, &got, error);
}

static int restore_born_threads(Restore *s, const Identity *i) {
        _cleanup_(threads_done) Threads threads = { .changed = true };
        int r;

        while ((r = threads_next(&threads, i->process.pid)) > 0)
                for (size_t k = 0; k < threads.n_fresh; k++) {
                        int q = restore_born_thread(s, i, threads.fresh[k]);

                        if (q < 0)
                                return q;
                }
        return r == -ESRCH || r == -ELOOP ? 0 : r;
}

/* Child processes without an entry of their own, and theirs. */
static int restore_born_children(Restore *s, pid_t parent, unsigned depth) {
        int r;

        if (depth > 64)
                return 0;
        if (!s->family->pids) {
                r = family_read(s->family);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < s->family->n; i++) {
                _cleanup_(identity_done) Identity child = { .pidfd = -1, .proc_fd = -1 };
                Process p = s->family->pids[i];
                pid_t now;

                if (s->family->parents[i] != parent || process_start_time(p.pid, &p.start_time) < 0 ||
                    undo_find_tid(s->e->undo, p.pid, p.start_time))
                        continue;
                r = identity_open(p, &child);
                if (r == -ESRCH || (r >= 0 && (process_parent(p.pid, &now) < 0 || now != parent)))
                        continue; /* gone, or the pid is another's since the family was read */
                if (r >= 0)
                        r = restore_born_threads(s, &child);
                if (r >= 0)
                        r = restore_born_children(s, p.pid, depth + 1);
                if (r < 0)
                        return r;
        }
        return 0;
}

int restore_born(Restore *s) {
        int r;

        if (s->n_born == 0)
                return 0;
        r = restore_born_threads(s, &s->identity);
        return r < 0 ? r : restore_born_children(s, s->identity.process.pid, 0);
}

static void born_add(Restore *s, const UndoEntry *entry) {
        for (size_t i = 0; i < s->n_born; i++)
                if (bitset_equal(&s->born[i]->new, &entry->new))
                        return;
        s->born[s->n_born++] = entry;
}

/* Of each mask that we wrote in it one entry, that of the main thread first. */
void restore_find_born(Restore *s) {
        const Process *p = &s->identity.process;
        const UndoEntry *own = undo_find_tid(s->e->undo, p->pid, p->start_time);

        for (size_t i = 0; i < s->n_entries; i++)
                if (s->entries[i] == own)
                        born_add(s, own);
        for (size_t i = 0; i < s->n_entries; i++)
                if (s->entries[i]->type == UNDO_AFFINITY)
                        born_add(s, s->entries[i]);
}
