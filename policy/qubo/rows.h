/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of a plain model in the form that kernels walk over: coefficients divided by what they all have in common
 * (their unit), in the narrowest type, entries of zero left out, and in each row the negative ones first. A field is
 * linear + couplings to the ones, what a variable costs if it becomes 1. `most` bounds it at every point, and `width` is
 * that of the narrowest type that holds most and -most.
 *
 * Memory: 4 bytes a coupling and direction for the columns, 2 or 4 for the weights; 24 a variable.
 */
#pragma once

#include "policy/qubo/qubo.h"

typedef struct Rows {
        uint32_t n;
        unsigned width; /* of a field: 1, 2, 4 or 8 bytes */
        bool narrow;    /* weights are int16_t: with a width of 1 or 2; else int32_t */
        int64_t unit;   /* what a coefficient of 1 here is in the model */
        int64_t most;   /* |field| in units */
        int32_t *linear;
        size_t *first;    /* n + 1: where a row begins */
        size_t *positive; /* n: the first that is not negative */
        int32_t *same;    /* n: the absolute value of all weights of the row, or 0: they differ */
        uint32_t *col;
        void *weight;
} Rows;

struct Limit;

int rows_new(const Qubo *q, Rows **ret);                         /* tables, products and groups do not count */
int rows_new_within(const Qubo *q, struct Limit *l, Rows **ret); /* -ECANCELED: the limit has been hit */
Rows *rows_free(Rows *r);
DEFINE_CLEANUP(Rows *, rows_free);

static inline int32_t rows_weight(const Rows *r, size_t k) {
        return r->narrow ? ((const int16_t *) r->weight)[k] : ((const int32_t *) r->weight)[k];
}
