/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one model form: E(x) = offset + sum_i linear_i x_i + sum_{i<j} w_ij x_i x_j over bits x, minimised; a sparse
 * symmetric matrix (CSR, each pair stored in both rows) plus one-hot groups as structure: of the variables of a group,
 * which are consecutive, exactly one is 1. Groups cover none or some of the variables and never overlap.
 *
 * Couplings of two groups have a second storage: a table of the choices of one by those of the other, which all pairs
 * of groups that are alike share (a hundred ranks without a difference need one). What a table says adds to what the
 * rows say. Memory: rows 8 bytes a coupling and direction; tables 4 bytes a cell, at most QUBO_CELLS_MAX of them, and 4
 * bytes for each pair of groups.
 *
 * Coefficients are integers (the caller scales), so energies are exact; a model whose energy could leave int64 or
 * whose coefficients leave int32 is refused when built (-EOVERFLOW), not answered wrongly.
 */
#pragma once

#include "common/macro.h"

#define QUBO_NO_GROUP UINT32_MAX
#define QUBO_CELLS_MAX ((size_t) 48 << 20) /* 192 MiB; transposed tables count */

typedef struct QuboTable {
        uint32_t rows, cols;
        int32_t *w;    /* rows x cols */
        uint64_t size; /* sum of all absolute values */
} QuboTable;

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
        uint32_t *group_of;   /* n entries: group or QUBO_NO_GROUP */
        uint32_t *group_kind; /* of groups that are alike: their tables are mostly the same; a hint only */
        uint32_t n_tables;
        QuboTable *tables;
        uint32_t *
                table_of; /* n_groups x n_groups: 1 + the table with the first's choices as rows; 0: none. NULL: no tables */
        bool permutation; /* n_groups groups of n_groups choices each, in order, and no two may take the same choice */
        int32_t *flow,
                *distance; /* n_groups x n_groups each: adds sum_{g != h} flow[g][h] distance[choice g][choice h].
                                     NULL, or only with a permutation */
} Qubo;

typedef struct QuboBuilder QuboBuilder;

int qubo_builder_new(uint32_t n, QuboBuilder **ret);
QuboBuilder *qubo_builder_free(QuboBuilder *b);
DEFINE_CLEANUP(QuboBuilder *, qubo_builder_free);
int qubo_add_offset(QuboBuilder *b, int64_t w);
int qubo_add_linear(QuboBuilder *b, uint32_t i, int64_t w);
int qubo_add_quadratic(QuboBuilder *b, uint32_t i, uint32_t j, int64_t w); /* i == j adds to linear; sums up */
int qubo_add_group(QuboBuilder *b, uint32_t first, uint32_t size);         /* -EINVAL: overlaps, empty or outside */
int qubo_set_kind(QuboBuilder *b, uint32_t group, uint32_t kind);          /* 0 unless set */
/* Takes w (rows x cols, from malloc) in any case. -EFBIG: more cells than QUBO_CELLS_MAX. */
int qubo_add_table(QuboBuilder *b, uint32_t rows, uint32_t cols, int32_t *w, uint32_t *ret);
/* The couplings of two different groups; -EINVAL: a size does not fit, or they are joined already. */
int qubo_join(QuboBuilder *b, uint32_t g, uint32_t h, uint32_t table);
/*
 * Choices of the groups, which must be as many as each has choices and cover all variables in order, are all different.
 * flow and distance (n_groups x n_groups, from malloc, both or neither; diagonals do not count) are taken in any case:
 * a quadratic assignment problem (Koopmans, Beckmann 1957). -EINVAL: groups do not fit; -EOVERFLOW.
 */
int qubo_set_permutation(QuboBuilder *b, int32_t *flow, int32_t *distance);
/* Pairs inside one group never matter and are dropped. */
int qubo_build(QuboBuilder *b, Qubo **ret);
Qubo *qubo_free(Qubo *q);
DEFINE_CLEANUP(Qubo *, qubo_free);

/* The table row of v against group h, or NULL. */
static inline const int32_t *qubo_table_row(const Qubo *q, uint32_t v, uint32_t h) {
        uint32_t g = q->group_of[v], t;

        if (!q->table_of || g == QUBO_NO_GROUP)
                return NULL;
        t = q->table_of[(size_t) g * q->n_groups + h];
        return t == 0 ? NULL : q->tables[t - 1].w + (size_t) (v - q->group_first[g]) * q->tables[t - 1].cols;
}

/* Of the entries low..high - 1, which are of one row: the first whose column is not before col. */
static inline size_t qubo_row_find(const Qubo *q, size_t low, size_t high, uint32_t col) {
        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (q->col[mid] < col)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

/* field += sign * couplings of v. */
void qubo_add_couplings(const Qubo *q, uint32_t v, int32_t sign, int64_t *field);
/* Entries that rows alone would have, both directions, zeros of tables and products included. */
size_t qubo_couplings(const Qubo *q);
#define QUBO_EXPAND_MAX ((size_t) 128 << 20) /* of these: 64 million couplings, 1 GiB */
/* The same model in rows alone; a permutation stays one. -EFBIG: more than QUBO_EXPAND_MAX; -EOVERFLOW. */
int qubo_expand(const Qubo *q, Qubo **ret);

/* Asked every few microseconds by what takes long: not 0 ends it, and is what it returns. */
typedef struct QuboWatch {
        int (*check)(void *userdata);
        void *userdata;
} QuboWatch;

static inline int qubo_check(const QuboWatch *w) {
        return w ? w->check(w->userdata) : 0;
}

/* Tables always become rows; what else does. */
typedef struct QuboExpand {
        bool products;
        bool conflicts; /* of a permutation, rows also get an entry, 0, for each two that take the same choice */
        const QuboWatch *watch; /* or NULL */
} QuboExpand;
int qubo_expand_some(const Qubo *q, QuboExpand what, Qubo **ret);

int64_t qubo_energy(const Qubo *q, const uint8_t *x); /* recomputed from the coefficients */
bool qubo_feasible(const Qubo *q,
                   const uint8_t *x); /* every group has exactly one bit set, of a permutation every column too */
/*
 * The same model without groups, for solvers outside: penalty * (1 - sum x)^2 for each, and of a permutation 2 * penalty
 * for each two that take the same choice. Penalty 0: large enough to be exact, for each group its own; *ret_penalty tells
 * the largest.
 */
int qubo_to_penalty(const Qubo *q, int64_t penalty, Qubo **ret, int64_t *ret_penalty);
/* -EOVERFLOW: coefficients, those in tables and products aside, add up to more than a quarter of int64. */
int qubo_check_sum(const Qubo *q);
