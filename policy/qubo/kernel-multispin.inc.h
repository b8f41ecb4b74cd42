/* SPDX-License-Identifier: Apache-2.0 */
/* The replicas of multispin.h. */
#include "policy/qubo/multispin.h"

typedef uint64_t SpinV __attribute__((vector_size(MULTISPIN_BYTES), may_alias));
typedef int32_t SpinHalves __attribute__((vector_size(MULTISPIN_BYTES), may_alias));
typedef uint64_t SpinLoose __attribute__((vector_size(MULTISPIN_BYTES), aligned(1), may_alias));

#define SPIN_INLINE static inline __attribute__((always_inline))
#define SPIN_OFFSETS (MULTISPIN_POOL * MULTISPIN_BYTES) /* a power of two */

SPIN_INLINE SpinV spin_draw(const void *pool, uint64_t bits) {
        return *(const SpinLoose *) ((const uint8_t *) pool + bits % SPIN_OFFSETS);
}

/* Where the coupling is satisfied. */
SPIN_INLINE SpinV spin_satisfied(const SpinV *spin, SpinV self, const MultiSpinLink *l) {
        return (SpinV) ((SpinHalves) (spin[l->site] ^ self) ^ l->equal);
}

/* Four couplings: two that are satisfied can be undone for nothing, three and four for b and b^2. */
SPIN_INLINE SpinV spin_pass4(const void *pool, const SpinV *spin, SpinV self, const MultiSpinLink *l, uint64_t bits) {
        SpinV t0 = spin_satisfied(spin, self, l), t1 = spin_satisfied(spin, self, l + 1);
        SpinV t2 = spin_satisfied(spin, self, l + 2), t3 = spin_satisfied(spin, self, l + 3);
        SpinV odd01 = t0 ^ t1, both01 = t0 & t1, odd23 = t2 ^ t3, both23 = t2 & t3, four = both01 & both23;
        SpinV three = (both01 & odd23) | (both23 & odd01) | four;

        return (~three | spin_draw(pool, bits)) & (~four | spin_draw(pool, bits >> 16));
}

/* Where at least k of so many are satisfied, told by the bits of their number. */
SPIN_INLINE SpinV spin_at_least(const SpinV c[static 3], unsigned k) {
        switch (k) {
        case 1: return c[0] | c[1] | c[2];
        case 2: return c[1] | c[2];
        case 3: return (c[0] & c[1]) | c[2];
        case 4: return c[2];
        case 5: return c[2] & (c[0] | c[1]);
        default: return c[2] & c[1];
        }
}

SPIN_INLINE SpinV spin_pass(const MultiSpin *m, const SpinV *spin, SpinV self, const MultiSpinLink *l, unsigned degree,
                            uint64_t bits) {
        SpinV c[3] = {}, pass = ~(self & 0);
        unsigned k = degree / 2 + 1;

        for (unsigned j = 0; j < degree; j++) {
                SpinV t = spin_satisfied(spin, self, l + j), carry = c[0] & t;

                c[0] ^= t;
                c[2] ^= c[1] & carry;
                c[1] ^= carry;
        }
        for (unsigned odd = degree % 2; k <= degree; k++, bits >>= 16, odd = 0)
                pass &= ~spin_at_least(c, k) | spin_draw(m->pool[odd ? 0 : 1], bits);
        return pass;
}

/* Offers flips to the sites from..to - 1 in all replicas. */
static void multispin_sweep(MultiSpin *m, uint32_t from, uint32_t to) {
        SpinV *spin = (SpinV *) m->spin;
        const uint32_t *first = m->first;
        const MultiSpinLink *link = m->link;
        const void *pool = m->pool[1];
        bool spare = false; /* half of the last number */
        uint64_t bits = 0;
        Rng rng = m->rng;

        for (uint32_t i = from; i < to; i++) {
                unsigned degree = first[i + 1] - first[i];
                SpinV self = spin[i];

                if (degree == 4) {
                        bits = spare ? bits >> 32 : rng_next(&rng);
                        spare = !spare;
                        spin[i] = self ^ spin_pass4(pool, spin, self, link + first[i], bits);
                } else
                        spin[i] = self ^ spin_pass(m, spin, self, link + first[i], degree, rng_next(&rng));
        }
        m->rng = rng;
}

/* xorshift128+ (Vigna 2017) without the sum, in each lane. */
SPIN_INLINE SpinV spin_random(SpinV s[static 2]) {
        SpinV a = s[0], b = s[1];

        s[0] = b;
        a ^= a << 23;
        s[1] = a ^ b ^ (a >> 17) ^ (b >> 26);
        return s[1] + b;
}

/* Bits that are set with so many chances of MULTISPIN_CHANCE: a random number below, digit by digit from the last. */
static void multispin_fill(MultiSpin *m, unsigned pool, uint32_t chance) {
        SpinV *to = (SpinV *) m->pool[pool], s[2];

        memcpy(s, m->seed, sizeof(s));
        for (unsigned i = 0; i <= MULTISPIN_POOL; i++) {
                SpinV below = {};

                if (chance == MULTISPIN_CHANCE)
                        below = ~below;
                for (uint32_t digit = 1; digit < MULTISPIN_CHANCE && chance % MULTISPIN_CHANCE > 0; digit <<= 1) {
                        SpinV r = spin_random(s);

                        if (chance & digit)
                                below |= ~r;
                        else
                                below &= ~r;
                }
                to[i] = below;
        }
        memcpy(m->seed, s, sizeof(s));
}

/* How many couplings are satisfied in each replica, each counted from both ends. */
static void multispin_count(const MultiSpin *m, uint64_t *ret) {
        const SpinV *spin = (const SpinV *) m->spin;
        SpinV count[40] = {};
        unsigned used = 0;

        for (uint32_t i = 0; i < m->n; i++)
                for (uint32_t j = m->first[i]; j < m->first[i + 1]; j++) {
                        SpinV carry = spin_satisfied(spin, spin[i], m->link + j);
                        unsigned p = 0;

                        for (; (carry[0] | carry[1] | carry[2] | carry[3]) != 0; p++) {
                                SpinV c = count[p] & carry;

                                count[p] ^= carry;
                                carry = c;
                        }
                        used = MAX(used, p);
                }
        for (unsigned k = 0; k < MULTISPIN_REPLICAS; k++) {
                ret[k] = 0;
                for (unsigned p = 0; p < used; p++)
                        ret[k] |= ((count[p][k / 64] >> (k % 64)) & 1) << p;
        }
}
