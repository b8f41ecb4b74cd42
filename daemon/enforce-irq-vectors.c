/* SPDX-License-Identifier: Apache-2.0 */
/* The list of vectors: those that the journal knows, those of before, and those that a wish's function has now. A vector
 * is known by its function and number; with another handler's name it is another one, and what was noted of it is void. */
#include <errno.h>

#include "daemon/enforce-irq-internal.h"

void irq_vector_done(Vector *v) {
        IrqStatus *s = &v->status;

        free(s->job);
        free(s->device);
        free(s->pci);
        free(s->name);
        free(s->author);
        bitset_done(&s->wanted);
        bitset_done(&s->affinity);
        bitset_done(&s->effective);
        bitset_done(&s->found);
        bitset_done(&v->ours);
        bitset_done(&v->before);
        bitset_done(&v->old);
        bitset_done(&v->full);
}

static int set_text(char **to, const char *from) {
        char *s;

        if (*to && streq(*to, strempty(from)))
                return 0;
        s = strdup(strempty(from));
        if (!s)
                return -ENOMEM;
        free(*to);
        *to = s;
        return 0;
}

Vector *irq_vector_find(IrqEnforcer *e, const char *pci, unsigned irq) {
        for (size_t i = 0; i < e->n_vectors; i++)
                if (e->vectors[i].status.irq == irq && streq(e->vectors[i].status.pci, pci))
                        return &e->vectors[i];
        return NULL;
}

int irq_vector_add(IrqEnforcer *e, const char *pci, unsigned irq, const char *name, Vector **ret) {
        Vector *n = reallocarray(e->vectors, e->n_vectors + 1, sizeof(*n)), *v;

        if (!n)
                return -ENOMEM;
        e->vectors = n;
        v = &n[e->n_vectors];
        *v = (Vector){ .status = { .irq = irq, .state = IRQ_PENDING, .pci = strdup(pci), .name = strdup(name) } };
        if (!v->status.pci || !v->status.name) {
                irq_vector_done(v);
                return -ENOMEM;
        }
        e->n_vectors++;
        *ret = v;
        return 0;
}

/* The vector of a wish: known from before, or new. One whose handler has another name since is another vector. */
static int meet_vector(IrqEnforcer *e, const IrqWish *w, unsigned irq) {
        Vector *v = irq_vector_find(e, w->pci, irq);
        const IrqLine *line = NULL;
        int r = 0;

        if (!v || e->table_read) {
                r = irq_table_once(e, false);
                line = r < 0 ? NULL : irq_table_find(&e->table, irq);
        }
        if (r >= 0 && !v)
                r = irq_vector_add(e, w->pci, irq, line ? line->name : "", &v);
        else if (line && *line->name && !streq(line->name, v->status.name)) {
                if (v->noted)
                        irq_forget(e, v);
                v->status.state = IRQ_PENDING;
                v->counted = false;
                bitset_zero(&v->full);
                r = set_text(&v->status.name, line->name);
        }
        if (r >= 0)
                r = set_text(&v->status.job, w->job);
        if (r >= 0)
                r = set_text(&v->status.device, w->device);
        if (r >= 0)
                r = bitset_copy(&v->status.wanted, &w->cpus);
        if (r < 0)
                return r;
        v->wish = w;
        return bitset_set(&e->mine, irq);
}

int irq_meet_wishes(IrqEnforcer *e, const IrqWishes *wishes) {
        int r = 0;

        for (size_t i = 0; r >= 0 && wishes && i < wishes->n_wishes; i++) {
                _cleanup_free_ unsigned *irqs = NULL;
                size_t n;

                r = irq_vectors_of(e->root, wishes->wishes[i].pci, &irqs, &n);
                for (size_t k = 0; r >= 0 && k < n; k++)
                        r = meet_vector(e, &wishes->wishes[i], irqs[k]);
        }
        return r;
}
