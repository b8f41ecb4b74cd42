/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one model form: E(x) = offset + sum_i linear_i x_i + sum_{i<j} w_ij x_i x_j over bits x, minimised; a sparse
 * symmetric matrix (CSR, each pair stored in both rows) plus one-hot groups as structure: of the variables of a group,
 * which are consecutive, exactly one is 1. Groups cover none or some of the variables and never overlap.
 * Coefficients are integers (the caller scales), so energies are exact; a model whose energy could leave int64 or
 * whose coefficients leave int32 is refused when built (-EOVERFLOW), not answered wrongly.
 */
#pragma once

#include "common/macro.h"

#define QUBO_NO_GROUP UINT32_MAX

typedef struct Qubo {
        uint32_t n;
        int64_t offset;
        int32_t *linear;
        size_t *row;   /* n + 1 */
        uint32_t *col; /* sorted within a row */
        int32_t *val;
        uint32_t n_groups;
        uint32_t *group_first; /* n_groups + 1 entries would not do: groups may leave gaps, so first and size */
        uint32_t *group_size;
        uint32_t *group_of; /* n entries: group or QUBO_NO_GROUP */
} Qubo;

typedef struct QuboBuilder QuboBuilder;

int qubo_builder_new(uint32_t n, QuboBuilder **ret);
QuboBuilder *qubo_builder_free(QuboBuilder *b);
DEFINE_CLEANUP(QuboBuilder *, qubo_builder_free);
int qubo_add_offset(QuboBuilder *b, int64_t w);
int qubo_add_linear(QuboBuilder *b, uint32_t i, int64_t w);
int qubo_add_quadratic(QuboBuilder *b, uint32_t i, uint32_t j, int64_t w); /* i == j adds to linear; sums up */
int qubo_add_group(QuboBuilder *b, uint32_t first, uint32_t size);         /* -EINVAL: overlaps, empty or outside */
/* Pairs inside one group never matter and are dropped. */
int qubo_build(QuboBuilder *b, Qubo **ret);
Qubo *qubo_free(Qubo *q);
DEFINE_CLEANUP(Qubo *, qubo_free);

int64_t qubo_energy(const Qubo *q, const uint8_t *x); /* recomputed from the coefficients */
bool qubo_feasible(const Qubo *q, const uint8_t *x);  /* every group has exactly one bit set */
/* The same model without groups: penalty * (1 - sum x)^2 for each, for outside solvers; penalty 0: large enough to be
 * exact. *ret_penalty tells which was used. */
int qubo_to_penalty(const Qubo *q, int64_t penalty, Qubo **ret, int64_t *ret_penalty);
