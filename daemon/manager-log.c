/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is logged of changes: who asked, in a line of its own, then every write with who, old, new and why. The threads
 * of a process that went from one mask to another are one line with the list of their tids (several lines where it is
 * long), so that nothing is left out and a process of a thousand threads is no thousand lines.
 */
#include "common/log.h"
#include "daemon/manager-internal.h"

#define TIDS_MAX 1000U /* characters in a line */

void manager_log_asked(const char *what, AppliedJob *const *jobs, size_t n, const Caller *c) {
        _cleanup_free_ char *names = NULL;
        size_t size;
        FILE *f;

        if (c->pid == 0 && c->uid == SCOPE_AUTHORISED) {
                log_info("%s: processes, CPUs or cpusets are others than those of the plan", what);
                return;
        }
        f = open_memstream(&names, &size);
        if (!f) {
                (void) log_oom();
                return;
        }
        for (size_t i = 0; i < n; i++)
                fprintf(f, "%s%s", i ? ", " : n > 1 ? " of jobs " : " of job ", jobs[i]->job->name);
        (void) fclose(f);
        log_info("%s%s: asked for by user %u, pid %d (%s)", what, names, (unsigned) c->uid, (int) c->pid, c->comm);
}

static bool written(const Change *c) {
        return c->result == CHANGE_DONE || c->result == CHANGE_NARROWED; /* sentences and tell_drift() say the others */
}

static bool is_wall(const char *path) {
        static const char file[] = "/cpuset.mems";
        size_t n = strlen(path);

        return n >= sizeof(file) - 1 && streq(path + n - (sizeof(file) - 1), file);
}

static void log_path(const Change *c, const char *old, const char *wanted, const char *why) {
        if (is_wall(c->path)) {
                log_info("Job %s: pid %d: memory nodes of its group %s: %s -> %s (%s)", strempty(c->job),
                         (int) c->process.pid, c->path, *old ? old : "all", *wanted ? wanted : "all", why);
                return;
        }
        if (old[0])
                log_info("Job %s: pid %d: CPUs of its group %s: %s -> %s (%s)", strempty(c->job), (int) c->process.pid,
                         c->path, old, wanted, why);
        else
                log_info("Job %s: pid %d: group %s%s%s (%s)", strempty(c->job), (int) c->process.pid, c->path,
                         wanted[0] ? ", CPUs " : "", wanted, why);
}

static void log_irq(const Change *c, const char *old, const char *wanted, const char *got, const char *why) {
        bool narrowed = c->result == CHANGE_NARROWED;

        log_info("Job %s: %s: interrupt %u (%s): cpus %s -> %s%s%s (%s)", strempty(c->job), c->irq.device, c->irq.irq,
                 c->irq.name, old, wanted, narrowed ? ", where no vector was free: " : "", narrowed ? got : "", why);
}

static bool same_write(const Change *a, const Change *b) {
        return written(b) && !b->path && !b->irq.device && a->process.pid == b->process.pid && a->result == b->result &&
               streq(strempty(a->job), strempty(b->job)) && bitset_equal(&a->old, &b->old) &&
               bitset_equal(&a->wanted, &b->wanted) && bitset_equal(&a->got, &b->got);
}

static int pid_cmp(const void *a, const void *b) {
        return CMP(*(const pid_t *) a, *(const pid_t *) b);
}

/* "81-83,90" of sorted tids, from *i on, as many as fit; at least one. */
static void format_tids(const pid_t *tids, size_t n, size_t *i, char *buf, size_t size) {
        size_t used = 0;

        while (*i < n && used + 24 < size) {
                size_t first = *i, last = first;

                while (last + 1 < n && tids[last + 1] == tids[last] + 1)
                        last++;
                used += (size_t) snprintf(buf + used, size - used, last > first ? "%s%d-%d" : "%s%d", used ? "," : "",
                                          (int) tids[first], (int) tids[last]);
                *i = last + 1;
        }
}

static void log_tids(const Change *c, pid_t *tids, size_t n, const char *old, const char *wanted, const char *got,
                     const char *why) {
        bool narrowed = c->result == CHANGE_NARROWED;
        char list[TIDS_MAX];

        qsort(tids, n, sizeof(*tids), pid_cmp);
        for (size_t i = 0; i < n;) {
                format_tids(tids, n, &i, list, sizeof(list));
                log_info("Job %s: pid %d (%s) tids %s: cpus %s -> %s%s%s (%s)", strempty(c->job), (int) c->process.pid,
                         strempty(c->comm), list, old, wanted, narrowed ? ", of which the kernel gave " : "",
                         narrowed ? got : "", why);
        }
}

/* The write at `index` and those like it; those are marked in done[]. */
static void log_group(const Outcome *o, size_t index, bool *done, pid_t *tids, const char *why) {
        _cleanup_free_ char *old = NULL, *wanted = NULL, *got = NULL;
        const Change *c = &o->changes[index];
        size_t n = 0;

        if (bitset_format(&c->old, &old) < 0 || bitset_format(&c->wanted, &wanted) < 0 ||
            bitset_format(&c->got, &got) < 0) {
                (void) log_oom();
                return;
        }
        if (c->path) {
                log_path(c, old, wanted, why);
                return;
        }
        if (c->irq.device) {
                log_irq(c, old, wanted, got, why);
                return;
        }
        for (size_t i = index; i < o->n_changes && o->changes[i].process.pid == c->process.pid; i++)
                if (!done[i] && same_write(c, &o->changes[i])) {
                        done[i] = true;
                        tids[n++] = o->changes[i].tid;
                }
        log_tids(c, tids, n, old, wanted, got, why);
}

/* A sentence that each tick would say again is said once, until a tick is without it. */
static void log_sentences(Manager *m, const Outcome *o, bool tick) {
        char **said = NULL;

        for (size_t i = 0; o->messages && o->messages[i]; i++) {
                if (!strv_contains(m->said, o->messages[i]))
                        log_notice("%s", o->messages[i]);
                (void) strv_extend(tick ? &said : &m->said, o->messages[i]);
        }
        if (!tick)
                return;
        strv_free(m->said);
        m->said = said;
}

void manager_log_outcome(Manager *m, const Outcome *o, const char *why) {
        _cleanup_free_ bool *done = calloc(o->n_changes + 1, sizeof(*done));
        _cleanup_free_ pid_t *tids = calloc(o->n_changes + 1, sizeof(*tids));

        if (!done || !tids)
                (void) log_oom();
        for (size_t i = 0; done && tids && i < o->n_changes; i++)
                if (!done[i] && written(&o->changes[i]))
                        log_group(o, i, done, tids, why);
        log_sentences(m, o, streq(why, MANAGER_TICK));
}
