/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups of ours, for what `run` starts: a scope in qsched.slice where systemd is pid 1 (its CPUs by AllowedCPUs where
 * the cpuset controller is on the unified hierarchy), a directory qsched.slice/JOB-PID.scope in the cpuset hierarchy
 * otherwise. On a host with systemd and the cpuset controller on v1 it is both: the scope says whose it is, the
 * directory holds the CPUs.
 *
 * Only processes that sit in nobody's group are moved: in the root, in a session's or user's scope, or in ours. The old
 * path is noted before the move; all members go back there (children started since too). Memory nodes are left wide.
 * Where the root did not hand the cpuset controller down before us, it is told to stop when our slice has gone and nobody
 * else has set a cpuset by then.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include "common/fileio.h"
#include "daemon/enforce-internal.h"

#define LOST_SECONDS 60
#define GROUP_WAITS_MAX 100U /* of 4 ms */

/* The mount that a journal entry's controller stands for; NULL: not mounted any more. */
const char *group_mount(const Enforcer *e, const char *controller) {
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

/* 1 made, 0 there already, -EUCLEAN could not (said so); else the journal's error. */
static int group_mkdir(Enforcer *e, Transaction *t, const char *job, const char *dir, Outcome *o) {
        int r;

        if (access(dir, F_OK) == 0)
                return 0;
        r = transaction_begin(t);
        if (r >= 0)
                r = undo_note_dir(e->undo, t->id, job, dir, NULL);
        if (r < 0)
                return r;
        if (mkdir(dir, 0755) == 0) {
                (void) chmod(dir, 0755); /* the unit's umask is for files with secrets */
                return 1;
        }
        if (errno == EEXIST)
                return 0;
        (void) strv_extendf(&o->messages, "%s cannot be made: %s", dir, strerror(errno));
        return -EUCLEAN;
}

static bool hands_down(const char *dir, const char *controller) {
        _cleanup_free_ char *path = path_join(dir, "cgroup.subtree_control"), *line = NULL;
        char *save = NULL;

        if (!path || read_line_at(AT_FDCWD, path, &line) < 0)
                return false;
        for (char *s = strtok_r(line, " ", &save); s; s = strtok_r(NULL, " ", &save))
                if (streq(s, controller))
                        return true;
        return false;
}

/* Unified: the controller must be handed down from the root to our slice, and by it to our groups. -EUCLEAN: could not,
 * said so; else the journal's error. */
static int slice_fill_unified(Enforcer *e, Transaction *t, const char *job, const char *mount, const char *slice,
                              Outcome *o) {
        int r = 0;

        if (!hands_down(mount, "cpuset")) {
                r = transaction_begin(t);
                if (r >= 0)
                        r = undo_note_dir(e->undo, t->id, job, mount, "cpuset");
                if (r < 0)
                        return r;
                r = group_write(mount, "cgroup.subtree_control", "+cpuset", o);
        }
        if (r >= 0)
                r = group_write(slice, "cgroup.subtree_control", "+cpuset", o);
        return r < 0 ? -EUCLEAN : 0;
}

static bool has_text(const char *dir, const char *file) {
        _cleanup_free_ char *path = path_join(dir, file), *line = NULL;

        return path && read_line_at(AT_FDCWD, path, &line) >= 0 && *line;
}

/* v1: a directory starts with no CPUs and no memory nodes, and takes only what its parent has. What is there already is
 * an administrator's limit, or ours of before. */
static int slice_fill_v1(const char *mount, const char *slice, Outcome *o) {
        static const char *const files[] = { "cpuset.mems", "cpuset.cpus" };
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(files) && r >= 0; i++)
                if (!has_text(slice, files[i]))
                        r = group_copy(mount, slice, files[i], o);
        return r;
}

/* Does a group right below use what this one hands down? */
static bool control_used(const char *mount, const char *controller) {
        DIR *d = opendir(mount);
        struct dirent *de;
        bool used = !d;

        while (!used && (de = readdir(d))) {
                _cleanup_free_ char *dir = de->d_name[0] == '.' ? NULL : path_join(mount, de->d_name);

                used = dir &&
                       (has_text(dir, "cpuset.cpus") || has_text(dir, "cpuset.mems") || hands_down(dir, controller));
        }
        if (d)
                (void) closedir(d);
        return used;
}

int control_release(const UndoEntry *entry) {
        _cleanup_free_ char *path = path_join(entry->new_path, "cgroup.subtree_control"),
                            *slice = path_join(entry->new_path, SLICE), *text = NULL;

        if (!path || !slice || asprintf(&text, "-%s", entry->controller) < 0) {
                text = NULL;
                return -ENOMEM;
        }
        if (access(slice, F_OK) == 0)
                return -EBUSY;
        if (!control_used(entry->new_path, entry->controller)) /* else it is theirs by now */
                (void) write_file_at(AT_FDCWD, path, text);
        return 0;
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

/* 0 or -EUCLEAN */
static int fill_v1(const char *mount, const char *slice, const char *dir, Outcome *o) {
        int r = slice_fill_v1(mount, slice, o);

        if (r >= 0)
                r = group_copy(slice, dir, "cpuset.mems", o);
        return r < 0 ? -EUCLEAN : 0;
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
        r = v1 ? fill_v1(mount, slice, dir, o) : slice_fill_unified(e, t, job, mount, slice, o);
        if (r >= 0 && group_write(dir, "cpuset.cpus", text, o) < 0)
                r = -EUCLEAN;
        if (r < 0)
                return r;
        r = note_move(e, t, job, p, controller, group);
        if (r < 0)
                return r;
        r = move_pid(dir, p.pid, o);
        if (r < 0) {
                (void) undo_forget(e->undo, undo_find_cgroup(e->undo, p, controller));
                return -EUCLEAN;
        }
        *ret_group = TAKE_PTR(group);
        return outcome_add_path(o, CHANGE_DONE, job, p, dir, NULL, cpus);
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
        return outcome_add_path(o, CHANGE_DONE, job, p, *ret_group, NULL, cpus);
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
                r = group_set_cpus(e, t, p, cpus, o);
                return !*ret_group ? -ENOMEM : r < 0 ? r : 0;
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

/* The group of a process: NULL: it has none of ours, or one without CPUs of its own. */
const UndoEntry *group_of_cpuset(const Enforcer *e, Process p) {
        const UndoEntry *entry = undo_find_cgroup(e->undo, p, "cpuset");

        return entry ? entry : e->cgroups->unified_cpuset ? undo_find_cgroup(e->undo, p, "unified") : NULL;
}

/* A scope on the unified hierarchy is systemd's to write. */
bool group_is_unit(const UndoEntry *entry) {
        return streq(entry->controller, "unified") && sd_booted() > 0;
}

/* Empty: none were set (unified). -ENOENT: not mounted any more, or gone. */
static int cpus_read(const Enforcer *e, const UndoEntry *entry, char **ret_path, Bitset *ret) {
        const char *mount = group_mount(e, entry->controller);
        _cleanup_free_ char *dir = mount ? path_join(mount, entry->new_path + 1) : NULL;
        _cleanup_free_ char *path = dir ? path_join(dir, "cpuset.cpus") : NULL, *is = NULL;
        int r = !mount ? -ENOENT : !path ? -ENOMEM : read_line_at(AT_FDCWD, path, &is);

        if (r >= 0 && *is)
                r = bitset_parse(is, ret);
        if (r < 0)
                return r;
        *ret_path = TAKE_PTR(path);
        return 0;
}

/* systemd answers before it writes; masks that are set in between would be cut. An operation waits so often in all,
 * since the loop waits with it: what is late is seen at the next tick. */
static void wait_cpus(Enforcer *e, const char *path, const Bitset *cpus) {
        for (; e->n_waits < GROUP_WAITS_MAX; e->n_waits++) {
                _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
                _cleanup_free_ char *is = NULL;

                if (read_line_at(AT_FDCWD, path, &is) < 0 || (*is && bitset_parse(is, &now) < 0) ||
                    bitset_equal(&now, cpus))
                        return;
                (void) usleep(4000);
        }
}

/* 1 written, 0 could not be: said so. */
static int cpus_write(Enforcer *e, const UndoEntry *entry, const char *path, const Bitset *cpus, Outcome *o) {
        _cleanup_free_ char *text = NULL, *message = NULL, *dir = NULL;
        int r;

        if (group_is_unit(entry)) {
                r = scope_set_cpus(strrchr(entry->new_path, '/') + 1, cpus, &message);
                if (r >= 0)
                        wait_cpus(e, path, cpus);
                return r >= 0 ? 1 : strv_extendf(&o->messages, "%s", message ? message : strerror(-r));
        }
        r = bitset_format(cpus, &text);
        dir = strndup(path, strrchr(path, '/') - path);
        if (r < 0 || !dir)
                return -ENOMEM;
        return group_write(dir, "cpuset.cpus", *text ? text : "\n", o) >= 0;
}

int group_set_cpus(Enforcer *e, Transaction *t, Process p, const Bitset *cpus, Outcome *o) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
        _cleanup_free_ char *path = NULL;
        const UndoEntry *entry = group_of_cpuset(e, p);
        bool noted;
        int r;

        r = entry ? cpus_read(e, entry, &path, &now) : -ENOENT;
        if (r < 0 || bitset_equal(&now, cpus)) /* what cannot be read was not moved there by us, or is gone */
                return r == -ENOMEM ? r : 0;
        r = drift_group(e, entry, p, path, &now, cpus, o);
        if (r <= 0)
                return r;
        entry = group_of_cpuset(e, p); /* entries may have moved */
        noted = undo_find_cpus(e->undo, entry->new_path);
        r = transaction_begin(t);
        if (r >= 0)
                r = undo_note_cpus(e->undo, t->id, entry->job, p, entry->controller, entry->new_path, &now, cpus);
        if (r < 0)
                return r;
        entry = group_of_cpuset(e, p); /* entries may have moved */
        r = cpus_write(e, entry, path, cpus, o);
        if (r == 0 && !noted)
                (void) undo_forget(e->undo, undo_find_cpus(e->undo, entry->new_path));
        if (r <= 0) /* the masks will say the rest */
                return r;
        r = outcome_add_path(o, CHANGE_DONE, entry->job, p, path, &now, cpus);
        return r < 0 ? r : 1;
}

int group_put_back_cpus(Enforcer *e, const UndoEntry *entry, Outcome *o) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
        _cleanup_free_ char *path = NULL;
        int r = cpus_read(e, entry, &path, &now);

        if (r == -ENOMEM)
                return r;
        if (r < 0 || !bitset_equal(&now, &entry->new)) /* gone; not written yet; or somebody else's since */
                return 1;
        r = cpus_write(e, entry, path, &entry->old, o);
        if (r <= 0)
                return r;
        r = outcome_add_path(o, CHANGE_DONE, entry->job, entry->process, path, &entry->new, &entry->old);
        return r < 0 ? r : 1;
}

static int members(const Enforcer *e, const UndoEntry *entry, char **ret) {
        const char *mount = group_mount(e, entry->controller);
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
                        r = outcome_add_path(o, CHANGE_DONE, entry->job, (Process){ .pid = pid }, dir, NULL, NULL);
                if (r == -ENOMEM)
                        return r;
                n++;
        }
        return n > 0;
}

/* The group they came from is gone, and those above it may hold no processes: they stay in ours, without a limit. */
static int group_lift(Enforcer *e, const UndoEntry *entry, Outcome *o) {
        _cleanup_(bitset_done) Bitset now = BITSET_EMPTY;
        _cleanup_free_ char *path = NULL;
        int r = streq(entry->controller, "systemd") ? -ENOENT : cpus_read(e, entry, &path, &now);

        if (r >= 0 && !bitset_isempty(&now))
                r = cpus_write(e, entry, path, &BITSET_EMPTY, o);
        if (r == -ENOMEM)
                return r;
        if (group_populated(e, entry))
                r = strv_extendf(&o->messages,
                                 "%s: %s is gone, where the processes in %s came from: they stay, without a limit",
                                 strempty(entry->job), entry->old_path, entry->new_path);
        return r == -ENOMEM ? r : 1;
}

static bool is_gone(const char *dir) {
        return access(dir, F_OK) < 0 && errno == ENOENT;
}

int group_put_back(Enforcer *e, const UndoEntry *entry, Outcome *o) {
        const char *mount = group_mount(e, entry->controller);
        _cleanup_free_ char *dir = mount ? path_join(mount, entry->old_path + 1) : NULL;
        int r = 1;

        if (!mount)
                return 1;
        if (!dir)
                return -ENOMEM;
        while (streq(entry->controller, "cpuset") && strlen(dir) > strlen(mount) && is_gone(dir))
                *strrchr(dir, '/') = '\0'; /* what is left of it will do */
        if (is_gone(dir))
                return group_lift(e, entry, o);
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
int group_remove(const char *dir, bool wait) {
        _cleanup_free_ char *path = path_join(dir, "cgroup.procs");

        for (unsigned i = 0; i < 10; i++) {
                _cleanup_free_ char *text = NULL;
                struct stat st;

                if (rmdir(dir) == 0 || errno == ENOENT)
                        return 0;
                if (!wait || errno != EBUSY || stat(dir, &st) < 0 || st.st_nlink > 2)
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
