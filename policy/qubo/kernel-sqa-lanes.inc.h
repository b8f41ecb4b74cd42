/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernel-sqa.inc.h includes once for each lane type SQA_INT, with SQA_LANES lanes a vector; SQA_BEFORE and SQA_AFTER
 * turn a vector so that each lane gets the one before or after it.
 */
typedef SQA_INT SQA_(SqaV) __attribute__((vector_size(SQA_VECTOR), may_alias));
typedef SQA_INT SQA_(SqaLoose) __attribute__((vector_size(SQA_VECTOR), aligned(sizeof(SQA_INT)), may_alias));

/* Both vectors of one variable. */
typedef struct SQA_(SqaPair) {
        SQA_(SqaV) even, odd;
} SQA_(SqaPair);

SQA_INLINE SQA_(SqaV) SQA_(sqa_draw)(const SqaWalk *w, uint64_t bits) {
        return *(const SQA_(SqaLoose) *) ((const SQA_INT *) w->threshold + bits % SQA_DRAWS);
}

/* Which lanes accept: cost + bond * (neighbours that agree - 1) <= threshold. */
SQA_INLINE SQA_(SqaV) SQA_(sqa_accept)(SQA_(SqaV) field, SQA_(SqaV) x, SQA_(SqaV) a, SQA_(SqaV) b, SQA_(SqaV) threshold,
                                       SQA_(SqaV) bond) {
        SQA_(SqaV) cost = (field ^ x) - x, gain = (bond & (x ^ a)) + (bond & (x ^ b));

        return (SQA_(SqaV))(cost <= threshold - bond + gain);
}

SQA_INLINE void SQA_(sqa_spread_one)(const SqaWalk *w, uint32_t i, unsigned odd, SQA_(SqaV) step) {
        SQA_(SqaV) *field = (SQA_(SqaV) *) w->field + odd;
        const SQA_INT *weight = (const SQA_INT *) w->weight;
        SQA_INT same = ((const SQA_INT *) w->same)[i];
        size_t end = w->row[i + 1];

        if (same != 0) {
                step *= same;
                for (size_t k = w->row[i]; k < end; k++)
                        field[2 * (size_t) w->col[k]] += step;
                return;
        }
        for (size_t k = w->row[i]; k < end; k++)
                field[2 * (size_t) w->col[k]] += step * weight[k];
}

SQA_INLINE void SQA_(sqa_spread_both)(const SqaWalk *w, uint32_t i, const SQA_(SqaPair) * step) {
        SQA_(SqaPair) *field = (SQA_(SqaPair) *) w->field;
        const SQA_INT *weight = (const SQA_INT *) w->weight;
        SQA_INT same = ((const SQA_INT *) w->same)[i];
        SQA_(SqaV) even = step->even, odd = step->odd;
        size_t end = w->row[i + 1];

        if (same != 0) {
                even *= same;
                odd *= same;
                for (size_t k = w->row[i]; k < end; k++) {
                        field[w->col[k]].even += even;
                        field[w->col[k]].odd += odd;
                }
                return;
        }
        for (size_t k = w->row[i]; k < end; k++) {
                field[w->col[k]].even += even * weight[k];
                field[w->col[k]].odd += odd * weight[k];
        }
}

/* Offers all slices of a variable; tells whether any changed. */
SQA_INLINE bool SQA_(sqa_visit)(SqaWalk *w, uint32_t i, uint64_t bits, SQA_(SqaV) bond) {
        SQA_(SqaPair) *spin = (SQA_(SqaPair) *) w->spin + i;
        const SQA_(SqaPair) *field = (const SQA_(SqaPair) *) w->field + i;
        SQA_(SqaV) even = spin->even, odd = spin->odd, even_flips, odd_flips;
        SQA_(SqaPair) step;
        bool any_even, any_odd;

        even_flips = SQA_(sqa_accept)(field->even, even, odd, SQA_BEFORE(odd), SQA_(sqa_draw)(w, bits), bond);
        step.even = SQA_STEP(even, even_flips);
        even ^= even_flips;
        odd_flips = SQA_(sqa_accept)(field->odd, odd, even, SQA_AFTER(even), SQA_(sqa_draw)(w, bits >> 16), bond);
        step.odd = SQA_STEP(odd, odd_flips);
        odd ^= odd_flips;
        any_even = mask_any((MaskWords) even_flips);
        any_odd = mask_any((MaskWords) odd_flips);
        if (!any_even && !any_odd)
                return false;
        spin->even = even;
        spin->odd = odd;
        if (any_even && any_odd)
                SQA_(sqa_spread_both)(w, i, &step);
        else
                SQA_(sqa_spread_one)(w, i, any_odd, any_odd ? step.odd : step.even);
        return true;
}

/* Local moves of the variables from..to - 1, every slice; tells how many variables changed. */
static uint32_t SQA_(sqa_sweep)(SqaWalk *w, uint32_t from, uint32_t to) {
        SQA_(SqaV) bond = {};
        uint32_t changed = 0;
        uint64_t bits = 0;

        bond += (SQA_INT) w->bond;
        for (uint32_t i = from; i < to; i++) {
                bits = (i - from) % 2 == 0 ? rng_next(&w->rng) : bits >> 32;
                changed += SQA_(sqa_visit)(w, i, bits, bond);
        }
        return changed;
}

/* World-line moves: a variable in all slices at once, for the sum of the costs; bonds stay as they are. */
static uint32_t SQA_(sqa_lines)(SqaWalk *w, uint32_t from, uint32_t to) {
        const SQA_INT *threshold = (const SQA_INT *) w->threshold;
        uint32_t changed = 0;

        for (uint32_t i = from; i < to; i++) {
                SQA_(SqaPair) *spin = (SQA_(SqaPair) *) w->spin + i;
                const SQA_(SqaPair) *field = (const SQA_(SqaPair) *) w->field + i;
                SQA_(SqaV) even = spin->even, odd = spin->odd, all = ~(even & 0);
                SQA_(SqaV) even_cost = (field->even ^ even) - even, odd_cost = (field->odd ^ odd) - odd;
                const SQA_(SqaPair) step = { .even = SQA_STEP(even, all), .odd = SQA_STEP(odd, all) };
                int64_t cost = 0;

                for (unsigned k = 0; k < SQA_LANES; k++)
                        cost += (int64_t) even_cost[k] + odd_cost[k];
                if (cost > threshold[rng_next(&w->rng) % SQA_DRAWS])
                        continue;
                spin->even = ~even;
                spin->odd = ~odd;
                SQA_(sqa_spread_both)(w, i, &step);
                changed++;
        }
        return changed;
}
