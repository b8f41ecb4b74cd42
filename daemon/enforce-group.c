/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of ours, for what `run` starts: a scope in qsched.slice where systemd is pid 1 (its CPUs by AllowedCPUs where
 * the cpuset controller is on the unified hierarchy), a directory qsched.slice/JOB-PID.scope in the cpuset hierarchy
 * otherwise. On a host with systemd and the cpuset controller on v1 it is both: the scope says whose it is, the
 * directory holds the CPUs.
 *
 * Only processes that sit in nobody's group are moved: in the root, in a session's or user's scope, or in ours. The old
 * path is noted before the move; all members go back there (children started since too). Memory nodes are left wide.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"

#define SLICE "qsched.slice"
#define LOST_SECONDS 60

/* The mount that a journal entry's controller stands for; NULL: not mounted any more. */
static const char *mount_of(const Enforcer *e, const char *controller) {
        const Cgroups *c = e->cgroups;

        return streq(controller, "cpuset") ? c->cpuset : streq(controller, "systemd") ? c->systemd : c->unified;
}

static CgroupTree tree_of(const char *controller) {
        return streq(controller, "cpuset")    ? CGROUP_CPUSET
               : streq(controller, "systemd") ? CGROUP_SYSTEMD
                                              : CGROUP_UNIFIED;
}

/* Path of a process in a hierarchy. -ENOENT: not in it; -ESRCH. */
static int group_of(pid_t pid, CgroupTree tree, char **ret) {
        _cleanup_free_ char *text = NULL;
        char path[40], *paths[_CGROUP_TREE_MAX];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
        r = read_file_at(AT_FDCWD, path, 1U << 20, &text, NULL);
        if (r >= 0)
                r = cgroup_parse_pid(text, paths);
        if (r < 0)
                return r == -ENOENT ? -ESRCH : r;
        *ret = TAKE_PTR(paths[tree]);
        for (CgroupTree k = 0; k < _CGROUP_TREE_MAX; k++)
                free(paths[k]);
        return *ret ? 0 : -ENOENT;
}

static bool path_movable(const char *path) {
        size_t n = strlen(path);

        if (streq(path, "/") || strncmp(path, "/" SLICE "/", strlen("/" SLICE "/")) == 0)
                return true;
        return strncmp(path, "/user.slice/", 12) == 0 && n > 6 && streq(path + n - 6, ".scope");
}

bool group_movable(const Enforcer *e, const Task *task) {
        static const CgroupTree trees[] = { CGROUP_CPUSET, CGROUP_SYSTEMD, CGROUP_UNIFIED };

        if (task->owner_kind == OWNER_POD || task->owner_kind == OWNER_CONTAINER || task->owner_kind == OWNER_SLURM ||
            task->owner_kind == OWNER_UNIT)
                return false;
        for (size_t i = 0; i < ELEMENTSOF(trees); i++) {
                const char *shown = e->cgroups->shown[trees[i]];
                _cleanup_free_ char *path = NULL;
                int r = group_of(task->pid, trees[i], &path);

                if (shown && !streq(shown, "/")) /* we are in a container ourselves */
                        return false;
                if (r == -ENOENT)
                        continue;
                if (r < 0 || !path_movable(path))
                        return false;
        }
        return true;
}

static char *safe_name(const char *job) {
        char *s = strndup(strempty(job), 100);

        for (char *p = s; p && *p; p++)
                if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.", *p))
                        *p = '_';
        return s;
}

/* A file of a group, and what is said when it cannot be written: which, what was wanted, what is there. */
static int group_write(const char *dir, const char *file, const char *text, Outcome *o) {
        _cleanup_free_ char *path = path_join(dir, file), *is = NULL;
        int r = path ? write_file_at(AT_FDCWD, path, text) : -ENOMEM;

        if (r >= 0)
                return 0;
        (void) read_line_at(AT_FDCWD, path ? path : dir, &is);
        (void) strv_extendf(&o->messages, "%s/%s cannot be set to \"%s\": %s; it has \"%s\"", dir, file, text,
                            strerror(-r), strempty(is));
        return r;
}

static int group_copy(const char *from, const char *from_file, const char *to, const char *file, Outcome *o) {
        _cleanup_free_ char *path = path_join(from, from_file), *text = NULL;
        int r = path ? read_line_at(AT_FDCWD, path, &text) : -ENOMEM;

        if (r < 0) {
                (void) strv_extendf(&o->messages, "%s/%s cannot be read: %s", from, from_file, strerror(-r));
                return r;
        }
        return group_write(to, file, text, o);
}

/* 1 made, 0 there already, -EUCLEAN could not (said so); else the journal's error. */
static int group_mkdir(Enforcer *e, Transaction *t, const char *job, const char *dir, Outcome *o) {
        int r;

        if (access(dir, F_OK) == 0)
                return 0;
        r = transaction_begin(t);
        if (r >= 0)
                r = undo_note_dir(e->undo, t->id, job, dir);
        if (r < 0)
                return r;
        if (mkdir(dir, 0755) == 0)
                return 1;
        if (errno == EEXIST)
                return 0;
        (void) strv_extendf(&o->messages, "%s cannot be made: %s", dir, strerror(errno));
        return -EUCLEAN;
}

/* v1: a directory starts with no CPUs and no memory nodes, and takes only what its parent has. */
static int slice_fill_v1(const char *mount, const char *slice, Outcome *o) {
        int r = group_copy(mount, "cpuset.mems", slice, "cpuset.mems", o);

        return r < 0 ? r : group_copy(mount, "cpuset.cpus", slice, "cpuset.cpus", o);
}

/* Unified: the controller must be handed down from the root to our slice, and by it to our groups. */
static int slice_fill_unified(const char *mount, const char *slice, Outcome *o) {
        int r = group_write(mount, "cgroup.subtree_control", "+cpuset", o);

        return r < 0 ? r : group_write(slice, "cgroup.subtree_control", "+cpuset", o);
}

static int move_pid(const char *dir, pid_t pid, Outcome *o) {
        char text[16];

        (void) snprintf(text, sizeof(text), "%d", pid);
        return group_write(dir, "cgroup.procs", text, o);
}

static int note_move(Enforcer *e, Transaction *t, const char *job, Process p, const char *controller, const char *new) {
        _cleanup_free_ char *old = NULL;
        int r = group_of(p.pid, tree_of(controller), &old);

        if (r >= 0)
                r = transaction_begin(t);
        return r < 0 ? r : undo_note_cgroup(e->undo, t->id, job, p, controller, old, new);
}

static int plain_fill(const char *mount, const char *slice, const char *dir, bool v1, const char *cpus, Outcome *o) {
        int r = v1 ? slice_fill_v1(mount, slice, o) : slice_fill_unified(mount, slice, o);

        if (r >= 0 && v1)
                r = group_copy(slice, "cpuset.mems", dir, "cpuset.mems", o);
        return r < 0 ? r : group_write(dir, "cpuset.cpus", cpus, o);
}

static int plain_enter(Enforcer *e, Transaction *t, const char *job, Process p, const Bitset *cpus, char **ret_group,
                       Outcome *o) {
        bool v1 = e->cgroups->cpuset;
        const char *mount = v1 ? e->cgroups->cpuset : e->cgroups->unified, *controller = v1 ? "cpuset" : "unified";
        _cleanup_free_ char *slice = path_join(mount, SLICE), *name = safe_name(job), *group = NULL, *dir = NULL,
                            *text = NULL;
        int r;

        if (!slice || !name)
                return -ENOMEM;
        if (asprintf(&group, "/" SLICE "/%s-%d.scope", name, p.pid) < 0) {
                group = NULL;
                return -ENOMEM;
        }
        dir = path_join(mount, group + 1);
        r = dir ? bitset_format(cpus, &text) : -ENOMEM;
        if (r >= 0)
                r = group_mkdir(e, t, job, slice, o);
        if (r >= 0)
                r = group_mkdir(e, t, job, dir, o);
        if (r < 0)
                return r;
        if (plain_fill(mount, slice, dir, v1, text, o) < 0)
                return -EUCLEAN;
        r = note_move(e, t, job, p, controller, group);
        if (r < 0)
                return r;
        r = move_pid(dir, p.pid, o);
        if (r < 0) {
                (void) undo_forget(e->undo, undo_find_cgroup(e->undo, p, controller));
                return -EUCLEAN;
        }
        *ret_group = TAKE_PTR(group);
        return outcome_add_path(o, CHANGE_DONE, job, p, dir, cpus, 0);
}

/* What the kernel says after systemd was asked, whatever systemd said: the note must be of where the process is. */
static int scope_check(Enforcer *e, Transaction *t, const char *job, Process p, const char *controller, char **group) {
        _cleanup_free_ char *now = NULL;
        int r = group_of(p.pid, tree_of(controller), &now);

        if (r < 0 || strncmp(now, "/" SLICE "/", strlen("/" SLICE "/")) != 0)
                return 0;
        if (streq(now, *group))
                return 1;
        r = undo_note_cgroup(e->undo, t->id, job, p, controller, "/", now); /* the old path stays the first one */
        if (r < 0)
                return r;
        free(*group);
        *group = TAKE_PTR(now);
        return 1;
}

static int scope_enter(Enforcer *e, Transaction *t, const char *job, Process p, const Bitset *cpus, char **ret_group,
                       Outcome *o) {
        const char *controller = e->cgroups->systemd ? "systemd" : "unified";
        _cleanup_free_ char *name = safe_name(job), *group = NULL, *message = NULL;
        int r, said;

        if (!name)
                return -ENOMEM;
        if (asprintf(&group, "/" SLICE "/qsched-%s-%d.scope", name, p.pid) < 0) {
                group = NULL;
                return -ENOMEM;
        }
        r = note_move(e, t, job, p, controller, group);
        if (r < 0)
                return r;
        said = scope_start(strrchr(group, '/') + 1, p.pid, strempty(job), e->cgroups->unified_cpuset ? cpus : NULL,
                           &message);
        r = scope_check(e, t, job, p, controller, &group);
        if (r < 0)
                return r;
        if (said < 0 || r == 0)
                (void) strv_extendf(&o->messages, "%s; pid %d %s", message ? message : "systemd was asked for a scope",
                                    p.pid,
                                    r > 0 ? "is in its scope all the same"
                                          : "stays where it is and gets its CPUs by affinity only");
        if (r == 0) {
                (void) undo_forget(e->undo, undo_find_cgroup(e->undo, p, controller));
                return -EUCLEAN;
        }
        *ret_group = TAKE_PTR(group);
        return outcome_add_path(o, CHANGE_DONE, job, p, *ret_group, cpus, 0);
}

static bool entered(const Enforcer *e, Process p, char **ret_group) {
        static const char *const controllers[] = { "cpuset", "unified", "systemd" };

        for (size_t i = 0; i < ELEMENTSOF(controllers); i++) {
                const UndoEntry *entry = undo_find_cgroup(e->undo, p, controllers[i]);

                if (entry)
                        *ret_group = strdup(entry->new_path);
                if (entry)
                        return true;
        }
        return false;
}

int group_enter(Enforcer *e, Transaction *t, const char *job, Process p, const Bitset *cpus, char **ret_group,
                Outcome *o) {
        bool booted = sd_booted() > 0;
        int r = 0;

        if (entered(e, p, ret_group)) {
                r = group_set_cpus(e, p, cpus, o);
                return !*ret_group ? -ENOMEM : r < 0 ? -EUCLEAN : 0;
        }
        if (booted) {
                r = scope_enter(e, t, job, p, cpus, ret_group, o);
                if (r < 0 || e->cgroups->unified_cpuset || !e->cgroups->cpuset)
                        return r;
                free(*ret_group);
                *ret_group = NULL;
        }
        if (!e->cgroups->cpuset && !e->cgroups->unified_cpuset) {
                r = strv_extendf(&o->messages,
                                 "This host has no cpuset controller: pid %d gets its CPUs by affinity only", p.pid);
                return r < 0 ? r : -EUCLEAN;
        }
        return plain_enter(e, t, job, p, cpus, ret_group, o);
}

static int plain_set_cpus(const Enforcer *e, const UndoEntry *entry, const Bitset *cpus, Outcome *o) {
        const char *mount = mount_of(e, entry->controller);
        _cleanup_free_ char *dir = mount ? path_join(mount, entry->new_path + 1) : NULL, *path = NULL, *is = NULL,
                            *text = NULL;
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
        int r;

        if (!mount)
                return 0;
        path = dir ? path_join(dir, "cpuset.cpus") : NULL;
        r = path ? bitset_format(cpus, &text) : -ENOMEM;
        if (r < 0)
                return r;
        if (read_line_at(AT_FDCWD, path, &is) >= 0 && bitset_parse(is, &now) >= 0 && bitset_equal(&now, cpus))
                return 0;
        if (group_write(dir, "cpuset.cpus", text, o) < 0)
                return 0; /* said so; the masks will say the rest */
        r = outcome_add_path(o, CHANGE_DONE, entry->job, entry->process, path, cpus, 0);
        return r < 0 ? r : 1;
}

static int unit_set_cpus(const UndoEntry *entry, const Bitset *cpus, Outcome *o) {
        _cleanup_free_ char *message = NULL;
        const char *unit = strrchr(entry->new_path, '/') + 1;
        int r = scope_set_cpus(unit, cpus, &message);

        if (r < 0)
                return strv_extendf(&o->messages, "%s", message ? message : strerror(-r));
        r = outcome_add_path(o, CHANGE_DONE, entry->job, entry->process, entry->new_path, cpus, 0);
        return r < 0 ? r : 1;
}

/* A scope on the unified hierarchy is systemd's to write; its cpuset.cpus says whether there is anything to ask for. */
static bool unit_has(const Enforcer *e, const UndoEntry *entry, const Bitset *cpus) {
        _cleanup_free_ char *dir = path_join(e->cgroups->unified, entry->new_path + 1);
        _cleanup_free_ char *path = dir ? path_join(dir, "cpuset.cpus") : NULL, *is = NULL;
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;

        return path && read_line_at(AT_FDCWD, path, &is) >= 0 && bitset_parse(is, &now) >= 0 &&
               bitset_equal(&now, cpus);
}

int group_set_cpus(Enforcer *e, Process p, const Bitset *cpus, Outcome *o) {
        const UndoEntry *entry = undo_find_cgroup(e->undo, p, "cpuset");

        if (entry)
                return plain_set_cpus(e, entry, cpus, o);
        entry = undo_find_cgroup(e->undo, p, "unified");
        if (!entry || !e->cgroups->unified_cpuset)
                return 0;
        if (sd_booted() <= 0)
                return plain_set_cpus(e, entry, cpus, o);
        return unit_has(e, entry, cpus) ? 0 : unit_set_cpus(entry, cpus, o);
}

static int members(const Enforcer *e, const UndoEntry *entry, char **ret) {
        const char *mount = mount_of(e, entry->controller);
        _cleanup_free_ char *dir = mount ? path_join(mount, entry->new_path + 1) : NULL;
        _cleanup_free_ char *path = dir ? path_join(dir, "cgroup.procs") : NULL;

        if (!mount)
                return -ENOENT;
        return path ? read_file_at(AT_FDCWD, path, 16U << 20, ret, NULL) : -ENOMEM;
}

bool group_populated(const Enforcer *e, const UndoEntry *entry) {
        _cleanup_free_ char *text = NULL;

        return members(e, entry, &text) >= 0 && *text != '\0';
}

/* One pass over the members. 1: there were some. */
static int put_back_members(const Enforcer *e, const UndoEntry *entry, const char *dir, Outcome *o) {
        _cleanup_free_ char *text = NULL;
        char *save = NULL;
        int r = members(e, entry, &text), n = 0;

        if (r < 0)
                return r == -ENOENT ? 0 : r;
        for (char *s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
                pid_t pid;

                if (text_parse_pid(s, &pid) < 0)
                        continue;
                r = move_pid(dir, pid, o);
                if (r < 0 && r != -ESRCH)
                        return r;
                if (r >= 0)
                        r = outcome_add_path(o, CHANGE_DONE, entry->job, (Process){ .pid = pid }, dir, NULL, 0);
                if (r == -ENOMEM)
                        return r;
                n++;
        }
        return n > 0;
}

int group_put_back(Enforcer *e, const UndoEntry *entry, Outcome *o) {
        const char *mount = mount_of(e, entry->controller);
        _cleanup_free_ char *dir = mount ? path_join(mount, entry->old_path + 1) : NULL;
        int r = 1;

        if (!mount)
                return 1;
        if (!dir)
                return -ENOMEM;
        for (unsigned pass = 0; pass < THREAD_PASSES_MAX && r > 0; pass++)
                r = put_back_members(e, entry, dir, o);
        if (r == -ENOMEM)
                return r;
        if (r == 0)
                return 1;
        r = strv_extendf(&o->messages, "%s: the processes in %s cannot be put back into %s: they stay",
                         strempty(entry->job), entry->new_path, entry->old_path);
        return r < 0 ? r : 0;
}

/* A group stays busy for a moment after its last process has left it. */
int group_remove(const char *dir) {
        _cleanup_free_ char *path = path_join(dir, "cgroup.procs");

        for (unsigned i = 0; i < 10; i++) {
                _cleanup_free_ char *text = NULL;
                struct stat st;

                if (rmdir(dir) == 0 || errno == ENOENT)
                        return 0;
                if (errno != EBUSY || stat(dir, &st) < 0 || st.st_nlink > 2)
                        break;
                if (!path || read_file_at(AT_FDCWD, path, 16U << 20, &text, NULL) < 0 || *text)
                        break;
                (void) usleep(2000);
        }
        return -EBUSY;
}

static void remove_if_old(const char *dir) {
        struct stat st;

        if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_mtime + LOST_SECONDS < time(NULL))
                (void) rmdir(dir);
}

/* Groups in our slice that no journal knows any more (it was lost), and the slice: empty, and not just being filled. */
void groups_remove_lost(const Enforcer *e) {
        const char *mount = e->cgroups->cpuset ? e->cgroups->cpuset : e->cgroups->unified;
        _cleanup_free_ char *slice = mount ? path_join(mount, SLICE) : NULL;
        struct dirent *de;
        DIR *d;

        if (!slice || sd_booted() > 0) /* systemd removes its own */
                return;
        d = opendir(slice);
        while (d && (de = readdir(d))) {
                _cleanup_free_ char *dir = path_join(slice, de->d_name);

                if (dir && de->d_name[0] != '.')
                        remove_if_old(dir);
        }
        if (d)
                (void) closedir(d);
        remove_if_old(slice);
}
