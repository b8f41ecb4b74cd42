/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single flips of simulated annealing in the states of anneal.h. A visit compares the costs of one variable in all
 * replicas with a window of thresholds; the fields of its neighbours are touched only when some lane flips, and where
 * all weights of a row have one absolute value the step is made once for the row: then a neighbour is one vector sum.
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
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT

#define ANNEAL_(name) name##16
#define ANNEAL_INT int16_t
#define ANNEAL_WEIGHT int16_t
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT

#define ANNEAL_(name) name##32
#define ANNEAL_INT int32_t
#define ANNEAL_WEIGHT int32_t
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT

#define ANNEAL_(name) name##64
#define ANNEAL_INT int64_t
#define ANNEAL_WEIGHT int32_t
#include "policy/qubo/kernel-anneal-lanes.inc.h"
#undef ANNEAL_
#undef ANNEAL_INT
#undef ANNEAL_WEIGHT
