/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of CPU sets: sets of one kind are the same to every term but for the CPUs that they have in common with others.
 * Where any two sets of two kinds have the same number in common (none, or all of the smaller), that is a property of the
 * kinds too; what is left are sets that meet by chance. Those are priced pair by pair: where there would be more than
 * MEETINGS_MAX such pairs, every set becomes a kind of its own.
 */
#include <errno.h>

#include "policy/problems/placement-internal.h"

#define MEETINGS_MAX ((size_t) 1 << 20)

static bool alike(const Placement *p, const Block *a, const Block *b) {
        size_t size = p->snapshot->topology->n_nodes * sizeof(double);

        return a->n_cpus == b->n_cpus && a->memory_node == b->memory_node && a->span == b->span && a->slow == b->slow &&
               memcmp(a->share, b->share, size) == 0 && memcmp(a->distance, b->distance, size) == 0;
}

static int find_kinds(Placement *p, bool each_its_own) {
        _cleanup_free_ unsigned *first = calloc(MAX(p->n_blocks, 1U), sizeof(unsigned));

        if (!first)
                return -ENOMEM;
        p->n_kinds = 0;
        for (unsigned b = 0; b < p->n_blocks; b++) {
                unsigned k = each_its_own ? p->n_kinds : 0;

                while (k < p->n_kinds && !alike(p, p->blocks + first[k], p->blocks + b))
                        k++;
                if (k == p->n_kinds)
                        first[p->n_kinds++] = b;
                p->kind[b] = k;
        }
        return 0;
}

/* By pair of kinds: CPUs that any two sets of them have in common, PLACEMENT_NOT_UNIFORM where that depends on the sets. */
static int find_common(Placement *p) {
        size_t n = MAX(p->n_kinds, 1U);
        _cleanup_free_ bool *seen = calloc(n * n, sizeof(bool));

        free(p->common);
        p->common = calloc(n * n, sizeof(double));
        if (!p->common || !seen)
                return -ENOMEM;
        for (unsigned x = 0; x < p->n_blocks; x++)
                for (unsigned y = 0; y < p->n_blocks; y++) {
                        size_t at = p->kind[x] * n + p->kind[y];
                        double shared = p->overlap[(size_t) x * p->n_blocks + y];

                        p->common[at] = seen[at] && p->common[at] != shared ? PLACEMENT_NOT_UNIFORM : shared;
                        seen[at] = true;
                }
        return 0;
}

/* Block candidates by block: p->of_block[of_block_first[b] ..]. */
static int list_by_block(Placement *p) {
        p->of_block_first = calloc((size_t) p->n_blocks + 2, sizeof(uint32_t));
        p->of_block = calloc((size_t) p->n_variables + 1, sizeof(uint32_t));
        if (!p->of_block_first || !p->of_block)
                return -ENOMEM;
        for (uint32_t i = 0; i < p->n_variables; i++)
                if (p->candidates[i].kind == CANDIDATE_CPUS)
                        p->of_block_first[p->candidates[i].block + 2]++;
        for (unsigned b = 0; b < p->n_blocks; b++)
                p->of_block_first[b + 2] += p->of_block_first[b + 1];
        for (uint32_t i = 0; i < p->n_variables; i++)
                if (p->candidates[i].kind == CANDIDATE_CPUS)
                        p->of_block[p->of_block_first[p->candidates[i].block + 1]++] = i;
        return 0;
}

static size_t count_meetings(const Placement *p) {
        size_t n = 0;

        for (unsigned x = 0; x < p->n_blocks; x++)
                for (unsigned y = 0; y <= x; y++)
                        if (placement_meets_singly(p, x, y))
                                n += (size_t) (p->of_block_first[x + 1] - p->of_block_first[x]) *
                                     (p->of_block_first[y + 1] - p->of_block_first[y]) / (x == y ? 2 : 1);
        return n;
}

static int candidate_cmp(const void *a, const void *b, void *userdata) {
        const Placement *p = userdata;
        const Candidate *x = a, *y = b;

        return p->kind[x->block] != p->kind[y->block] ? CMP(p->kind[x->block], p->kind[y->block])
                                                      : CMP(x->block, y->block);
}

/* By kind, so that ranks with the same choice have it in the same order. */
static void order_candidates(Placement *p) {
        for (unsigned i = 0; i < p->n_ranks; i++) {
                PlacementRank *r = p->ranks + i;
                bool stays = r->current_block >= 0;

                if (r->n_block_candidates == 0)
                        continue;
                qsort_r(p->candidates + r->first_block, r->n_block_candidates, sizeof(Candidate), candidate_cmp, p);
                for (uint32_t c = r->first_block; stays && c < r->first_block + r->n_block_candidates; c++)
                        if (p->candidates[c].current)
                                r->current_block = r->present_block = (int) c;
        }
}

static int find_crowds(Placement *p) {
        const Topology *t = p->snapshot->topology;
        size_t n = p->n_kinds;
        _cleanup_free_ double *cpus = calloc(MAX(t->n_nodes, 1U), sizeof(double));
        _cleanup_free_ unsigned *of_kind = calloc(n + 1, sizeof(unsigned));

        p->crowd = calloc(n * n + 1, sizeof(double));
        if (!cpus || !of_kind || !p->crowd)
                return -ENOMEM;
        for (unsigned i = 0; i < t->n_nodes; i++)
                cpus[i] = MAX(bitset_weight(&t->nodes[i].cpus), 1U);
        for (unsigned b = 0; b < p->n_blocks; b++)
                of_kind[p->kind[b]] = b;
        for (size_t a = 0; a < n; a++)
                for (size_t b = 0; b <= a; b++) {
                        const double *x = p->blocks[of_kind[a]].share, *y = p->blocks[of_kind[b]].share;
                        double sum = 0;

                        for (unsigned i = 0; i < t->n_nodes; i++)
                                sum += x[i] / cpus[i] * (y[i] / cpus[i]);
                        p->crowd[a * n + b] = p->crowd[b * n + a] = sum;
                }
        return 0;
}

int placement_find_kinds(Placement *p) {
        int r;

        p->kind = calloc(MAX(p->n_blocks, 1U), sizeof(unsigned));
        if (!p->kind)
                return -ENOMEM;
        r = list_by_block(p);
        if (r >= 0)
                r = find_kinds(p, false);
        if (r >= 0)
                r = find_common(p);
        if (r >= 0 && count_meetings(p) > MEETINGS_MAX) {
                r = find_kinds(p, true);
                if (r >= 0)
                        r = find_common(p);
        }
        if (r < 0)
                return r;
        order_candidates(p);
        free(p->of_block_first);
        free(p->of_block);
        r = list_by_block(p);
        return r < 0 ? r : find_crowds(p);
}
