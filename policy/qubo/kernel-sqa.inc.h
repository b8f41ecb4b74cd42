/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local and world-line moves of the path-integral walk of sqa.h, for int16 and int32 lanes. A visit to a variable offers a
 * flip in all even slices at once and then in all odd ones: the lanes of one vector do not see each other, so every
 * acceptance is an independent Metropolis step (a checkerboard in imaginary time). The thresholds of the lanes are
 * neighbours in a table of many in no order; one 64-bit draw places four such windows. Fields of the row's other ends are
 * touched only when some lane accepts, of both vectors in one pass.
 *
 * Bounds that the walk keeps: |field| + threshold + bond fits into a lane.
 */
#include "policy/qubo/kernel-mask.inc.h"
#include "policy/qubo/sqa.h"

#define SQA_INLINE static inline __attribute__((always_inline))

/* The change of a value (0 or 1; x is -1 or 0) that flips where the mask says so. */
#define SQA_STEP(x, mask) (((x) | 1) & (mask))

#define SQA_(name) name##16
#define SQA_INT int16_t
#define SQA_LANES SQA_NARROW_LANES
#define SQA_BEFORE(v) __builtin_shufflevector(v, v, 15, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)
#define SQA_AFTER(v) __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0)
#include "policy/qubo/kernel-sqa-lanes.inc.h"
#undef SQA_
#undef SQA_INT
#undef SQA_LANES
#undef SQA_BEFORE
#undef SQA_AFTER

#define SQA_(name) name##32
#define SQA_INT int32_t
#define SQA_LANES SQA_WIDE_LANES
#define SQA_BEFORE(v) __builtin_shufflevector(v, v, 7, 0, 1, 2, 3, 4, 5, 6)
#define SQA_AFTER(v) __builtin_shufflevector(v, v, 1, 2, 3, 4, 5, 6, 7, 0)
#include "policy/qubo/kernel-sqa-lanes.inc.h"
#undef SQA_
#undef SQA_INT
#undef SQA_LANES
#undef SQA_BEFORE
#undef SQA_AFTER
