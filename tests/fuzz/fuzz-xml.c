/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outside XML: the scan refuses with a sentence or yields text that it takes again unchanged; what passes goes to hwloc
 * (behind the rehearsal in a child), and what comes out of that is a machine that holds together.
 */
#include "common/text.h"
#include "daemon/readers/machine-internal.h"
#include "daemon/readers/machine.h"
#include "tests/fuzz/fuzz.h"

static void check_topology(const Topology *t) {
        must(t->n_cpus > 0 && t->n_nodes > 0 && t->distance && !t->is_this_system);
        must(bitset_subset(&t->allowed, &t->online) && bitset_weight(&t->online) == t->n_cpus);
        for (unsigned i = 0; i < t->n_cpus; i++)
                must(t->cpus[i].node < t->n_nodes && bitset_test(&t->nodes[t->cpus[i].node].cpus, t->cpus[i].os));
        for (unsigned i = 0; i < t->n_nodes; i++)
                for (unsigned k = 0; k < t->n_nodes; k++)
                        must(topology_distance(t, i, i) <= topology_distance(t, i, k));
        for (unsigned i = 0; i < t->n_pci; i++)
                must(t->pci[i].address && (t->pci[i].node == TOPOLOGY_NONE || t->pci[i].node < t->n_nodes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *plain = NULL;
        _cleanup_free_ char *again = NULL;
        _cleanup_free_ char *message = NULL;
        _cleanup_(topology_freep) Topology *t = NULL;
        size_t n, m;

        if (machine_check_xml("fuzz", (const char *) data, size, &plain, &n, &message) < 0) {
                must(message && !plain && !strchr(message, '\n'));
                return 0;
        }
        must(machine_check_xml("fuzz", plain, n, &again, &m, &message) == 0);
        must(n == m && memcmp(plain, again, n) == 0);
        if (machine_read_xml("fuzz", (const char *) data, size, &t, &message) < 0)
                must(message);
        else
                check_topology(t);
        return 0;
}
