/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/qubo/polish.h"

/* Tells twice the energy, without the offset; false: the limit is hit. */
static bool load_fields(const Qubo *q, Limit *l, const uint8_t *x, int64_t *field, int64_t *ret) {
        *ret = 0;
        for (uint32_t i = 0; i < q->n; i++)
                field[i] = q->linear[i];
        for (uint32_t i = 0; i < q->n; i++) {
                if (!x[i])
                        continue;
                qubo_add_couplings(q, i, 1, field);
                if (limit_work(l, q->row[i + 1] - q->row[i]))
                        return false;
        }
        for (uint32_t i = 0; i < q->n; i++)
                if (x[i])
                        *ret += q->linear[i] + field[i];
        return true;
}

static int64_t descend(const Qubo *q, Limit *l, uint8_t *x, int64_t *field, int64_t energy, uint64_t *flips) {
        bool better = true;

        while (better && !limit_work(l, q->n)) {
                better = false;
                for (uint32_t i = 0; i < q->n; i++) {
                        int64_t d = x[i] ? -field[i] : field[i];

                        if (d >= 0)
                                continue;
                        qubo_add_couplings(q, i, x[i] ? -1 : 1, field);
                        x[i] ^= 1;
                        energy += d;
                        better = true;
                        if (limit_work(l, q->row[i + 1] - q->row[i]))
                                return energy;
                }
                *flips += q->n;
        }
        return energy;
}

void polish(Best *b, Limit *l, uint8_t *x, int64_t *field, uint64_t *flips) {
        int64_t twice;

        if (load_fields(b->q, l, x, field, &twice))
                best_offer(b, l, x, descend(b->q, l, x, field, b->q->offset + twice / 2, flips));
}
