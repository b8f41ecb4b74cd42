/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an optimum of the plain model keeps the structure: the three steps of qubo-penalty.c, with the penalties that
 * are there. At each step some change that makes nothing dearer leads on from any point that breaks the structure, so
 * one may start from an optimum and end at a feasible one.
 *
 * 1. Clearing one of two bits of a group: costs no more than what couples the two. What other groups can add to the
 *    cost is less once it is known of them that they have one bit at most (clearing breaks nothing that is known), so
 *    this goes round until nothing new is learnt.
 * 2. Setting a bit of an empty group: costs nothing or less; no penalty is left apart, linear terms have it.
 * 3. Of a permutation: for any two choices of one column, one of their groups can move to any other choice for no more
 *    than what couples the two. What else that group may share its choice with only makes it better.
 */
#include <errno.h>

#include "policy/qubo/penalty.h"
#include "policy/qubo/recognise-internal.h"

#define ROUNDS_MAX 16U

static int prove_groups(Trial *t) {
        const Qubo *q = t->q;
        _cleanup_free_ bool *at_most_one = calloc((size_t) q->n_groups + 1, sizeof(*at_most_one));
        _cleanup_free_ RepairCost *cost = calloc((size_t) q->n_groups + 1, sizeof(*cost));
        bool more = true;
        int r = 0;

        if (!at_most_one || !cost)
                return -ENOMEM;
        for (unsigned round = 0; round < ROUNDS_MAX && more && r >= 0; round++) {
                r = qubo_repair_costs(q, at_most_one, NULL, cost);
                more = false;
                for (uint32_t g = 0; g < q->n_groups && r >= 0; g++)
                        if (!at_most_one[g] && cost[g].clear <= t->pair[g])
                                more = at_most_one[g] = true;
        }
        t->exact = r >= 0;
        for (uint32_t g = 0; g < q->n_groups && r >= 0; g++) {
                t->one[g] = at_most_one[g] && cost[g].set <= 0;
                t->exact &= t->one[g];
        }
        return r;
}

/* The dearest of a group's choices but one: only the two dearest matter. */
static void two_dearest(const int64_t *dearest, uint32_t n, uint32_t *ret_at, int64_t *ret_second) {
        *ret_at = 0;
        *ret_second = INT64_MIN;
        for (uint32_t c = 1; c < n; c++)
                if (dearest[c] > dearest[*ret_at]) {
                        *ret_second = dearest[*ret_at];
                        *ret_at = c;
                } else
                        *ret_second = MAX(*ret_second, dearest[c]);
}

static int prove_columns(const Qubo *q, bool *ret) {
        _cleanup_free_ int64_t *dearest = calloc((size_t) q->n + 1, sizeof(*dearest));
        _cleanup_free_ int64_t *leave = calloc((size_t) q->n + 1, sizeof(*leave));
        uint32_t n = q->n_groups;

        if (!dearest || !leave)
                return -ENOMEM;
        for (uint32_t v = 0; v < q->n; v++) {
                Reach r = qubo_reach(q, v, NULL);

                dearest[v] = r.dearest;
                leave[v] = -r.cheapest;
        }
        for (uint32_t g = 0; g < n; g++) {
                uint32_t at;
                int64_t second;

                two_dearest(dearest + (size_t) g * n, n, &at, &second);
                for (uint32_t c = 0; c < n; c++)
                        leave[g * n + c] += c == at ? second : dearest[g * n + at];
        }
        *ret = true;
        for (uint32_t v = 0; v < q->n; v++)
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++)
                        if (q->col[k] % n == v % n && MIN(leave[v], leave[q->col[k]]) > q->val[k])
                                *ret = false;
        return 0;
}

/* One value within all columns, and one that is of the kind of the groups' own. */
static bool columns_are_evident(const Trial *t) {
        const Qubo *q = t->q;
        int32_t w = 0;

        for (uint32_t v = 0; v < q->n; v++)
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++) {
                        if (q->col[k] % q->n_groups != v % q->n_groups)
                                continue;
                        w = w == 0 ? q->val[k] : w;
                        if (q->val[k] != w || w < t->pair[v / q->n_groups] / 2)
                                return false;
                }
        return true;
}

int trial_prove(Trial *t) {
        bool columns = false;
        int r = prove_groups(t);

        if (r < 0 || !t->q->permutation)
                return r;
        r = prove_columns(t->q, &columns);
        t->exact &= columns;
        if (r < 0 || t->exact || columns_are_evident(t))
                return r;
        t->q->permutation = false;
        return prove_groups(t);
}

/* P (1 - sum x)^2 leaves -P = -w / 2 in linear terms, of a permutation twice that; what else is there may shift it. */
bool trial_is_evident(const Trial *t, uint32_t g) {
        const Qubo *q = t->q;
        uint32_t first = q->group_first[g], size = q->group_size[g];
        int64_t sum = 0, w = t->pair[g];

        if (size < 3)
                return false;
        for (uint32_t v = first; v < first + size; v++)
                sum += q->linear[v];
        for (size_t k = q->row[first]; k < q->row[first + size]; k++)
                if (abs(q->val[k]) > w)
                        return false;
        return 4 * sum <= -w * size && sum >= -2 * w * size;
}
