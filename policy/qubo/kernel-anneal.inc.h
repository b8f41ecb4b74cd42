/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single flips of simulated annealing in the states of anneal.h. A visit compares the costs of one variable in all
 * replicas with a window of thresholds; the fields of its neighbours are touched only when some lane flips, and where
 * all weights of a row have one absolute value the step is made once for the row: then a neighbour is one vector sum.
 * ANNEAL_TIMES is a product with -1, 0 or 1, by the way that is fast for the type.
 */
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "policy/qubo/anneal.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed to inlined functions only */

typedef uint64_t AnnealWords __attribute__((vector_size(ANNEAL_VECTOR), may_alias));

#define ANNEAL_INLINE static inline __attribute__((always_inline))

ANNEAL_INLINE bool anneal_any(AnnealWords v) {
#ifdef __AVX2__
        return !_mm256_testz_si256((__m256i) v, (__m256i) v);
#else
        return ((v[0] | v[1]) | (v[2] | v[3])) != 0;
#endif
}

#define ANNEAL_(name) name##8
#define ANNEAL_INT int8_t
#define ANNEAL_WEIGHT int16_t
#define ANNEAL_TIMES(step, spin, mask, w) ANNEAL_(anneal_step)(spin, mask, w)
#define ANNEAL_WIDE int16_t
#define ANNEAL_MOST 126.0F
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT
#undef ANNEAL_WIDE
#undef ANNEAL_TIMES
#undef ANNEAL_MOST

#define ANNEAL_(name) name##16
#define ANNEAL_INT int16_t
#define ANNEAL_WEIGHT int16_t
#define ANNEAL_TIMES(step, spin, mask, w) ((step) * (w))
#define ANNEAL_WIDE int32_t
#define ANNEAL_MOST 32766.0F
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT
#undef ANNEAL_WIDE
#undef ANNEAL_TIMES
#undef ANNEAL_MOST

#define ANNEAL_(name) name##32
#define ANNEAL_INT int32_t
#define ANNEAL_WEIGHT int32_t
#define ANNEAL_TIMES(step, spin, mask, w) ((step) * (w))
#define ANNEAL_WIDE int64_t
#define ANNEAL_MOST 0x1.fffffep30F
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT
#undef ANNEAL_WIDE
#undef ANNEAL_TIMES
#undef ANNEAL_MOST

#define ANNEAL_(name) name##64
#define ANNEAL_INT int64_t
#define ANNEAL_WEIGHT int32_t
#define ANNEAL_TIMES(step, spin, mask, w) ANNEAL_(anneal_step)(spin, mask, w)
#define ANNEAL_WIDE int64_t
#define ANNEAL_MOST 0x1.fffffep62F
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT
#undef ANNEAL_WIDE
#undef ANNEAL_TIMES
#undef ANNEAL_MOST

/* Bit k * sizeof(lane) of lane k, where the mask is set. */
ANNEAL_INLINE uint32_t anneal_bits(AnnealWords v, size_t size) {
        const uint64_t some = size == 1 ? 0xff : size == 2 ? 0x55 : size == 4 ? 0x11 : 0x01;
        uint32_t all = (uint32_t) (some * 0x01010101);
#ifdef __AVX2__
        return (uint32_t) _mm256_movemask_epi8((__m256i) v) & all;
#else
        uint32_t bits = 0;

        for (unsigned i = 0; i < 4; i++) /* gathers the top bits of eight bytes */
                bits |= (uint32_t) (((v[i] & UINT64_C(0x8080808080808080)) * UINT64_C(0x0002040810204081)) >> 56)
                        << (8 * i);
        return bits & all;
#endif
}

#define ANNEAL_(name) name##1616
#define ANNEAL_INT int16_t
#define ANNEAL_WEIGHT int16_t
#include "policy/qubo/kernel-anneal-dense.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT

#define ANNEAL_(name) name##3216
#define ANNEAL_INT int32_t
#define ANNEAL_WEIGHT int16_t
#include "policy/qubo/kernel-anneal-dense.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT

#define ANNEAL_(name) name##3232
#define ANNEAL_INT int32_t
#define ANNEAL_WEIGHT int32_t
#include "policy/qubo/kernel-anneal-dense.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT

#define ANNEAL_(name) name##6432
#define ANNEAL_INT int64_t
#define ANNEAL_WEIGHT int32_t
#include "policy/qubo/kernel-anneal-dense.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT
