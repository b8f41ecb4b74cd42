/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/qubo/polish.h"

static void load_fields(const Qubo *q, const uint8_t *x, int64_t *field) {
        for (uint32_t i = 0; i < q->n; i++)
                field[i] = q->linear[i];
        for (uint32_t i = 0; i < q->n; i++)
                if (x[i])
                        qubo_add_couplings(q, i, 1, field);
}

int64_t polish(const Qubo *q, Limit *l, uint8_t *x, int64_t *field, uint64_t *flips) {
        int64_t energy = qubo_energy(q, x);
        bool better = true;

        load_fields(q, x, field);
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
