/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU candidates (see blocks.h): what a block is to the terms, and each rank's choice of them.
 */
#include "policy/problems/packing.h"

#include <errno.h>

#include "common/text.h"

/* Model size that keeps a decision in milliseconds: variables for blocks over all ranks. */
#define BLOCK_VARIABLES_MAX 4096U

void block_done(Block *b) {
        bitset_done(&b->cpus);
        free(b->share);
        free(b->distance);
}

static void block_measure(const Topology *t, Block *b) {
        unsigned fastest = 0, home = 0;

        for (unsigned i = 0; i < t->n_cpus; i++)
                fastest = MAX(fastest, t->cpus[i].kind);
        b->n_cpus = bitset_weight(&b->cpus);
        BITSET_FOREACH (os, &b->cpus) {
                const TopologyCpu *c = topology_cpu(t, (unsigned) os);

                b->share[c->node] += 1.0 / b->n_cpus;
                b->slow += fastest > c->kind ? 1.0 / b->n_cpus : 0;
        }
        for (unsigned n = 0; n < t->n_nodes; n++) {
                for (unsigned m = 0; m < t->n_nodes; m++)
                        b->distance[n] += b->share[m] * topology_distance(t, m, n);
                if (b->share[n] > b->share[home])
                        home = n;
        }
        for (unsigned n = 0; n < t->n_nodes; n++)
                for (unsigned m = 0; m < t->n_nodes; m++)
                        b->span += b->share[n] * b->share[m] *
                                   MAX(topology_distance(t, n, m) - topology_distance(t, home, home), 0.0) / 10;
        b->memory_node = topology_memory_node(t, home);
}

static uint64_t block_hash(const Bitset *cpus) {
        uint64_t h = 0;

        for (unsigned i = 0; i < cpus->n_words; i++)
                h ^= cpus->words[i] * (UINT64_C(0x9e3779b97f4a7c15) + 2 * (uint64_t) i);
        return h;
}

int blocks_add(Placement *p, const Bitset *cpus, unsigned *ret) {
        const Topology *t = p->snapshot->topology;
        Block b = {};
        int r;

        b.hash = block_hash(cpus);
        for (unsigned i = 0; i < p->n_blocks; i++)
                if (p->blocks[i].hash == b.hash && bitset_equal(&p->blocks[i].cpus, cpus)) {
                        *ret = i;
                        return 0;
                }
        if ((p->n_blocks & (p->n_blocks - 1)) == 0) {
                Block *grown = realloc(p->blocks, MAX(2 * p->n_blocks, 1U) * sizeof(Block));

                if (!grown)
                        return -ENOMEM;
                p->blocks = grown;
        }
        b.share = calloc(t->n_nodes, sizeof(double));
        b.distance = calloc(t->n_nodes, sizeof(double));
        r = b.share && b.distance ? bitset_copy(&b.cpus, cpus) : -ENOMEM;
        if (r < 0) {
                block_done(&b);
                return r;
        }
        block_measure(t, &b);
        p->blocks[p->n_blocks] = b;
        *ret = p->n_blocks++;
        return 0;
}

/* Cuts a node, as this rank may use it, into blocks of its size; `skip` and `keep` thin them out for big models. */
static int cut_node(Packer *k, unsigned rank, unsigned node, unsigned keep,
                    int (*add)(Placement *, unsigned, const Bitset *)) {
        unsigned size = k->p->ranks[rank].size, n_blocks = packer_room(k, rank, node) / size, at = 0, in_block = 0;
        unsigned offset = n_blocks > keep ? rank * keep % n_blocks : 0;
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;
        int r;

        for (unsigned i = k->node_first[node]; i < k->node_first[node + 1] && at < n_blocks; i++) {
                if (!packer_available(k, rank, k->order[i]))
                        continue;
                r = bitset_set(&cpus, k->t->cpus[k->order[i]].os);
                if (r < 0)
                        return r;
                if (++in_block < size)
                        continue;
                if ((at + n_blocks - offset) % n_blocks < keep) {
                        r = add(k->p, rank, &cpus);
                        if (r < 0)
                                return r;
                }
                bitset_zero(&cpus);
                in_block = 0;
                at++;
        }
        return 0;
}

/* A block larger than any node: from each node outwards. */
static int straddling(Packer *k, unsigned rank, int (*add)(Placement *, unsigned, const Bitset *)) {
        _cleanup_free_ unsigned *near = calloc(k->t->n_nodes, sizeof(unsigned));
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;
        unsigned size = k->p->ranks[rank].size;
        int r;

        if (!near)
                return -ENOMEM;
        for (unsigned from = 0; from < k->t->n_nodes; from++) {
                unsigned n = 0;

                bitset_zero(&cpus);
                topology_nodes_by_distance(k->t, from, near);
                for (unsigned x = 0; x < k->t->n_nodes && n < size; x++)
                        for (unsigned i = k->node_first[near[x]]; i < k->node_first[near[x] + 1] && n < size; i++)
                                if (packer_available(k, rank, k->order[i])) {
                                        r = bitset_set(&cpus, k->t->cpus[k->order[i]].os);
                                        if (r < 0)
                                                return r;
                                        n++;
                                }
                r = n == size ? add(k->p, rank, &cpus) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* All of each node that has so many and, unless that is 0, fewer than `below`. */
static int whole_nodes(Packer *k, unsigned rank, unsigned least, unsigned below,
                       int (*add)(Placement *, unsigned, const Bitset *)) {
        _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;
        unsigned n;
        int r;

        for (unsigned node = 0; node < k->t->n_nodes; node++) {
                bitset_zero(&cpus);
                for (unsigned i = k->node_first[node]; i < k->node_first[node + 1]; i++)
                        if (packer_available(k, rank, k->order[i])) {
                                r = bitset_set(&cpus, k->t->cpus[k->order[i]].os);
                                if (r < 0)
                                        return r;
                        }
                n = bitset_weight(&cpus);
                r = n >= least && (below == 0 || n < below) ? add(k->p, rank, &cpus) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* "Leave alone" is a choice as long as what the process has now is valid, and not more than was asked for. */
static bool stays_possible(const Placement *p, unsigned rank) {
        const Task *t = p->ranks[rank].rank->task;
        unsigned most = p->ranks[rank].rank->section->cpus;

        return t && bitset_weight(&t->cpus) >= p->ranks[rank].min && (most == 0 || bitset_weight(&t->cpus) <= most) &&
               bitset_subset(&t->cpus, &p->snapshot->topology->online) &&
               (bitset_isempty(&t->allowed_cpus) || bitset_subset(&t->cpus, &t->allowed_cpus));
}

static int offer(Packer *k, unsigned rank, int (*add)(Placement *, unsigned, const Bitset *)) {
        Placement *p = k->p;
        unsigned keep = MAX(BLOCK_VARIABLES_MAX / MAX(p->n_ranks * k->t->n_nodes, 1U), 1U);
        int r;

        if (stays_possible(p, rank)) {
                r = add(p, rank, &p->ranks[rank].rank->task->cpus);
                if (r < 0)
                        return r;
        }
        if (p->ranks[rank].pooled)
                return add(p, rank, &p->ranks[rank].allowed);
        if (!bitset_isempty(k->packed + rank)) {
                r = add(p, rank, k->packed + rank);
                if (r < 0)
                        return r;
        }
        if (p->shares_cpus && p->ranks[rank].want == 0) {
                /* there is nothing to keep apart: the kernel balances */
                r = whole_nodes(k, rank, p->ranks[rank].size, 0, add);
                return r < 0 || p->ranks[rank].size <= packer_capacity(k, rank) ? r : straddling(k, rank, add);
        }
        for (unsigned node = 0; node < k->t->n_nodes; node++) {
                r = cut_node(k, rank, node, keep, add);
                if (r < 0)
                        return r;
        }
        if (p->ranks[rank].want == 0) { /* without a wish the size is the largest node's: a smaller one may be nearer */
                r = whole_nodes(k, rank, MAX(p->ranks[rank].min, (p->ranks[rank].size + 1) / 2), p->ranks[rank].size,
                                add);
                if (r < 0)
                        return r;
        }
        return p->ranks[rank].size > packer_capacity(k, rank) || k->straddle ? straddling(k, rank, add) : 0;
}

/* CPUs that a rank keeps busy: all it gets, but in a shared pool what was measured or promised. */
static double block_demand(const PlacementRank *r) {
        const Task *t = r->rank->task;

        if (!r->pooled)
                return r->size;
        if (r->fixed && isnan(t->cpu_use))
                return r->size;
        return MIN(!isnan(t->cpu_use)   ? MAX(t->cpu_use, 1.0)
                   : !isnan(t->request) ? MAX(t->request, 1.0)
                                        : 1.0,
                   (double) r->size);
}

int blocks_make(Placement *p, const BlockParams *params, int (*add)(Placement *p, unsigned rank, const Bitset *cpus)) {
        _cleanup_(packer_done) Packer k = {};
        int r;

        r = packer_init(&k, p);
        if (r < 0)
                return r;
        r = packer_housekeeping(&k, params);
        if (r < 0)
                return r;
        r = packer_find(&k);
        if (r <= 0)
                return r;
        for (unsigned i = 0; i < k.t->n_cpus; i++)
                k.owner[i] = -1;
        for (unsigned i = 0; i < p->n_ranks; i++) {
                p->ranks[i].demand = block_demand(p->ranks + i);
                r = offer(&k, i, add);
                if (r < 0)
                        return r;
        }
        return 0;
}

int blocks_irq(const Placement *p, const Block *block, Bitset *taken, Bitset *ret) {
        const Topology *t = p->snapshot->topology;
        unsigned home = 0;
        int r;

        for (unsigned n = 1; n < t->n_nodes; n++)
                if (block->share[n] > block->share[home])
                        home = n;
        for (unsigned i = 0; i < t->n_cpus; i++) {
                unsigned os = t->cpus[i].os;

                if (t->cpus[i].node != home || !bitset_test(&t->allowed, os) || bitset_test(taken, os) ||
                    bitset_test(&p->housekeeping, os) || bitset_test(&t->isolated, os) ||
                    bitset_test(&p->snapshot->reserved, os))
                        continue;
                r = bitset_set(taken, os);
                return r < 0 ? r : bitset_set(ret, os);
        }
        for (unsigned i = 0; i < t->n_cpus; i++)
                if (t->cpus[i].node == home && bitset_test(&p->housekeeping, t->cpus[i].os)) {
                        r = bitset_set(ret, t->cpus[i].os);
                        if (r < 0)
                                return r;
                }
        return 0;
}
