/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel-anneal.inc.h includes once for each type of fields ANNEAL_INT, with ANNEAL_WEIGHT that of weights. */
typedef ANNEAL_INT ANNEAL_(AnnealV) __attribute__((vector_size(ANNEAL_VECTOR), may_alias));
typedef ANNEAL_INT ANNEAL_(AnnealLoose)
        __attribute__((vector_size(ANNEAL_VECTOR), aligned(sizeof(ANNEAL_INT)), may_alias));

/* Where the mask says so, w for a spin that becomes 1 and -w for one that becomes 0: no type has all kinds of products. */
ANNEAL_INLINE ANNEAL_(AnnealV) ANNEAL_(anneal_step)(ANNEAL_(AnnealV) spin, ANNEAL_(AnnealV) mask, ANNEAL_INT w) {
        return ((w ^ spin) - spin) & mask;
}

ANNEAL_INLINE void ANNEAL_(anneal_spread)(const AnnealLanes *a, uint32_t i, ANNEAL_(AnnealV) spin,
                                          ANNEAL_(AnnealV) mask) {
        const Rows *r = a->rows;
        ANNEAL_(AnnealV) *field = (ANNEAL_(AnnealV) *) a->field;
        const ANNEAL_WEIGHT *weight = (const ANNEAL_WEIGHT *) r->weight;
        size_t k = r->first[i], positive = r->positive[i], end = r->first[i + 1];

        if (r->same[i] != 0) {
                ANNEAL_(AnnealV) step = ANNEAL_(anneal_step)(spin, mask, (ANNEAL_INT) r->same[i]);

                for (; k < positive; k++)
                        field[r->col[k]] -= step;
                for (; k < end; k++)
                        field[r->col[k]] += step;
                return;
        }
        for (; k < end; k++)
                field[r->col[k]] += ANNEAL_(anneal_step)(spin, mask, (ANNEAL_INT) weight[k]);
}

/* Offers a flip of each variable from..to - 1 in every lane; tells in how many some lane flipped. */
static uint32_t ANNEAL_(anneal_lanes)(AnnealLanes *a, uint32_t from, uint32_t to) {
        ANNEAL_(AnnealV) *spins = (ANNEAL_(AnnealV) *) a->spin;
        const ANNEAL_(AnnealV) *field = (const ANNEAL_(AnnealV) *) a->field;
        const ANNEAL_INT *threshold = (const ANNEAL_INT *) a->threshold;
        Rng rng = a->rng;
        uint32_t changed = 0;
        uint64_t bits = 0;

        for (uint32_t i = from; i < to; i++) {
                ANNEAL_(AnnealV) spin = spins[i], cost = (field[i] ^ spin) - spin, mask;

                bits = (i - from) % 4 == 0 ? rng_next(&rng) : bits >> 16;
                mask = (ANNEAL_(AnnealV))(cost <=
                                          *(const ANNEAL_(AnnealLoose) *) (threshold + bits % ANNEAL_DRAWS * a->draw));
                if (!anneal_any((AnnealWords) mask))
                        continue;
                spins[i] = spin ^ mask;
                ANNEAL_(anneal_spread)(a, i, spin, mask);
                changed++;
        }
        a->rng = rng;
        return changed;
}
