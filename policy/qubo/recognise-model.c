/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The structured model of chosen lines: variables in an order in which groups stand together (each where its first one
 * stood), rows without what couples the members of a group, everything else as it is in the plain model. Rows are filled
 * by going through the variables in their new order, so that columns come sorted.
 */
#include <errno.h>

#include "policy/qubo/recognise-internal.h"

void trial_done(Trial *t) {
        t->q = qubo_free(t->q);
        free(t->old_of);
        free(t->new_of);
        free(t->pair);
        free(t->one);
        t->old_of = t->new_of = NULL;
        t->pair = NULL;
        t->one = NULL;
}

/* Groups, and the new order of variables. line_of: by variable of the plain model, 1 + its place in chosen. */
static void lay_out(Trial *t, const Lines *lines, const uint32_t *chosen, const uint32_t *line_of) {
        Qubo *q = t->q;
        uint32_t n = 0;

        for (uint32_t old = 0; old < q->n; old++) {
                const Line *line = line_of[old] ? &lines->lines[chosen[line_of[old] - 1]] : NULL;
                uint32_t size = line ? line->size : 1, g = QUBO_NO_GROUP;

                if (line && lines->members[line->first] != old)
                        continue;
                if (line) {
                        g = q->n_groups++;
                        q->group_first[g] = n;
                        q->group_size[g] = size;
                        t->pair[g] = line->w;
                        t->covered += size;
                }
                for (uint32_t k = 0; k < size; k++, n++) {
                        t->old_of[n] = line ? lines->members[line->first + k] : old;
                        t->new_of[t->old_of[n]] = n;
                        q->group_of[n] = g;
                }
        }
}

static bool is_within(const Qubo *q, uint32_t u, uint32_t v) {
        return q->group_of[u] != QUBO_NO_GROUP && q->group_of[u] == q->group_of[v];
}

/* Rows of q, in the order that old_of and new_of say. -EINVAL: within a group something is missing or another value. */
static int fill(Trial *t) {
        const Qubo *plain = t->plain;
        Qubo *q = t->q;
        _cleanup_free_ size_t *at = calloc((size_t) q->n + 1, sizeof(*at));

        if (!at)
                return -ENOMEM;
        for (uint32_t v = 0; v < q->n; v++) {
                uint32_t old = t->old_of[v], g = q->group_of[v], within = g == QUBO_NO_GROUP ? 0 : q->group_size[g] - 1;

                q->linear[v] = plain->linear[old];
                q->row[v + 1] = q->row[v] + (plain->row[old + 1] - plain->row[old]) - within;
                at[v] = q->row[v];
                for (size_t k = plain->row[old]; k < plain->row[old + 1]; k++)
                        if (is_within(q, v, t->new_of[plain->col[k]])) {
                                if (plain->val[k] != t->pair[g] || within-- == 0)
                                        return -EINVAL;
                        }
                if (within != 0)
                        return -EINVAL;
        }
        q->col = malloc((q->row[q->n] + 1) * sizeof(*q->col));
        q->val = malloc((q->row[q->n] + 1) * sizeof(*q->val));
        if (!q->col || !q->val)
                return -ENOMEM;
        for (uint32_t u = 0; u < q->n; u++) {
                uint32_t old = t->old_of[u];

                for (size_t k = plain->row[old]; k < plain->row[old + 1]; k++) {
                        uint32_t v = t->new_of[plain->col[k]];

                        if (is_within(q, u, v))
                                continue;
                        q->col[at[v]] = u;
                        q->val[at[v]++] = plain->val[k];
                }
        }
        return 0;
}

static Qubo *qubo_new(const Qubo *plain, uint32_t n_groups) {
        _cleanup_(qubo_freep) Qubo *q = calloc(1, sizeof(*q));

        if (!q)
                return NULL;
        q->n = plain->n;
        q->offset = plain->offset;
        q->linear = calloc((size_t) q->n + 1, sizeof(*q->linear));
        q->row = calloc((size_t) q->n + 1, sizeof(*q->row));
        q->group_of = calloc((size_t) q->n + 1, sizeof(*q->group_of));
        q->group_first = calloc((size_t) n_groups + 1, sizeof(*q->group_first));
        q->group_size = calloc((size_t) n_groups + 1, sizeof(*q->group_size));
        q->group_kind = calloc((size_t) n_groups + 1, sizeof(*q->group_kind));
        if (!q->linear || !q->row || !q->group_of || !q->group_first || !q->group_size || !q->group_kind)
                return NULL;
        return TAKE_PTR(q);
}

int trial_build(const Qubo *plain, const Lines *lines, const uint32_t *chosen, uint32_t n, Trial *ret) {
        _cleanup_free_ uint32_t *line_of = calloc((size_t) plain->n + 1, sizeof(*line_of));

        *ret = (Trial){ .plain = plain, .q = qubo_new(plain, n) };
        ret->old_of = calloc((size_t) plain->n + 1, sizeof(*ret->old_of));
        ret->new_of = calloc((size_t) plain->n + 1, sizeof(*ret->new_of));
        ret->pair = calloc((size_t) n + 1, sizeof(*ret->pair));
        ret->one = calloc((size_t) n + 1, sizeof(*ret->one));
        if (!line_of || !ret->q || !ret->old_of || !ret->new_of || !ret->pair || !ret->one)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
                const Line *line = &lines->lines[chosen[i]];

                for (uint32_t k = 0; k < line->size; k++)
                        line_of[lines->members[line->first + k]] = i + 1;
        }
        lay_out(ret, lines, chosen, line_of);
        return fill(ret);
}

/* The one choice of each group h that choice v of group 0 has its largest coupling with: all get column c. */
static bool follow_column(const Qubo *q, uint32_t c, uint32_t *column) {
        uint32_t n = q->n_groups, found = 1;

        column[c] = c;
        for (size_t k = q->row[c]; k < q->row[c + 1];) {
                uint32_t h = q->group_of[q->col[k]], best = q->col[k];
                int32_t most = q->val[k++];
                bool single = true;

                for (; k < q->row[c + 1] && q->group_of[q->col[k]] == h; k++) {
                        single = q->val[k] > most || (single && q->val[k] < most);
                        if (q->val[k] > most) {
                                most = q->val[k];
                                best = q->col[k];
                        }
                }
                if (!single || most <= 0 || column[best] != QUBO_NO_GROUP)
                        return false;
                column[best] = c;
                found++;
        }
        return found == n;
}

/* Whether the largest coupling of any choice with another group is that within its column. */
static bool columns_hold(const Qubo *q, const uint32_t *column) {
        for (uint32_t v = 0; v < q->n; v++) {
                uint32_t groups = 0;

                for (size_t k = q->row[v]; k < q->row[v + 1];) {
                        uint32_t h = q->group_of[q->col[k]];
                        int32_t most = q->val[k], own = 0;

                        for (; k < q->row[v + 1] && q->group_of[q->col[k]] == h; k++) {
                                most = MAX(most, q->val[k]);
                                own = column[q->col[k]] == column[v] ? q->val[k] : own;
                        }
                        if (own <= 0 || own < most)
                                return false;
                        groups++;
                }
                if (groups + 1 != q->n_groups)
                        return false;
        }
        return true;
}

static bool is_square(const Qubo *q) {
        if ((size_t) q->n_groups * q->n_groups != q->n || q->n_groups < 2)
                return false;
        for (uint32_t g = 0; g < q->n_groups; g++)
                if (q->group_size[g] != q->n_groups)
                        return false;
        return true;
}

int trial_find_columns(Trial *t) {
        _cleanup_free_ uint32_t *column = NULL, *old_of = NULL;
        uint32_t n = t->q->n_groups;

        if (!is_square(t->q))
                return 0;
        column = malloc(((size_t) t->q->n + 1) * sizeof(*column));
        old_of = calloc((size_t) t->q->n + 1, sizeof(*old_of));
        if (!column || !old_of)
                return -ENOMEM;
        for (uint32_t v = 0; v < t->q->n; v++)
                column[v] = QUBO_NO_GROUP;
        for (uint32_t c = 0; c < n; c++)
                if (!follow_column(t->q, c, column))
                        return 0;
        if (!columns_hold(t->q, column))
                return 0;
        for (uint32_t v = 0; v < t->q->n; v++)
                old_of[v / n * n + column[v]] = t->old_of[v];
        for (uint32_t v = 0; v < t->q->n; v++) {
                t->old_of[v] = old_of[v];
                t->new_of[old_of[v]] = v;
        }
        free(TAKE_PTR(t->q->col));
        free(TAKE_PTR(t->q->val));
        t->q->permutation = true;
        return fill(t);
}
