/* SPDX-License-Identifier: Apache-2.0 */
/* The two halves of the undo journal: undo.c owns the file, undo-replay.c what its lines mean in memory. */
#pragma once

#include <jansson.h>

#include "daemon/undo.h"

typedef struct UndoChain { /* of the processes of one bucket: index + 1, 0 none */
        size_t first, last;
} UndoChain;

struct Undo {
        char *path;
        int dir_fd; /* holds the lock */
        int fd;     /* -1: in memory only */
        off_t size; /* of what was written whole */
        bool torn;  /* the file is longer than that by a half line, which could not be cut off */
        size_t n_lines, compact_at;
        char *boot;
        char **unknown; /* lines of kinds that only a later version writes: kept as they are, for it */
        uint64_t last_id;
        uint64_t begun; /* the transaction that the file ends with; 0 none */
        off_t begun_size;
        size_t begun_lines;
        UndoEntry *entries; /* type _UNDO_MAX: forgotten, until undo_entries() closes the gaps */
        size_t n_entries, n_allocated, n_dead;
        size_t *slots;     /* tid -> index + 1 into entries; open addressing */
        UndoChain *chains; /* by pid, as many as slots */
        size_t *next;      /* by entry, in its chain */
        size_t n_slots;
};

/* The effect of one line. -EBADMSG: not one of ours; -EOPNOTSUPP: of a kind we do not know; -ENOMEM. */
int undo_replay(Undo *u, const json_t *line);
/* Whole text; bad lines are counted and skipped. */
int undo_replay_text(Undo *u, const char *text, size_t size, unsigned *ret_n_bad);
bool undo_abortable(const UndoEntry *e, uint64_t id); /* is it one that an abort of this transaction ends? */
int undo_entry_to_json(const UndoEntry *e, const Bitset *new, bool committed, json_t **ret);
json_t *undo_undone_to_json(const UndoEntry *e); /* it is done with */
void undo_clear(Undo *u);                        /* forgets all in memory */

/* undo-index.c */
int undo_index_grow(Undo *u); /* room for one more entry */
void undo_index_add(Undo *u, size_t index);
void undo_index_fill(Undo *u); /* anew, after entries have moved */
void undo_index_done(Undo *u);
