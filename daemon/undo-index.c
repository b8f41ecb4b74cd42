/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where in the journal's entries those of a thread or of a process are: with tens of thousands of them none may be looked
 * for by going through all. Two tables of indices + 1 (0: none), of the same size: by tid, open addressing, affinity
 * entries only; by pid, the first and the last entry of each bucket, with a link from entry to entry, in the order they
 * were made. A forgotten entry stays in both until undo_index_fill().
 */
#include <errno.h>

#include "daemon/undo-internal.h"

static size_t slot_of(const Undo *u, pid_t id) {
        return ((uint32_t) id * 2654435761U) & (u->n_slots - 1);
}

static void tid_add(Undo *u, size_t index) {
        size_t s = slot_of(u, u->entries[index].tid);

        while (u->slots[s] != 0)
                s = (s + 1) & (u->n_slots - 1);
        u->slots[s] = index + 1;
}

static void pid_add(Undo *u, size_t index) {
        UndoChain *c = &u->chains[slot_of(u, u->entries[index].process.pid)];

        u->next[index] = 0;
        if (c->first == 0)
                c->first = index + 1;
        else
                u->next[c->last - 1] = index + 1;
        c->last = index + 1;
}

void undo_index_add(Undo *u, size_t index) {
        if (u->entries[index].type == UNDO_AFFINITY)
                tid_add(u, index);
        if (u->entries[index].process.pid > 0)
                pid_add(u, index);
}

void undo_index_fill(Undo *u) {
        if (u->n_slots == 0)
                return;
        memset(u->slots, 0, u->n_slots * sizeof(*u->slots));
        memset(u->chains, 0, u->n_slots * sizeof(*u->chains));
        for (size_t i = 0; i < u->n_entries; i++)
                undo_index_add(u, i);
}

int undo_index_grow(Undo *u) {
        size_t n = u->n_slots ? u->n_slots * 2 : 256, *slots, *next;
        UndoChain *chains;

        if (u->n_slots > 2 * (u->n_entries + 1))
                return 0;
        next = reallocarray(u->next, n, sizeof(*next)); /* fewer entries than slots, always */
        if (!next)
                return -ENOMEM;
        u->next = next;
        slots = calloc(n, sizeof(*slots));
        chains = calloc(n, sizeof(*chains));
        if (!slots || !chains) {
                free(slots);
                free(chains);
                return -ENOMEM;
        }
        free(u->slots);
        free(u->chains);
        u->slots = slots;
        u->chains = chains;
        u->n_slots = n;
        undo_index_fill(u);
        return 0;
}

void undo_index_done(Undo *u) {
        free(u->slots);
        free(u->chains);
        free(u->next);
}

const UndoEntry *undo_find_tid(const Undo *u, pid_t tid, uint64_t tid_start) {
        if (u->n_slots == 0)
                return NULL;
        for (size_t s = slot_of(u, tid); u->slots[s] != 0; s = (s + 1) & (u->n_slots - 1)) {
                const UndoEntry *e = &u->entries[u->slots[s] - 1];

                if (e->type == UNDO_AFFINITY && e->tid == tid && e->tid_start == tid_start)
                        return e;
        }
        return NULL;
}

const UndoEntry *undo_next_of(const Undo *u, Process p, const UndoEntry *after) {
        size_t i;

        if (u->n_slots == 0)
                return NULL;
        for (i = after ? u->next[after - u->entries] : u->chains[slot_of(u, p.pid)].first; i != 0; i = u->next[i - 1]) {
                const UndoEntry *e = &u->entries[i - 1];

                if (e->type != _UNDO_MAX && e->process.pid == p.pid && e->process.start_time == p.start_time)
                        return e;
        }
        return NULL;
}

uint64_t undo_next_uncommitted(const Undo *u, unsigned types, uint64_t after) {
        uint64_t id = 0;

        for (size_t i = 0; i < u->n_entries; i++) {
                const UndoEntry *e = &u->entries[i];

                if (e->type != _UNDO_MAX && (types & 1U << e->type) && !e->committed && e->id > after &&
                    (id == 0 || e->id < id))
                        id = e->id;
        }
        return id;
}
