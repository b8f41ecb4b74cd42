/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single flips of simulated annealing in the states of anneal.h. A visit compares the costs of one variable in all
 * replicas with a window of thresholds; the fields of its neighbours are touched only when some lane flips, and where
 * all weights of a row have one absolute value the step is made once for the row: then a neighbour is one vector sum.
 * ANNEAL_TIMES is a product with -1, 0 or 1, by the way that is fast for the type.
 */
#include "policy/qubo/anneal.h"
#include "policy/qubo/kernel-mask.inc.h"

#define ANNEAL_INLINE static inline __attribute__((always_inline))

#define ANNEAL_(name) name##8
#define ANNEAL_INT int8_t
#define ANNEAL_WEIGHT int16_t
#define ANNEAL_TIMES(step, spin, mask, w) ANNEAL_(anneal_step)(spin, mask, w)
#define ANNEAL_WIDE int16_t
#define ANNEAL_MOST 126.0F
#include "policy/qubo/kernel-anneal-lanes.inc.h"

#define ANNEAL_(name) name##16
#define ANNEAL_INT int16_t
#define ANNEAL_WEIGHT int16_t
#define ANNEAL_TIMES(step, spin, mask, w) ((step) * (w))
#define ANNEAL_WIDE int32_t
#define ANNEAL_MOST 32766.0F
#include "policy/qubo/kernel-anneal-lanes.inc.h"

#define ANNEAL_(name) name##32
#define ANNEAL_INT int32_t
#define ANNEAL_WEIGHT int32_t
#define ANNEAL_TIMES(step, spin, mask, w) ((step) * (w))
#define ANNEAL_WIDE int64_t
#define ANNEAL_MOST 0x1.fffffep30F
#include "policy/qubo/kernel-anneal-lanes.inc.h"

#define ANNEAL_(name) name##64
#define ANNEAL_INT int64_t
#define ANNEAL_WEIGHT int32_t
#define ANNEAL_TIMES(step, spin, mask, w) ANNEAL_(anneal_step)(spin, mask, w)
#define ANNEAL_WIDE int64_t
#define ANNEAL_MOST 0x1.fffffep62F
#include "policy/qubo/kernel-anneal-lanes.inc.h"

#define ANNEAL_(name) name##1616
#define ANNEAL_INT int16_t
#define ANNEAL_WEIGHT int16_t
#include "policy/qubo/kernel-anneal-dense.inc.h"

#define ANNEAL_(name) name##3216
#define ANNEAL_INT int32_t
#define ANNEAL_WEIGHT int16_t
#include "policy/qubo/kernel-anneal-dense.inc.h"

#define ANNEAL_(name) name##3232
#define ANNEAL_INT int32_t
#define ANNEAL_WEIGHT int32_t
#include "policy/qubo/kernel-anneal-dense.inc.h"

#define ANNEAL_(name) name##6432
#define ANNEAL_INT int64_t
#define ANNEAL_WEIGHT int32_t
#include "policy/qubo/kernel-anneal-dense.inc.h"
