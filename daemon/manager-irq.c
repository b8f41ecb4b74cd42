/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interrupts of the plan in force: after each change of the plan, and at each tick. Only jobs that were applied with
 * authority move interrupts, since those are everybody's. Where a plan has no CPUs for those of a rank's devices, the
 * roles of its threads keep some of the rank's own for them. With Interrupts=no nothing is wished, so that what was placed
 * before goes back. What could not be done is a sentence of the outcome: it is no reason to undo a placement.
 */
#include "common/log.h"
#include "daemon/manager-internal.h"
#include "daemon/readers/irq.h"

static bool is_confined(const Manager *m, const PlanTask *t) {
        const AppliedJob *j = job_store_find(m->jobs, strempty(t->job));

        return j && j->confined;
}

static bool has_vectors(const PlanTask *t, const Snapshot *s) {
        for (size_t i = 0; t->devices && t->devices[i]; i++) {
                const Device *d = snapshot_device(s, t->devices[i], NULL);
                _cleanup_free_ unsigned *irqs = NULL;
                size_t n = 0;

                if (d && d->pci && irq_vectors_of("", d->pci, &irqs, &n) >= 0 && n > 0)
                        return true;
        }
        return false;
}

void manager_mark_irqs(const Manager *m, Plan *plan, const Snapshot *s) {
        for (size_t i = 0; i < plan->n_tasks; i++) {
                PlanTask *t = &plan->tasks[i];

                t->irqs_within = m->config->interrupts && s && bitset_isempty(&t->irq_cpus) && !is_confined(m, t) &&
                                 has_vectors(t, s);
        }
}

/* What the plan keeps beside the ranks, else what enforcement kept of the rank's own. */
static const Bitset *irq_cpus(const PlanTask *t, const void *userdata) {
        const Manager *m = userdata;
        const RoleSplit *split = t->irqs_within ? enforcer_split(m->enforcer, t->process) : NULL;

        if (is_confined(m, t))
                return NULL;
        return split ? &split->irq_cpus : &t->irq_cpus;
}

static bool plan_has_job(const Plan *p, const char *job) {
        for (size_t i = 0; p && i < p->n_tasks; i++)
                if (streq(strempty(p->tasks[i].job), job))
                        return true;
        return false;
}

/* After a start jobs are in force before they are planned: what stands for them stays until then. A job that was planned
 * and is not in the plan has no ranks any more. */
static int add_waiting(Manager *m, const Plan *plan, IrqWishes *w) {
        for (size_t i = 0; i < m->jobs->n_jobs; i++) {
                const AppliedJob *j = m->jobs->jobs[i];
                const Scope *scope = manager_scope(m, job_scope(j), false);

                if (!j->confined && (!scope || !scope->planned) && !plan_has_job(plan, j->job->name) &&
                    strv_extend(&w->waiting, j->job->name) < 0)
                        return -ENOMEM;
        }
        return 0;
}

static int make_wishes(Manager *m, const Plan *plan, const Snapshot *s, IrqWishes *ret) {
        int r = 0;

        *ret = (IrqWishes){};
        if (!m->config->interrupts)
                return 0;
        if (plan && s)
                r = irq_wishes_from_plan(plan, s, irq_cpus, m, ret);
        return r < 0 ? r : add_waiting(m, s ? plan : NULL, ret);
}

void manager_place_irqs(Manager *m, const Plan *plan, const Snapshot *s, Outcome *outcome) {
        IrqWishes wishes = {};
        Outcome one = {};
        int r;

        r = make_wishes(m, plan, s, &wishes);
        if (r >= 0)
                r = enforce_irqs(m->irqs, &wishes, &one);
        if (r >= 0 || one.n_changes > 0 || one.messages)
                (void) outcome_absorb(outcome, &one);
        if (r < 0)
                (void) strv_extendf(&outcome->messages, "Interrupts could not be looked at: %s", strerror(-r));
        outcome_done(&one);
        irq_wishes_done(&wishes);
}

void manager_restore_irqs(Manager *m, Outcome *outcome) {
        Outcome one = {};
        int r;

        r = enforce_irqs(m->irqs, NULL, &one);
        (void) outcome_absorb(outcome, &one);
        if (r < 0)
                (void) strv_extendf(&outcome->messages, "Interrupts could not be put back: %s", strerror(-r));
        outcome_done(&one);
}

void manager_recover_irqs(Manager *m) {
        Outcome one = {};
        int r;

        r = enforce_irqs_recover(m->irqs, &one);
        manager_log_outcome(m, &one, "not committed when the daemon ended");
        outcome_done(&one);
        if (r < 0)
                (void) log_warning_errno(r, "Failed to undo changes of interrupts that were not committed: %m");
}
