/* SPDX-License-Identifier: Apache-2.0 */
/* One table of kernels; included by each kernels-ISA.c, which defines KERNELS (its name) and KERNELS_NAME. */
#include "policy/qubo/kernels.h"
#include "policy/qubo/kernel-anneal.inc.h"
#include "policy/qubo/kernel-multispin.inc.h"
#include "policy/qubo/kernel-qaoa.inc.h"
#include "policy/qubo/kernel-qap.inc.h"
#include "policy/qubo/kernel-sqa.inc.h"
#include "policy/qubo/kernel-tabu.inc.h"

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
        .qaoa_gather = qaoa_gather,
        .qaoa_scatter = qaoa_scatter,
        .qaoa_moments = qaoa_moments,
        .anneal_lanes = { anneal_lanes8, anneal_lanes16, anneal_lanes32, anneal_lanes64 },
        .anneal_energies = { anneal_energies8, anneal_energies16, anneal_energies32, anneal_energies64 },
        .anneal_thresholds = { anneal_thresholds8, anneal_thresholds16, anneal_thresholds32, anneal_thresholds64 },
        .anneal_dense = { anneal_dense1616, anneal_dense3216, anneal_dense3232, anneal_dense6432 },
        .multispin_sweep = multispin_sweep,
        .multispin_fill = multispin_fill,
        .multispin_count = multispin_count,
        .sqa_sweep16 = sqa_sweep16,
        .sqa_sweep32 = sqa_sweep32,
        .sqa_lines16 = sqa_lines16,
        .sqa_lines32 = sqa_lines32,
        .tabu_dense = { tabu_dense16_8, tabu_dense16_16, tabu_dense32_8, tabu_dense32_16, tabu_dense32_32,
                        tabu_dense64_32 },
        .tabu_sparse = { tabu_sparse16, tabu_sparse32, tabu_sparse64 },
        .tabu_look = { tabu_look16, tabu_look32, tabu_look64 },
        .tabu_peak = tabu_peak16,
        .qap_load = { qap_load32, qap_load_double, qap_load64 },
        .qap_step = { qap_step32, qap_step_double, qap_step64 },
};
