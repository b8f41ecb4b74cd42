/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a rank is where it is: for each of its choices, what the best materially different one (another device, another
 * node) would cost with everything else as it is, and by which terms.
 */
#pragma once

#include "policy/plan.h"

/* Sentences for rank `rank` of the placement, appended to *reasons. chosen: one variable per group, n of them. */
int explain_rank(const Placement *p, unsigned rank, const uint32_t *chosen, size_t n, char ***reasons);
