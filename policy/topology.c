/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions asked of a Topology. Nothing here changes one; daemon/readers/machine.c fills it. Look-ups go by the
 * kernel's numbers and are binary searches, for cpus[] and nodes[] are sorted by them.
 */
#include "policy/topology.h"

#include "common/text.h"

Topology *topology_free(Topology *t) {
        if (!t)
                return NULL;

        for (unsigned i = 0; i < t->n_nodes; i++) {
                bitset_done(&t->nodes[i].cpus);
                free(t->nodes[i].kind);
        }
        for (unsigned i = 0; i < t->n_pci; i++) {
                free(t->pci[i].address);
                free(t->pci[i].root);
                free(t->pci[i].driver);
                bitset_done(&t->pci[i].local_cpus);
        }
        free(t->source);
        free(t->cpus);
        free(t->nodes);
        free(t->distance);
        free(t->pci);
        bitset_done(&t->online);
        bitset_done(&t->allowed);
        bitset_done(&t->isolated);
        bitset_done(&t->allowed_nodes);
        strv_free(t->warnings);
        free(t);
        return NULL;
}

const TopologyCpu *topology_cpu(const Topology *t, unsigned os) {
        unsigned lo = 0, hi = t->n_cpus;

        while (lo < hi) {
                unsigned mid = lo + (hi - lo) / 2;

                if (t->cpus[mid].os == os)
                        return t->cpus + mid;
                if (t->cpus[mid].os < os)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return NULL;
}

unsigned topology_node_by_os(const Topology *t, unsigned os) {
        unsigned lo = 0, hi = t->n_nodes;

        while (lo < hi) {
                unsigned mid = lo + (hi - lo) / 2;

                if (t->nodes[mid].os == os)
                        return mid;
                if (t->nodes[mid].os < os)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return TOPOLOGY_NONE;
}

void topology_nodes_by_distance(const Topology *t, unsigned from, unsigned *order) {
        /* Insertion is stable: nodes equally far stay in order of their numbers. The node itself goes first even where
         * a contradictory table puts another one nearer. */
        for (unsigned n = 0; n < t->n_nodes; n++) {
                unsigned i = n;

                for (; i > 0; i--) {
                        unsigned o = order[i - 1];

                        if (o == from || (n != from && topology_distance(t, from, o) <= topology_distance(t, from, n)))
                                break;
                        order[i] = o;
                }
                order[i] = n;
        }
}

unsigned topology_memory_node(const Topology *t, unsigned from) {
        unsigned best = TOPOLOGY_NONE;

        for (unsigned n = 0; n < t->n_nodes; n++) {
                const TopologyNode *a = t->nodes + n, *b;

                if (!a->allowed || a->memory == 0)
                        continue;
                if (best == TOPOLOGY_NONE) {
                        best = n;
                        continue;
                }
                b = t->nodes + best;
                if (a->ordinary != b->ordinary) {
                        if (a->ordinary)
                                best = n;
                } else if (best != from && from < t->n_nodes &&
                           (n == from || topology_distance(t, from, n) < topology_distance(t, from, best)))
                        best = n;
        }
        return best;
}
