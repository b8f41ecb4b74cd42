/* SPDX-License-Identifier: Apache-2.0 */
/* What became of an apply or a revert: counted, listed change by change, and in sentences (one per process and kind; what
 * a tick finds changed by somebody else is told by manager-drift.c, with who it may have been). */
#include <errno.h>

#include "common/json.h"
#include "daemon/enforce-internal.h"

const char *const change_names[] = { "done", "same", "drift", "gone", "narrowed", "refused", NULL };

void outcome_done(Outcome *o) {
        for (size_t i = 0; i < o->n_changes; i++) {
                Change *c = &o->changes[i];

                free(c->job);
                free(c->comm);
                free(c->path);
                free(c->irq.device);
                free(c->irq.name);
                bitset_done(&c->old);
                bitset_done(&c->wanted);
                bitset_done(&c->got);
        }
        free(o->changes);
        strv_free(o->messages);
        *o = (Outcome){};
}

static void add_counts(Outcome *into, const Outcome *from) {
        into->n_written += from->n_written;
        into->n_same += from->n_same;
        into->n_drift += from->n_drift;
        into->n_gone += from->n_gone;
        into->n_refused += from->n_refused;
}

int outcome_absorb(Outcome *into, Outcome *from) {
        size_t n = into->n_changes + from->n_changes;

        if (n > into->n_allocated) {
                Change *c = reallocarray(into->changes, n, sizeof(*c));

                if (!c)
                        return -ENOMEM;
                into->changes = c;
                into->n_allocated = n;
        }
        if (from->n_changes > 0)
                memcpy(into->changes + into->n_changes, from->changes, from->n_changes * sizeof(*from->changes));
        into->n_changes = n;
        from->n_changes = 0;
        add_counts(into, from);
        for (size_t i = 0; from->messages && from->messages[i]; i++)
                if (strv_extend(&into->messages, from->messages[i]) < 0)
                        return -ENOMEM;
        outcome_done(from);
        return 0;
}

static void count(Outcome *o, ChangeResult result) {
        o->n_written += result == CHANGE_DONE || result == CHANGE_NARROWED;
        o->n_same += result == CHANGE_SAME;
        o->n_drift += result == CHANGE_DRIFT;
        o->n_gone += result == CHANGE_GONE;
        o->n_refused += result == CHANGE_REFUSED;
}

/* Room for one more, zeroed. */
static Change *change_new(Outcome *o) {
        if (o->n_changes >= o->n_allocated) {
                size_t n = o->n_changes ? o->n_changes * 2 : 4;
                Change *c = reallocarray(o->changes, n, sizeof(*c));

                if (!c)
                        return NULL;
                o->changes = c;
                o->n_allocated = n;
        }
        o->changes[o->n_changes] = (Change){};
        return &o->changes[o->n_changes++];
}

static Change *change_add(Outcome *o, ChangeResult result, const char *job, Process p, int error) {
        Change *c = change_new(o);

        if (!c)
                return NULL;
        c->result = result;
        c->process = p;
        c->tid = p.pid;
        c->error = error;
        c->job = job ? strdup(job) : NULL;
        return job && !c->job ? NULL : c;
}

int outcome_add(Outcome *o, ChangeResult result, const char *job, Process p, const Thread *t, const Bitset *old,
                const Bitset *wanted, const Bitset *got, int error) {
        Change *c;
        int r = 0;

        count(o, result);
        if (result == CHANGE_SAME)
                return 0;
        c = change_add(o, result, job, p, error);
        if (!c)
                return -ENOMEM;
        if (t) {
                c->tid = t->tid;
                c->comm = strdup(t->comm);
                if (!c->comm)
                        return -ENOMEM;
        }
        if (old)
                r = bitset_copy(&c->old, old);
        if (r >= 0 && wanted)
                r = bitset_copy(&c->wanted, wanted);
        if (r >= 0 && got)
                r = bitset_copy(&c->got, got);
        return r;
}

int outcome_add_path(Outcome *o, ChangeResult result, const char *job, Process p, const char *path, const Bitset *old,
                     const Bitset *wanted) {
        Change *c;
        int r;

        count(o, result);
        c = change_add(o, result, job, p, 0);
        if (c)
                c->path = strdup(path);
        if (!c || !c->path)
                return -ENOMEM;
        r = old ? bitset_copy(&c->old, old) : 0;
        return r >= 0 && wanted ? bitset_copy(&c->wanted, wanted) : r;
}

int outcome_add_irq(Outcome *o, ChangeResult result, const char *job, const ChangeIrq *irq, const Bitset *old,
                    const Bitset *wanted, const Bitset *got, int error) {
        Change *c;
        int r;

        r = outcome_add(o, result, job, (Process){}, NULL, old, wanted, got, error);
        if (r < 0 || result == CHANGE_SAME)
                return r;
        c = &o->changes[o->n_changes - 1];
        c->irq = (ChangeIrq){ .irq = irq->irq, .device = strdup(strempty(irq->device)), .name = strdup(irq->name) };
        return c->irq.device && c->irq.name ? 0 : -ENOMEM;
}

static int say_refused(Outcome *o, const Change *c, const char *name, unsigned n, const Allowed *a,
                       const char *wanted) {
        _cleanup_free_ char *allowed = NULL;
        int r = bitset_format(&a->cpus, &allowed);

        if (r < 0)
                return r;
        if (c->error == EINVAL && !bitset_intersects(&c->wanted, &a->cpus))
                return strv_extendf(
                        &o->messages,
                        "%s: pid %d was to have CPUs %s, but its cpuset %s allows only %s: %u thread%s left as %s",
                        name, c->process.pid, wanted, strempty(a->group), allowed, n, n == 1 ? "" : "s",
                        n == 1 ? "it is" : "they are");
        if (c->error == EINVAL)
                return strv_extendf(&o->messages,
                                    "%s: pid %d: the kernel keeps %u thread%s (%s, …) where %s and refuses CPUs %s",
                                    name, c->process.pid, n, n == 1 ? "" : "s", strempty(c->comm),
                                    n == 1 ? "it is" : "they are", wanted);
        return strv_extendf(&o->messages, "%s: pid %d cannot be given CPUs %s: %s (%u thread%s)", name, c->process.pid,
                            wanted, strerror(c->error), n, n == 1 ? "" : "s");
}

static int say_kind(Outcome *o, const Change *c, const char *name, unsigned n, const Allowed *a) {
        _cleanup_free_ char *wanted = NULL, *got = NULL;
        int r = bitset_format(&c->wanted, &wanted);

        if (r >= 0)
                r = bitset_format(&c->got, &got);
        if (r < 0)
                return r;
        if (c->result == CHANGE_DRIFT)
                return strv_extendf(
                        &o->messages,
                        "%s: pid %d: somebody else has given %u of its threads other CPUs since (%s %d has %s): left alone",
                        name, c->process.pid, n, strempty(c->comm), c->tid, got);
        if (c->result == CHANGE_NARROWED)
                return strv_extendf(&o->messages,
                                    "%s: pid %d was given CPUs %s, but its cpuset %s leaves it %s of them", name,
                                    c->process.pid, wanted, strempty(a->group), got);
        return say_refused(o, c, name, n, a, wanted);
}

int outcome_say(Outcome *o, size_t first, const char *name, const Allowed *a) {
        static const ChangeResult kinds[] = { CHANGE_DRIFT, CHANGE_NARROWED, CHANGE_REFUSED };

        for (size_t k = 0; k < ELEMENTSOF(kinds); k++) {
                const Change *c = NULL;
                unsigned n = 0;
                int r;

                for (size_t i = o->n_changes; i-- > first;)
                        if (o->changes[i].result == kinds[k] && !o->changes[i].path &&
                            o->changes[i].act == DRIFT_NONE) {
                                c = &o->changes[i];
                                n++;
                        }
                r = c ? say_kind(o, c, name, n, a) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static int set_text(json_t *o, const char *name, const char *s) {
        return s ? json_object_set_new(o, name, json_text(s)) : 0;
}

static int set_cpus(json_t *o, const char *name, const Bitset *b) {
        return bitset_isempty(b) ? 0 : json_object_set_new(o, name, json_bitset(b));
}

static int set_irq(json_t *o, const ChangeIrq *irq) {
        int r = json_object_set_new(o, "irq", json_integer(irq->irq));

        if (r >= 0)
                r = set_text(o, "device", irq->device);
        return r < 0 ? r : set_text(o, "name", irq->name);
}

static json_t *change_to_json(const Change *c) {
        json_t *o = c->irq.device ? json_pack("{s:s}", "result", change_names[c->result])
                                  : json_pack("{s:s, s:i, s:i}", "result", change_names[c->result], "pid",
                                              c->process.pid, "tid", c->tid);

        if (!o || set_text(o, "job", c->job) < 0 || set_text(o, "comm", c->comm) < 0 ||
            set_text(o, "path", c->path) < 0 || set_cpus(o, "old", &c->old) < 0 ||
            set_cpus(o, "wanted", &c->wanted) < 0 || set_cpus(o, "got", &c->got) < 0 ||
            (c->irq.device && set_irq(o, &c->irq) < 0) ||
            (c->act != DRIFT_NONE && set_text(o, "done", drift_act_names[c->act]) < 0) ||
            (c->error > 0 && set_text(o, "error", strerror(c->error)) < 0)) {
                json_decref(o);
                return NULL;
        }
        return o;
}

int outcome_to_json(const Outcome *o, json_t **ret) {
        json_t *changes = json_array(), *messages = json_strv(o->messages), *object;
        int r = changes && messages ? 0 : -1;

        for (size_t i = 0; r >= 0 && i < o->n_changes; i++)
                r = json_array_append_new(changes, change_to_json(&o->changes[i]));
        if (r < 0) {
                json_decref(changes);
                json_decref(messages);
                return -ENOMEM;
        }
        object = json_pack("{s:i, s:i, s:i, s:i, s:i, s:o, s:o}", "written", (int) o->n_written, "unchanged",
                           (int) o->n_same, "drift", (int) o->n_drift, "gone", (int) o->n_gone, "refused",
                           (int) o->n_refused, "changes", changes, "messages", messages);
        if (!object)
                return -ENOMEM;
        *ret = object;
        return 0;
}
