/* SPDX-License-Identifier: Apache-2.0 */
/* Time in microseconds, the unit of all times here. Not for policy, whose clock is a callback. */
#pragma once

#include <stdint.h>
#include <time.h>

#define USEC_PER_SEC UINT64_C(1000000)

static inline uint64_t clock_usec(clockid_t id) {
        struct timespec t;

        (void) clock_gettime(id, &t);
        return (uint64_t) t.tv_sec * USEC_PER_SEC + (uint64_t) t.tv_nsec / 1000;
}

static inline uint64_t clock_monotonic_usec(void) {
        return clock_usec(CLOCK_MONOTONIC);
}

static inline uint64_t clock_realtime_usec(void) { /* since 1970 */
        return clock_usec(CLOCK_REALTIME);
}
