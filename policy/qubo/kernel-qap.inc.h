/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of the walk of permutation.h, for int32, double and int64. Integers are added and multiplied without sign, where
 * they may wrap, and compared with it; doubles hold whole numbers, so that all orders of a sum give the same.
 */
#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "policy/qubo/permutation.h"

#define QAP_INLINE static inline __attribute__((always_inline))

#define QAP_(name) name##32
#define QAP_T int32_t
#define QAP_SUM uint32_t
#define QAP_MASK int32_t
#define QAP_MOST INT32_MAX
#ifdef __AVX2__
#define QAP_MIN(a, b) ((QAP_(QapV)) _mm256_min_epi32((__m256i) (a), (__m256i) (b)))
#endif
#include "policy/qubo/kernel-qap-step.inc.h"

#define QAP_(name) name##_double
#define QAP_T double
#define QAP_SUM double
#define QAP_MASK int64_t
#define QAP_MOST 0x1p62
#ifdef __AVX2__
#define QAP_MIN(a, b) ((QAP_(QapV)) _mm256_min_pd((__m256d) (a), (__m256d) (b)))
#endif
#include "policy/qubo/kernel-qap-step.inc.h"

#define QAP_(name) name##64
#define QAP_T int64_t
#define QAP_SUM uint64_t
#define QAP_MASK int64_t
#define QAP_MOST INT64_MAX
#include "policy/qubo/kernel-qap-step.inc.h"
