/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The random numbers of the solvers: xoshiro256++ (Blackman, Vigna 2019), its state filled by splitmix64 from the
 * caller's seed and a stream number, so that every restart has a sequence of its own that depends on nothing else.
 */
#pragma once

#include "common/macro.h"

typedef struct Rng {
        uint64_t s[4];
} Rng;

static inline uint64_t rng_splitmix(uint64_t *x) {
        uint64_t z = *x += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

static inline void rng_seed(Rng *r, uint64_t seed, uint64_t stream) {
        uint64_t x = seed, y = stream ^ UINT64_C(0x6a09e667f3bcc909);

        x = rng_splitmix(&x) ^ rng_splitmix(&y);
        for (unsigned i = 0; i < 4; i++)
                r->s[i] = rng_splitmix(&x);
}

static inline uint64_t rng_rotl(uint64_t x, unsigned k) {
        return (x << k) | (x >> (64 - k));
}

static inline uint64_t rng_next(Rng *r) {
        uint64_t *s = r->s, v = rng_rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;

        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = rng_rotl(s[3], 45);
        return v;
}

/* 0..n-1 from 32 random bits; the bias (n / 2^32) is of no account here. */
static inline uint32_t rng_scale(uint32_t bits, uint32_t n) {
        return (uint32_t) (((uint64_t) bits * n) >> 32);
}

static inline uint32_t rng_below(Rng *r, uint32_t n) {
        return rng_scale((uint32_t) (rng_next(r) >> 32), n);
}
