/* SPDX-License-Identifier: Apache-2.0 */
/* One table of kernels; included by each kernels-ISA.c, which defines KERNELS (its name) and KERNELS_NAME. */
#include "policy/qubo/kernels.h"
#include "policy/qubo/kernel-anneal.inc.h"
#include "policy/qubo/kernel-qaoa.inc.h"

static bool supported(void);

extern const Kernels KERNELS;

const Kernels KERNELS = {
        .name = KERNELS_NAME,
        .supported = supported,
        .qaoa_phase = qaoa_phase,
        .qaoa_rx = qaoa_rx,
        .qaoa_rx_low = qaoa_rx_low,
        .qaoa_mix = qaoa_mix,
        .qaoa_turn = qaoa_turn,
        .qaoa_turn_back = qaoa_turn_back,
        .qaoa_moments = qaoa_moments,
        .anneal_lanes = { anneal_lanes8, anneal_lanes16, anneal_lanes32, anneal_lanes64 },
};
