/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel -> as it was. The journal's entries are taken process by process: judge every mask first, then leave the group,
 * then write the old masks (a mask is always read and written through the cpuset it is in), then the threads and child
 * processes born since, which have no entry but hold what we wrote; only then are the entries forgotten, so that a kill
 * in between leaves them for the next start.
 *
 * Revert puts back the first old mask; a transaction that was cut short or could not be noted goes back to what stood
 * before it. Both leave alone what somebody else has set since.
 */
#include <errno.h>

#include "daemon/enforce-revert-internal.h"
#include "daemon/readers/process.h"
#include "daemon/readers/tasks.h"

const Bitset *restore_target(const Restore *s, const UndoEntry *entry) {
        if (s->to_before && !bitset_isempty(&entry->before))
                return &entry->before;
        return entry->all ? &s->e->possible : &entry->old;
}

ChangeResult restore_write(const Restore *s, const Identity *i, pid_t tid, const Bitset *target, Bitset *got,
                           int *error) {
        ChangeResult result = identity_has_thread(i, tid) ? mask_write(tid, target, got, error) : CHANGE_GONE;

        /* Its cpuset has none of the old CPUs any more: let it have all that there are. */
        if (result == CHANGE_REFUSED && *error == EINVAL)
                result = mask_write(tid, &s->e->possible, got, error);
        else if (result == CHANGE_NARROWED && bitset_equal(target, &s->e->possible))
                result = CHANGE_DONE;
        return result;
}

static int restore_affinity(Restore *s, size_t index) {
        const UndoEntry *entry = s->entries[index];
        _cleanup_(bitset_done) Bitset current = BITSET_EMPTY, got = BITSET_EMPTY;
        const Bitset *target = restore_target(s, entry);
        ChangeResult result;
        int error = 0, r;
        Thread t;

        r = thread_read(&s->identity, entry->tid, &t);
        if (r >= 0 && t.start != entry->tid_start)
                r = -ESRCH;
        if (r >= 0)
                r = mask_read(entry->tid, &current);
        s->forget[index] = r >= 0 || r == -ESRCH;
        if (r == -ESRCH)
                return outcome_add(s->o, CHANGE_GONE, entry->job, entry->process, &(Thread){ .tid = entry->tid }, NULL,
                                   &entry->old, NULL, ESRCH);
        if (r < 0)
                return r;
        if (!s->ours[index]) {
                result = mask_stands(&current, &entry->old, &s->allowed.cpus) || bitset_equal(&current, target)
                                 ? CHANGE_SAME
                                 : CHANGE_DRIFT;
                return outcome_add(s->o, result, entry->job, entry->process, &t, &entry->new, target, &current, 0);
        }
        if (bitset_equal(target, &entry->new) &&
            bitset_equal(target, &current)) /* it was so before us: never written */
                return outcome_add(s->o, CHANGE_SAME, entry->job, entry->process, &t, &entry->new, target, &current, 0);
        result = restore_write(s, &s->identity, entry->tid, target, &got, &error);
        s->forget[index] = result != CHANGE_REFUSED;
        return outcome_add(s->o, result, entry->job, entry->process, &t, &current,
                           target == &s->e->possible ? &entry->old : target, &got, error);
}

static void judge_entries(Restore *s) {
        for (size_t i = 0; i < s->n_entries; i++) {
                _cleanup_(bitset_done) Bitset current = BITSET_EMPTY;
                const UndoEntry *entry = s->entries[i];

                if (entry->type == UNDO_AFFINITY && mask_read(entry->tid, &current) >= 0)
                        s->ours[i] = mask_is_ours(entry, &current, &s->allowed.cpus);
        }
        restore_find_born(s);
}

static int restore_groups(Restore *s) {
        bool moved = false;
        int r;

        for (size_t i = 0; i < s->n_entries; i++) {
                const UndoEntry *entry = s->entries[i];

                if (entry->type != UNDO_CGROUP && entry->type != UNDO_CPUS && entry->type != UNDO_MEMS)
                        continue;
                r = entry->type == UNDO_CGROUP ? group_put_back(s->e, entry, s->o)
                    : entry->type == UNDO_MEMS ? group_put_back_mems(s->e, entry, s->o)
                                               : group_put_back_cpus(s->e, entry, s->o);
                if (r < 0)
                        return r;
                s->forget[i] = r > 0;
                moved = true;
        }
        if (!moved || s->identity.proc_fd < 0)
                return 0;
        allowed_done(&s->allowed);
        r = allowed_read(s->e, s->identity.process.pid, &s->allowed);
        return r == -ESRCH ? 0 : r;
}

static int restore_gone(Restore *s) {
        for (size_t i = 0; i < s->n_entries; i++)
                s->forget[i] = s->entries[i]->type == UNDO_AFFINITY;
        return outcome_add(s->o, CHANGE_GONE, s->job, s->entries[0]->process, NULL, NULL, NULL, NULL, ESRCH);
}

static int restore_open(Restore *s) {
        int r = identity_open(s->entries[0]->process, &s->identity);

        if (r >= 0)
                r = allowed_read(s->e, s->identity.process.pid, &s->allowed);
        if (r == -ESRCH)
                identity_done(&s->identity);
        return r;
}

static int restore_living(Restore *s) {
        size_t first = s->o->n_changes;
        int r, q;

        judge_entries(s);
        r = restore_groups(s);
        if (r < 0)
                return r;
        for (size_t i = 0; i < s->n_entries; i++)
                if (s->entries[i]->type == UNDO_AFFINITY) {
                        q = restore_affinity(s, i); /* one thread is no reason to leave the others */
                        if (r >= 0)
                                r = q;
                }
        if (r >= 0)
                r = restore_born(s);
        return r < 0 ? r : outcome_say(s->o, first, s->job, &s->allowed);
}

/* The masks of a transaction are ended as a whole, by its abort mark, unless some could not be put back. */
static void restore_end(Restore *s) {
        bool abort_follows = s->to_before && s->identity.proc_fd >= 0;

        for (size_t i = 0; s->forget && i < s->n_entries; i++)
                if (s->forget[i] && s->entries[i]->type != UNDO_CGROUP && s->entries[i]->type != UNDO_MEMS &&
                    abort_follows)
                        undo_restored(s->e->undo, s->entries[i]);
                else if (s->forget[i])
                        (void) undo_forget(s->e->undo, s->entries[i]);
        identity_done(&s->identity);
        allowed_done(&s->allowed);
        free(s->born);
        free(s->ours);
        free(s->forget);
}

static int restore_process(Enforcer *e, const UndoEntry *const *entries, size_t n, bool to_before, Family *family,
                           Outcome *o) {
        Restore s = { .e = e,
                      .o = o,
                      .family = family,
                      .to_before = to_before,
                      .entries = entries,
                      .n_entries = n,
                      .identity = { .pidfd = -1, .proc_fd = -1 },
                      .job = strempty(entries[0]->job) };
        int r;

        s.ours = calloc(n, sizeof(*s.ours));
        s.forget = calloc(n, sizeof(*s.forget));
        s.born = calloc(n, sizeof(*s.born));
        r = s.ours && s.forget && s.born ? restore_open(&s) : -ENOMEM;
        if (r == -ESRCH) {
                r = restore_gone(&s);
                if (r >= 0)
                        r = restore_groups(&s); /* its children may live on in our group */
        } else if (r >= 0)
                r = restore_living(&s);
        restore_end(&s);
        return r;
}

static int entry_compare(const void *a, const void *b) {
        const UndoEntry *x = *(const UndoEntry *const *) a, *y = *(const UndoEntry *const *) b;

        if (x->process.pid != y->process.pid)
                return CMP(x->process.pid, y->process.pid);
        if (x->process.start_time != y->process.start_time)
                return CMP(x->process.start_time, y->process.start_time);
        return CMP(x, y);
}

typedef struct Pick {     /* which entries are meant */
        const char *job;  /* NULL: of any */
        bool uncommitted; /* only those */
        uint64_t id;      /* of this transaction; 0: of any */
        Process process;  /* pid 0: of any */
} Pick;

static bool picked(const Pick *p, const UndoEntry *e) {
        if (!undo_is_of_process(e) || (p->uncommitted && e->committed) || (p->id > 0 && e->id != p->id))
                return false;
        if (p->process.pid > 0 && (e->process.pid != p->process.pid || e->process.start_time != p->process.start_time))
                return false;
        return !p->job || streq(strempty(e->job), p->job);
}

static int pick(Enforcer *e, const Pick *p, const UndoEntry ***ret, size_t *ret_n) {
        const UndoEntry *all, **some;
        size_t n, k = 0;

        all = undo_entries(e->undo, &n);
        some = calloc(n + 1, sizeof(*some));
        if (!some)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                if (picked(p, &all[i]))
                        some[k++] = &all[i];
        qsort(some, k, sizeof(*some), entry_compare);
        *ret = some;
        *ret_n = k;
        return 0;
}

static bool any_picked(Enforcer *e, const Pick *p) {
        const UndoEntry *all;
        size_t n;

        all = undo_entries(e->undo, &n);
        for (size_t i = 0; i < n; i++)
                if (picked(p, &all[i]))
                        return true;
        return false;
}

static size_t run_length(const UndoEntry *const *entries, size_t n) {
        size_t k = 1;

        while (k < n && entries[k]->process.pid == entries[0]->process.pid &&
               entries[k]->process.start_time == entries[0]->process.start_time)
                k++;
        return k;
}

/* One process that cannot be put back is no reason to leave the others: the first error is returned at the end. */
static int restore_picked(Enforcer *e, const Pick *p, bool to_before, Outcome *o) {
        _cleanup_(family_done) Family family = {};
        _cleanup_free_ const UndoEntry **entries = NULL;
        size_t n;
        int r = pick(e, p, &entries, &n), error;

        if (r < 0)
                return r;
        for (size_t i = 0, k; i < n; i += k) {
                k = run_length(&entries[i], n - i);
                error = restore_process(e, &entries[i], k, to_before, &family, o);
                if (r >= 0)
                        r = error;
        }
        return r;
}

/* One read per process: its entries follow each other, mostly. */
static void forget_ended(Enforcer *e) {
        Process last = {};
        bool ended = false;
        size_t n;
        const UndoEntry *all = undo_entries(e->undo, &n);

        for (size_t i = 0; i < n; i++) {
                if (!undo_is_of_process(&all[i]))
                        continue;
                if (all[i].process.pid != last.pid || all[i].process.start_time != last.start_time) {
                        last = all[i].process;
                        ended = process_is(last.pid, last.start_time) == 0;
                }
                if (ended && (all[i].type == UNDO_AFFINITY || !group_populated(e, &all[i])))
                        (void) undo_forget(e->undo, &all[i]);
        }
}

/* Groups stay busy for a moment after their last process: wait for that, or leave it to the next sweep. */
static void sweep(Enforcer *e, bool wait) {
        const UndoEntry *all;
        size_t n;

        forget_ended(e);
        drift_forget_ended(e->undo);
        all = undo_entries(e->undo, &n);
        for (size_t i = n; i-- > 0;) /* children were made after their parents */
                if (all[i].type == UNDO_DIR && !all[i].controller && group_remove(all[i].new_path, wait) >= 0)
                        (void) undo_forget(e->undo, &all[i]);
        for (size_t i = 0; i < n; i++)
                if (all[i].type == UNDO_DIR && all[i].controller && control_release(&all[i]) >= 0)
                        (void) undo_forget(e->undo, &all[i]);
}

int enforce_sweep(Enforcer *e) {
        if (e->transaction.open)
                return -EBUSY;
        sweep(e, false);
        role_places_sweep(e);
        return 0;
}

static const char *rollback_cause(int error) {
        switch (-error) {
        case ENOSPC:
        case EDQUOT:
        case EROFS:
        case EFBIG:
        case EBADF:
        case EIO: return "The undo journal cannot take what is to be changed";
        default: return "The change could not be completed";
        }
}

int transaction_rollback(Enforcer *e, int error, Outcome *o) {
        Transaction *t = &e->transaction;
        unsigned before = o->n_written;
        int r;

        if (t->begun) {
                r = restore_picked(e, &(Pick){ .uncommitted = true, .id = t->id }, true, o);
                if (r < 0)
                        (void) strv_extendf(&o->messages,
                                            "Not everything could be put back (%s): the next start tries again",
                                            strerror(-r));
                (void) undo_abort_restored(e->undo, t->id);
                sweep(e, true);
        }
        (void) strv_extendf(&o->messages, "%s (%s): nothing more is changed, %u changes were put back",
                            rollback_cause(error), strerror(-error), o->n_written - before);
        return error;
}

int enforce_revert(Enforcer *e, const char *job, Outcome *ret) {
        int r;

        *ret = (Outcome){};
        r = e->transaction.open ? -EBUSY : online_read(e);
        if (r < 0)
                return r;
        if (any_picked(e, &(Pick){ .job = job }))
                (void) undo_revert(e->undo, job); /* a full disk keeps nobody from putting back */
        r = restore_picked(e, &(Pick){ .job = job }, false, ret);
        drift_take_back(e->undo, job);
        sweep(e, true);
        return r;
}

int enforce_revert_process(Enforcer *e, Process process, Outcome *ret) {
        int r;

        *ret = (Outcome){};
        r = e->transaction.open ? -EBUSY : online_read(e);
        if (r >= 0)
                r = restore_picked(e, &(Pick){ .process = process }, false, ret);
        drift_take_back_process(e->undo, process);
        sweep(e, true);
        return r;
}

/* One abort mark per transaction that was cut short, if all of it could be put back. */
static int abort_uncommitted(Enforcer *e) {
        int r = 0;

        for (uint64_t id = 0; (id = undo_next_uncommitted(e->undo, 1U << UNDO_AFFINITY | 1U << UNDO_CPUS, id)) > 0;) {
                int k = undo_abort_restored(e->undo, id);

                if (r >= 0)
                        r = k;
        }
        return r;
}

/* Entries of processes and of single threads that have ended. */
static int forget_gone(Enforcer *e) {
        _cleanup_free_ const UndoEntry **entries = NULL;
        size_t n;
        int r = pick(e, &(Pick){}, &entries, &n);

        if (r < 0)
                return r;
        for (size_t i = 0, k; i < n; i += k) {
                _cleanup_(identity_done) Identity identity = { .pidfd = -1, .proc_fd = -1 };
                bool gone = identity_open(entries[i]->process, &identity) == -ESRCH;

                k = run_length(&entries[i], n - i);
                for (size_t j = i; j < i + k; j++) {
                        bool dead = gone;
                        Thread t;
                        int q;

                        if ((entries[j]->type == UNDO_CGROUP || entries[j]->type == UNDO_MEMS) && gone)
                                dead = !group_populated(e, entries[j]);
                        else if (entries[j]->type == UNDO_AFFINITY && identity.proc_fd >= 0) {
                                q = thread_read(&identity, entries[j]->tid, &t);
                                dead = q == -ESRCH || (q >= 0 && t.start != entries[j]->tid_start);
                        }
                        if (dead)
                                (void) undo_forget(e->undo, entries[j]);
                }
        }
        return 0;
}

int enforce_recover(Enforcer *e, Outcome *ret) {
        int r, k;

        *ret = (Outcome){};
        r = e->transaction.open ? -EBUSY : online_read(e);
        if (r < 0)
                return r;
        walls_recover(e);
        r = restore_picked(e, &(Pick){ .uncommitted = true }, true, ret);
        k = abort_uncommitted(e);
        if (k < 0 && r >= 0) /* all is as it should be, but the file cannot be told */
                r = strv_extendf(
                        &ret->messages,
                        "The undo journal cannot be written (%s): the next start will look again at what this one put back",
                        strerror(-k));
        k = forget_gone(e);
        sweep(e, true);
        groups_remove_lost(e);
        if (r >= 0 && ret->n_written > 0)
                r = strv_extendf(&ret->messages, "A change that was cut short was undone: %u masks and groups put back",
                                 ret->n_written);
        return r < 0 ? r : k;
}
