/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A wall: the group of ours that a process is in may have memory on some nodes alone. Only where a job asks for it, only
 * for groups of ours, and only its owner (the manager) knows whether there is room; here it is set, noted before that,
 * and put back to what was before. It is no part of an order's transaction: it stands with its note. What somebody else
 * sets there afterwards is theirs; a note whose wall was never built, since the daemon was killed, a start drops.
 */
#include <errno.h>
#include <fcntl.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"

#define STAND_TRIES 20U
#define STAND_USEC 5000U

static char *group_dir(const Enforcer *e, const UndoEntry *entry) {
        const char *mount = group_mount(e, entry->controller);

        return mount ? path_join(mount, entry->new_path + 1) : NULL;
}

/* Empty: it has none of its own (unified). */
static int mems_read(const char *dir, Bitset *ret) {
        _cleanup_free_ char *path = path_join(dir, "cpuset.mems"), *text = NULL;
        int r = path ? read_line_at(AT_FDCWD, path, &text) : -ENOMEM;

        return r < 0 || !*text ? r : bitset_parse(text, ret);
}

/* What a group has without a wall. A populated group on the unified hierarchy cannot go back to "none of its own": the
 * kernel says ENOSPC. It gets all that the one above it has. */
static int wide(const char *dir, const Bitset *old, Bitset *ret) {
        _cleanup_free_ char *parent = strndup(dir, (size_t) (strrchr(dir, '/') - dir)), *path = NULL, *text = NULL;
        int r;

        if (!bitset_isempty(old))
                return bitset_copy(ret, old);
        path = parent ? path_join(parent, "cpuset.mems.effective") : NULL;
        r = path ? read_line_at(AT_FDCWD, path, &text) : -ENOMEM;
        return r < 0 ? r : bitset_parse(text, ret);
}

static bool stands(const char *dir, const Bitset *nodes) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;

        return mems_read(dir, &now) >= 0 && bitset_equal(&now, nodes);
}

/* systemd writes after it has answered, and tells its own log alone when it could not. */
static bool comes_to_stand(const char *dir, const Bitset *nodes) {
        for (unsigned i = 0; i < STAND_TRIES; i++) {
                if (stands(dir, nodes))
                        return true;
                (void) usleep(STAND_USEC);
        }
        return stands(dir, nodes);
}

static int unit_write(const UndoEntry *entry, const char *dir, const Bitset *nodes, Outcome *o) {
        const char *unit = strrchr(entry->new_path, '/') + 1;
        _cleanup_free_ char *message = NULL;
        int r = scope_set_mems(unit, nodes, &message);

        if (r < 0)
                return strv_extendf(&o->messages, "%s", message ? message : strerror(-r));
        if (comes_to_stand(dir, nodes))
                return 1;
        return strv_extendf(
                &o->messages,
                "systemd was asked to set AllowedMemoryNodes= of %s, but %s/cpuset.mems is not so: see its log", unit,
                dir);
}

/* 1 written, 0 could not be: said so. */
static int mems_write(const UndoEntry *entry, const char *dir, const Bitset *nodes, Outcome *o) {
        _cleanup_free_ char *text = NULL;
        int r;

        if (group_is_unit(entry))
                return unit_write(entry, dir, nodes, o);
        r = bitset_format(nodes, &text);
        return r < 0 ? r : group_write(dir, "cpuset.mems", text, o) >= 0;
}

const UndoEntry *enforce_walled(const Enforcer *e, Process p) {
        const UndoEntry *group = group_of_cpuset(e, p);

        return group ? undo_find_mems(e->undo, group->new_path) : NULL;
}

int enforce_wall_stands(const Enforcer *e, const UndoEntry *wall, Bitset *ret_now) {
        _cleanup_free_ char *dir = group_dir(e, wall);
        int r = dir ? mems_read(dir, ret_now) : -ENOENT;

        return r < 0 ? r : bitset_equal(ret_now, &wall->new);
}

void walls_recover(Enforcer *e) {
        size_t n;
        const UndoEntry *all = undo_entries(e->undo, &n);

        for (size_t i = 0; i < n; i++) {
                _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;

                if (all[i].type == UNDO_MEMS && enforce_wall_stands(e, &all[i], &now) == 0 &&
                    bitset_equal(&now, &all[i].old))
                        (void) undo_forget(e->undo, &all[i]);
        }
}

bool enforce_has_group(const Enforcer *e, Process p) {
        return group_of_cpuset(e, p);
}

int enforce_wall(Enforcer *e, Process p, const Bitset *nodes, Outcome *o) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
        const UndoEntry *group = group_of_cpuset(e, p);
        _cleanup_free_ char *dir = group ? group_dir(e, group) : NULL, *path = NULL;
        int r;

        if (e->transaction.open)
                return -EBUSY;
        r = !group ? -ENOENT : !dir ? -ENOMEM : mems_read(dir, &now);
        if (r < 0 || bitset_equal(&now, nodes))
                return MIN(r, 0);
        r = undo_note_mems(e->undo, group->job, p, group->controller, group->new_path, &now, nodes);
        if (r < 0)
                return r;
        group = group_of_cpuset(e, p); /* entries may have moved */
        r = mems_write(group, dir, nodes, o);
        if (r <= 0) {
                (void) undo_forget(e->undo, undo_find_mems(e->undo, group->new_path));
                return r;
        }
        path = path_join(dir, "cpuset.mems");
        r = path ? outcome_add_path(o, CHANGE_DONE, group->job, p, path, &now, nodes) : -ENOMEM;
        return r < 0 ? r : 1;
}

int group_put_back_mems(Enforcer *e, const UndoEntry *entry, Outcome *o) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY, old = BITSET_EMPTY;
        _cleanup_free_ char *dir = group_dir(e, entry), *path = dir ? path_join(dir, "cpuset.mems") : NULL;
        int r = path ? mems_read(dir, &now) : -ENOENT;

        if (r == -ENOMEM)
                return r;
        if (r < 0 || !bitset_equal(&now, &entry->new)) /* gone; not written yet; or somebody else's since */
                return 1;
        r = wide(dir, &entry->old, &old);
        if (r < 0)
                return r == -ENOMEM ? r : 1;
        r = mems_write(entry, dir, &old, o);
        if (r <= 0)
                return r;
        r = outcome_add_path(o, CHANGE_DONE, entry->job, entry->process, path, &entry->new, &old);
        return r < 0 ? r : 1;
}

int enforce_unwall(Enforcer *e, const UndoEntry *wall, Outcome *o) {
        int r = e->transaction.open ? -EBUSY : group_put_back_mems(e, wall, o);

        if (r > 0)
                (void) undo_forget(e->undo, wall);
        return r;
}
