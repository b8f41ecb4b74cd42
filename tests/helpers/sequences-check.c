/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants, read from the kernel. For every thread: a mask that is not empty, has a CPU that is online, lies inside
 * its cpuset, and memory nodes. Threads of a placed rank lie inside its pool (the plan in force says which that is; all
 * else comes from /proc); threads of all others have exactly what the account says. Pools are disjoint as long as each
 * rank can have a CPU of its own. Nobody's cgroup or cpuset was touched.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "daemon/undo.h"
#include "sequences.h"

int tids_of(pid_t pid, pid_t **ret, unsigned *ret_n) {
        char path[48];
        struct dirent *de;
        pid_t *tids = NULL;
        unsigned n = 0;
        DIR *d;

        (void) snprintf(path, sizeof(path), "/proc/%d/task", pid);
        d = opendir(path);
        if (!d)
                return -1;
        while ((de = readdir(d)))
                if (de->d_name[0] != '.') {
                        tids = reallocarray(tids, n + 1, sizeof(*tids));
                        assert(tids);
                        tids[n++] = atoi(de->d_name);
                }
        (void) closedir(d);
        *ret = tids;
        *ret_n = n;
        return 0;
}

Tid *tid_of(Puppet *p, pid_t tid) {
        const Tid *heir = p->tids; /* the main thread makes all threads and children */

        for (unsigned i = 0; i < p->n_tids; i++)
                if (p->tids[i].tid == tid)
                        return &p->tids[i];
        assert(p->n_tids < THREADS);
        p->tids[p->n_tids] = (Tid){ .tid = tid, .born = now_usec() };
        if (p->n_tids > 0) {
                p->tids[p->n_tids].own = heir->own;
                p->tids[p->n_tids].vague = heir->vague || heir->theirs != 0;
        }
        return &p->tids[p->n_tids++];
}

Set expected_mask(Set own, Set allowed) {
        return own & allowed ? own & allowed : allowed;
}

static json_t *plan_of(const World *w, pid_t pid) {
        json_t *tasks = json_object_get(json_object_get(w->status, "plan"), "tasks"), *t;
        size_t i;

        json_array_foreach (tasks, i, t)
                if (json_integer_value(json_object_get(t, "pid")) == pid)
                        return t;
        return NULL;
}

static Set pool_of(const World *w, const Puppet *p) {
        const char *cpus = json_string_value(json_object_get(plan_of(w, p->pid), "cpus"));

        return cpus ? set_parse(cpus) : 0;
}

static int check_any(World *w, const Puppet *p, pid_t tid, Set mask, Set allowed, Set mems) {
        char a[256], b[256];

        if (!mask || !mems)
                return fail(w, "thread %d of puppet %d has %s", tid, p->pid, mask ? "no memory nodes" : "no CPUs");
        if (!(mask & online()))
                return fail(w, "thread %d of puppet %d may use %s: none is online (%s)", tid, p->pid, set_text(mask, a),
                            set_text(online(), b));
        if (p->group != NONE && (mask & ~allowed))
                return fail(w, "thread %d of puppet %d may use %s, its cpuset allows %s", tid, p->pid,
                            set_text(mask, a), set_text(allowed, b));
        return 0;
}

static int check_thread(World *w, Puppet *p, pid_t pid, pid_t tid, Set allowed) {
        Set mask = mask_of(pid, tid, "Cpus_allowed_list"), mems = mask_of(pid, tid, "Mems_allowed_list"), pool,
            expected;
        const Tid *t = tid_of(p, tid);
        char a[256], b[256], c[256];

        if (check_any(w, p, tid, mask, allowed, mems) < 0)
                return -1;
        if (t->vague)
                return 0;
        if (p->job != NONE && !t->theirs) {
                pool = pool_of(w, p);
                if (mask & ~pool)
                        return fail(w, "thread %d of puppet %d has %s, its rank's pool is %s (cpuset %s)", tid, p->pid,
                                    set_text(mask, a), set_text(pool, b), set_text(allowed, c));
                return 0;
        }
        expected = expected_mask(t->theirs ? t->theirs : t->own, allowed);
        if (mask != expected)
                return fail(w, "thread %d of puppet %d (%s) has %s, expected %s (cpuset %s)", tid, p->pid,
                            t->theirs ? "changed by somebody" : "not placed", set_text(mask, a), set_text(expected, b),
                            set_text(allowed, c));
        return 0;
}

static int check_process(World *w, Puppet *p, pid_t pid) {
        _cleanup_free_ pid_t *tids = NULL;
        _cleanup_free_ char *cgroups = proc_text(pid, 0, "cgroup");
        unsigned n;

        if (tids_of(pid, &tids, &n) < 0 || !cgroups)
                return fail(w, "puppet %d has ended by itself", pid);
        if (!streq(cgroups, p->cgroups) && !(p->run && p->job != NONE && strstr(cgroups, "/qsched.slice/")))
                return fail(w, "puppet %d was moved, it is in:\n%sand was in:\n%s", pid, cgroups, p->cgroups);
        for (unsigned i = 0; i < n; i++)
                if (check_thread(w, p, pid, tids[i], allowed_of(w, pid)) < 0)
                        return -1;
        return 0;
}

/* Can the i-th and all before it have a CPU each? (Kuhn's matching) */
static bool place(const Set *choice, unsigned i, int *taken, Set *seen) {
        for (unsigned cpu = 0; cpu < 64; cpu++) {
                Set bit = (Set) 1 << cpu;

                if (!(choice[i] & bit) || (*seen & bit))
                        continue;
                *seen |= bit;
                if (taken[cpu] == NONE || place(choice, (unsigned) taken[cpu], taken, seen)) {
                        taken[cpu] = (int) i;
                        return true;
                }
        }
        return false;
}

static bool is_regular(const Puppet *p) { /* all its threads are where the plan wants them */
        for (unsigned i = 0; i < p->n_tids; i++)
                if (p->tids[i].theirs || p->tids[i].vague)
                        return false;
        return p->pid > 0 && p->job != NONE;
}

/* Ranks whose process has ended keep a place. */
static unsigned absent(const World *w, Set *choice, unsigned max) {
        json_t *tasks = json_object_get(json_object_get(w->status, "plan"), "tasks"), *t;
        unsigned n = 0;
        size_t i;

        json_array_foreach (tasks, i, t)
                if (json_integer_value(json_object_get(t, "pid")) == 0 && n < max)
                        choice[n++] = online();
        return n;
}

static int check_disjoint(World *w) {
        Set choice[64], pools[PUPPETS];
        unsigned n = 0, n_all = 0;
        bool enough = true;
        int taken[64];
        char a[256], b[256];

        for (unsigned i = 0; i < PUPPETS; i++) {
                Puppet *p = &w->puppets[i];

                if (p->pid <= 0 || p->job == NONE)
                        continue;
                choice[n_all++] = allowed_of(w, p->pid) & online();
                if (is_regular(p))
                        pools[n++] = pool_of(w, p);
        }
        n_all += absent(w, choice + n_all, ELEMENTSOF(choice) - n_all);
        for (unsigned i = 0; i < ELEMENTSOF(taken); i++)
                taken[i] = NONE;
        for (unsigned i = 0; i < n_all && enough; i++) {
                Set seen = 0;

                enough = place(choice, i, taken, &seen);
        }
        for (unsigned i = 0; enough && i < n; i++)
                for (unsigned k = 0; k < i; k++)
                        if (pools[i] & pools[k])
                                return fail(w, "two ranks share CPUs though there are enough: pools %s and %s",
                                            set_text(pools[i], a), set_text(pools[k], b));
        return 0;
}

static int check_pool(World *w, const Puppet *p) {
        Set allowed = allowed_of(w, p->pid), pool = pool_of(w, p);
        char a[256], b[256];

        if (!is_regular(p))
                return 0;
        if (!plan_of(w, p->pid))
                return fail(w, "puppet %d is a rank of an applied job, but has no place in the plan in force", p->pid);
        if (!(pool & allowed & online()))
                return fail(w, "the pool of puppet %d is %s: nothing of its cpuset %s", p->pid, set_text(pool, a),
                            set_text(allowed, b));
        return 0;
}

static int check_groups(World *w) {
        for (unsigned g = 0; g < GROUPS && w->groups[g]; g++) {
                Set cpus = set_read(w->groups[g], "cpuset.cpus");
                char a[256], b[256];

                if (cpus != w->group_cpus[g])
                        return fail(w, "cpuset %s has %s, its owner wrote %s", w->groups[g], set_text(cpus, a),
                                    set_text(w->group_cpus[g], b));
        }
        return 0;
}

int check(World *w) {
        int r = check_groups(w);

        for (unsigned i = 0; r >= 0 && i < PUPPETS; i++) {
                Puppet *p = &w->puppets[i];

                if (p->pid <= 0)
                        continue;
                r = check_pool(w, p);
                if (r >= 0)
                        r = check_process(w, p, p->pid);
                for (unsigned k = 0; r >= 0 && k < p->n_children; k++)
                        r = check_process(w, p, p->children[k]);
        }
        return r < 0 ? r : check_disjoint(w);
}

/* Somebody else's jobs (another daemon's) are in it: it stays, and so does the note that it is to go. */
static bool is_shared_slice(const UndoEntry *e) {
        struct stat st;

        return e->type == UNDO_DIR && !e->controller && stat(e->new_path, &st) == 0 && st.st_nlink > 2 &&
               streq(strrchr(e->new_path, '/'), "/qsched.slice");
}

static int check_journal(World *w) {
        _cleanup_free_ char *path = NULL, *text = NULL;
        _cleanup_(undo_freep) Undo *u = NULL;
        const UndoEntry *entries;
        unsigned n_bad = 0;
        size_t n = 0;

        if (asprintf(&path, "%s/run/undo.journal", w->dir) < 0)
                return -1;
        text = proc_text(0, 0, path);
        if (!text)
                return 0;
        if (undo_from_text(text, strlen(text), &n_bad, &u) < 0)
                return fail(w, "the journal cannot be read");
        entries = undo_entries(u, &n);
        while (n > 0 && is_shared_slice(&entries[n - 1]))
                n--;
        if (n > 0 || n_bad > 0)
                return fail(w, "the journal has %zu live entries and %u bad lines:\n%s", n, n_bad, text);
        return 0;
}

static int check_no_job(World *w) {
        char path[512];
        struct dirent *de;
        DIR *d;
        int r = 0;

        (void) snprintf(path, sizeof(path), "%s/state/jobs", w->dir);
        d = opendir(path);
        while (d && r >= 0 && (de = readdir(d)))
                if (de->d_name[0] != '.')
                        r = fail(w, "%s/%s is left", path, de->d_name);
        if (d)
                (void) closedir(d);
        return r;
}

/* Of ours are the groups named after jobs of the sequences; somebody else's may be beside them. */
static int check_no_group(World *w) {
        const char *dirs[] = { "/sys/fs/cgroup/cpuset/qsched.slice", "/sys/fs/cgroup/qsched.slice" };
        char mine[32];

        (void) snprintf(mine, sizeof(mine), "seqrun%d-", getpid());
        for (unsigned i = 0; i < ELEMENTSOF(dirs); i++) {
                struct dirent *de;
                DIR *d = opendir(dirs[i]);
                int r = 0;

                while (d && r >= 0 && (de = readdir(d)))
                        if (strstr(de->d_name, mine))
                                r = fail(w, "the group %s/%s is left", dirs[i], de->d_name);
                if (d)
                        (void) closedir(d);
                if (r < 0)
                        return r;
        }
        return 0;
}

int check_end(World *w) {
        int r = check(w);

        if (r >= 0)
                r = check_journal(w);
        if (r >= 0)
                r = check_no_job(w);
        return r < 0 ? r : check_no_group(w);
}
