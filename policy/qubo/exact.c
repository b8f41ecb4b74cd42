/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branch and bound over items, depth first from a good incumbent. For every choice v of an unassigned item the search
 * keeps twice its least possible cost: 2 * (linear + couplings to what is assigned) + for each other unassigned item
 * the least coupling of v to any choice of it (either end of a coupling pays half). The sum of the items' least choices
 * bounds a node. The next item is the one whose second-best choice costs most more than its best.
 *
 * Units: bounds are kept doubled, so that the half couplings stay whole numbers.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/dual.h"
#include "policy/qubo/exact.h"

#define INCUMBENT_SWEEPS 400U
#define FAR_ENOUGH 0.03       /* of the tree, when a probe ends: later children are pruned sooner than the first */
#define STEPS_PER_VARIABLE 8U /* what a sweep of annealing costs, about */
#define TRIALS 4
#define DUAL_LEAST 0.2 /* of the gap */
#define WIDE_GAP 0.1
#define DUAL_SHARE 4U /* of the steps, at most */
#define SKIPS 64U
#define PLAIN_ITEMS 3U /* so few items left: the plain bound is as good */

static void search_done(Search *s) {
        free(s->least_first);
        free(s->least);
        free(s->now);
        free(s->later);
        free(s->assigned);
        free(s->held);
        free(s->levels);
        free(s->children);
        free(s->child);
        free(s->nothing);
        free(s->worth);
        slots_free(s->slots);
}

/* The entries of a row that belong to item b: where they end, and their least (0 where one is absent). */
static size_t segment_min(const Frame *f, size_t k, size_t row_end, uint32_t b, int32_t *ret_min) {
        uint32_t end = f->first[b] + f->size[b], entries = 0;
        int32_t min = INT32_MAX;

        for (; k < row_end && f->q->col[k] < end; k++, entries++)
                min = MIN(min, f->q->val[k]);
        *ret_min = entries < f->size[b] || f->optional[b] ? MIN(min, 0) : min;
        return k;
}

/* Counts (least NULL) or lists what each item costs the variables coupled to it at least. */
static void list_least(Search *s, size_t *at) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        int32_t min;

        for (uint32_t v = 0; v < q->n; v++)
                for (size_t k = q->row[v]; k < q->row[v + 1];) {
                        uint32_t b = f->item_of[q->col[k]];

                        k = segment_min(f, k, q->row[v + 1], b, &min);
                        if (min == 0)
                                continue;
                        if (s->least) {
                                s->least[at[b]] = (Least){ .v = v, .min = min };
                                s->later[v] += min;
                        }
                        at[b]++;
                }
}

static int least_init(Search *s) {
        const Frame *f = s->f;
        _cleanup_free_ size_t *at = calloc((size_t) f->n_items + 1, sizeof(*at));

        s->least_first = calloc((size_t) f->n_items + 1, sizeof(*s->least_first));
        if (!at || !s->least_first)
                return -ENOMEM;
        list_least(s, at);
        for (uint32_t a = 0; a < f->n_items; a++) {
                s->least_first[a + 1] = s->least_first[a] + at[a];
                at[a] = s->least_first[a];
        }
        s->least = calloc(s->least_first[f->n_items] + 1, sizeof(*s->least));
        if (!s->least)
                return -ENOMEM;
        list_least(s, at);
        return 0;
}

static int search_init(Search *s) {
        const Frame *f = s->f;
        size_t items = (size_t) f->n_items + 1;

        s->assigned = calloc(items, sizeof(*s->assigned));
        s->held = calloc(items, sizeof(*s->held));
        s->levels = calloc(items, sizeof(*s->levels));
        s->children = calloc((size_t) f->q->n + items, sizeof(*s->children));
        s->now = calloc((size_t) f->q->n + 1, sizeof(*s->now));
        s->later = calloc((size_t) f->q->n + 1, sizeof(*s->later));
        s->child = calloc((size_t) f->q->n + 1, sizeof(*s->child));
        s->nothing = calloc(items, sizeof(*s->nothing));
        s->worth = calloc(items, sizeof(*s->worth));
        if (!s->assigned || !s->held || !s->levels || !s->children || !s->now || !s->later || !s->child ||
            !s->nothing || !s->worth)
                return -ENOMEM;
        for (uint32_t v = 0; v < f->q->n; v++)
                s->now[v] = 2 * (int64_t) f->q->linear[v];
        s->fixed = 2 * f->q->offset;
        return least_init(s);
}

/* Gives (sign 1) an item its choice, or takes it back (-1): the others pay their coupling to it, not half the least. */
static void assign(Search *s, uint32_t item, uint32_t to, int sign) {
        const Qubo *q = s->f->q;

        s->steps += s->least_first[item + 1] - s->least_first[item];
        for (size_t k = s->least_first[item]; k < s->least_first[item + 1]; k++)
                s->later[s->least[k].v] -= sign * (int64_t) s->least[k].min;
        if (to != ITEM_NOTHING) {
                s->steps += q->row[to + 1] - q->row[to];
                s->fixed += sign * s->now[to];
                for (size_t k = q->row[to]; k < q->row[to + 1]; k++)
                        s->now[q->col[k]] += sign * 2 * (int64_t) q->val[k];
        }
        s->assigned[item] = sign > 0;
        s->held[item] = to;
}

/* The two least costs of an item's choices. */
static int64_t two_least(const Search *s, uint32_t a, int64_t *ret_second) {
        const Frame *f = s->f;
        int64_t least = f->optional[a] ? 0 : INT64_MAX, second = INT64_MAX;

        for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++) {
                int64_t c = s->now[v] + s->later[v];

                if (c < least) {
                        second = least;
                        least = c;
                } else if (c < second)
                        second = c;
        }
        *ret_second = second;
        return least;
}

/* The bound of the node, and the item to branch on: where the second-best choice costs most. */
static int64_t bound_node(const Search *s, uint32_t *ret_item, int64_t *ret_least) {
        int64_t bound = s->fixed, widest = -1;

        *ret_item = ITEM_NOTHING;
        for (uint32_t a = 0; a < s->f->n_items; a++) {
                int64_t second, least;

                if (s->assigned[a])
                        continue;
                least = two_least(s, a, &second);
                bound += least;
                if (second == INT64_MAX)
                        second = least >= 0 ? INT64_MAX : INT64_MAX + least; /* one choice only: take it now */
                if (second - least > widest) {
                        widest = second - least;
                        *ret_item = a;
                        *ret_least = least;
                }
        }
        return bound;
}

static int child_cmp(const void *a, const void *b) {
        const Child *x = a, *y = b;

        return x->bound != y->bound ? CMP(x->bound, y->bound) : CMP(x->to, y->to);
}

static void add_child(Search *s, Level *l, uint32_t to, int64_t bound) {
        if (!hopeless(s, bound))
                l->children[l->n_children++] = (Child){ .to = to, .bound = bound };
}

/* By child[]: the item with the fewest ways left if that is few of its choices, else the one whose second-best way
 * costs most more than its best. */
static uint32_t choose_item(const Search *s) {
        const Frame *f = s->f;
        uint32_t best = ITEM_NOTHING, least_ways = UINT32_MAX;
        int64_t widest = -1;

        for (uint32_t a = 0; a < f->n_items; a++) {
                int64_t least = f->optional[a] ? s->nothing[a] : BOUND_DEAD, second = BOUND_DEAD;
                uint32_t ways = f->optional[a] && !hopeless(s, least);

                if (s->assigned[a])
                        continue;
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++) {
                        ways += !hopeless(s, s->child[v]);
                        second = MIN(second, MAX(least, s->child[v]));
                        least = MIN(least, s->child[v]);
                }
                if (ways == 0)
                        return a;
                if (ways > f->size[a] / 2)
                        ways = UINT32_MAX;
                second = MIN(second, 2 * s->best->energy);
                if (ways < least_ways || (ways == least_ways && second - least > widest)) {
                        least_ways = ways;
                        widest = second - least;
                        best = a;
                }
        }
        return best;
}

/* Branches on an item: a new level with the children that can still win. */
static void branch(Search *s, uint32_t item) {
        const Frame *f = s->f;
        Level *l = &s->levels[s->depth];

        *l = (Level){ .item = item, .children = s->children + s->n_children, .steps = s->steps };
        if (f->optional[item])
                add_child(s, l, ITEM_NOTHING, s->nothing[item]);
        for (uint32_t v = f->first[item]; v < f->first[item] + f->size[item]; v++)
                add_child(s, l, v, s->child[v]);
        if (l->n_children == 0)
                return;
        qsort(l->children, l->n_children, sizeof(*l->children), child_cmp);
        s->n_children += l->n_children;
        s->depth++;
}

/* The strong bound costs as much as some hundred plain nodes: it is used where what it prunes has cost more. */
static bool strong_bound_pays(Search *s) {
        Worth *w = &s->worth[s->depth];

        if (!s->slots || s->f->n_items - s->depth <= PLAIN_ITEMS)
                return false;
        if (w->tried < TRIALS || w->trees < TRIALS || w->pruned * w->tree_steps > w->cost * w->trees)
                return true;
        if (++w->skipped < SKIPS)
                return false;
        w->skipped = 0;
        return true;
}

/* Branches after the strong bound, unless that shows there is no need to. */
static void branch_strongly(Search *s, int64_t bound) {
        const Frame *f = s->f;
        Worth *w = &s->worth[s->depth];
        uint32_t plain = 0, item;
        uint64_t before = s->steps;
        int64_t least, second;

        w->tried++;
        if (slots_bound(s->slots, s) == BOUND_DEAD) {
                w->pruned++;
                w->cost += (double) (s->steps - before);
                return;
        }
        w->cost += (double) (s->steps - before);
        item = choose_item(s);
        least = two_least(s, item, &second);
        for (uint32_t v = f->first[item]; v < f->first[item] + f->size[item]; v++)
                plain += !hopeless(s, bound - least + s->now[v] + s->later[v]);
        before = s->n_children;
        branch(s, item);
        w->pruned += plain > 0 ? 1 - MIN(1.0, (double) (s->n_children - before) / plain) : 0;
}

static void take_point(Search *s) {
        const Dual *d = s->dual;

        s->best->energy = s->fixed / s->unit;
        for (uint32_t a = 0; a < s->f->n_items; a++)
                s->best->held[a] = d ? dual_held(d, a, s->held[a]) : s->held[a];
        incumbent_improved(s->best, d ? d->of : s->f, s->limit);
}

/* Opens the node below what is assigned. */
static void open_node(Search *s) {
        const Frame *f = s->f;
        int64_t bound, least = 0;
        uint32_t item;

        s->nodes++;
        s->steps += f->q->n;
        bound = bound_node(s, &item, &least);
        if (hopeless(s, bound))
                return;
        if (item == ITEM_NOTHING) {
                take_point(s);
        } else if (strong_bound_pays(s))
                branch_strongly(s, bound);
        else {
                s->nothing[item] = bound - least;
                for (uint32_t v = f->first[item]; v < f->first[item] + f->size[item]; v++)
                        s->child[v] = bound - least + s->now[v] + s->later[v];
                branch(s, item);
        }
}

/* Takes back the child the top level is in and goes into its next; false: none is left, the level is closed. */
static bool next_child(Search *s) {
        Level *l = &s->levels[s->depth - 1];

        if (l->entered)
                assign(s, l->item, l->children[l->next - 1].to, -1);
        l->entered = l->next < l->n_children && !hopeless(s, l->children[l->next].bound);
        if (l->entered) {
                assign(s, l->item, l->children[l->next++].to, 1);
                return true;
        }
        s->n_children -= l->n_children;
        s->depth--;
        s->worth[s->depth].trees++;
        s->worth[s->depth].tree_steps += (double) (s->steps - l->steps);
        return false;
}

/* Energies are whole: a bound between two rounds up. */
static int64_t energy_of(const Search *s, int64_t bound) {
        return bound / s->unit + (bound % s->unit > 0);
}

/* The least bound that is still open. The child the top level is in is done with; those above are as good as what is
 * open below them. */
static int64_t open_bound(const Search *s) {
        int64_t most = s->unit * s->best->energy, bound = most;

        for (uint32_t d = s->depth; d-- > 0;) {
                const Level *l = &s->levels[d];

                if (l->entered && d + 1 < s->depth)
                        bound = MAX(bound, l->children[l->next - 1].bound);
                for (uint32_t k = l->next; k < l->n_children; k++)
                        bound = MIN(bound, l->children[k].bound);
        }
        return energy_of(s, MIN(bound, most));
}

static double search_progress(const Search *s) {
        double share = 1, done = 0;

        for (uint32_t d = 0; d < s->depth; d++) {
                const Level *l = &s->levels[d];

                share /= l->n_children;
                done += share * (l->next - (d + 1 < s->depth));
        }
        return s->depth > 0 ? done : 1;
}

/* Whether to stop here. A probe that ends is replaced by the whole limit if the search has come far enough. */
static bool search_ends(Search *s, Limit *whole, uint64_t max_steps, uint64_t steps) {
        if (max_steps > 0 && s->steps >= max_steps)
                return true;
        if (!limit_work(s->limit, steps))
                return false;
        if (s->limit == whole || search_progress(s) < FAR_ENOUGH)
                return true;
        s->limit = whole;
        return limit_hit(whole);
}

/* Searches what is set up. */
static void search_tree(Search *s, Limit *whole, uint64_t max_steps, SolveResult *r) {
        uint64_t steps = s->steps;

        open_node(s);
        while (s->depth > 0 && !search_ends(s, whole, max_steps, s->steps - steps)) {
                steps = s->steps;
                if (next_child(s))
                        open_node(s);
        }
        r->lower_bound = MAX(r->lower_bound, open_bound(s));
        r->flips += s->nodes * s->f->q->n;
}

/* A dual bound that closes so much of the gap makes up for a model with more couplings. */
static int64_t dual_least(int64_t root, int64_t energy) {
        return root + (int64_t) (DUAL_LEAST * ((double) energy - (double) root));
}

/* At the first look a tree whose gap is wide is left alone. */
static bool gap_is_wide(int64_t bound, int64_t energy) {
        return (double) energy - (double) bound > WIDE_GAP * fabs((double) energy);
}

/* The same search in the numbers of the dual. */
static int search_dual(const Dual *d, Limit *probe, Limit *whole, uint64_t max_steps, uint64_t steps, Incumbent *best,
                       SolveResult *r) {
        _cleanup_(search_done) Search s = {
                .f = d->f, .dual = d, .unit = 2 * d->scale, .limit = probe ?: whole, .best = best, .steps = steps
        };
        int e = search_init(&s);

        if (e >= 0)
                search_tree(&s, whole, max_steps, r);
        return e;
}

int exact_search(const Frame *f, Limit *probe, Limit *whole, uint64_t max_steps, bool glance, Incumbent *best,
                 SolveResult *r) {
        _cleanup_(search_done) Search s = { .f = f, .unit = 2, .limit = probe ?: whole, .best = best };
        _cleanup_(dual_freep) Dual *d = NULL;
        int64_t least, root = 0, bound;
        uint32_t item;
        int e;

        e = search_init(&s);
        if (e >= 0)
                e = slots_new(&s, root = bound_node(&s, &item, &least), &s.slots);
        bound = root = energy_of(&s, root);
        if (e >= 0 && !s.slots && root < best->energy)
                e = dual_new(f, s.limit, dual_least(root, best->energy), best->energy,
                             max_steps > 0 ? max_steps / DUAL_SHARE + 1 : 0, &bound, &s.steps, &d);
        if (e < 0)
                return e;
        r->lower_bound = MAX(r->lower_bound, bound);
        if (bound < best->energy && (!glance || s.slots || !gap_is_wide(bound, best->energy))) {
                if (d)
                        e = search_dual(d, probe, whole, max_steps, s.steps, best, r);
                else
                        search_tree(&s, whole, max_steps, r);
        }
        r->proved = r->lower_bound >= best->energy;
        return e;
}

uint64_t exact_steps(const Qubo *q, uint64_t sweeps) {
        uint64_t steps;

        return __builtin_mul_overflow(sweeps, STEPS_PER_VARIABLE * (uint64_t) (q->n + 1), &steps) ? 0 : steps;
}

static int exact_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(frame_freep) Frame *f = NULL;
        _cleanup_(incumbent_done) Incumbent best = {};
        uint64_t runs = 0;
        Limit l;
        int r;

        limit_init(&l, p);
        r = frame_new(q, &l, &f);
        if (r >= 0)
                r = incumbent_init(&best, f, p->start);
        if (r >= 0)
                r = sa_search(f, &l, p->seed, INCUMBENT_SWEEPS, &runs, &best, ret);
        if (r >= 0)
                r = limit_hit(&l) ? 0 : exact_search(f, NULL, &l, exact_steps(q, p->sweeps), false, &best, ret);
        if (r < 0)
                return r;
        ret->solver = "exact";
        return incumbent_result(&best, f, ret);
}

static bool exact_fits(const Qubo *q) {
        return q->n <= EXACT_MAX_VARIABLES && (!q->table_of || qubo_couplings(q) <= EXACT_MAX_COUPLINGS);
}

const Solver solver_exact = {
        .name = "exact",
        .help = "Branch and bound: the optimum with proof, for small models; sweeps limits its work",
        .fits = exact_fits,
        .knows = MODEL_GROUPS,
        .solve = exact_solve,
};
