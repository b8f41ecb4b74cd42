/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model said in other numbers: with costs moved between choices and pairs of choices so that the minima alone, each
 * for itself, say as much as they can of the optimum. See dual.c.
 */
#pragma once

#include "policy/qubo/frame.h"

/* All items are groups: of a variable without a group, the choices are to hold it and not to. */
typedef struct Dual {
        const Frame *of;
        Frame *f; /* items in the order of of */
        Qubo *q;
        int64_t scale; /* energy of q = scale * energy of the model, for each feasible point */
} Dual;

/* Raises *bound (as it is, not scaled), and makes the model if it is then not below least. *ret stays NULL where there is no need of it, as the bound has reached the energy of a
 * point, and where a model is too large or the limit is hit. */
int dual_new(const Frame *f, Limit *l, int64_t least, int64_t energy, uint64_t max_steps, int64_t *bound,
             uint64_t *steps, Dual **ret);
Dual *dual_free(Dual *d);
DEFINE_CLEANUP(Dual *, dual_free);
/* What the original model holds where the dual's item holds v. */
static inline uint32_t dual_held(const Dual *d, uint32_t item, uint32_t v) {
        const Frame *of = d->of;
        uint32_t i = v - d->f->first[item];

        return i < of->size[item] ? of->first[item] + i : ITEM_NOTHING;
}
