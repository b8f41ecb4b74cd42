/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model with less structure and penalties instead, so large that every point that breaks the structure has a
 * neighbour that is better, until one is reached that does not. So the optimum stays, and every bound of the lowered
 * model is one of the original. (That penalties exist which do this is folklore; Ayodele 2022, arXiv 2206.11040, on
 * why they should not be larger than need be.) The repair goes in three steps, each for all groups before the next:
 *
 * 1. A group with s >= 2 bits: one is cleared and the penalty P_g (1 - s)^2 falls by P_g (2 s - 3). Clearing v costs at
 *    most -linear - sum of its negative couplings, whatever the rest is. Of two bits one can be chosen, so the group's
 *    second largest such cost is enough.
 * 2. A group with none: setting v costs at most linear + for each other group, which has one or none by now, its
 *    largest coupling, and P_g is saved. The group's cheapest choice is enough, and that costs no more than the mean of
 *    all its choices does, which is a better bound where each choice is dear with a few others only; of a permutation
 *    the one that nobody has taken has to do, whichever that is: the dearest.
 * 3. Of a permutation, groups that share a choice: one moves to a choice that is free. That costs at most D_g, the
 *    dearest choice less the cheapest, and saves P_gh for each that it shared with. P_gh = 1 + min(D_g, D_h) will do if
 *    the one with the least D moves.
 */
#include "policy/qubo/penalty.h"

#include <errno.h>

typedef struct Penalties {
        int64_t *group, *move; /* P_g; D_g. One is added when they are used */
} Penalties;

static void penalties_done(Penalties *p) {
        free(p->group);
        free(p->move);
}

/* The entries of one group in v's row, from k on; entries of the same choice of a permutation do not count. */
static size_t reach_group(const Qubo *q, uint32_t v, size_t k, bool at_most_one, Reach *r) {
        uint32_t g = q->group_of[q->col[k]], n = 0, size = q->group_size[g] - (q->permutation ? 1 : 0);
        int32_t most = INT32_MIN, least = INT32_MAX;
        int64_t below = 0;

        for (; k < q->row[v + 1] && q->group_of[q->col[k]] == g; k++) {
                if (q->permutation && q->col[k] % q->n_groups == v % q->n_groups)
                        continue;
                most = MAX(most, q->val[k]);
                least = MIN(least, q->val[k]);
                below += MIN(q->val[k], 0);
                n++;
        }
        r->dearest += n < size ? MAX(most, 0) : most;
        /* Of a permutation, who shares the choice pays the penalty and nothing else. */
        r->cheapest += n < size || q->permutation ? MIN(least, 0) : least;
        r->set += MAX(most, 0);
        r->clear -= at_most_one ? MIN(least, 0) : below;
        return k;
}

Reach qubo_reach(const Qubo *q, uint32_t v, const bool *at_most_one) {
        int64_t w = q->linear[v];
        Reach r = { .dearest = w, .cheapest = w, .set = w, .clear = -w };

        for (size_t k = q->row[v]; k < q->row[v + 1];) {
                uint32_t g = q->group_of[q->col[k]];

                if (g != QUBO_NO_GROUP) {
                        k = reach_group(q, v, k, at_most_one && at_most_one[g], &r);
                        continue;
                }
                w = q->val[k++];
                r.dearest += MAX(w, 0);
                r.cheapest += MIN(w, 0);
                r.set += MAX(w, 0);
                r.clear -= MIN(w, 0);
        }
        return r;
}

/* Sums over the choices of one group; both arrays are zero before and after. */
typedef struct Sums {
        int64_t *sum;  /* by variable: of its couplings to all choices */
        int64_t *most; /* by group: the largest of its variables' */
} Sums;

/* The cheapest choice of an empty group costs no more than the mean of all of them does. */
static int64_t set_mean(const Qubo *q, uint32_t g, Sums *s) {
        uint32_t first = q->group_first[g], size = q->group_size[g];
        size_t from = q->row[first], end = q->row[first + size];
        int64_t total = 0;

        for (uint32_t v = first; v < first + size; v++)
                total += q->linear[v];
        for (size_t k = from; k < end; k++)
                s->sum[q->col[k]] += q->val[k];
        for (size_t k = from; k < end; k++) {
                uint32_t u = q->col[k], h = q->group_of[u];

                if (h == QUBO_NO_GROUP)
                        total += MAX(s->sum[u], 0);
                else
                        s->most[h] = MAX(s->most[h], s->sum[u]);
                s->sum[u] = 0;
        }
        for (size_t k = from; k < end; k++) {
                uint32_t h = q->group_of[q->col[k]];

                if (h == QUBO_NO_GROUP)
                        continue;
                total += s->most[h];
                s->most[h] = 0;
        }
        return total >= 0 ? total / size : -((-total + size - 1) / size);
}

static RepairCost repair_cost(const Qubo *q, uint32_t g, const bool *at_most_one, Sums *s) {
        int64_t first = INT64_MIN, second = INT64_MIN, dearest = INT64_MIN, cheapest = INT64_MAX;
        int64_t cheap_set = INT64_MAX, dear_set = INT64_MIN;

        for (uint32_t v = q->group_first[g]; v < q->group_first[g] + q->group_size[g]; v++) {
                Reach r = qubo_reach(q, v, at_most_one);

                second = MAX(second, MIN(first, r.clear));
                first = MAX(first, r.clear);
                dearest = MAX(dearest, r.dearest);
                cheapest = MIN(cheapest, r.cheapest);
                cheap_set = MIN(cheap_set, r.set);
                dear_set = MAX(dear_set, r.set);
        }
        return (RepairCost){ .clear = second,
                             .set = q->permutation ? dear_set : MIN(cheap_set, set_mean(q, g, s)),
                             .move = dearest - cheapest };
}

int qubo_repair_costs(const Qubo *q, const bool *at_most_one, const QuboWatch *watch, RepairCost *ret) {
        _cleanup_free_ int64_t *sum = calloc((size_t) q->n + 1, sizeof(*sum));
        _cleanup_free_ int64_t *most = calloc((size_t) q->n_groups + 1, sizeof(*most));
        Sums s = { .sum = sum, .most = most };
        int r = 0;

        if (!sum || !most)
                return -ENOMEM;
        for (uint32_t g = 0; g < q->n_groups && r == 0; g++) {
                ret[g] = repair_cost(q, g, at_most_one, &s);
                r = qubo_check(watch);
        }
        return r;
}

static int penalties_exact(const Qubo *q, const QuboWatch *watch, Penalties *p) {
        _cleanup_free_ RepairCost *cost = calloc((size_t) q->n_groups + 1, sizeof(*cost));
        int r;

        if (!cost)
                return -ENOMEM;
        r = qubo_repair_costs(q, NULL, watch, cost);
        for (uint32_t g = 0; g < q->n_groups && r >= 0; g++) {
                p->group[g] = MAX(MAX(cost[g].set, cost[g].clear), 0);
                p->move[g] = cost[g].move;
        }
        return r;
}

static int penalties_init(const Qubo *q, int64_t given, const QuboWatch *watch, Penalties *p) {
        p->group = calloc((size_t) q->n_groups + 1, sizeof(*p->group));
        p->move = calloc((size_t) q->n_groups + 1, sizeof(*p->move));
        if (!p->group || !p->move)
                return -ENOMEM;
        if (given == 0)
                return penalties_exact(q, watch, p);
        for (uint32_t g = 0; g < q->n_groups; g++) {
                p->group[g] = given - 1;
                p->move[g] = 2 * given - 1;
        }
        return 0;
}

/* Of rows with conflicts in them. */
static int penalise_columns(Qubo *q, const Penalties *p) {
        uint32_t n = q->n_groups;

        for (uint32_t v = 0; v < q->n; v++)
                for (size_t k = q->row[v]; k < q->row[v + 1]; k++) {
                        int64_t w;

                        if (q->col[k] % n != v % n)
                                continue;
                        w = 1 + MIN(p->move[v / n], p->move[q->col[k] / n]);
                        if (w > INT32_MAX)
                                return -EOVERFLOW;
                        q->val[k] = (int32_t) w;
                }
        q->permutation = false;
        return qubo_check_sum(q);
}

/* The row of v with the others of its group put in where they belong. */
static void plain_row(const Qubo *q, uint32_t v, int64_t pair, Qubo *to) {
        uint32_t g = q->group_of[v], first = g == QUBO_NO_GROUP ? q->n : q->group_first[g],
                 size = g == QUBO_NO_GROUP ? 0 : q->group_size[g];
        size_t n = to->row[v], k = q->row[v];

        for (; k < q->row[v + 1] && q->col[k] < first; k++, n++) {
                to->col[n] = q->col[k];
                to->val[n] = q->val[k];
        }
        for (uint32_t u = first; u < first + size; u++)
                if (u != v) {
                        to->col[n] = u;
                        to->val[n++] = (int32_t) pair;
                }
        for (; k < q->row[v + 1]; k++, n++) {
                to->col[n] = q->col[k];
                to->val[n] = q->val[k];
        }
        to->row[v + 1] = n;
}

static int plain_new(const Qubo *q, Qubo **ret) {
        _cleanup_(qubo_freep) Qubo *to = calloc(1, sizeof(*to));
        size_t most = q->row[q->n];

        if (!to)
                return -ENOMEM;
        for (uint32_t g = 0; g < q->n_groups; g++)
                most += (size_t) q->group_size[g] * (q->group_size[g] - 1);
        if (most > QUBO_EXPAND_MAX)
                return -EFBIG;
        to->n = q->n;
        to->linear = calloc((size_t) q->n + 1, sizeof(*to->linear));
        to->row = calloc((size_t) q->n + 1, sizeof(*to->row));
        to->group_of = calloc((size_t) q->n + 1, sizeof(*to->group_of));
        to->group_first = calloc(1, sizeof(*to->group_first));
        to->group_size = calloc(1, sizeof(*to->group_size));
        to->group_kind = calloc(1, sizeof(*to->group_kind));
        to->col = malloc((most + 1) * sizeof(*to->col));
        to->val = malloc((most + 1) * sizeof(*to->val));
        if (!to->linear || !to->row || !to->group_of || !to->group_first || !to->group_size || !to->group_kind ||
            !to->col || !to->val)
                return -ENOMEM;
        *ret = TAKE_PTR(to);
        return 0;
}

/* Of rows alone, without a permutation. */
static int penalise_groups(const Qubo *q, const Penalties *p, const QuboWatch *watch, Qubo **ret) {
        _cleanup_(qubo_freep) Qubo *to = NULL;
        int r = plain_new(q, &to);

        if (r < 0)
                return r;
        to->offset = q->offset;
        for (uint32_t g = 0; g < q->n_groups; g++)
                if (p->group[g] >= INT32_MAX / 2 || __builtin_add_overflow(to->offset, p->group[g] + 1, &to->offset))
                        return -EOVERFLOW;
        for (uint32_t v = 0; v < q->n && r == 0; v++) {
                uint32_t g = q->group_of[v];
                int64_t own = g == QUBO_NO_GROUP ? 0 : p->group[g] + 1, linear = q->linear[v] - own;

                if (linear < -INT32_MAX)
                        return -EOVERFLOW;
                to->linear[v] = (int32_t) linear;
                to->group_of[v] = QUBO_NO_GROUP;
                plain_row(q, v, 2 * own, to);
                r = qubo_check(watch);
        }
        if (r == 0)
                r = qubo_check_sum(to);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(to);
        return 0;
}

static int penalise(const Qubo *q, int64_t given, bool groups, const QuboWatch *watch, Qubo **ret,
                    int64_t *ret_penalty) {
        _cleanup_(penalties_done) Penalties p = {};
        _cleanup_(qubo_freep) Qubo *rows = NULL;
        int64_t largest = 1;
        int r = 0;

        if (given < 0)
                return -EINVAL;
        if (given > INT32_MAX / 2)
                return -EOVERFLOW;
        if (q->table_of || q->permutation || !groups)
                r = qubo_expand_some(q, (QuboExpand){ .products = true, .conflicts = q->permutation, .watch = watch },
                                     &rows);
        if (r >= 0)
                r = penalties_init(rows ? rows : q, given, watch, &p);
        for (uint32_t g = 0; g < q->n_groups && r >= 0; g++)
                largest = MAX(largest, (groups ? p.group[g] : p.move[g]) + 1);
        if (r >= 0 && q->permutation)
                r = penalise_columns(rows, &p);
        if (r >= 0 && groups)
                r = penalise_groups(rows ? rows : q, &p, watch, ret);
        if (r < 0)
                return r;
        if (!groups)
                *ret = TAKE_PTR(rows);
        if (ret_penalty)
                *ret_penalty = largest;
        return 0;
}

int qubo_to_penalty(const Qubo *q, int64_t penalty, Qubo **ret, int64_t *ret_penalty) {
        return penalise(q, penalty, true, NULL, ret, ret_penalty);
}

int qubo_penalise(const Qubo *q, bool groups, const QuboWatch *watch, Qubo **ret) {
        return penalise(q, 0, groups, watch, ret, NULL);
}
