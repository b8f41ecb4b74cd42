/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/qubo/search.h"

/* Steps of a few nanoseconds each: well under the millisecond the stop flag may take. */
#define LIMIT_STEPS 16384

void limit_init(Limit *l, const SolveParams *p) {
        *l = (Limit){ .p = p, .deadline = UINT64_MAX, .reported = INT64_MAX };
        if (p->clock && p->budget_usec > 0 &&
            __builtin_add_overflow(p->clock(p->userdata), p->budget_usec, &l->deadline))
                l->deadline = UINT64_MAX;
}

Limit limit_within(const Limit *l, uint64_t usec) {
        Limit part = *l;
        uint64_t end;

        if (l->p->clock && !__builtin_add_overflow(l->p->clock(l->p->userdata), usec, &end))
                part.deadline = MIN(part.deadline, end);
        return part;
}

uint64_t limit_left(const Limit *l) {
        uint64_t now;

        if (l->deadline == UINT64_MAX)
                return UINT64_MAX;
        now = l->p->clock(l->p->userdata);
        return now < l->deadline ? l->deadline - now : 0;
}

bool limit_hit(Limit *l) {
        const SolveParams *p = l->p;

        l->work = 0;
        if (!l->hit && p->stop && atomic_load_explicit(p->stop, memory_order_relaxed))
                l->hit = true;
        if (!l->hit && p->cancel && atomic_load_explicit(p->cancel, memory_order_relaxed))
                l->hit = true;
        if (!l->hit && l->deadline != UINT64_MAX && p->clock(p->userdata) >= l->deadline)
                l->hit = true;
        return l->hit;
}

bool limit_work(Limit *l, uint64_t steps) {
        l->work += steps;
        return l->hit || (l->work >= LIMIT_STEPS && limit_hit(l));
}

void limit_reached(Limit *l, int64_t energy) {
        if (l->p->has_target && energy <= l->p->target)
                l->hit = true;
}

void limit_improved(Limit *l, int64_t energy) {
        const SolveParams *p = l->p;

        if (energy >= l->reported)
                return;
        l->reported = energy;
        if (p->improved)
                p->improved(p->improved_userdata, energy);
        limit_reached(l, energy);
}
