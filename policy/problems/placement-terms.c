/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The price list of a placement: one row per term. A unary function prices one candidate, a pair function two
 * candidates of different groups; both return the unweighted value in the row's unit. Configuration ([Weights]),
 * `explain`, energy.terms and the manual come from this table. Why the default weights are what they are: an
 * over-committed CPU must cost more than any distance, a distance more than crowding, crowding more than a tie-break.
 *
 * Distances are SLIT values made relative: 0 is local, 1 is a node at twice the local latency.
 */
#include "policy/problems/placement-internal.h"

#include <math.h>

const char *const term_group_names[] = { "resource", "time", "cost", "compat", NULL };

static const Device *device(const Placement *p, unsigned i) {
        return p->snapshot->devices + i;
}

static const Block *block(const Placement *p, const Candidate *c) {
        return p->blocks + c->block;
}

static double relative(double slit) {
        return MAX(slit - 10, 0.0) / 10;
}

static double in_common(const Candidate *a, const Candidate *b) {
        double n = 0;

        for (unsigned i = 0; i < a->n_devices; i++)
                for (unsigned j = 0; j < b->n_devices; j++)
                        n += a->devices[i] == b->devices[j];
        return n;
}

/* Expected CPUs that two sets want at the same time: each spreads its demand evenly over its set. */
static double overlap_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        double shared = p->overlap[(size_t) a->block * p->n_blocks + b->block];
        return shared == 0 ? 0
                           : shared * (p->ranks[a->rank].demand / block(p, a)->n_cpus) *
                                     (p->ranks[b->rank].demand / block(p, b)->n_cpus);
}

/* Where ranks share CPUs, a narrow set also puts its own load on few of them: with half of what a set makes of itself the
 * sum over all ranks is half the sum of each CPU's load squared, so that three on two CPUs are better off unpinned. */
static double overlap_unary(const Placement *p, const Candidate *c) {
        double demand = p->ranks[c->rank].demand;

        if (c->kind != CANDIDATE_CPUS)
                return 0;
        return p->foreign[c->block] * demand + (p->shares_cpus ? demand * demand / 2 / block(p, c)->n_cpus : 0);
}

static double housekeeping_unary(const Placement *p, const Candidate *c) {
        return c->kind == CANDIDATE_CPUS ? p->kept[c->block] * p->ranks[c->rank].demand : 0;
}

static double shortage_unary(const Placement *p, const Candidate *c) {
        if (c->kind != CANDIDATE_CPUS)
                return 0;
        return MAX(p->ranks[c->rank].demand - block(p, c)->n_cpus, 0.0) *
               (0.5 + p->ranks[c->rank].rank->job->priority / 100.0);
}

/* Two ranks on one node share its memory bandwidth and L3 while another node idles. */
static double crowding_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        return p->crowd[(size_t) p->kind[a->block] * p->n_kinds + p->kind[b->block]] * p->ranks[a->rank].demand *
               p->ranks[b->rank].demand;
}

static double node_memory(const Topology *t, unsigned n) {
        return n == TOPOLOGY_NONE ? 0
                                  : (double) (t->nodes[n].free == UINT64_MAX ? t->nodes[n].memory : t->nodes[n].free);
}

static double memory_unary(const Placement *p, const Candidate *c) {
        if (c->kind != CANDIDATE_CPUS || p->ranks[c->rank].memory == 0)
                return 0;
        double want = (double) p->ranks[c->rank].memory;
        return MAX(want - node_memory(p->snapshot->topology, block(p, c)->memory_node), 0.0) / want;
}

static double memory_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        if (block(p, a)->memory_node != block(p, b)->memory_node)
                return 0;
        double x = p->ranks[a->rank].pair_memory, y = p->ranks[b->rank].pair_memory;
        if (x == 0 || y == 0)
                return 0;
        double room = node_memory(p->snapshot->topology, block(p, a)->memory_node);
        if (room == 0)
                return 0;
        return MAX(x + y - room, 0.0) / (x + y) + MIN(x * y / room / room, 1.0);
}

static double heat_unary(const Placement *p, const Candidate *c) {
        double sum = 0;

        for (unsigned i = 0; c->kind == CANDIDATE_DEVICES && i < c->n_devices; i++) {
                double t = device(p, c->devices[i])->temperature;

                if (!isnan(t))
                        sum += MAX(t - p->weights->temperature_target, 0.0) / 10 * p->ranks[c->rank].power;
        }
        return sum;
}

static double exclusive_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        return in_common(a, b);
}

static double busy_unary(const Placement *p, const Candidate *c) {
        double n = 0;

        for (unsigned i = 0; c->kind == CANDIDATE_DEVICES && i < c->n_devices; i++)
                n += p->busy[c->devices[i]];
        return n;
}

static double root_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        double n = 0;

        for (unsigned i = 0; i < a->n_devices; i++)
                for (unsigned j = 0; j < b->n_devices; j++) {
                        const char *x = device(p, a->devices[i])->root, *y = device(p, b->devices[j])->root;

                        n += x && y && streq(x, y);
                }
        return n / MAX(a->n_devices * b->n_devices, 1U);
}

/* Device on an unknown node: every block has the same price, the machine's mean; nothing is drawn to node 0. */
static double distance_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        const Topology *t = p->snapshot->topology;
        double sum = 0;

        const Candidate *d = a->kind == CANDIDATE_DEVICES ? a : b, *c = d == a ? b : a;
        for (unsigned i = 0; i < d->n_devices; i++) {
                unsigned node = device(p, d->devices[i])->node;

                if (node != TOPOLOGY_NONE) {
                        sum += relative(block(p, c)->distance[node]);
                        continue;
                }
                for (unsigned n = 0; n < t->n_nodes; n++)
                        for (unsigned m = 0; m < t->n_nodes; m++)
                                sum += relative(topology_distance(t, n, m)) / t->n_nodes / t->n_nodes;
        }
        return sum / MAX(d->n_devices, 1U);
}

/* Memory that is there already, by where it lies; else where the block would allocate. */
static double memory_distance_unary(const Placement *p, const Candidate *c) {
        const Topology *t = p->snapshot->topology;
        double sum = 0, bytes = 0;

        if (c->kind != CANDIDATE_CPUS)
                return 0;
        const Task *task = p->ranks[c->rank].rank->task;
        for (unsigned n = 0; task && task->memory_by_node && n < t->n_nodes; n++) {
                sum += (double) task->memory_by_node[n] * relative(block(p, c)->distance[n]);
                bytes += (double) task->memory_by_node[n];
        }
        if (bytes > 0)
                return sum / bytes;
        unsigned node = block(p, c)->memory_node;
        return node == TOPOLOGY_NONE ? 0 : relative(block(p, c)->distance[node]);
}

static double span_unary(const Placement *p, const Candidate *c) {
        return c->kind == CANDIDATE_CPUS ? block(p, c)->span : 0;
}

/* The quadratic assignment part: share of a second that the link between their devices is busy for the two ranks. */
static double traffic_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        double sum = 0;

        for (unsigned i = 0; i < a->n_devices; i++)
                for (unsigned j = 0; j < b->n_devices; j++)
                        sum += p->link_time[(size_t) a->devices[i] * p->snapshot->n_devices + b->devices[j]];
        return sum / (a->n_devices * b->n_devices);
}

/* Ranks without devices talk through memory: 20 GB/s per unit of distance is what a socket link gives one pair. */
static double host_traffic_pair(const Placement *p, const Candidate *a, const Candidate *b) {
        const Topology *t = p->snapshot->topology;
        double d = 0;

        if (p->ranks[a->rank].n_device_candidates > 0 && p->ranks[b->rank].n_device_candidates > 0)
                return 0;
        for (unsigned n = 0; n < t->n_nodes; n++)
                d += block(p, b)->share[n] * relative(block(p, a)->distance[n]);
        return d / 20e9;
}

/* Part of the new set in which the process does not run today: caches to refill. */
static double move_unary(const Placement *p, const Candidate *c) {
        const Task *t = p->ranks[c->rank].rank->task;

        if (c->kind != CANDIDATE_CPUS || !t || c->current)
                return 0;
        return 1 - (double) bitset_and_weight(&block(p, c)->cpus, &t->cpus) / block(p, c)->n_cpus;
}

static double power_unary(const Placement *p, const Candidate *c) {
        double sum = 0;

        for (unsigned i = 0; c->kind == CANDIDATE_DEVICES && i < c->n_devices; i++)
                sum += isnan(device(p, c->devices[i])->power) ? 0 : device(p, c->devices[i])->power / 1000;
        return sum;
}

/* Relative to the dearest device, so that the currency does not matter. */
static double price_unary(const Placement *p, const Candidate *c) {
        double most = 0, sum = 0;

        for (size_t i = 0; i < p->snapshot->n_devices; i++)
                most = isnan(device(p, (unsigned) i)->price) ? most : MAX(most, device(p, (unsigned) i)->price);
        for (unsigned i = 0; most > 0 && c->kind == CANDIDATE_DEVICES && i < c->n_devices; i++)
                sum += isnan(device(p, c->devices[i])->price) ? 0 : device(p, c->devices[i])->price / most;
        return sum;
}

static double health_unary(const Placement *p, const Candidate *c) {
        static const double by_health[_HEALTH_MAX] = {
                [HEALTH_WARNING] = 1, [HEALTH_ALARM] = 4, [HEALTH_CRITICAL] = 20
        };
        double sum = 0;

        for (unsigned i = 0; c->kind == CANDIDATE_DEVICES && i < c->n_devices; i++)
                sum += by_health[device(p, c->devices[i])->health];
        return sum;
}

static double slow_unary(const Placement *p, const Candidate *c) {
        return c->kind == CANDIDATE_CPUS ? block(p, c)->slow : 0;
}

/* clang-format off */
const PlacementTerm placement_terms[] = {
        { "overlap", TERM_RESOURCE, "CPUs", 10, overlap_unary, PAIR_CPUS, overlap_pair, FACTOR_MEETING,
          "CPUs that two tasks want at the same time, each spreading its load evenly over its set" },
        { "shortage", TERM_RESOURCE, "CPUs", 5, shortage_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "CPUs that a rank lacks, more for a job of higher priority" },
        { "housekeeping", TERM_RESOURCE, "CPUs", 1, housekeeping_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "load put on CPUs that are kept for the system" },
        { "crowding", TERM_RESOURCE, "share^2", 0.5, NULL, PAIR_CPUS, crowding_pair, FACTOR_NONE,
          "two ranks on the caches and memory channels of one NUMA node while others idle" },
        { "memory", TERM_RESOURCE, "share", 20, memory_unary, PAIR_CPUS, memory_pair, FACTOR_NONE,
          "host memory that does not fit into the nearest node" },
        { "exclusive", TERM_RESOURCE, "devices", 1000, NULL, PAIR_DEVICES, exclusive_pair, FACTOR_NONE,
          "two ranks of ours on one device" },
        { "busy", TERM_RESOURCE, "tasks", 50, busy_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "foreign tasks on the device" },
        { "heat", TERM_RESOURCE, "10 K", 5, heat_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "device above the temperature target, weighted by the rank's power" },
        { "root", TERM_RESOURCE, "pairs", 0.05, NULL, PAIR_DEVICES, root_pair, FACTOR_NONE,
          "two ranks behind one PCIe uplink" },
        { "distance", TERM_TIME, "distance", 4, NULL, PAIR_OWN, distance_pair, FACTOR_NONE,
          "NUMA distance between a rank's CPUs and its device" },
        { "memory_distance", TERM_TIME, "distance", 2, memory_distance_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "NUMA distance between a rank's CPUs and its memory" },
        { "span", TERM_TIME, "distance", 2, span_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "NUMA distance between the CPUs of one rank" },
        { "traffic", TERM_TIME, "link load", 10, NULL, PAIR_DEVICES, traffic_pair, FACTOR_TRAFFIC,
          "share of time the link between two ranks' devices is busy for them" },
        { "host_traffic", TERM_TIME, "link load", 10, NULL, PAIR_CPUS, host_traffic_pair, FACTOR_TRAFFIC,
          "the same for ranks without devices, through memory" },
        { "move", TERM_TIME, "share", 0.5, move_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "part of the CPU set that is new to a running rank" },
        { "power", TERM_COST, "kW", 0.05, power_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "power the device draws now" },
        { "price", TERM_COST, "share", 0.5, price_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "price per hour relative to the dearest device" },
        { "health", TERM_COMPAT, "level", 5, health_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "device with a warning (1) or an alarm (4); critical ones are never offered" },
        { "slow", TERM_COMPAT, "share", 1, slow_unary, PAIR_NONE, NULL, FACTOR_NONE,
          "part of the CPU set that is of a slower kind" },
        {},
};
/* clang-format on */

_Static_assert(ELEMENTSOF(placement_terms) <= PLACEMENT_TERM_MAX + 1, "PLACEMENT_TERM_MAX is too small");

void placement_weights_default(PlacementWeights *w) {
        *w = (PlacementWeights){ .group = { 1, 1, 1, 1 }, .temperature_target = 75 };
        for (size_t i = 0; placement_terms[i].name; i++)
                w->term[i] = placement_terms[i].weight;
}

double placement_term_weight(const Placement *p, size_t term) {
        return p->weights->group[placement_terms[term].group] * p->weights->term[term];
}

double placement_pair_value(const Placement *p, size_t term, const Candidate *a, const Candidate *b) {
        double bytes = 1;

        if (placement_terms[term].factor == FACTOR_TRAFFIC) {
                bytes = p->traffic ? p->traffic[(size_t) a->rank * p->n_ranks + b->rank] : 0;
                if (bytes == 0)
                        return 0;
        }
        return bytes * placement_terms[term].pair(p, a, b);
}
