/* SPDX-License-Identifier: Apache-2.0 */
/*
 * irqbalance is spoken with when there is another one, or when our vectors are others, than at the last call: not at
 * each tick. What it answers is kept, to tell afterwards whether it moved a vector although it was asked not to. Then the
 * sentences: one per device and kind, the same at each call while it stays so; whoever logs says them once.
 */
#include <errno.h>

#include "daemon/enforce-internal.h"
#include "daemon/enforce-irq-internal.h"
#include "daemon/readers/irqbalance.h"

/* Bans that were ours and whose vectors are wished no more; new vectors that others have not banned become ours. */
static int sort_bans(IrqEnforcer *e, const IrqWishes *wishes, const Bitset *theirs, Bitset *ret_remove) {
        int r = 0;

        for (size_t i = 0; r >= 0 && i < e->n_vectors; i++) {
                Vector *v = &e->vectors[i];

                if (v->wish)
                        v->banned |= !bitset_test(theirs, v->status.irq);
                else if (v->banned && !irq_is_waiting(wishes, v))
                        r = bitset_set(ret_remove, v->status.irq);
        }
        return r;
}

static int ask(IrqEnforcer *e, const IrqWishes *wishes, const Irqbalance *b) {
        _cleanup_(bitset_done) Bitset theirs = BITSET_EMPTY, remove = BITSET_EMPTY;
        int r = irqbalance_bans(e->root, b, &theirs);

        if (r >= 0)
                r = sort_bans(e, wishes, &theirs, &remove);
        if (r >= 0)
                r = irqbalance_ban(e->root, b, &e->mine, &remove, &e->banned);
        if (r == -ENOMEM)
                return r;
        e->balancer = b->pid;
        e->balancer_error = r < 0 ? -r : 0;
        if (r < 0)
                bitset_zero(&e->banned);
        return bitset_copy(&e->asked, &e->mine);
}

int irq_ask_balancer(IrqEnforcer *e, const IrqWishes *wishes) {
        bool others = !bitset_equal(&e->mine, &e->asked);
        Irqbalance b = {};
        bool noted = false;
        int r;

        for (size_t i = 0; i < e->n_vectors; i++)
                noted |= e->vectors[i].noted && e->vectors[i].banned && !e->vectors[i].wish;
        if (!others && !noted && bitset_isempty(&e->mine))
                return 0;
        r = irqbalance_find(e->root, others, &b);
        if (r <= 0) {
                if (others || e->balancer_file) {
                        e->balancer = 0;
                        e->balancer_error = 0;
                        bitset_zero(&e->banned);
                }
                return r == -ENOMEM ? r : bitset_copy(&e->asked, &e->mine);
        }
        e->balancer_file = !b.abstract;
        if (b.pid == e->balancer && !others && !noted)
                return 0;
        return ask(e, wishes, &b);
}

/* Nobody signs a mask: the one who is known to write them, or the kernel when the CPUs went away. */
char *irq_guess_author(const IrqEnforcer *e, const IrqStatus *s) {
        pid_t pid = e->balancer;
        char *author = NULL;

        if (!bitset_intersects(&s->wanted, &e->online))
                return strdup("the kernel, since these CPUs are offline,");
        if (pid == 0 && irqbalance_running(e->root, &pid) <= 0)
                return NULL;
        if (asprintf(&author, "irqbalance (pid %d)%s", (int) pid,
                     bitset_test(&e->banned, s->irq) ? " although the vector is banned from it" : "") < 0)
                return NULL;
        return author;
}

typedef struct Count { /* of the vectors of one device */
        unsigned n, fixed, spilled, drift, failed;
        const IrqStatus *first_spilled, *first_drift, *first_failed;
} Count;

static void count_vector(Count *c, const IrqStatus *s) {
        c->n++;
        c->fixed += s->state == IRQ_FIXED;
        if (s->spilled && c->spilled++ == 0)
                c->first_spilled = s;
        if ((s->state == IRQ_DRIFT || s->act != DRIFT_NONE) && c->drift++ == 0)
                c->first_drift = s;
        if (s->state == IRQ_FAILED && c->failed++ == 0)
                c->first_failed = s;
}

static int say_fixed(char ***messages, const IrqWish *w, const Count *c) {
        return strv_extendf(messages,
                            "%s: %s: %u of its %u interrupt vectors are managed by the kernel and stay where they are",
                            w->job, w->device, c->fixed, c->n);
}

static int say_spilled(char ***messages, const IrqWish *w, const Count *c) {
        _cleanup_free_ char *wanted = NULL, *got = NULL;
        int r = bitset_format(&c->first_spilled->wanted, &wanted);

        if (r >= 0)
                r = bitset_format(&c->first_spilled->affinity, &got);
        return r < 0 ? r
                     : strv_extendf(
                               messages,
                               "%s: %s: CPUs %s have no vectors free for %u of its %u interrupts: they are on other "
                               "CPUs of the node (%u on %s)",
                               w->job, w->device, wanted, c->spilled, c->n, c->first_spilled->irq, got);
}

static int say_drift(char ***messages, const IrqWish *w, const Count *c) {
        static const char *const ends[_DRIFT_ACT_MAX] = {
                [DRIFT_WRITTEN] = "written again (Drift=reassert)",
                [DRIFT_GIVEN_UP] = "written again and again, and moved again each time: left alone now",
                [DRIFT_YIELDED] = "left to them (Drift=yield) until the job is applied again",
        };
        const IrqStatus *s = c->first_drift;
        _cleanup_free_ char *wanted = NULL, *got = NULL;
        int r = bitset_format(&s->wanted, &wanted);

        if (r >= 0)
                r = bitset_format(s->act == DRIFT_WRITTEN ? &s->found : &s->affinity, &got);
        return r < 0 ? r
                     : strv_extendf(messages,
                                    "%s: %s: %s%s has moved %u of its %u interrupts (%u %s %s on CPUs %s, not on %s): "
                                    "%s",
                                    w->job, w->device, s->author ? "probably " : "",
                                    s->author ? s->author : "somebody else", c->drift, c->n, s->irq, s->name,
                                    s->act == DRIFT_WRITTEN ? "was" : "is", got, wanted, ends[s->act] ?: "left alone");
}

static int say_failed(char ***messages, const IrqWish *w, const Count *c) {
        const IrqStatus *s = c->first_failed;
        _cleanup_free_ char *wanted = NULL, *effective = NULL;
        int r = bitset_format(&s->wanted, &wanted);

        if (r >= 0)
                r = bitset_format(&s->effective, &effective);
        if (r < 0)
                return r;
        if (s->error == 0)
                return strv_extendf(
                        messages,
                        "%s: %s: %u of its %u interrupts were given CPUs %s and go elsewhere all the same (%u "
                        "to %s)",
                        w->job, w->device, c->failed, c->n, wanted, s->irq, effective);
        return strv_extendf(messages, "%s: %s: %u of its %u interrupts cannot be given CPUs %s: /proc/irq/%u/%s: %s",
                            w->job, w->device, c->failed, c->n, wanted, s->irq, "smp_affinity_list",
                            strerror(s->error));
}

static int say_device(IrqEnforcer *e, const IrqWish *w, const Count *c) {
        char ***m = &e->outcome->messages;
        int r = c->fixed ? say_fixed(m, w, c) : 0;

        if (r >= 0 && c->spilled)
                r = say_spilled(m, w, c);
        if (r >= 0 && c->drift)
                r = say_drift(m, w, c);
        return r < 0 || !c->failed ? r : say_failed(m, w, c);
}

static int say_balancer(IrqEnforcer *e) {
        unsigned n = bitset_weight(&e->asked), left = n - bitset_and_weight(&e->asked, &e->banned);

        if (e->balancer == 0 || left == 0)
                return 0;
        if (e->balancer_error)
                return strv_extendf(&e->outcome->messages,
                                    "irqbalance (pid %d) could not be asked to leave %u interrupts alone (%s): it may "
                                    "move them; start it with --banirq= for each, or a policy script",
                                    (int) e->balancer, n, strerror(e->balancer_error));
        return strv_extendf(&e->outcome->messages,
                            "irqbalance (pid %d) takes no more than %u of %u interrupts into its list of bans: it may "
                            "move the others; start it with --banirq= for each, or a policy script",
                            (int) e->balancer, n - left, n);
}

int irq_say(IrqEnforcer *e, const IrqWishes *wishes) {
        int r = 0;

        for (size_t i = 0; r >= 0 && wishes && i < wishes->n_wishes; i++) {
                const IrqWish *w = &wishes->wishes[i];
                Count c = {};

                for (size_t k = 0; k < e->n_vectors; k++)
                        if (e->vectors[k].wish == w)
                                count_vector(&c, &e->vectors[k].status);
                r = say_device(e, w, &c);
        }
        return r < 0 ? r : say_balancer(e);
}
