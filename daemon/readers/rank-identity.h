/* SPDX-License-Identifier: Apache-2.0 */
/* What a process's environment says of its rank and of the devices it may use. Pure; the block is /proc/PID/environ. */
#pragma once

#include "common/macro.h"

/* Rank over all hosts as the launcher numbers it (torchrun, MindSpore, Open MPI, PMIx, Slurm, MVAPICH); -1 unknown. */
int environ_rank(const char *block, size_t size);

/* Numbers (as the host counts the devices of that kind) that the visible-devices variables leave. `seen`: what the
 * process's /dev shows, in its order, when no variable tells. 1 and the list, or 0: nothing is said, or it is not
 * understood (UUIDs). An empty list means that all are hidden. */
int environ_visible_devices(const char *block, size_t size, const char *kind, const unsigned *seen, size_t n_seen,
                            unsigned **ret, size_t *ret_n);
