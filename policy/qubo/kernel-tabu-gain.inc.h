/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel-tabu.inc.h includes once for each type of gains. */
#define TABU_LANES (TABU_VECTOR / sizeof(TABU_GAIN))
#define TABU_VECTORS (TABU_BLOCK / TABU_LANES) /* of a block */
typedef TABU_GAIN TABU_(TabuV) __attribute__((vector_size(TABU_VECTOR), may_alias));

TABU_INLINE TABU_(TabuV) TABU_(tabu_min)(TABU_(TabuV) a, TABU_(TabuV) b) {
#ifdef TABU_MIN
        return TABU_MIN(a, b);
#else
        TABU_(TabuV) less = a < b;

        return (a & less) | (b & ~less);
#endif
}

TABU_INLINE TABU_(TabuV) TABU_(tabu_max)(TABU_(TabuV) a, TABU_(TabuV) b) {
#ifdef TABU_MAX
        return TABU_MAX(a, b);
#else
        TABU_(TabuV) more = a > b;

        return (a & more) | (b & ~more);
#endif
}

TABU_INLINE TABU_GAIN TABU_(tabu_least)(TABU_(TabuV) v) {
#ifdef TABU_LEAST_OF
        return TABU_LEAST_OF(v);
#else
        TABU_GAIN least = v[0];

        for (unsigned k = 1; k < TABU_LANES; k++)
                least = v[k] < least ? v[k] : least;
        return least;
#endif
}

TABU_INLINE TABU_(TabuV) TABU_(tabu_all)(TABU_GAIN v) {
        return v - (TABU_(TabuV)){};
}

/* What is common to all steps: i flips, others open, and i is closed. */
TABU_INLINE void TABU_(tabu_turn)(TabuWalk *w, uint32_t i, uint32_t tenure) {
        TABU_GAIN *gain = (TABU_GAIN *) w->gain, *ones = (TABU_GAIN *) w->ones, *closed = (TABU_GAIN *) w->closed;
        uint32_t *now;

        w->energy += gain[i];
        gain[i] = (TABU_GAIN) -gain[i];
        ones[i] = (TABU_GAIN) ~ones[i];
        w->x[i] ^= 1;
        now = &w->slot[++w->now % TABU_SLOTS];
        for (uint32_t k = *now; k != TABU_NONE; k = w->next[k]) {
                closed[k] = TABU_LEAST;
                w->touched[k / TABU_BLOCK / 64] |= UINT64_C(1) << k / TABU_BLOCK % 64;
        }
        *now = TABU_NONE;
        if (tenure > 0 && closed[i] == TABU_LEAST) {
                now = &w->slot[(w->now + tenure) % TABU_SLOTS];
                w->next[i] = *now;
                *now = i;
        }
        closed[i] = TABU_MOST;
}

/* Bits of the lanes of a vector of block b in which the value is `least`: of open variables, or of all. */
TABU_INLINE uint32_t TABU_(tabu_holders)(const TabuWalk *w, size_t v, TABU_GAIN least, bool all) {
        TABU_(TabuV) gain = ((const TABU_(TabuV) *) w->gain)[v];

        if (!all)
                gain = TABU_(tabu_max)(gain, ((const TABU_(TabuV) *) w->closed)[v]);
        return mask_bits((MaskWords) (gain == TABU_(tabu_all)(least)), sizeof(TABU_GAIN));
}

/* A variable of block b that has the value, from a random vector and lane on; TABU_NONE: there is none. */
TABU_INLINE uint32_t TABU_(tabu_in_block)(const TabuWalk *w, uint32_t b, uint32_t random, TABU_GAIN least, bool all) {
        for (unsigned k = 0; k < TABU_VECTORS; k++) {
                size_t v = (size_t) b * TABU_VECTORS + (k + random) % TABU_VECTORS;
                uint32_t bits = TABU_(tabu_holders)(w, v, least, all), turn = random / TABU_VECTORS % TABU_LANES;

                if (bits != 0) {
                        uint32_t after = bits >> turn * sizeof(TABU_GAIN) << turn * sizeof(TABU_GAIN);

                        return (uint32_t) (v * TABU_LANES) +
                               (uint32_t) __builtin_ctz(after != 0 ? after : bits) / (uint32_t) sizeof(TABU_GAIN);
                }
        }
        return TABU_NONE;
}

TABU_INLINE uint32_t TABU_(tabu_holder)(TabuWalk *w, TABU_GAIN least) {
        const TABU_(TabuV) *low = (const TABU_(TabuV) *) w->low;
        uint32_t random = tabu_random(w), b = rng_scale(random, w->blocks);

        while (mask_bits((MaskWords) (low[b] == TABU_(tabu_all)(least)), sizeof(TABU_GAIN)) == 0)
                b = b + 1 < w->blocks ? b + 1 : 0;
        return TABU_(tabu_in_block)(w, b, random, least, false);
}

/* Seldom: a closed variable that is better than all that are open. */
static __attribute__((noinline)) uint32_t TABU_(tabu_aspire)(TabuWalk *w, TABU_GAIN least) {
        uint32_t random = tabu_random(w), b = rng_scale(random, w->blocks), found;

        for (;;) {
                found = TABU_(tabu_in_block)(w, b, random, least, true);
                if (found != TABU_NONE)
                        return found;
                b = b + 1 < w->blocks ? b + 1 : 0;
        }
}

TABU_INLINE uint32_t TABU_(tabu_choose)(TabuWalk *w, TABU_GAIN open, TABU_GAIN all) {
        if (all < 0 && all < open && w->energy + all < w->aspired) {
                w->cost = all;
                return TABU_(tabu_aspire)(w, all);
        }
        w->cost = open;
        return open == TABU_MOST ? TABU_NONE : TABU_(tabu_holder)(w, open);
}

TABU_INLINE void TABU_(tabu_look_at)(const TabuWalk *w, uint32_t b) {
        const TABU_(TabuV) *gain = (const TABU_(TabuV) *) w->gain + (size_t) b * TABU_VECTORS,
                           *closed = (const TABU_(TabuV) *) w->closed + (size_t) b * TABU_VECTORS;
        TABU_(TabuV) low = TABU_(tabu_max)(gain[0], closed[0]), lowest = gain[0];

        for (unsigned k = 1; k < TABU_VECTORS; k++) {
                low = TABU_(tabu_min)(low, TABU_(tabu_max)(gain[k], closed[k]));
                lowest = TABU_(tabu_min)(lowest, gain[k]);
        }
        ((TABU_(TabuV) *) w->low)[b] = low;
        ((TABU_(TabuV) *) w->lowest)[b] = lowest;
}

TABU_INLINE uint32_t TABU_(tabu_choose_by_block)(TabuWalk *w) {
        const TABU_(TabuV) *low = (const TABU_(TabuV) *) w->low, *lowest = (const TABU_(TabuV) *) w->lowest;
        TABU_(TabuV) open = low[0], all = lowest[0];

        for (uint32_t b = 1; b < w->blocks; b++) {
                open = TABU_(tabu_min)(open, low[b]);
                all = TABU_(tabu_min)(all, lowest[b]);
        }
        return TABU_(tabu_choose)(w, TABU_(tabu_least)(open), TABU_(tabu_least)(all));
}

static uint32_t TABU_(tabu_look)(TabuWalk *w) {
        for (uint32_t b = 0; b < w->blocks; b++)
                TABU_(tabu_look_at)(w, b);
        return TABU_(tabu_choose_by_block)(w);
}

static uint32_t TABU_(tabu_sparse)(TabuWalk *w, uint32_t i, uint32_t tenure) {
        TABU_GAIN *gain = (TABU_GAIN *) w->gain;
        const TABU_GAIN *ones = (const TABU_GAIN *) w->ones;
        TABU_GAIN sign;

        TABU_(tabu_turn)(w, i, tenure);
        sign = ones[i]; /* -1: it became 1, and couplings came in */
        w->touched[i / TABU_BLOCK / 64] |= UINT64_C(1) << i / TABU_BLOCK % 64;
        for (size_t k = w->row[i]; k < w->row[i + 1]; k++) {
                uint32_t c = w->col[k];
                TABU_GAIN turn = (TABU_GAIN) ~(sign ^ ones[c]);

                gain[c] = (TABU_GAIN) (gain[c] + ((TABU_GAIN) w->val[k] ^ turn) - turn);
                w->touched[c / TABU_BLOCK / 64] |= UINT64_C(1) << c / TABU_BLOCK % 64;
        }
        for (uint32_t word = 0; word * 64 < w->blocks; word++) {
                for (uint64_t bits = w->touched[word]; bits != 0; bits &= bits - 1)
                        TABU_(tabu_look_at)(w, word * 64 + (uint32_t) __builtin_ctzll(bits));
                w->touched[word] = 0;
        }
        return TABU_(tabu_choose_by_block)(w);
}
#undef TABU_LANES
#undef TABU_VECTORS
