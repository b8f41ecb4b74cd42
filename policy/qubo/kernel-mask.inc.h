/* SPDX-License-Identifier: Apache-2.0 */
/* What comparisons of vectors of 32 bytes leave: lanes of ones and zeros, asked as a whole or turned into bits. */
#pragma once

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "common/macro.h"

#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed to inlined functions only */

typedef uint64_t MaskWords __attribute__((vector_size(32), may_alias));

#define MASK_INLINE static inline __attribute__((always_inline))

MASK_INLINE bool mask_any(MaskWords v) {
#ifdef __AVX2__
        return !_mm256_testz_si256((__m256i) v, (__m256i) v);
#else
        return ((v[0] | v[1]) | (v[2] | v[3])) != 0;
#endif
}

/* Bit k * size of lane k of so many bytes, where the mask is set. */
MASK_INLINE uint32_t mask_bits(MaskWords v, size_t size) {
        const uint32_t some = size == 1 ? 0xff : size == 2 ? 0x55 : size == 4 ? 0x11 : 0x01, all = some * 0x01010101;
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
