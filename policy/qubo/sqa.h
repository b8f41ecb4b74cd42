/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a path-integral walk that the kernels of kernel-sqa.inc.h work on: every variable in every slice of
 * imaginary time, slices across lanes. A variable has two vectors, one for the even slices and one for the odd ones: lane
 * j of the even vector is slice 2 j, of the odd one slice 2 j + 1, and slices form a ring. So the two neighbours in time of
 * all lanes of one vector are in the other.
 *
 * Two widths: 32 slices of int16 where fields fit, else 16 slices of int32; both 64 bytes a variable for fields and as
 * much for spins. Energies in the walk are the model's times SqaWalk.scale (a power of two), so that thresholds and the
 * bond, which are not integers, are rounded finely. Rows are the Qubo's own; their scaled weights are the walk's.
 */
#pragma once

#include "policy/qubo/qubo.h"
#include "policy/qubo/rng.h"

#define SQA_VECTOR 32U                     /* bytes */
#define SQA_NARROW_LANES (SQA_VECTOR / 2U) /* of each of the two vectors */
#define SQA_WIDE_LANES (SQA_VECTOR / 4U)
#define SQA_NARROW_SLICES (2U * SQA_NARROW_LANES)
#define SQA_WIDE_SLICES (2U * SQA_WIDE_LANES)
#define SQA_DRAWS 4096U /* thresholds to draw from */

/* What kernels see. "Of the type" is int16 or int32. */
typedef struct SqaWalk {
        uint32_t n;
        const size_t *row;   /* n + 1 */
        const uint32_t *col; /* the model's */
        void *weight;        /* by entry of a row, of the type */
        void *same;          /* by row, of the type: the weight of all its entries, or 0: they differ */
        void *field;         /* n x 2 vectors: linear + couplings to the ones of the slice */
        void *spin;          /* n x 2 vectors: -1 for a one, else 0 */
        void *threshold; /* of the type: SQA_DRAWS values of -P T ln(u) in no order, the first lanes of them again */
        int32_t bond;    /* 4 c, see sqa.c: what a flip costs more if both neighbours in time agree; of the type */
        Rng rng;
} SqaWalk;

struct Kernels;
struct Limit;

typedef struct SqaModel {
        const Qubo *q;
        const struct Kernels *kernels;
        bool narrow;     /* int16 */
        unsigned slices; /* P */
        double scale;    /* a power of two */
        bool exact;      /* scaling lost nothing: energies of the walk are the model's */
        double unit;     /* typical cost of a flip in a random point: the scale of temperatures */
        int32_t *linear; /* scaled */
        int32_t most;    /* a threshold can be; bonds twice as much */
        float *logs;     /* -ln(u), SQA_DRAWS, in no order */
        SqaWalk walk;
} SqaModel;

/* sqa-walk.c. Thresholds of temperatures up to hot, in units of the typical cost, are not cut off. -ECANCELED: the limit,
 * which may be NULL, has been hit. */
int sqa_model_init(SqaModel *m, const Qubo *q, const struct Kernels *kernels, uint64_t seed, double hot,
                   struct Limit *l);
void sqa_model_done(SqaModel *m);
void sqa_scatter(SqaModel *m);                    /* all zero, but the next sweep is of coins: for random points */
void sqa_set_temperature(SqaModel *m, double pt); /* P T in units of the model; 0: only what improves passes */
void sqa_set_bond(SqaModel *m, double bond);      /* in units of the model; cut off where no flip could pass */
double sqa_bond(double pt, double field);         /* field: Gamma / (P T) */
uint32_t sqa_sweep(SqaModel *m, uint32_t from, uint32_t to);
uint32_t sqa_lines(SqaModel *m, uint32_t from, uint32_t to);
void sqa_energies(const SqaModel *m, double *ret); /* by slice; exact where m->exact and below 2^53 */
void sqa_get_slice(const SqaModel *m, unsigned slice, uint8_t *ret);
