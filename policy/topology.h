/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as plain data: CPUs with their place, NUMA nodes with memory and distances, PCI functions with their
 * place. Filled by daemon/readers/machine.c from hwloc (the running system, an XML file, a captured /sys); read as
 * const by everybody else. Indices: "os" numbers are the kernel's; `nodes[i]`, `cpus[i]` are dense and sorted by os.
 */
#pragma once

#include <limits.h>

#include "common/bitset.h"

#define TOPOLOGY_NONE UINT_MAX /* no such level, or unknown place */

typedef struct TopologyCpu {
        unsigned os;      /* kernel's number */
        unsigned node;    /* index into nodes[]: the nearest node (local DRAM before other memory) */
        unsigned package; /* dense ids; TOPOLOGY_NONE where the machine does not tell */
        unsigned l3;
        unsigned cluster; /* cores that share an L2 cache or its tags */
        unsigned core;    /* always known: a CPU of which the machine does not tell is a core of its own */
        unsigned smt;     /* rank among the online siblings of its core: 0, 1, … */
        unsigned kind;    /* hwloc CPU kind by efficiency, 0 the most efficient (slowest); 0 where all are alike */
} TopologyCpu;

typedef struct TopologyNode {
        unsigned os;
        Bitset cpus;      /* online CPUs local to it; empty for CPU-less nodes */
        uint64_t memory;  /* bytes; 0: memory-less */
        uint64_t free;    /* bytes free right now; UINT64_MAX unknown (recorded machines) */
        bool allowed;     /* memory may be taken from it (cpuset.mems of the planning process) */
        bool ordinary;    /* plain system memory; false: a device's or persistent memory, last choice for host pages */
        char *kind;       /* hwloc's word for it: "DRAM", "HBM", "NVM", "GPUMemory"; NULL unknown */
        double bandwidth; /* local, MiB/s from memory attributes; NAN unknown */
        double latency;   /* local, ns from memory attributes; NAN unknown */
} TopologyNode;

typedef struct TopologyPci {
        char *address;                  /* "0000:c1:00.0" */
        unsigned vendor, device, class; /* class: 16 bits, 0x1200 processing accelerator */
        unsigned node;     /* index into nodes[], TOPOLOGY_NONE when neither the function nor a parent tells */
        Bitset local_cpus; /* empty when unknown */
        char *root;        /* shared uplink: address of the top-most bridge above it, else its root bus "pci0000:00" */
        char *driver;      /* NULL unknown */
} TopologyPci;

typedef struct Topology {
        char *source; /* "this system", or the path that was read */
        bool is_this_system;
        TopologyCpu *cpus; /* online ones, sorted by os */
        unsigned n_cpus;
        TopologyNode *nodes;
        unsigned n_nodes;
        double *distance;     /* n_nodes x n_nodes, row by row; 10 is local (SLIT). Always filled */
        bool distances_known; /* false: 10 and 20 were assumed */
        Bitset online;        /* all online CPUs */
        Bitset allowed;       /* online CPUs that this process may hand out (cgroup, cpuset) */
        Bitset isolated;      /* isolcpus= and cpuset isolated partitions */
        Bitset allowed_nodes; /* os numbers */
        TopologyPci *pci;     /* PCI functions hwloc kept as I/O objects */
        unsigned n_pci;
        char **warnings; /* what was contradictory and how it was read */
} Topology;

Topology *topology_free(Topology *t);
DEFINE_CLEANUP(Topology *, topology_free);

const TopologyCpu *topology_cpu(const Topology *t, unsigned os); /* NULL: not online */
unsigned topology_node_by_os(const Topology *t, unsigned os);    /* index or TOPOLOGY_NONE */
static inline double topology_distance(const Topology *t, unsigned a, unsigned b) {
        return t->distance[(size_t) a * t->n_nodes + b];
}
/* Node indices by distance from `from`, nearest first (ties by os number); order has n_nodes entries. */
void topology_nodes_by_distance(const Topology *t, unsigned from, unsigned *order);
/* The node nearest to `from` that has memory and is allowed, ordinary memory before any other; TOPOLOGY_NONE if there
 * is none at all. */
unsigned topology_memory_node(const Topology *t, unsigned from);
