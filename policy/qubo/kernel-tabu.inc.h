/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of the tabu walk of tabu.h, for gains of 16, 32 and 64 bits. With dense rows a step is one pass: each vector of
 * gains takes its change, which has the sign of the other variable (1 - 2 x), and goes into two minima, of the open
 * variables (a closed one has the greatest value put over its gain) and of all, for the aspiration. Sparse rows touch
 * single gains, and minima are kept by block. Who holds the minimum is found last, from a random block on.
 */
#include "policy/qubo/kernel-mask.inc.h"
#include "policy/qubo/rng.h"
#include "policy/qubo/tabu.h"

#define TABU_INLINE static inline __attribute__((always_inline))

#ifdef __AVX2__
/* The least of unsigned words is one instruction. */
TABU_INLINE int16_t tabu_least_of_words(__m256i v) {
        __m128i least = _mm_min_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)),
                sign = _mm_set1_epi16(INT16_MIN);

        return (int16_t) (_mm_cvtsi128_si32(_mm_minpos_epu16(_mm_xor_si128(least, sign))) ^ 0x8000);
}

TABU_INLINE int32_t tabu_least_of_longs(__m256i v) {
        __m128i least = _mm_min_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

        least = _mm_min_epi32(least, _mm_shuffle_epi32(least, 0x4e));
        return _mm_cvtsi128_si32(_mm_min_epi32(least, _mm_shuffle_epi32(least, 0xb1)));
}
#endif

#define TABU_(name) name##16
#define TABU_GAIN int16_t
#define TABU_MOST INT16_MAX
#define TABU_LEAST INT16_MIN
#ifdef __AVX2__
#define TABU_MIN(a, b) ((TABU_(TabuV)) _mm256_min_epi16((__m256i) (a), (__m256i) (b)))
#define TABU_MAX(a, b) ((TABU_(TabuV)) _mm256_max_epi16((__m256i) (a), (__m256i) (b)))
#define TABU_LEAST_OF(v) tabu_least_of_words((__m256i) (v))
#endif
#include "policy/qubo/kernel-tabu-gain.inc.h"
#define TABU_W(name) name##16_8
#ifdef __AVX2__
#define TABU_WIDE(row) ((TabuV16) _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *) (row))))
#endif
#define TABU_WEIGHT int8_t
#define TABU_SHIFT(w) (w)->shift
#include "policy/qubo/kernel-tabu-dense.inc.h"
#define TABU_W(name) name##16_16
#define TABU_WEIGHT int16_t
#include "policy/qubo/kernel-tabu-dense.inc.h"
#undef TABU_
#undef TABU_GAIN
#undef TABU_MOST
#undef TABU_LEAST
#undef TABU_MIN
#undef TABU_MAX
#undef TABU_LEAST_OF

/* The greatest |gain|; of 16 bits only, wider ones need not be watched. */
static uint64_t tabu_peak16(const TabuWalk *w) {
        const TabuV16 *gain = (const TabuV16 *) w->gain;
        TabuV16 low = gain[0], high = gain[0];

        for (size_t v = 1; v < w->stride * sizeof(int16_t) / TABU_VECTOR; v++) {
                low = tabu_min16(low, gain[v]);
                high = tabu_max16(high, gain[v]);
        }
        return (uint64_t) MAX(-(int64_t) tabu_least16(low), -(int64_t) tabu_least16(-high));
}

#define TABU_(name) name##32
#define TABU_GAIN int32_t
#define TABU_MOST INT32_MAX
#define TABU_LEAST INT32_MIN
#ifdef __AVX2__
#define TABU_MIN(a, b) ((TABU_(TabuV)) _mm256_min_epi32((__m256i) (a), (__m256i) (b)))
#define TABU_MAX(a, b) ((TABU_(TabuV)) _mm256_max_epi32((__m256i) (a), (__m256i) (b)))
#define TABU_LEAST_OF(v) tabu_least_of_longs((__m256i) (v))
#endif
#include "policy/qubo/kernel-tabu-gain.inc.h"
#define TABU_W(name) name##32_8
#ifdef __AVX2__
#define TABU_WIDE(row) ((TabuV32) _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *) (row))))
#endif
#define TABU_WEIGHT int8_t
#define TABU_SHIFT(w) (w)->shift
#include "policy/qubo/kernel-tabu-dense.inc.h"
#define TABU_W(name) name##32_16
#ifdef __AVX2__
#define TABU_WIDE(row) ((TabuV32) _mm256_cvtepi16_epi32(_mm_load_si128((const __m128i *) (row))))
#endif
#define TABU_WEIGHT int16_t
#include "policy/qubo/kernel-tabu-dense.inc.h"
#define TABU_W(name) name##32_32
#define TABU_WEIGHT int32_t
#include "policy/qubo/kernel-tabu-dense.inc.h"
#undef TABU_
#undef TABU_GAIN
#undef TABU_MOST
#undef TABU_LEAST
#undef TABU_MIN
#undef TABU_MAX
#undef TABU_LEAST_OF

#define TABU_(name) name##64
#define TABU_GAIN int64_t
#define TABU_MOST INT64_MAX
#define TABU_LEAST INT64_MIN
#include "policy/qubo/kernel-tabu-gain.inc.h"
#define TABU_W(name) name##64_32
#define TABU_WEIGHT int32_t
#include "policy/qubo/kernel-tabu-dense.inc.h"
#undef TABU_
#undef TABU_GAIN
#undef TABU_MOST
#undef TABU_LEAST
#undef TABU_MIN
#undef TABU_MAX
#undef TABU_LEAST_OF
