/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes of the ranks' CPU sets by packing them disjointly (see blocks.h for the order in which wishes are given up).
 * Works on dense CPU indices of the topology; `order` lists them so that a prefix of a node is whole cores of as few
 * clusters and L3 caches as possible, faster kinds first.
 */
#include "policy/problems/packing.h"

#include <errno.h>

#include "common/text.h"

static int cpu_cmp(const void *a, const void *b, void *userdata) {
        const Topology *t = userdata;
        const TopologyCpu *x = t->cpus + *(const unsigned *) a, *y = t->cpus + *(const unsigned *) b;

        if (x->node != y->node)
                return CMP(x->node, y->node);
        if (x->kind != y->kind)
                return -CMP(x->kind, y->kind);
        if (x->l3 != y->l3)
                return CMP(x->l3, y->l3);
        if (x->cluster != y->cluster)
                return CMP(x->cluster, y->cluster);
        if (x->core != y->core)
                return CMP(x->core, y->core);
        return CMP(x->os, y->os);
}

static int rank_cmp(const void *a, const void *b, void *userdata) {
        const Packer *k = userdata;
        unsigned x = *(const unsigned *) a, y = *(const unsigned *) b;
        unsigned wx = bitset_weight(&k->p->ranks[x].allowed), wy = bitset_weight(&k->p->ranks[y].allowed);

        if (wx != wy)
                return CMP(wx, wy);
        if (k->sizes[x] != k->sizes[y])
                return -CMP(k->sizes[x], k->sizes[y]);
        return CMP(x, y);
}

void packer_done(Packer *k) {
        free(k->order);
        free(k->node_first);
        free(k->pool);
        free(k->owner);
        free(k->sizes);
        free(k->floors);
        free(k->sequence);
        for (unsigned i = 0; k->packed && i < k->p->n_ranks; i++)
                bitset_done(k->packed + i);
        free(k->packed);
}

int packer_init(Packer *k, Placement *p) {
        const Topology *t = p->snapshot->topology;
        unsigned n = MAX(p->n_ranks, 1U);

        *k = (Packer){ .p = p, .t = t };
        k->order = calloc(t->n_cpus + 1, sizeof(unsigned));
        k->node_first = calloc(t->n_nodes + 1, sizeof(unsigned));
        k->pool = calloc(t->n_cpus + 1, 1);
        k->owner = calloc(t->n_cpus + 1, sizeof(int));
        k->sizes = calloc(n, sizeof(unsigned));
        k->floors = calloc(n, sizeof(unsigned));
        k->sequence = calloc(n, sizeof(unsigned));
        k->packed = calloc(n, sizeof(Bitset));
        if (!k->order || !k->node_first || !k->pool || !k->owner || !k->sizes || !k->floors || !k->sequence ||
            !k->packed)
                return -ENOMEM;
        k->threads = 1;
        for (unsigned i = 0; i < t->n_cpus; i++) {
                k->order[i] = i;
                k->threads = MAX(k->threads, t->cpus[i].smt + 1);
        }
        qsort_r(k->order, t->n_cpus, sizeof(unsigned), cpu_cmp, (void *) t);
        for (unsigned node = 0, i = 0; node <= t->n_nodes; node++) {
                while (i < t->n_cpus && t->cpus[k->order[i]].node < node)
                        i++;
                k->node_first[node] = i;
        }
        k->node_first[t->n_nodes] = t->n_cpus;
        return 0;
}

bool packer_available(const Packer *k, unsigned rank, unsigned cpu) {
        return k->pool[cpu] && k->owner[cpu] < 0 && bitset_test(&k->p->ranks[rank].allowed, k->t->cpus[cpu].os);
}

unsigned packer_room(const Packer *k, unsigned rank, unsigned node) {
        unsigned n = 0;

        for (unsigned i = k->node_first[node]; i < k->node_first[node + 1]; i++)
                n += packer_available(k, rank, k->order[i]);
        return n;
}

/* Most CPUs that a block inside one node can have for this rank, taken or not. */
unsigned packer_capacity(const Packer *k, unsigned rank) {
        unsigned best = 0;

        for (unsigned node = 0; node < k->t->n_nodes; node++) {
                unsigned n = 0;

                for (unsigned i = k->node_first[node]; i < k->node_first[node + 1]; i++)
                        n += k->pool[k->order[i]] &&
                             bitset_test(&k->p->ranks[rank].allowed, k->t->cpus[k->order[i]].os);
                best = MAX(best, n);
        }
        return best;
}

/* End (in order) of the core that starts at i. */
static unsigned core_end(const Packer *k, unsigned i, unsigned end) {
        const TopologyCpu *c = k->t->cpus + k->order[i];
        unsigned j = i + 1;

        while (j < end && c->core != TOPOLOGY_NONE && k->t->cpus[k->order[j]].core == c->core)
                j++;
        return j;
}

/* Takes up to `need` CPUs of one node: cores that are wholly free first, then single siblings. Returns how many. */
static unsigned take(Packer *k, unsigned rank, unsigned node, unsigned need) {
        unsigned end = k->node_first[node + 1], taken = 0;

        for (int whole = 1; whole >= 0 && taken < need; whole--)
                for (unsigned i = k->node_first[node]; i < end && taken < need;) {
                        unsigned stop = core_end(k, i, end);
                        bool is_free = true;

                        for (unsigned j = i; j < stop; j++)
                                is_free = is_free && packer_available(k, rank, k->order[j]);
                        for (unsigned j = i; j < stop && taken < need && (is_free || !whole); j++)
                                if (packer_available(k, rank, k->order[j])) {
                                        k->owner[k->order[j]] = (int) rank;
                                        taken++;
                                }
                        i = stop;
                }
        return taken;
}

/* Best fit: the node that has just enough room; where none has, several, nearest first, if that is allowed. */
static bool pack_rank(Packer *k, unsigned rank) {
        unsigned need = k->sizes[rank], best = TOPOLOGY_NONE, best_room = UINT_MAX, most = 0, most_room = 0;
        _cleanup_free_ unsigned *near = NULL;

        for (unsigned node = 0; node < k->t->n_nodes; node++) {
                unsigned room = packer_room(k, rank, node);

                if (room >= need && room < best_room) {
                        best = node;
                        best_room = room;
                }
                if (room > most_room) {
                        most = node;
                        most_room = room;
                }
        }
        if (best != TOPOLOGY_NONE)
                return take(k, rank, best, need) == need;
        if (!k->straddle && need <= packer_capacity(k, rank))
                return false;
        near = calloc(k->t->n_nodes, sizeof(unsigned));
        if (!near)
                return false;
        topology_nodes_by_distance(k->t, most, near);
        for (unsigned i = 0; i < k->t->n_nodes && need > 0; i++)
                need -= take(k, rank, near[i], need);
        return need == 0;
}

/* Disjoint sets for all ranks at k->sizes, or false. Fills k->owner. */
static bool pack(Packer *k) {
        for (unsigned i = 0; i < k->t->n_cpus; i++)
                k->owner[i] = -1;
        for (unsigned i = 0; i < k->p->n_ranks; i++)
                k->sequence[i] = i;
        qsort_r(k->sequence, k->p->n_ranks, sizeof(unsigned), rank_cmp, k);
        for (unsigned i = 0; i < k->p->n_ranks; i++)
                if (!k->p->ranks[k->sequence[i]].pooled && !pack_rank(k, k->sequence[i]))
                        return false;
        return true;
}

/* min(want, s), whole cores when that does not fall below the floor. */
static unsigned size_at(const Packer *k, unsigned rank, unsigned s) {
        const PlacementRank *r = k->p->ranks + rank;
        unsigned size = r->want ? MIN(r->want, s) : s;

        if (r->pooled)
                return 0;

        if (size > k->threads && size != r->want)
                size -= size % k->threads;
        return MAX(size, k->floors[rank]);
}

/* CPUs of the pool that at least one rank may use. */
static unsigned pool_size(const Packer *k) {
        unsigned n = 0;

        for (unsigned i = 0; i < k->t->n_cpus; i++) {
                bool usable = false;

                for (unsigned r = 0; r < k->p->n_ranks && k->pool[i] && !usable; r++)
                        usable = bitset_test(&k->p->ranks[r].allowed, k->t->cpus[i].os);
                n += usable;
        }
        return n;
}

/* The largest s at which ranks of at least `priority` (others: what they have) can be packed; 0: none. */
static unsigned largest_share(Packer *k, unsigned priority, unsigned from) {
        unsigned total = pool_size(k);

        for (unsigned s = from; s > 0; s--) {
                uint64_t sum = 0;

                for (unsigned i = 0; i < k->p->n_ranks; i++) {
                        if (k->p->ranks[i].rank->job->priority == priority || priority == UINT_MAX)
                                k->sizes[i] = size_at(k, i, s);
                        sum += k->sizes[i];
                }
                if (sum <= total && pack(k))
                        return s;
        }
        return 0;
}

/* When explicit wishes could not be met: from the highest priority down, each class as much as fits beside the higher
 * ones (fixed) and the lower ones at their floors. Ranks without a wish stay at the even share. */
static void shares_by_priority(Packer *k, unsigned share) {
        for (unsigned i = 0; i < k->p->n_ranks; i++)
                if (k->p->ranks[i].want)
                        k->sizes[i] = k->floors[i];
        for (int priority = 100; priority >= 0; priority--) {
                unsigned most = 0;

                for (unsigned i = 0; i < k->p->n_ranks; i++)
                        if ((int) k->p->ranks[i].rank->job->priority == priority && k->p->ranks[i].want)
                                most = MAX(most, k->p->ranks[i].want);
                if (most > 0)
                        (void) largest_share(k, (unsigned) priority, MAX(most, share));
        }
}

static bool differs_in_priority(const Placement *p) {
        for (unsigned i = 1; i < p->n_ranks; i++)
                if (p->ranks[i].rank->job->priority != p->ranks[0].rank->job->priority)
                        return true;
        return false;
}

static bool wishes_unmet(const Packer *k) {
        for (unsigned i = 0; i < k->p->n_ranks; i++)
                if (!k->p->ranks[i].pooled && k->p->ranks[i].want > k->sizes[i])
                        return true;
        return false;
}

static bool find_sizes(Packer *k) {
        unsigned from = 1, share;

        for (unsigned i = 0; i < k->p->n_ranks; i++)
                from = MAX(from, k->p->ranks[i].want ? k->p->ranks[i].want : packer_capacity(k, i));
        share = largest_share(k, UINT_MAX, MIN(from, MAX(pool_size(k), 1U)));
        if (share == 0)
                return false;
        if (wishes_unmet(k) && differs_in_priority(k->p)) {
                _cleanup_free_ unsigned *even = calloc(MAX(k->p->n_ranks, 1U), sizeof(unsigned));

                if (!even)
                        return false;
                memcpy(even, k->sizes, k->p->n_ranks * sizeof(unsigned));
                shares_by_priority(k, share);
                if (!pack(k)) {
                        memcpy(k->sizes, even, k->p->n_ranks * sizeof(unsigned));
                        return pack(k);
                }
        }
        return true;
}

/* A rank that somebody else has given CPUs of its own; one that has all of them floats to where there is room. */
static bool is_in_the_way(const Packer *k, const PlacementRank *r) {
        return r->fixed && r->size < bitset_weight(&k->t->online);
}

static bool any_in_the_way(const Packer *k) {
        for (unsigned i = 0; i < k->p->n_ranks; i++)
                if (is_in_the_way(k, &k->p->ranks[i]))
                        return true;
        return k->p->n_others > 0;
}

static void set_pool(Packer *k, bool keep_housekeeping, bool avoid_others) {
        for (unsigned i = 0; i < k->t->n_cpus; i++) {
                unsigned os = k->t->cpus[i].os;

                k->pool[i] = !(keep_housekeeping && bitset_test(&k->p->housekeeping, os));
                for (size_t o = 0; avoid_others && k->pool[i] && o < k->p->n_others; o++)
                        k->pool[i] = !bitset_test(&k->p->others[o].task->cpus, os);
                for (unsigned r = 0; avoid_others && k->pool[i] && r < k->p->n_ranks; r++)
                        k->pool[i] = !(is_in_the_way(k, &k->p->ranks[r]) && bitset_test(&k->p->ranks[r].allowed, os));
        }
}

/* What the owner of a process promised it: quota and request; and what it was measured to use. NAN: none. */
static double promised(const Task *t) {
        return isnan(t->quota) ? t->request : isnan(t->request) ? t->quota : MAX(t->quota, t->request);
}

/* The least size at this attempt. An explicit CPUs= is the administrator's word: it stands, tell_short() says so. */
static void set_floors(Packer *k, Floor floor) {
        for (unsigned i = 0; i < k->p->n_ranks; i++) {
                const PlacementRank *r = k->p->ranks + i;
                const Task *t = r->want ? NULL : r->rank->task;
                double need = 0;

                if (t && floor >= FLOOR_PROMISED && !isnan(promised(t)))
                        need = ceil(promised(t));
                if (t && floor >= FLOOR_MEASURED && !isnan(t->cpu_use))
                        need = MAX(need, ceil(t->cpu_use));
                k->floors[i] = r->pooled ? 0 : MAX((unsigned) MIN(need, (double) bitset_weight(&r->allowed)), r->min);
        }
}

/* From what one would wish to what must be: a row is tried when all above it failed. Measured use gives way to sets of
 * their own (a busy host would never have any), a promise does not. */
static const struct {
        Floor floor;
        bool keep_housekeeping, avoid_others, straddle;
} attempts[] = {
        { FLOOR_MEASURED, true, true, false },   { FLOOR_MEASURED, true, true, true },
        { FLOOR_MEASURED, true, false, false },  { FLOOR_MEASURED, true, false, true },
        { FLOOR_PROMISED, true, true, false },   { FLOOR_PROMISED, true, true, true },
        { FLOOR_PROMISED, true, false, false },  { FLOOR_PROMISED, true, false, true },
        { FLOOR_PROMISED, false, false, false }, { FLOOR_PROMISED, false, false, true },
};

static int tell_attempt(Placement *p, size_t i) {
        if (!attempts[i].keep_housekeeping && !bitset_isempty(&p->housekeeping)) {
                _cleanup_free_ char *list = NULL;
                int r = bitset_format(&p->housekeeping, &list);

                if (r < 0)
                        return r;
                bitset_zero(&p->housekeeping);
                return strv_extendf(&p->messages,
                                    "Housekeeping CPUs %s are given to ranks: there are not enough others", list);
        }
        return 0;
}

#define SHORT_TOLD 16U /* by name; of the others the number */

/* Ranks that got less than was asked, promised or measured: said, with numbers. */
static int tell_short(const Packer *k) {
        unsigned told = 0;

        for (unsigned i = 0; i < k->p->n_ranks; i++) {
                const PlacementRank *r = k->p->ranks + i;
                const Task *t = r->rank->task;
                const char *limit = r->want && r->size == r->want ? " by CPUs=" : "";
                bool is_short = r->want > r->size || (t && (promised(t) > r->size || t->cpu_use > r->size));
                int q = 0;

                if (is_short && told++ >= SHORT_TOLD)
                        continue;
                if (r->want > r->size)
                        q = strv_extendf(&k->p->messages, "%s asks for %u CPUs and gets %u", r->rank->name, r->want,
                                         r->size);
                else if (t && promised(t) > r->size)
                        q = strv_extendf(&k->p->messages, "%s gets %u CPUs%s, its %s is %.3g", r->rank->name, r->size,
                                         limit, promised(t) == t->quota ? "quota" : "request", promised(t));
                else if (t && t->cpu_use > r->size)
                        q = strv_extendf(&k->p->messages, "%s gets %u CPUs%s, it was measured to use %.3g",
                                         r->rank->name, r->size, limit, t->cpu_use);
                if (q < 0)
                        return q;
        }
        if (told <= SHORT_TOLD)
                return 0;
        return strv_extendf(&k->p->messages, "%u more ranks get fewer CPUs than they ask for, were promised or use",
                            told - SHORT_TOLD);
}

static unsigned count_pool(const Packer *k, const Bitset *allowed) {
        unsigned n = 0;

        for (unsigned i = 0; i < k->t->n_cpus; i++)
                n += k->pool[i] && bitset_test(allowed, k->t->cpus[i].os);
        return n;
}

/* No disjoint sets exist. Those with MinCPUs above 1 were promised so many: infeasible; others share. */
static int share_cpus(Packer *k) {
        Placement *p = k->p;
        uint64_t least = 0;
        bool guaranteed = false;
        int r;

        for (unsigned i = 0; i < p->n_ranks; i++) {
                guaranteed = guaranteed || p->ranks[i].min > 1;
                least += p->ranks[i].min;
        }
        if (guaranteed)
                return strv_extendf(&p->causes, "%u ranks need at least %" PRIu64 " CPUs (MinCPUs=), %u can be given",
                                    p->n_ranks, least, pool_size(k));
        set_pool(k, true, false);
        if (pool_size(k) == 0)
                set_pool(k, false, false);
        p->shares_cpus = true;
        set_floors(k, FLOOR_MEASURED);
        for (unsigned i = 0; i < p->n_ranks; i++) {
                unsigned size = MAX(k->floors[i], MIN(p->ranks[i].want, packer_capacity(k, i)));

                if (count_pool(k, &p->ranks[i].allowed) < size)
                        set_pool(k, false, false);
                if (!p->ranks[i].pooled)
                        p->ranks[i].size = MAX(MIN(size, count_pool(k, &p->ranks[i].allowed)), 1U);
        }
        r = tell_short(k);
        if (r < 0)
                return r;
        r = strv_extendf(&p->messages, "%u ranks share %u CPU%s: there are not enough for sets of their own",
                         p->n_ranks, pool_size(k), pool_size(k) == 1 ? "" : "s");
        return r < 0 ? r : 1;
}

static int named_housekeeping(Placement *p, const Bitset *cpus) {
        _cleanup_(bitset_done) Bitset missing = BITSET_EMPTY;
        _cleanup_free_ char *list = NULL;
        int r;

        r = bitset_copy(&p->housekeeping, cpus);
        if (r >= 0)
                r = bitset_copy(&missing, cpus);
        if (r < 0)
                return r;
        bitset_and(&p->housekeeping, &p->snapshot->topology->allowed);
        bitset_andnot(&missing, &p->snapshot->topology->allowed);
        if (bitset_isempty(&missing))
                return 0;
        r = bitset_format(&missing, &list);
        return r < 0 ? r : strv_extendf(&p->messages, "Housekeeping CPUs %s are not online and allowed here", list);
}

/* One core of each node, the lowest; a node is never left without a CPU for ranks. */
int packer_housekeeping(Packer *k, const BlockParams *params) {
        Placement *p = k->p;
        const Topology *t = k->t;
        int cores = params->housekeeping_cores, r;

        if (params->housekeeping && !bitset_isempty(params->housekeeping))
                return named_housekeeping(p, params->housekeeping);
        if (cores < 0)
                cores = bitset_weight(&t->allowed) < 8 ? 0 : 1;
        for (unsigned node = 0; node < t->n_nodes; node++) {
                unsigned end = k->node_first[node + 1], left = 0, seen = 0;

                for (unsigned i = k->node_first[node]; i < end; i++)
                        left += bitset_test(&t->allowed, t->cpus[k->order[i]].os);
                for (unsigned i = k->node_first[node]; i < end && seen < (unsigned) cores;) {
                        unsigned stop = core_end(k, i, end), usable = 0;

                        for (unsigned j = i; j < stop; j++)
                                usable += bitset_test(&t->allowed, t->cpus[k->order[j]].os);
                        if (usable > 0 && left > usable) {
                                for (unsigned j = i; j < stop; j++)
                                        if (bitset_test(&t->allowed, t->cpus[k->order[j]].os)) {
                                                r = bitset_set(&p->housekeeping, t->cpus[k->order[j]].os);
                                                if (r < 0)
                                                        return r;
                                        }
                                left -= usable;
                                seen++;
                        }
                        i = stop;
                }
        }
        return 0;
}

static int take_packing(Packer *k) {
        for (unsigned i = 0; i < k->p->n_ranks; i++)
                if (!k->p->ranks[i].pooled)
                        k->p->ranks[i].size = k->sizes[i];
        for (unsigned i = 0; i < k->t->n_cpus; i++)
                if (k->owner[i] >= 0) {
                        int r = bitset_set(k->packed + k->owner[i], k->t->cpus[i].os);
                        if (r < 0)
                                return r;
                }
        return 0;
}

/* 1: sizes are set (disjoint, or shared); 0: infeasible, the cause is told. */
int packer_find(Packer *k) {
        for (size_t a = 0; a < ELEMENTSOF(attempts); a++) {
                int r;

                if (attempts[a].avoid_others && !any_in_the_way(k))
                        continue;
                k->straddle = attempts[a].straddle;
                set_floors(k, attempts[a].floor);
                set_pool(k, attempts[a].keep_housekeeping, attempts[a].avoid_others);
                if (!find_sizes(k))
                        continue;
                r = take_packing(k);
                if (r < 0)
                        return r;
                r = tell_attempt(k->p, a);
                if (r < 0)
                        return r;
                r = tell_short(k);
                return r < 0 ? r : 1;
        }
        k->straddle = false;
        return share_cpus(k);
}
