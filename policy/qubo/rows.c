/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/qubo/rows.h"

#include <errno.h>

#include "policy/qubo/search.h"

static bool is_over(Limit *l, uint64_t entries) {
        return l && limit_work(l, 4 + 2 * entries);
}

static uint64_t gcd(uint64_t a, uint64_t b) {
        while (b != 0) {
                uint64_t c = a % b;

                a = b;
                b = c;
        }
        return a;
}

static uint64_t size_of(int32_t v) {
        return v < 0 ? -(uint64_t) v : (uint64_t) v;
}

static int64_t common_unit(const Qubo *q, Limit *l) {
        uint64_t unit = 0;

        for (uint32_t i = 0; i < q->n && unit != 1 && !is_over(l, q->row[i + 1] - q->row[i]); i++) {
                unit = gcd(size_of(q->linear[i]), unit);
                for (size_t k = q->row[i]; k < q->row[i + 1] && unit != 1; k++)
                        unit = gcd(size_of(q->val[k]), unit);
        }
        return unit == 0 ? 1 : (int64_t) unit;
}

/* Counts entries, and how large a field can be. */
static size_t measure(const Qubo *q, Limit *l, int64_t unit, int64_t *ret_most) {
        size_t entries = 0;
        int64_t most = 0;

        for (uint32_t i = 0; i < q->n && !is_over(l, q->row[i + 1] - q->row[i]); i++) {
                int64_t low = q->linear[i], high = low;

                for (size_t k = q->row[i]; k < q->row[i + 1]; k++) {
                        low += MIN(q->val[k], 0);
                        high += MAX(q->val[k], 0);
                        entries += q->val[k] != 0;
                }
                most = MAX(most, MAX(high, -low));
        }
        *ret_most = most / unit;
        return entries;
}

static unsigned width_of(int64_t most) {
        return most <= INT8_MAX ? 1 : most <= INT16_MAX ? 2 : most <= INT32_MAX ? 4 : 8;
}

static void put(Rows *r, size_t k, uint32_t col, int32_t w) {
        r->col[k] = col;
        if (r->narrow)
                ((int16_t *) r->weight)[k] = (int16_t) w;
        else
                ((int32_t *) r->weight)[k] = w;
}

static size_t fill_signed(Rows *r, const Qubo *q, uint32_t i, bool negative, size_t at) {
        for (size_t k = q->row[i]; k < q->row[i + 1]; k++)
                if (q->val[k] != 0 && (q->val[k] < 0) == negative)
                        put(r, at++, q->col[k], r->unit == 1 ? q->val[k] : (int32_t) (q->val[k] / r->unit));
        return at;
}

static void fill(Rows *r, const Qubo *q, Limit *l) {
        for (uint32_t i = 0; i < q->n && !is_over(l, 2 * (q->row[i + 1] - q->row[i])); i++) {
                size_t at = r->first[i];
                uint64_t same;

                r->linear[i] = (int32_t) (q->linear[i] / r->unit);
                at = r->positive[i] = fill_signed(r, q, i, true, at);
                at = r->first[i + 1] = fill_signed(r, q, i, false, at);
                same = at > r->first[i] ? size_of(rows_weight(r, r->first[i])) : 0;
                for (size_t k = r->first[i]; k < at; k++)
                        same = size_of(rows_weight(r, k)) == same ? same : 0;
                r->same[i] = same <= INT32_MAX ? (int32_t) same : 0;
        }
}

int rows_new_within(const Qubo *q, Limit *l, Rows **ret) {
        _cleanup_(rows_freep) Rows *r = calloc(1, sizeof(*r));
        size_t n = (size_t) q->n + 1, entries;

        if (!r)
                return -ENOMEM;
        r->n = q->n;
        r->unit = common_unit(q, l);
        entries = measure(q, l, r->unit, &r->most);
        if (l && l->hit)
                return -ECANCELED;
        r->width = width_of(r->most);
        r->narrow = r->width <= 2;
        r->linear = calloc(n, sizeof(*r->linear));
        r->first = calloc(n, sizeof(*r->first));
        r->positive = calloc(n, sizeof(*r->positive));
        r->same = calloc(n, sizeof(*r->same));
        /* Not cleared, which takes long. */
        r->col = malloc((entries + 1) * sizeof(*r->col));
        r->weight = malloc((entries + 1) * (r->narrow ? sizeof(int16_t) : sizeof(int32_t)));
        if (!r->linear || !r->first || !r->positive || !r->same || !r->col || !r->weight)
                return -ENOMEM;
        fill(r, q, l);
        if (l && l->hit)
                return -ECANCELED;
        *ret = TAKE_PTR(r);
        return 0;
}

int rows_new(const Qubo *q, Rows **ret) {
        return rows_new_within(q, NULL, ret);
}

Rows *rows_free(Rows *r) {
        if (!r)
                return NULL;
        free(r->linear);
        free(r->first);
        free(r->positive);
        free(r->same);
        free(r->col);
        free(r->weight);
        free(r);
        return NULL;
}
