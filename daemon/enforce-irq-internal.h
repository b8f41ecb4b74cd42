/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of placing interrupts: enforce-irq.c makes things as wished, enforce-irq-vectors.c keeps the list of vectors,
 * enforce-irq-back.c puts back, enforce-irq-say.c speaks with irqbalance and with people, enforce-irq-plan.c makes wishes
 * of a plan. */
#pragma once

#include "daemon/enforce-irq.h"
#include "daemon/readers/irq.h"

typedef struct Vector {
        IrqStatus status;
        const IrqWish *wish;      /* of this call; NULL: none */
        Bitset old, ours, before; /* as the journal has them */
        bool noted, committed;
        bool banned;    /* irqbalance was asked by us, not before by others */
        bool written;   /* by this call */
        bool yielded;   /* noted so: somebody else's */
        bool unplugged; /* the kernel took it away from CPUs that went offline: it counts as ours */
        bool counted;   /* count is from after the last write, or from the first look */
        uint64_t count;
        Bitset full; /* the wish for which there was no vector free */
        int result;  /* of the last write */
} Vector;

struct IrqEnforcer {
        Undo *undo;
        char *root;
        Vector *vectors;
        size_t n_vectors;

        /* irqbalance */
        pid_t balancer; /* that was asked last; 0 none */
        int balancer_error;
        bool balancer_file; /* its socket has a file, which is looked for at each call */
        Bitset asked;       /* what it was asked to leave alone */
        Bitset banned;      /* what it says it leaves alone */
        Bitset mine;        /* vectors of this call's wishes */

        DriftBook drift;

        /* of one call */
        bool any_yielded;
        Outcome *outcome;
        Bitset online;
        uint64_t transaction; /* 0: nothing noted yet */
        IrqTable table;
        bool table_read;
};

void irq_forget(IrqEnforcer *e, Vector *v); /* its note: nothing of it is put back any more */
/* /proc/interrupts, once per call; anew: younger than what has just been written. */
int irq_table_once(IrqEnforcer *e, bool anew);
bool irq_is_waiting(const IrqWishes *wishes, const Vector *v);

/* enforce-irq-vectors.c */
void irq_vector_done(Vector *v);
Vector *irq_vector_find(IrqEnforcer *e, const char *pci, unsigned irq);
int irq_vector_add(IrqEnforcer *e, const char *pci, unsigned irq, const char *name, Vector **ret);
int irq_meet_wishes(IrqEnforcer *e, const IrqWishes *wishes); /* each vector of their functions gets its wish */

/* enforce-irq-back.c */
int irq_online(const IrqEnforcer *e, Bitset *ret);
int irq_load_entries(IrqEnforcer *e); /* what the journal knows, into the vectors */
/* Writes `target` if the mask is ours still. 1: nothing is left to do, 0: to be tried again. The note stays. */
int irq_put_back(IrqEnforcer *e, Vector *v, const Bitset *target);
int irq_abort_uncommitted(IrqEnforcer *e);
int irq_say_change(IrqEnforcer *e, ChangeResult result, const Vector *v, const Bitset *old, const Bitset *wanted,
                   const Bitset *got, int error);

/* enforce-irq-say.c: irqbalance, and people */
int irq_ask_balancer(IrqEnforcer *e, const IrqWishes *wishes);
char *irq_guess_author(const IrqEnforcer *e, const IrqStatus *s); /* NULL: no idea */
int irq_say(IrqEnforcer *e, const IrqWishes *wishes);             /* sentences, one per device and kind */
