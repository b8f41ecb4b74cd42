/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel-anneal.inc.h includes once for each pair of types of fields and weights. */
#define DENSE_LANES (ANNEAL_VECTOR / sizeof(ANNEAL_INT))
typedef ANNEAL_INT ANNEAL_(DenseV) __attribute__((vector_size(ANNEAL_VECTOR), may_alias));
typedef ANNEAL_INT ANNEAL_(DenseLoose)
        __attribute__((vector_size(ANNEAL_VECTOR), aligned(sizeof(ANNEAL_INT)), may_alias));
typedef ANNEAL_WEIGHT ANNEAL_(DenseW) __attribute__((vector_size(DENSE_LANES * sizeof(ANNEAL_WEIGHT)), may_alias));

ANNEAL_INLINE uint32_t ANNEAL_(dense_pass)(const ANNEAL_(DenseV) * field, const ANNEAL_(DenseV) * spin,
                                           const ANNEAL_INT *threshold) {
        ANNEAL_(DenseV) cost = (*field ^ *spin) - *spin;

        return mask_bits((MaskWords) (cost <= *(const ANNEAL_(DenseLoose) *) threshold), sizeof(ANNEAL_INT));
}

/* Offers flips to the vectors from..to - 1 of variables; tells how many flipped. */
static uint32_t ANNEAL_(anneal_dense)(AnnealDense *a, uint32_t from, uint32_t to) {
        ANNEAL_(DenseV) *field = (ANNEAL_(DenseV) *) a->field, *spin = (ANNEAL_(DenseV) *) a->spin;
        const ANNEAL_INT *threshold = (const ANNEAL_INT *) a->threshold;
        size_t vectors = a->stride / DENSE_LANES;
        uint32_t flipped = 0;
        uint64_t bits = 0;
        Rng rng = a->rng;

        for (uint32_t v = from; v < to; v++) {
                const ANNEAL_INT *draw;

                bits = (v - from) % 4 == 0 ? rng_next(&rng) : bits >> 16;
                draw = threshold + bits % ANNEAL_DRAWS;
                for (uint32_t pass = ANNEAL_(dense_pass)(field + v, spin + v, draw); pass != 0;) {
                        unsigned at = (unsigned) __builtin_ctz(pass);
                        size_t i = v * DENSE_LANES + at / sizeof(ANNEAL_INT);
                        ANNEAL_INT *x = (ANNEAL_INT *) a->spin + i, was = *x;
                        const ANNEAL_(DenseW) *w = (const ANNEAL_(DenseW) *) ((const ANNEAL_WEIGHT *) a->weight +
                                                                              i * a->stride);

                        *x = (ANNEAL_INT) ~was;
                        a->energy += (((const ANNEAL_INT *) a->field)[i] ^ was) - was;
                        flipped++;
                        for (size_t k = 0; k < vectors; k++)
                                field[k] += (__builtin_convertvector(w[k], ANNEAL_(DenseV)) ^ was) - was;
                        pass = ANNEAL_(dense_pass)(field + v, spin + v, draw) & (UINT32_MAX << at << 1);
                }
        }
        a->rng = rng;
        return flipped;
}
#undef DENSE_LANES
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT
