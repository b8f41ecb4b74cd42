/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is to be placed, on which candidates, and beside whom; what a plan costs by term. (placement-model.c makes the
 * model of it.)
 */
#include "policy/problems/placement.h"

#include <errno.h>
#include <math.h>

#include "common/text.h"
#include "policy/problems/blocks.h"
#include "policy/problems/device-sets.h"
#include "policy/problems/placement-internal.h"

/* Bytes/s assumed for a link whose bandwidth nobody gave: usual order of the types, so that a plan prefers the better. */
static const double usual_bandwidth[_LINK_MAX] = {
        [LINK_SYS] = 10e9,  [LINK_PHB] = 16e9,     [LINK_PXB] = 20e9,  [LINK_PIX] = 24e9,     [LINK_SIO] = 200e9,
        [LINK_HCCS] = 30e9, [LINK_MLULINK] = 50e9, [LINK_XGMI] = 50e9, [LINK_NVLINK] = 100e9,
};

Placement *placement_free(Placement *p) {
        if (!p)
                return NULL;
        for (unsigned i = 0; i < p->n_ranks; i++)
                bitset_done(&p->ranks[i].allowed);
        for (unsigned i = 0; i < p->n_blocks; i++)
                block_done(p->blocks + i);
        for (size_t i = 0; i < p->n_device_sets; i++)
                free(p->device_sets[i]);
        free(p->ranks);
        free(p->others);
        free(p->blocks);
        free(p->device_sets);
        free(p->candidates);
        free(p->overlap);
        free(p->kind);
        free(p->common);
        free(p->crowd);
        free(p->foreign);
        free(p->kept);
        free(p->busy);
        free(p->of_block_first);
        free(p->of_block);
        free(p->traffic);
        free(p->link_time);
        bitset_done(&p->housekeeping);
        strv_free(p->messages);
        strv_free(p->causes);
        free(p);
        return NULL;
}

Candidate *placement_add_candidate(Placement *p) {
        if ((p->n_candidates & (p->n_candidates - 1)) == 0) {
                Candidate *grown = realloc(p->candidates, MAX(2 * p->n_candidates, 1U) * sizeof(Candidate));

                if (!grown)
                        return NULL;
                p->candidates = grown;
        }
        p->candidates[p->n_candidates] = (Candidate){};
        return p->candidates + p->n_candidates++;
}

static int add_block(Placement *p, unsigned rank, const Bitset *cpus) {
        PlacementRank *r = p->ranks + rank;
        Candidate *c;
        unsigned block;
        int q;

        q = blocks_add(p, cpus, &block);
        if (q < 0)
                return q;
        if (r->n_block_candidates == 0)
                r->first_block = p->n_candidates;
        for (uint32_t i = r->first_block; i < r->first_block + r->n_block_candidates; i++)
                if (p->candidates[i].block == block)
                        return 0;
        c = placement_add_candidate(p);
        if (!c)
                return -ENOMEM;
        *c = (Candidate){ .kind = CANDIDATE_CPUS, .rank = rank, .block = block };
        c->current = r->rank->task && bitset_equal(cpus, &r->rank->task->cpus);
        if (c->current)
                r->current_block = (int) (c - p->candidates);
        r->n_block_candidates++;
        return 0;
}

/* A pod that has no CPUs to itself: kubelet gives exclusive ones in whole numbers, as many as were requested. */
static bool in_shared_pool(const Snapshot *s, const Task *t) {
        return t && t->owner_kind == OWNER_POD && bitset_intersects(&t->allowed_cpus, &s->reserved) &&
               (isnan(t->request) || lround(t->request) != (long) bitset_weight(&t->allowed_cpus));
}

/* The CPUs that a rank may have: what its cgroup allows (planned ones: what this machine allows), without CPUs that are
 * isolated or somebody else's to hand out, unless the task already lives on just those. A pod in kubelet's shared pool
 * keeps all of the pool: kubelet takes CPUs out of it as it likes. */
static int rank_allowed(const Snapshot *s, PlacementRank *r) {
        const Topology *t = s->topology;
        const Task *task = r->rank->task;
        int q;

        q = bitset_copy(&r->allowed, task && !bitset_isempty(&task->allowed_cpus) ? &task->allowed_cpus
                                     : task                                       ? &t->online
                                                                                  : &t->allowed);
        if (q < 0)
                return q;
        bitset_and(&r->allowed, &t->online);
        r->fixed = task && task->fixed && bitset_intersects(&r->allowed, &task->cpus);
        if (r->fixed) {
                bitset_and(&r->allowed, &task->cpus);
                r->min = 1;
        }
        r->pooled = r->fixed || in_shared_pool(s, task);
        if (r->pooled) {
                r->size = bitset_weight(&r->allowed);
                return 0;
        }
        if (!bitset_subset(&r->allowed, &s->reserved))
                bitset_andnot(&r->allowed, &s->reserved);
        if (!bitset_subset(&r->allowed, &t->isolated))
                bitset_andnot(&r->allowed, &t->isolated);
        return 0;
}

static int check_rank(Placement *p, const PlacementRank *r) {
        _cleanup_free_ char *list = NULL;
        unsigned n = bitset_weight(&r->allowed);
        int q;

        if (n >= r->min)
                return 0;
        q = bitset_format(&r->allowed, &list);
        if (q < 0)
                return q;
        if (n == 0)
                return strv_extendf(&p->causes,
                                    "%s may run on no CPU: none that its cpuset allows is online and free to give",
                                    r->rank->name);
        return strv_extendf(&p->causes, "%s needs at least %u CPUs (MinCPUs=), it may use %u (%s)", r->rank->name,
                            r->min, n, list);
}

/* Pair prices take memory in powers of two, and none where it is next to nothing on every node: what was measured of a
 * hundred like processes then makes few different prices. */
static double pair_memory(const Topology *t, uint64_t memory) {
        double room = INFINITY;

        for (unsigned n = 0; n < t->n_nodes; n++) {
                uint64_t here = t->nodes[n].free == UINT64_MAX ? t->nodes[n].memory : t->nodes[n].free;

                room = here > 0 ? MIN(room, (double) here) : room;
        }
        return (double) memory * 256 < room ? 0 : exp2(ceil(log2((double) memory)));
}

static void rank_memory_and_power(const Snapshot *s, PlacementRank *r) {
        const Task *t = r->rank->task;

        r->memory = r->rank->section->memory;
        for (unsigned n = 0; r->memory == 0 && t && t->memory_by_node && n < s->topology->n_nodes; n++)
                r->memory += t->memory_by_node[n];
        r->pair_memory = pair_memory(s->topology, r->memory);
        r->power = 1;
        for (size_t i = 0; t && i < t->n_devices; i++)
                if (!isnan(s->devices[t->devices[i]].power))
                        r->power = s->devices[t->devices[i]].power / 300;
}

static int make_ranks(Placement *p, const RankList *ranks) {
        if (ranks->n_ranks > PLACEMENT_RANKS_MAX)
                return strv_extendf(&p->causes, "%zu ranks are asked for, one host's plan takes at most %u",
                                    ranks->n_ranks, PLACEMENT_RANKS_MAX);
        p->ranks = calloc(MAX(ranks->n_ranks, (size_t) 1), sizeof(PlacementRank));
        if (!p->ranks)
                return -ENOMEM;
        for (size_t i = 0; i < ranks->n_ranks; i++) {
                PlacementRank *r = p->ranks + p->n_ranks++;
                int q;

                r->rank = ranks->ranks + i;
                r->min = MAX(r->rank->section->min_cpus, 1U);
                r->want = r->rank->section->cpus;
                r->current_device = r->current_block = r->present_block = -1;
                rank_memory_and_power(p->snapshot, r);
                q = rank_allowed(p->snapshot, r);
                if (q < 0)
                        return q;
                q = check_rank(p, r);
                if (q < 0)
                        return q;
        }
        return 0;
}

static bool belongs_to_rank(const Placement *p, const Task *t) {
        for (unsigned i = 0; i < p->n_ranks; i++) {
                const Task *r = p->ranks[i].rank->task;

                if (r && (r == t || r->pid == t->parent_task))
                        return true;
                for (size_t k = 0; r && k < r->n_children; k++)
                        if (r->children[k].pid == t->pid)
                                return true;
        }
        return false;
}

/* Foreign tasks that sit on CPUs of their own; the unpinned float to wherever there is room. */
static int make_others(Placement *p) {
        const Snapshot *s = p->snapshot;

        p->others = calloc(MAX(s->n_tasks, (size_t) 1), sizeof(Other));
        if (!p->others)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_tasks; i++) {
                const Task *t = s->tasks + i;
                unsigned n = bitset_weight(&t->cpus);

                if (n == 0 || n >= bitset_weight(&s->topology->online) || belongs_to_rank(p, t) ||
                    (!bitset_isempty(&t->allowed_cpus) && bitset_subset(&t->allowed_cpus, &t->cpus)))
                        continue;
                p->others[p->n_others++] = (Other){
                        .task = t,
                        .demand = isnan(t->cpu_use) ? n : MIN(MAX(t->cpu_use, 1.0), (double) n),
                };
        }
        return 0;
}

/* Seconds per byte between two devices that no link is given for: by what they share, across nodes by NUMA distance (20
 * is what a remote node usually has). */
static double assumed_time(const Snapshot *s, const Device *a, const Device *b) {
        double sys = 1 / usual_bandwidth[LINK_SYS];

        if (a->root && b->root && streq(a->root, b->root))
                return 1 / usual_bandwidth[LINK_PXB];
        if (a->node == TOPOLOGY_NONE || b->node == TOPOLOGY_NONE)
                return sys;
        return a->node == b->node ? 1 / usual_bandwidth[LINK_PHB]
                                  : MAX(sys * topology_distance(s->topology, a->node, b->node) / 20,
                                        1 / usual_bandwidth[LINK_PHB]);
}

static int make_links(Placement *p) {
        const Snapshot *s = p->snapshot;
        size_t n = s->n_devices;

        p->link_time = calloc(MAX(n * n, (size_t) 1), sizeof(double));
        if (!p->link_time)
                return -ENOMEM;
        for (size_t a = 0; a < n; a++)
                for (size_t b = 0; b < n; b++)
                        if (a != b)
                                p->link_time[a * n + b] = assumed_time(s, s->devices + a, s->devices + b);
        for (size_t i = 0; i < s->n_links; i++) {
                const Link *l = s->links + i;
                double bandwidth = l->bandwidth > 0 ? l->bandwidth : usual_bandwidth[l->type];

                p->link_time[l->a * n + l->b] = p->link_time[l->b * n + l->a] = 1 / bandwidth;
        }
        return 0;
}

static int make_traffic(Placement *p, const Job *const *jobs, size_t n_jobs, char **ret_message) {
        for (size_t j = 0, first = 0; j < n_jobs; j++) {
                _cleanup_free_ double *m = NULL;
                const PlacementRank *ranks = p->ranks + first;
                size_t n = 0, of;
                int r;

                while (first + n < p->n_ranks && ranks[n].rank->job == jobs[j])
                        n++;
                of = n > 0 ? ranks[0].rank->of : 0;
                r = of > 0 ? job_traffic(jobs[j], (unsigned) of, &m, ret_message) : 0;
                if (r < 0)
                        return r;
                if (m && !p->traffic) {
                        p->traffic = calloc((size_t) p->n_ranks * p->n_ranks, sizeof(double));
                        if (!p->traffic)
                                return -ENOMEM;
                }
                for (size_t a = 0; m && a < n; a++)
                        for (size_t b = 0; b < n; b++)
                                p->traffic[(first + a) * p->n_ranks + first + b] =
                                        m[ranks[a].rank->index * of + ranks[b].rank->index];
                first += n;
        }
        return 0;
}

/* Present places that are no choice (too wide, partly offline) still have a price: the energy before. */
static int make_present(Placement *p) {
        p->n_variables = p->n_candidates;
        for (unsigned i = 0; i < p->n_ranks; i++) {
                _cleanup_(bitset_done) Bitset cpus = BITSET_EMPTY;
                PlacementRank *r = p->ranks + i;
                Candidate *c;
                unsigned block;
                int q;

                r->present_block = r->current_block;
                if (!r->rank->task || r->current_block >= 0)
                        continue;
                q = bitset_copy(&cpus, &r->rank->task->cpus);
                if (q < 0)
                        return q;
                bitset_and(&cpus, &p->snapshot->topology->online);
                if (bitset_isempty(&cpus))
                        continue;
                q = blocks_add(p, &cpus, &block);
                c = q < 0 ? NULL : placement_add_candidate(p);
                if (!c)
                        return -ENOMEM;
                *c = (Candidate){ .kind = CANDIDATE_CPUS, .rank = i, .block = block, .current = true };
                r->present_block = (int) (c - p->candidates);
        }
        return 0;
}

static int make_overlap(Placement *p) {
        p->overlap = calloc(MAX((size_t) p->n_blocks * p->n_blocks, (size_t) 1), sizeof(double));
        if (!p->overlap)
                return -ENOMEM;
        for (unsigned a = 0; a < p->n_blocks; a++)
                for (unsigned b = a; b < p->n_blocks; b++)
                        p->overlap[(size_t) a * p->n_blocks + b] = p->overlap[(size_t) b * p->n_blocks + a] =
                                bitset_and_weight(&p->blocks[a].cpus, &p->blocks[b].cpus);
        return 0;
}

/* What foreign tasks and housekeeping are to each block, and foreign tasks to each device. */
static int make_neighbours(Placement *p) {
        const Snapshot *s = p->snapshot;
        _cleanup_free_ bool *ours = calloc(MAX(s->n_tasks, (size_t) 1), sizeof(bool));

        p->foreign = calloc(MAX(p->n_blocks, 1U), sizeof(double));
        p->kept = calloc(MAX(p->n_blocks, 1U), sizeof(double));
        p->busy = calloc(MAX(s->n_devices, (size_t) 1), sizeof(double));
        if (!ours || !p->foreign || !p->kept || !p->busy)
                return -ENOMEM;
        for (unsigned b = 0; b < p->n_blocks; b++) {
                const Block *block = p->blocks + b;

                for (size_t i = 0; i < p->n_others; i++) {
                        const Bitset *cpus = &p->others[i].task->cpus;
                        unsigned shared = bitset_and_weight(cpus, &block->cpus);

                        if (shared > 0)
                                p->foreign[b] += shared * (p->others[i].demand / bitset_weight(cpus)) / block->n_cpus;
                }
                p->kept[b] = (double) bitset_and_weight(&p->housekeeping, &block->cpus) / block->n_cpus;
        }
        for (unsigned i = 0; i < p->n_ranks; i++)
                if (p->ranks[i].rank->task)
                        ours[p->ranks[i].rank->task - s->tasks] = true;
        for (size_t i = 0; i < s->n_tasks; i++)
                for (size_t d = 0; !ours[i] && d < s->tasks[i].n_devices; d++)
                        p->busy[s->tasks[i].devices[d]]++;
        return 0;
}

int placement_new(const Snapshot *s, const RankList *ranks, const Job *const *jobs, size_t n_jobs,
                  const PlacementWeights *w, const PlacementParams *params, Placement **ret, char **ret_message) {
        _cleanup_(placement_freep) Placement *p = calloc(1, sizeof(Placement));
        BlockParams blocks = { .housekeeping_cores = params->housekeeping_cores, .housekeeping = params->housekeeping };
        int r;

        if (!p)
                return -ENOMEM;
        p->snapshot = s;
        p->weights = w;
        r = make_ranks(p, ranks);
        if (r >= 0)
                r = make_others(p);
        if (r >= 0)
                r = make_links(p);
        if (r >= 0)
                r = make_traffic(p, jobs, n_jobs, ret_message);
        if (r >= 0)
                r = device_sets_make(p);
        if (r >= 0 && !p->causes)
                r = blocks_make(p, &blocks, add_block);
        if (r >= 0)
                r = make_present(p);
        if (r >= 0)
                r = make_overlap(p);
        if (r >= 0)
                r = make_neighbours(p);
        if (r >= 0)
                r = placement_find_kinds(p);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

static PairKind pair_kind(const Candidate *a, const Candidate *b) {
        if (a->rank == b->rank)
                return a->kind == b->kind ? PAIR_NONE : PAIR_OWN;
        if (a->kind != b->kind)
                return PAIR_NONE;
        return a->kind == CANDIDATE_CPUS ? PAIR_CPUS : PAIR_DEVICES;
}

void placement_share(const Placement *p, uint32_t variable, const uint32_t *chosen, size_t n, double share,
                     double *terms) {
        const Candidate *c = p->candidates + variable;
        double sums[PLACEMENT_TERM_MAX] = {};
        size_t of_kind[PAIR_OWN + 1][PLACEMENT_TERM_MAX], n_of_kind[PAIR_OWN + 1] = {};

        for (size_t t = 0; placement_terms[t].name; t++) {
                PairKind kind = placement_terms[t].pair_kind;

                of_kind[kind][n_of_kind[kind]++] = t;
        }
        n_of_kind[PAIR_NONE] = 0;
        for (size_t i = 0; i < n; i++) {
                const Candidate *d = p->candidates + chosen[i];
                PairKind kind = pair_kind(c, d);

                for (size_t k = 0; k < n_of_kind[kind]; k++)
                        sums[of_kind[kind][k]] += placement_pair_value(p, of_kind[kind][k], c, d);
        }
        for (size_t t = 0; placement_terms[t].name; t++) {
                double alone = placement_terms[t].unary ? placement_terms[t].unary(p, c) : 0;

                terms[t] += placement_term_weight(p, t) * (alone + share * sums[t]);
        }
}

void placement_energy(const Placement *p, const uint32_t *chosen, size_t n, double *terms, double *ret_total) {
        memset(terms, 0, PLACEMENT_TERM_MAX * sizeof(double));
        for (size_t i = 0; i < n; i++)
                placement_share(p, chosen[i], chosen, n, 0.5, terms);
        *ret_total = 0;
        for (size_t t = 0; t < PLACEMENT_TERM_MAX; t++)
                *ret_total += terms[t];
}

static bool stay_group(const uint8_t *base, uint8_t *x, uint32_t first, uint32_t n, int current) {
        if (n == 0)
                return true;
        if (current < 0)
                return base != NULL;
        memset(x + first, 0, n);
        x[current] = 1;
        return true;
}

bool placement_stay(const Placement *p, const uint8_t *base, uint8_t *x) {
        bool any = false;

        if (base)
                memcpy(x, base, p->n_variables);
        else
                memset(x, 0, p->n_variables);
        for (unsigned i = 0; i < p->n_ranks; i++) {
                const PlacementRank *r = p->ranks + i;

                if (r->rank->task && r->current_block < 0)
                        return false;
                any = any || r->rank->task;
                if (!stay_group(base, x, r->first_block, r->n_block_candidates, r->current_block) ||
                    !stay_group(base, x, r->first_device, r->n_device_candidates, r->current_device))
                        return false;
        }
        return any;
}

size_t placement_chosen(const Placement *p, const uint8_t *x, uint32_t *chosen) {
        size_t n = 0;

        for (uint32_t i = 0; i < p->n_variables; i++)
                if (x[i])
                        chosen[n++] = i;
        return n;
}

size_t placement_present(const Placement *p, const uint8_t *solution, uint32_t *chosen) {
        size_t n = placement_chosen(p, solution, chosen);
        bool any = false;

        for (size_t i = 0; i < n; i++) {
                const Candidate *c = p->candidates + chosen[i];
                const PlacementRank *r = p->ranks + c->rank;
                int present = c->kind == CANDIDATE_CPUS ? r->present_block : r->current_device;

                any = any || (c->kind == CANDIDATE_CPUS && present >= 0);
                if (present >= 0)
                        chosen[i] = (uint32_t) present;
        }
        return any ? n : 0;
}
