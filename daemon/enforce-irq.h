/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts of devices -> the CPUs that the plan keeps for them, and back. A wish names a PCI function and CPUs; all its
 * message-signalled vectors go there. Each write is noted in the undo journal first and read back at once; where the
 * vector really goes is known at its next interrupt, until then it is pending, and the next call looks again.
 *
 * A call makes things as wished: what is wished no more is put back. So apply, tick, revert and stop are one function.
 * A mask that is neither ours nor what we found is somebody else's: told, and left alone or not by the policy for drift
 * (enforce-drift.h). A vector that the kernel manages
 * itself is told and not tried again. irqbalance is asked by its socket to leave our vectors alone, never stopped.
 */
#pragma once

#include "daemon/enforce.h"
#include "daemon/undo.h"
#include "policy/plan.h"

typedef enum IrqState {
        IRQ_OK,
        IRQ_PENDING, /* written; it has not fired since, so it still goes where it went */
        IRQ_DRIFT,   /* somebody else changed the mask */
        IRQ_FIXED,   /* managed by the kernel: it cannot be changed */
        IRQ_FAILED,  /* could not be written, or goes elsewhere although it has fired: error and effective tell */
        _IRQ_MAX
} IrqState;
extern const char *const irq_state_names[];

typedef struct IrqWish {
        char *job, *device, *pci;
        Bitset cpus;  /* where its vectors shall go */
        Bitset spare; /* when these have no vector free: CPUs of the same node that no rank has, */
        Bitset node;  /* then any of it */
} IrqWish;

typedef struct IrqWishes {
        IrqWish *wishes; /* one per PCI function */
        size_t n_wishes;
        char **waiting; /* jobs that are in force but not planned yet: what was done for them stays */
} IrqWishes;

/* Where the interrupts of a task's devices shall go; NULL or empty: it has no wish. */
typedef const Bitset *(*IrqCpus)(const PlanTask *t, const void *userdata);
/* Of a plan's tasks that have a process; cpus NULL: where the plan says. */
int irq_wishes_from_plan(const Plan *plan, const Snapshot *s, IrqCpus cpus, const void *userdata, IrqWishes *ret);
void irq_wishes_done(IrqWishes *w);

typedef struct IrqStatus { /* one vector, as the last call found and left it */
        unsigned irq;
        char *job, *device, *pci, *name;
        Bitset wanted, affinity, effective; /* effective: empty where the kernel does not tell */
        IrqState state;
        bool spilled; /* no vector was free on the wanted CPUs: it is on others of the node */
        int error;    /* IRQ_FAILED, positive errno */
        char *author; /* IRQ_DRIFT: who it may have been; NULL no idea */
        DriftAct act; /* what was done about drift by this call; DRIFT_NONE: there was none */
        Bitset found; /* DRIFT_WRITTEN: where it was */
} IrqStatus;

typedef struct IrqEnforcer IrqEnforcer;

int irq_enforcer_new(Undo *undo, const char *root, IrqEnforcer **ret); /* undo is borrowed */
IrqEnforcer *irq_enforcer_free(IrqEnforcer *e);
DEFINE_CLEANUP(IrqEnforcer *, irq_enforcer_free);

/* For the calls to come. DRIFT_REPORT, as at first, in all but a tick's: an order leaves alone what is others'. */
void irq_enforcer_set_drift(IrqEnforcer *e, DriftPolicy policy);

/* wishes NULL: none, all is put back. 0 also when single vectors refused (see the outcome, which the caller ends by
 * outcome_done()); negative errno when nothing could be noted, and what was changed is put back. */
int enforce_irqs(IrqEnforcer *e, const IrqWishes *wishes, Outcome *ret);
/* At start: undoes what was not committed. */
int enforce_irqs_recover(IrqEnforcer *e, Outcome *ret);

const IrqStatus *irq_status(const IrqEnforcer *e, size_t i); /* NULL: no more */
/* [{"irq":41,"device":"npu0","pci":…,"name":…,"job":…,"state":"ok","wanted":"3","affinity":"3","effective":"3",…}] */
int irq_statuses_to_json(const IrqEnforcer *e, json_t **ret);
