/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lowering, and repairing bits by the three steps of qubo-penalty.c, each of them greedily: of all bits, groups and
 * choices that the proof allows the one that leaves the least energy. Fields of all variables (linear + couplings to
 * bits that are set) are computed once, which takes the rows of the bits that are set, and kept as bits change.
 */
#include "policy/qubo/lower.h"

#include <errno.h>

#include "policy/qubo/penalty.h"
#include "policy/qubo/search.h"

/* A model with so few couplings is solved from rows: those have the strong bound and a matrix. */
#define EXPAND_COUPLINGS 600000

static int check(void *userdata) {
        return limit_hit(userdata) ? -ECANCELED : 0;
}

int lower_model(const Qubo *q, const Solver *solver, const SolveParams *p, Lowered *ret) {
        bool columns = q->permutation && !(solver->knows & MODEL_PERMUTATION);
        bool groups = q->n_groups > 0 && !(solver->knows & MODEL_GROUPS), few;
        Limit l;
        QuboWatch watch = { .check = check, .userdata = &l };

        limit_init(&l, p);
        *ret = (Lowered){ .of = q, .penalties = columns || groups };
        if (ret->penalties)
                return qubo_penalise(q, groups, &watch, &ret->q);
        few = q->table_of && qubo_couplings(q) <= EXPAND_COUPLINGS;
        if (q->table_of && (few || !(solver->knows & MODEL_TABLES)))
                return qubo_expand_some(q, (QuboExpand){ .watch = few ? NULL : &watch }, &ret->q);
        return 0;
}

void lower_done(Lowered *l) {
        l->q = qubo_free(l->q);
}

typedef struct Repair {
        const Qubo *of, *q;
        uint8_t *x;
        int64_t energy, *field;
        uint32_t *ones; /* of a permutation: bits by column */
} Repair;

static void flip(Repair *s, uint32_t v) {
        s->energy += s->x[v] ? -s->field[v] : s->field[v];
        s->x[v] ^= 1;
        qubo_add_couplings(s->q, v, s->x[v] ? 1 : -1, s->field);
        if (s->ones)
                s->ones[v % s->of->n_groups] += s->x[v] ? 1U : UINT32_MAX;
}

static uint32_t group_ones(const Repair *s, uint32_t g) {
        uint32_t n = 0;

        for (uint32_t v = s->of->group_first[g]; v < s->of->group_first[g] + s->of->group_size[g]; v++)
                n += s->x[v] != 0;
        return n;
}

/* Of the group's bits that are set, or of those that are not, the one whose flip leaves the least energy. */
static uint32_t cheapest_flip(const Repair *s, uint32_t g, bool set) {
        uint32_t best = QUBO_NO_GROUP;

        for (uint32_t v = s->of->group_first[g]; v < s->of->group_first[g] + s->of->group_size[g]; v++)
                if ((s->x[v] != 0) == set &&
                    (best == QUBO_NO_GROUP || (set ? s->field[v] > s->field[best] : s->field[v] < s->field[best])))
                        best = v;
        return best;
}

static void repair_groups(Repair *s) {
        for (uint32_t g = 0; g < s->of->n_groups; g++)
                for (uint32_t n = group_ones(s, g); n > 1; n--)
                        flip(s, cheapest_flip(s, g, true));
        for (uint32_t g = 0; g < s->of->n_groups; g++)
                if (group_ones(s, g) == 0)
                        flip(s, cheapest_flip(s, g, false));
}

/* What two choices of one group are coupled by in the lowered model: the same for any two. */
static int32_t within_group(const Qubo *q, uint32_t v, uint32_t first, uint32_t size) {
        size_t end = q->row[v + 1], low = qubo_row_find(q, q->row[v], end, first);

        return low < end && q->col[low] < first + size ? q->val[low] : 0;
}

/* The cheapest move of a group that shares its choice to a choice that is free; false: none shares. */
static bool repair_column(Repair *s) {
        uint32_t n = s->of->n_groups, best[2] = { 0, 0 };
        int64_t least = INT64_MAX;

        for (uint32_t v = 0; v < s->of->n; v++) {
                uint32_t first = v / n * n;
                int64_t leave;

                if (!s->x[v] || s->ones[v % n] < 2)
                        continue;
                leave = s->field[v] + within_group(s->q, v, first, n);
                for (uint32_t c = 0; c < n; c++)
                        if (s->ones[c] == 0 && s->field[first + c] - leave < least) {
                                least = s->field[first + c] - leave;
                                best[0] = v;
                                best[1] = first + c;
                        }
        }
        if (least == INT64_MAX)
                return false;
        flip(s, best[0]);
        flip(s, best[1]);
        return true;
}

int lower_repair(const Lowered *l, uint8_t *x, int64_t *energy) {
        const Qubo *q = l->q, *of = l->of;
        _cleanup_free_ int64_t *field = NULL;
        _cleanup_free_ uint32_t *ones = NULL;
        Repair s = { .of = of, .q = q, .x = x, .energy = *energy };

        if (qubo_feasible(of, x))
                return 0;
        s.field = field = calloc((size_t) q->n + 1, sizeof(*field));
        if (of->permutation)
                s.ones = ones = calloc((size_t) of->n_groups + 1, sizeof(*ones));
        if (!field || (of->permutation && !ones))
                return -ENOMEM;
        for (uint32_t v = 0; v < q->n; v++)
                field[v] += q->linear[v];
        for (uint32_t v = 0; v < q->n; v++) {
                if (!x[v])
                        continue;
                qubo_add_couplings(q, v, 1, field);
                if (ones)
                        ones[v % of->n_groups]++;
        }
        repair_groups(&s);
        while (of->permutation && repair_column(&s))
                ;
        assert(qubo_feasible(of, x) && s.energy <= *energy);
        *energy = s.energy;
        return 0;
}
