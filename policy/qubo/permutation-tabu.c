/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Robust tabu search (Taillard 1991): the best exchange of two items after which not both of them are where they
 * were a while ago, or which gives the best cost of this search. How long an item may not return to a place is drawn
 * anew each time, mostly short and seldom long (8 n u^3 with u from 0 to 1, as in Taillard's later program).
 */
#include "policy/qubo/permutation.h"

#define TENURE 8U
#define STEPS_MAX (UINT64_C(1) << 30) /* numbers of steps fit into the kernels' lanes */

static uint32_t tenure(QapWalk *w) {
        uint64_t u = qap_random(w) >> 12; /* 20 bits; the cube has 60 */

        return (uint32_t) (((u * u * u) >> 30) * TENURE * w->n >> 30) + 2;
}

/* None is open: any pair will do. */
static void any_pair(Permutation *t, uint32_t *ret_u, uint32_t *ret_v) {
        QapWalk *w = &t->w;

        *ret_u = rng_scale(qap_random(w), w->n);
        *ret_v = rng_scale(qap_random(w), w->n - 1);
        *ret_v += *ret_v >= *ret_u;
        w->gain = permutation_gain(t, *ret_u, *ret_v);
}

static int64_t keep(Permutation *t, uint32_t *place) {
        memcpy(place, t->w.place, t->w.n * sizeof(*place));
        permutation_offer(t);
        return t->w.energy;
}

int64_t permutation_tabu(Permutation *t, uint64_t patience, uint32_t *place) {
        QapWalk *w = &t->w;
        int64_t best = INT64_MAX;

        w->aspired = w->energy;
        for (uint64_t since = 0; since < patience && w->n > 1 && w->now < STEPS_MAX && !permutation_over(t); since++) {
                uint32_t u = w->u, v = w->v, tenure_v, tenure_u;

                if (u == v)
                        any_pair(t, &u, &v);
                if (w->gain >= 0 && w->energy < best)
                        best = keep(t, place); /* when it leaves upwards, not on the way down */
                /* Not as arguments of the call: the order in which those would be drawn is the compiler's. */
                tenure_v = tenure(w);
                tenure_u = tenure(w);
                permutation_step(t, u, v, tenure_u, tenure_v);
                if (w->energy < w->aspired) {
                        w->aspired = w->energy;
                        since = 0;
                }
        }
        return w->energy < best ? keep(t, place) : best;
}
