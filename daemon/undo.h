/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The undo journal: what was before each change, written before the change is made; one JSON object per line in
 * RUNTIME_DIRECTORY/undo.journal, appended with one write(2) each.
 *   {"t":"begin","id":7,"job":"train"}
 *   {"t":"affinity","id":7,"job":"train","pid":81,"start":123,"tid":83,"tid_start":130,"old":"0-127","new":"0-11","all":true,"cpuset":"0-127","pool":"0-15"}
 *   {"t":"cgroup","id":7,"job":"train","pid":81,"start":123,"old":"/user.slice/x","new":"/qsched.slice/…","controller":"cpuset"}
 *   {"t":"cpus","id":7,"job":"train","pid":81,"start":123,"controller":"cpuset","path":"/qsched.slice/…","old":"0-3","new":"4-7"}
 *                             a group of ours got other CPUs; of use until the commit only, since a revert leaves the group
 *   {"t":"mems","id":7,"job":"train","pid":81,"start":123,"controller":"cpuset","path":"/qsched.slice/…","old":"0-3","new":"3"}
 *                             a group of ours got a wall; old is empty where its group had none of its own. It stands at once
 *   {"t":"dir","id":7,"job":"train","path":"/sys/fs/cgroup/cpuset/qsched.slice/…"}   a directory of ours
 *   {"t":"dir","id":7,"job":"train","path":"/sys/fs/cgroup","controller":"cpuset"}   we had it hand that controller down
 *   {"t":"irq","id":8,"job":"train","irq":41,"device":"0000:c1:00.0","name":"virtio3-rx","old":"0-127","new":"12","banned":true}
 *   {"t":"yield","job":"train","pid":81,"start":123,"since":140}   somebody else has set its CPUs and may: it is left to
 *                             them. A thread that was there by then (ticks since boot) and has no entry has a mask of theirs
 *   {"t":"yield","job":"train","irq":41,"device":"0000:c1:00.0","name":"virtio3-rx"}   … this vector
 *   {"t":"commit","id":7}     the change stands; without it, start undoes it
 *   {"t":"abort","id":7}      the masks it noted have been put back: their entries are as they were before it
 *   {"t":"abort","id":7,"tid":83,"tid_start":130}   that of this thread has; there are others that could not be yet
 *   {"t":"revert","job":"train"}   all of that job (without "job": of all) is being put back: its commits count no more
 *   {"t":"boot","boot":"…"}   first line; entries of another boot are void
 *   {"t":"undone","id":7,"job":"train",…}   entries of that job (or of one tid) are done with
 * An entry may say "committed":true itself (rewritten files have no commit marks). The file is not synced: it need not
 * outlive the boot, since no mask does. Memory is always what replaying the file gives. One daemon per directory (flock).
 * "all": the old mask equalled the cpuset: what is put back is the all-CPUs mask, so that the task follows its cpuset.
 * "pool": the CPUs of the whole rank, of which "new" is this thread's part; absent where they are the same.
 * The file is compacted (rewritten atomically) when dead entries outnumber live ones. Unreadable lines: the file is set
 * aside as undo.journal.bad-N with a message, the readable entries stay in force. Lines of a kind that is not known
 * (after a downgrade) are no unreadable ones: they are kept as they are.
 */
#pragma once

#include "common/text.h"
#include "policy/snapshot.h"

typedef enum UndoType {
        UNDO_AFFINITY,
        UNDO_CGROUP,
        UNDO_CPUS,
        UNDO_MEMS, /* old and new are memory nodes */
        UNDO_DIR,  /* of no process, as the next */
        UNDO_IRQ,
        UNDO_YIELD, /* nothing to put back: what is not ours any more; a vector's has its irq.device, a process's none */
        _UNDO_MAX
} UndoType;

typedef struct UndoIrq { /* with the boot it identifies a vector: a number that is another's now is not it */
        unsigned irq;
        char *device; /* PCI address */
        char *name;   /* of its handler; may be "" */
        bool banned;  /* irqbalance was asked for us to leave it alone */
} UndoIrq;

typedef struct UndoEntry {
        UndoType type;
        uint64_t id; /* of the transaction */
        bool committed;
        char *job;
        Process process;
        pid_t tid;
        uint64_t tid_start;
        uint64_t since;     /* UNDO_YIELD of a process */
        Bitset old, new;    /* UNDO_AFFINITY, UNDO_CPUS: first old value wins, new is the latest */
        Bitset before;      /* the committed `new` that one not yet committed replaced; empty: none */
        uint64_t before_id; /* … and its transaction */
        Bitset cpuset; /* what its cpuset allowed when `new` was noted, to tell when that changed; empty: not said */
        Bitset pool, before_pool; /* what `new` and `before` are this thread's part of; empty: they are all of it */
        bool all;
        bool restored;             /* in memory only: undo_restored() was said of it */
        char *old_path, *new_path; /* UNDO_CGROUP; new_path also UNDO_CPUS, UNDO_MEMS and UNDO_DIR */
        char *controller;          /* UNDO_DIR: NULL, or the path hands it down because of us */
        UndoIrq irq;               /* UNDO_IRQ, with old, new and before as for UNDO_AFFINITY */
} UndoEntry;

static inline bool undo_is_of_process(const UndoEntry *e) {
        return e->type == UNDO_AFFINITY || e->type == UNDO_CGROUP || e->type == UNDO_CPUS || e->type == UNDO_MEMS;
}

typedef struct Undo Undo;

/* directory: RUNTIME_DIRECTORY. Messages (set aside, …) are appended to *messages. -EBUSY: another daemon has it. */
int undo_open(const char *directory, char ***messages, Undo **ret);
Undo *undo_free(Undo *u); /* closes; the file stays */
DEFINE_CLEANUP(Undo *, undo_free);

int undo_begin(Undo *u, const char *job, uint64_t *ret_id);
/* Written and flushed before the change. -ENOSPC and the like mean: do not make the change. */
int undo_note_affinity(Undo *u, uint64_t id, const char *job, Process p, pid_t tid, uint64_t tid_start,
                       const Bitset *old, const Bitset *new, bool all, const Bitset *cpuset,
                       const Bitset *pool); /* cpuset, pool may be NULL */
/* For a thread that has what we wrote for `from` because it was born since: an entry that says so and is committed, so
 * that a change on top of it goes back to that first. */
int undo_note_inherited(Undo *u, const char *job, Process p, pid_t tid, uint64_t tid_start, const UndoEntry *from);
int undo_note_cgroup(Undo *u, uint64_t id, const char *job, Process p, const char *controller, const char *old,
                     const char *new);
int undo_note_cpus(Undo *u, uint64_t id, const char *job, Process p, const char *controller, const char *group,
                   const Bitset *old, const Bitset *new); /* old may be empty */
int undo_note_mems(Undo *u, const char *job, Process p, const char *controller, const char *group, const Bitset *old,
                   const Bitset *new);
int undo_note_irq(Undo *u, uint64_t id, const char *job, const UndoIrq *irq, const Bitset *old, const Bitset *new);
int undo_note_dir(Undo *u, uint64_t id, const char *job, const char *path, const char *controller);
/* Stands at once, whatever becomes of an open transaction; the entries of what is yielded are the caller's to forget. */
int undo_note_yield(Undo *u, const char *job, Process p, uint64_t since); /* ticks since boot, as start times */
int undo_note_yield_irq(Undo *u, const char *job, const UndoIrq *irq);
int undo_commit(Undo *u, uint64_t id);
bool undo_committed(const Undo *u, uint64_t id); /* does an entry of it say so? */
/* The first transaction above `after` without a commit mark, of entries of these types (bits 1 << UndoType); 0: none. */
uint64_t undo_next_uncommitted(const Undo *u, unsigned types, uint64_t after);
uint64_t undo_next_id(const Undo *u); /* what undo_begin() will give */
/* Memory is right even when the file is full. */
int undo_abort(Undo *u, uint64_t id); /* all of its masks have been put back */
/* Those that undo_restored() was said of: the others stay, not committed, for the next start to try again. */
int undo_abort_restored(Undo *u, uint64_t id);
void undo_restored(Undo *u, const UndoEntry *e); /* for undo_abort_restored(), which is to follow */

int undo_revert(Undo *u,
                const char *job); /* so that a revert that is cut short is ended by the next start; NULL: all */

/* Live entries, in the order they were made; pointers stay valid until the next undo_entries() or undo_note_*();
 * undo_forget() only empties the one it is given, and it may still be gone on from. */
const UndoEntry *undo_entries(Undo *u, size_t *ret_n);
const UndoEntry *undo_find_tid(const Undo *u, pid_t tid, uint64_t tid_start); /* its UNDO_AFFINITY entry or NULL */
/* The next entry of any kind of this process, in the order they were made; after NULL: the first. */
const UndoEntry *undo_next_of(const Undo *u, Process p, const UndoEntry *after);
const UndoEntry *undo_find_cgroup(const Undo *u, Process p, const char *controller);
const UndoEntry *undo_find_cpus(const Undo *u, const char *group);
const UndoEntry *undo_find_mems(const Undo *u, const char *group);
const UndoEntry *undo_find_yield(const Undo *u, Process p);
const UndoEntry *undo_find_yield_irq(const Undo *u, const UndoIrq *irq);
int undo_forget(Undo *u, const UndoEntry *e); /* undone, or its thread is gone */

/* A journal in memory only, from text (tests, fuzzing): notes fail with -EBADF. *ret_n_bad: unreadable lines. */
int undo_from_text(const char *text, size_t size, unsigned *ret_n_bad, Undo **ret);
