/* SPDX-License-Identifier: Apache-2.0 */
/* Descent on the bits of a plain model by single flips, in the model's own numbers. */
#pragma once

#include "policy/qubo/search.h"

/*
 * x goes to a local minimum, or as far as the limit lets it, and is offered; field is room for n. Where the limit is hit
 * before the energy of x is known (O(couplings)), nothing is.
 */
void polish(Best *b, Limit *l, uint8_t *x, int64_t *field, uint64_t *flips);
