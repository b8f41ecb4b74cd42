/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by enforce-revert.c (what the journal knows) and enforce-born.c (what it does not: born since). */
#pragma once

#include "daemon/enforce-internal.h"

typedef struct Family { /* every process and its parent, read once per operation */
        Process *pids;  /* start_time is read when it is needed */
        pid_t *parents;
        size_t n;
} Family;

typedef struct Restore { /* over one process */
        Enforcer *e;
        Outcome *o;
        Family *family;
        bool to_before; /* of the transaction, not of all that we did */
        const UndoEntry *const *entries;
        size_t n_entries;
        bool *ours, *forget; /* by entry */
        Identity identity;
        Allowed allowed;
        const UndoEntry **born; /* threads born since get back what the first of these whose mask they bear does */
        size_t n_born;
        const char *job;
} Restore;

const Bitset *restore_target(const Restore *s, const UndoEntry *entry); /* what an affinity entry goes back to */
ChangeResult restore_write(const Restore *s, const Identity *i, pid_t tid, const Bitset *target, Bitset *got,
                           int *error);

void restore_find_born(Restore *s); /* whose masks they may bear; while the entries are there */
int restore_born(Restore *s);       /* after the entries' own threads */
void family_done(Family *f);
