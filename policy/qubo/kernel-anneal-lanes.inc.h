/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel-anneal.inc.h includes once for each type of fields ANNEAL_INT, with ANNEAL_WEIGHT that of weights. */
typedef ANNEAL_INT ANNEAL_(AnnealV) __attribute__((vector_size(ANNEAL_VECTOR), may_alias));
typedef ANNEAL_INT ANNEAL_(AnnealLoose)
        __attribute__((vector_size(ANNEAL_VECTOR), aligned(sizeof(ANNEAL_INT)), may_alias));

/* Where the mask says so, w for a spin that becomes 1 and -w for one that becomes 0. */
ANNEAL_INLINE ANNEAL_(AnnealV) ANNEAL_(anneal_step)(ANNEAL_(AnnealV) spin, ANNEAL_(AnnealV) mask, ANNEAL_INT w) {
        return ((w ^ spin) - spin) & mask;
}

ANNEAL_INLINE void ANNEAL_(anneal_add)(ANNEAL_(AnnealV) * field, const uint32_t *col, size_t n, ANNEAL_(AnnealV) step) {
        for (; n >= 4; n -= 4, col += 4) {
                field[col[0]] += step;
                field[col[1]] += step;
                field[col[2]] += step;
                field[col[3]] += step;
        }
        for (; n > 0; n--, col++)
                field[*col] += step;
}

/* Offers a flip of each variable from..to - 1 in every lane; tells in how many some lane flipped. */
static uint32_t ANNEAL_(anneal_lanes)(AnnealLanes *a, uint32_t from, uint32_t to) {
        ANNEAL_(AnnealV) *spins = (ANNEAL_(AnnealV) *) a->spin, *field = (ANNEAL_(AnnealV) *) a->field;
        const ANNEAL_INT *threshold = (const ANNEAL_INT *) a->threshold;
        const ANNEAL_WEIGHT *weight = (const ANNEAL_WEIGHT *) a->rows->weight;
        const uint32_t *col = a->rows->col;
        const size_t *first = a->rows->first, *positive = a->rows->positive;
        const int32_t *same = a->rows->same;
        Rng rng = a->rng;
        uint32_t changed = 0, draw = a->draw;
        uint64_t bits = 0;

        for (uint32_t i = from; i < to; i++) {
                ANNEAL_(AnnealV) spin = spins[i], cost = (field[i] ^ spin) - spin, mask, step;
                size_t k = first[i];

                bits = (i - from) % 4 == 0 ? rng_next(&rng) : bits >> 16;
                mask = (ANNEAL_(AnnealV))(cost <=
                                          *(const ANNEAL_(AnnealLoose) *) (threshold + bits % ANNEAL_DRAWS * draw));
                if (!mask_any((MaskWords) mask))
                        continue;
                spins[i] = spin ^ mask;
                changed++;
                if (same[i] == 0) {
                        for (step = (spin | 1) & mask; k < first[i + 1]; k++)
                                field[col[k]] += ANNEAL_TIMES(step, spin, mask, (ANNEAL_INT) weight[k]);
                        continue;
                }
                step = ANNEAL_(anneal_step)(spin, mask, (ANNEAL_INT) same[i]);
                if (k < positive[i])
                        ANNEAL_(anneal_add)(field, col + k, positive[i] - k, -step);
                ANNEAL_(anneal_add)(field, col + positive[i], first[i + 1] - positive[i], step);
        }
        a->rng = rng;
        return changed;
}

/* Twice the energy of each lane, without the offset. */
static void ANNEAL_(anneal_energies)(const AnnealLanes *a, int64_t *ret) {
        enum { LANES = ANNEAL_VECTOR / sizeof(ANNEAL_INT) };
        const ANNEAL_INT *spin = (const ANNEAL_INT *) a->spin, *field = (const ANNEAL_INT *) a->field;
        const int32_t *linear = a->rows->linear;

        memset(ret, 0, LANES * sizeof(*ret));
        for (uint32_t i = 0; i < a->rows->n;) {
                ANNEAL_WIDE part[LANES] = {}; /* of so few variables that nothing overflows */
                uint32_t end = MIN(a->rows->n, i + 64);

                for (; i < end; i++, spin += LANES, field += LANES)
                        for (unsigned k = 0; k < LANES; k++)
                                part[k] += (ANNEAL_WIDE) (((ANNEAL_WIDE) field[k] + (ANNEAL_WIDE) linear[i]) &
                                                          (ANNEAL_WIDE) spin[k]);
                for (unsigned k = 0; k < LANES; k++)
                        ret[k] += part[k];
        }
}

ANNEAL_INLINE ANNEAL_INT ANNEAL_(anneal_threshold)(float v) {
        return (ANNEAL_INT) (v < ANNEAL_MOST ? v : ANNEAL_MOST);
}

/* floor(-T ln(u)), at most the largest value but one: a field of the largest never passes. */
static void ANNEAL_(anneal_thresholds)(void *to, const float *logs, size_t n, float t) {
        ANNEAL_INT *threshold = (ANNEAL_INT *) to;

        for (; n >= 32; n -= 32, threshold += 32, logs += 32)
                for (unsigned k = 0; k < 32; k++) /* of a known length: compilers make vectors of it */
                        threshold[k] = ANNEAL_(anneal_threshold)(logs[k] * t);
        for (size_t k = 0; k < n; k++)
                threshold[k] = ANNEAL_(anneal_threshold)(logs[k] * t);
}

/* the parameters */
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_MOST
#undef ANNEAL_TIMES
#undef ANNEAL_WEIGHT
#undef ANNEAL_WIDE
