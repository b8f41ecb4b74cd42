/* SPDX-License-Identifier: Apache-2.0 */
/* The model without groups, for solvers outside: a penalty for each group that does not hold exactly one variable. */
#include <errno.h>

#include "policy/qubo/qubo.h"

/*
 * Of a point that breaks a group, one bit can be cleared (two or more set) or set (none set), and the penalty falls by
 * at least one P. Clearing v raises E by at most -linear + sum of the negative couplings' size, setting v by at most
 * linear + sum of the positive ones; with P above all of these every infeasible point has a better neighbour.
 */
static int64_t exact_penalty(const Qubo *q) {
        int64_t p = 0;

        for (uint32_t g = 0; g < q->n_groups; g++) {
                int64_t set = INT64_MAX;

                for (uint32_t i = q->group_first[g]; i < q->group_first[g] + q->group_size[g]; i++) {
                        int64_t up = q->linear[i], down = -(int64_t) q->linear[i];

                        for (size_t k = q->row[i]; k < q->row[i + 1]; k++)
                                if (q->val[k] > 0)
                                        up += q->val[k];
                                else
                                        down -= q->val[k];
                        set = MIN(set, up);
                        p = MAX(p, down);
                }
                p = MAX(p, set);
        }
        return p + 1;
}

static int add_penalties(const Qubo *q, QuboBuilder *b, int64_t p) {
        int r = 0;

        for (uint32_t g = 0; g < q->n_groups && r >= 0; g++) {
                uint32_t end = q->group_first[g] + q->group_size[g];

                r = qubo_add_offset(b, p);
                for (uint32_t i = q->group_first[g]; i < end && r >= 0; i++) {
                        r = qubo_add_linear(b, i, -p);
                        for (uint32_t j = i + 1; j < end && r >= 0; j++)
                                r = qubo_add_quadratic(b, i, j, 2 * p);
                }
        }
        return r;
}

/* Everything but groups and tables. */
static int copy_into(const Qubo *q, QuboBuilder *b) {
        int r = qubo_add_offset(b, q->offset);

        for (uint32_t i = 0; i < q->n && r >= 0; i++) {
                r = qubo_add_linear(b, i, q->linear[i]);
                for (size_t k = q->row[i]; k < q->row[i + 1] && r >= 0; k++)
                        if (q->col[k] > i)
                                r = qubo_add_quadratic(b, i, q->col[k], q->val[k]);
        }
        return r;
}

int qubo_to_penalty(const Qubo *q, int64_t penalty, Qubo **ret, int64_t *ret_penalty) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        int64_t p;
        int r;

        if (penalty < 0)
                return -EINVAL;
        if (q->table_of) {
                _cleanup_(qubo_freep) Qubo *rows = NULL;

                r = qubo_expand(q, &rows);
                return r < 0 ? r : qubo_to_penalty(rows, penalty, ret, ret_penalty);
        }
        p = penalty > 0 ? penalty : exact_penalty(q);
        if (p > INT32_MAX)
                return -EOVERFLOW;
        r = qubo_builder_new(q->n, &b);
        if (r < 0)
                return r;
        r = copy_into(q, b);
        if (r >= 0)
                r = add_penalties(q, b, p);
        if (r >= 0)
                r = qubo_build(b, ret);
        if (r < 0)
                return r;
        if (ret_penalty)
                *ret_penalty = p;
        return 0;
}
