/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The double form: E(x) = sum of terms w, w x_i, w x_i x_j with w a double, for files with decimals. Terms are kept one
 * by one as they were given: 0.1 + 0.2 is three tenths here, because each term is brought to a whole number before any
 * two are added up.
 *
 * Solvers compute with integers, so the form is quantised: value = energy * unit / scale. If all terms are whole numbers of
 * one power of ten, or of two, and the sums fit into a Qubo, that is exact (common factors are taken out where it helps
 * to fit). Otherwise coefficients are rounded at the largest power of two that fits, and the bound of what that can
 * change of the value of any point is stated. real_energy() says what a point is really worth, from the terms.
 *
 * Memory: 16 bytes a term here; quantising takes as much again for a while, and the Qubo.
 */
#pragma once

#include "policy/qubo/qubo.h"

typedef struct RealQubo RealQubo;

typedef struct RealScale {
        double scale; /* value = energy * unit / scale */
        int64_t unit;
        bool exact;   /* the Qubo is the input */
        double error; /* value is at most so far from real_energy() (but for long double's rounding); 0 if exact */
} RealScale;

int real_new(uint32_t n, RealQubo **ret);
RealQubo *real_free(RealQubo *r);
DEFINE_CLEANUP(RealQubo *, real_free);
/* Terms add up. -EINVAL: not a finite number, or no such variable. */
int real_add_offset(RealQubo *r, double w);
int real_add_linear(RealQubo *r, uint32_t i, double w);
int real_add_quadratic(RealQubo *r, uint32_t i, uint32_t j, double w); /* i == j is linear */
/* Term k of so many, as it was given: i == j is linear, both REAL_CONSTANT the offset. */
#define REAL_CONSTANT UINT32_MAX
size_t real_terms(const RealQubo *r);
void real_term(const RealQubo *r, size_t k, uint32_t *ret_i, uint32_t *ret_j, double *ret_w);
/* Of bits, recomputed from the terms; summed in long double. */
long double real_energy(const RealQubo *r, const uint8_t *x);
/* -EOVERFLOW: the sum of all terms is beyond what a double holds. */
int real_quantise(const RealQubo *r, Qubo **ret, RealScale *ret_scale);
double real_value(const RealScale *s, int64_t energy); /* the input's value of an energy of the Qubo */
/* The largest energy whose value is not above: a target in the Qubo's terms. Saturates. */
int64_t real_target(const RealScale *s, double value);
