/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual bound of the local polytope by tree-reweighted message passing, in its sequential form (TRW-S, Kolmogorov
 * 2006; the reparametrisation view: Werner 2007). Items are nodes, coupled items edges. A pass visits the nodes in order:
 * a node takes in what its neighbours' messages say, gives its least cost to the bound, shares the rest out among the
 * edges ahead, and each of these sends on the least that every choice at its other end can have. After a pass
 * onwards and one back the bound is no lower than before.
 *
 * All numbers are integers (the model's times a scale, shares rounded down), so the bound holds exactly, whatever was
 * rounded. The last pass leaves every cost it has moved where it is: the result is a model with the same energies, the
 * bound as its offset and no negative number, in which branch and bound is near the end when it begins. On models whose
 * couplings are like distances the bound is often the optimum; on dense ones it is poor.
 *
 * Memory: 4 bytes for each pair of choices of coupled items, at most CELLS_MAX, and 5 times that for the new model.
 */
#include "policy/qubo/dual.h"

#include <errno.h>

#define CELLS_MAX ((size_t) 1 << 20)
#define COST_LIMIT (INT64_C(1) << 28) /* of one item with all its couplings, scaled: sums of four such fit into int32 */
#define SCALE_MAX 256
#define PASSES_MAX 400U
#define PASSES_CHECK 4U
#define LEAST_GAIN 0.02 /* of the gap that is left, by PASSES_CHECK passes */

typedef struct Edge {
        uint32_t a, b;     /* items, a < b */
        size_t cells;      /* of a's choices x b's */
        size_t to_a, to_b; /* messages */
} Edge;

typedef struct Passing {
        const Frame *f;
        int64_t scale;
        uint32_t *labels; /* by item: choices, "nothing" as the last of a variable without a group */
        size_t *node;     /* by item: where its costs begin */
        uint32_t n_edges, *edge_first, *edge_of; /* by item: edges it is in; those to items before it come first */
        uint32_t *back;                          /* by item: how many these are */
        Edge *edges;
        int32_t *cost, *cells, *message; /* the model's, scaled; messages */
        int32_t *hat, *base, *out;
        uint64_t steps;
} Passing;

static void passing_done(Passing *p) {
        free(p->labels);
        free(p->node);
        free(p->edge_first);
        free(p->edge_of);
        free(p->back);
        free(p->edges);
        free(p->cost);
        free(p->cells);
        free(p->message);
        free(p->hat);
        free(p->base);
        free(p->out);
}

/* Counts the edges (edges NULL) or lists them: in the order of a, then b. False: too many cells. */
static bool list_edges(Passing *p, uint32_t *mark, size_t *ret_cells, size_t *ret_messages) {
        const Frame *f = p->f;
        const Qubo *q = f->q;
        size_t cells = 0, messages = 0;

        p->n_edges = 0;
        for (uint32_t a = 0; a < f->n_items; a++)
                mark[a] = UINT32_MAX;
        for (uint32_t a = 0; a < f->n_items; a++)
                for (uint32_t u = f->first[a]; u < f->first[a] + f->size[a]; u++)
                        for (size_t k = q->row[u]; k < q->row[u + 1]; k++) {
                                uint32_t b = f->item_of[q->col[k]], x = p->labels[a], y = p->labels[b];

                                if (b <= a || mark[b] == a)
                                        continue;
                                mark[b] = a;
                                if (p->edges)
                                        p->edges[p->n_edges] = (Edge){
                                                .a = a, .b = b, .cells = cells, .to_a = messages, .to_b = messages + x
                                        };
                                p->n_edges++;
                                cells += (size_t) x * y;
                                messages += (size_t) x + y;
                                if (cells > CELLS_MAX)
                                        return false;
                        }
        *ret_cells = cells;
        *ret_messages = messages;
        return true;
}

/* Into edge_of, those to items before first; edges come in the order of a, so that a's come last. */
static void index_edges(Passing *p) {
        const Frame *f = p->f;
        uint32_t n = 0;

        for (uint32_t e = 0; e < p->n_edges; e++) {
                p->edge_first[p->edges[e].a + 1]++;
                p->edge_first[p->edges[e].b + 1]++;
        }
        for (uint32_t a = 0; a < f->n_items; a++)
                p->edge_first[a + 1] += p->edge_first[a];
        for (uint32_t e = 0; e < p->n_edges; e++) {
                uint32_t b = p->edges[e].b;

                p->edge_of[p->edge_first[b] + p->back[b]++] = e;
        }
        for (uint32_t a = 0; a < f->n_items; a++)
                for (uint32_t k = p->edge_first[a] + p->back[a]; k < p->edge_first[a + 1]; k++)
                        p->edge_of[k] = n++;
}

/* The largest scale at which no item's costs can leave their range; 0: there is none. */
static int64_t choose_scale(const Passing *p) {
        const Frame *f = p->f;
        const Qubo *q = f->q;
        int64_t most = 1, sum = llabs(q->offset);

        for (uint32_t a = 0; a < f->n_items; a++) {
                int64_t costs = 0, couplings = 0;

                for (uint32_t u = f->first[a]; u < f->first[a] + f->size[a]; u++) {
                        costs = MAX(costs, llabs(q->linear[u]));
                        for (size_t k = q->row[u]; k < q->row[u + 1]; k++)
                                couplings += llabs(q->val[k]);
                }
                most = MAX(most, costs + couplings);
                sum += costs + couplings;
        }
        return sum > INT64_MAX / 8 / SCALE_MAX ? 0 : MIN(COST_LIMIT / most, SCALE_MAX);
}

static void fill(Passing *p, uint32_t *edge_to) {
        const Frame *f = p->f;
        const Qubo *q = f->q;

        for (uint32_t a = 0; a < f->n_items; a++) {
                for (uint32_t k = p->edge_first[a] + p->back[a]; k < p->edge_first[a + 1]; k++)
                        edge_to[p->edges[p->edge_of[k]].b] = p->edge_of[k];
                for (uint32_t i = 0; i < f->size[a]; i++) {
                        uint32_t u = f->first[a] + i;

                        p->cost[p->node[a] + i] = (int32_t) (p->scale * q->linear[u]);
                        for (size_t k = q->row[u]; k < q->row[u + 1]; k++) {
                                uint32_t v = q->col[k], b = f->item_of[v];

                                if (b > a)
                                        p->cells[p->edges[edge_to[b]].cells + (size_t) i * p->labels[b] + v -
                                                 f->first[b]] = (int32_t) (p->scale * q->val[k]);
                        }
                }
        }
}

static int passing_init(Passing *p) {
        const Frame *f = p->f;
        size_t items = (size_t) f->n_items + 1, cells = 0, messages = 0, labels = 0;
        _cleanup_free_ uint32_t *mark = calloc(items, sizeof(*mark));

        p->labels = calloc(items, sizeof(*p->labels));
        p->node = calloc(items, sizeof(*p->node));
        p->edge_first = calloc(items, sizeof(*p->edge_first));
        p->back = calloc(items, sizeof(*p->back));
        if (!mark || !p->labels || !p->node || !p->edge_first || !p->back)
                return -ENOMEM;
        for (uint32_t a = 0; a < f->n_items; a++) {
                p->node[a] = labels;
                p->labels[a] = f->size[a] + f->optional[a];
                labels += p->labels[a];
        }
        p->node[f->n_items] = labels;
        p->scale = choose_scale(p);
        if (p->scale == 0 || !list_edges(p, mark, &cells, &messages))
                return 0;
        p->edges = calloc((size_t) p->n_edges + 1, sizeof(*p->edges));
        p->edge_of = calloc(2 * (size_t) p->n_edges + 1, sizeof(*p->edge_of));
        p->cost = calloc(labels + 1, sizeof(*p->cost));
        p->cells = calloc(cells + 1, sizeof(*p->cells));
        p->message = calloc(messages + 1, sizeof(*p->message));
        p->hat = calloc((size_t) f->widest + 2, sizeof(*p->hat));
        p->base = calloc((size_t) f->widest + 2, sizeof(*p->base));
        p->out = calloc((size_t) f->widest + 2, sizeof(*p->out));
        if (!p->edges || !p->edge_of || !p->cost || !p->cells || !p->message || !p->hat || !p->base || !p->out)
                return -ENOMEM;
        list_edges(p, mark, &cells, &messages);
        index_edges(p);
        fill(p, mark);
        return 1;
}

/* Takes the least off all numbers. */
static int32_t take_least(int32_t *v, uint32_t n) {
        int32_t least = v[0];

        for (uint32_t i = 1; i < n; i++)
                least = MIN(least, v[i]);
        for (uint32_t i = 0; i < n; i++)
                v[i] -= least;
        return least;
}

/* out[j] = min over i of base[i] + cells[i][j]. */
static void least_onward(const int32_t *cells, const int32_t *base, uint32_t rows, uint32_t cols, int32_t *out) {
        for (uint32_t j = 0; j < cols; j++)
                out[j] = base[0] + cells[j];
        for (uint32_t i = 1; i < rows; i++)
                for (uint32_t j = 0; j < cols; j++)
                        out[j] = MIN(out[j], base[i] + cells[(size_t) i * cols + j]);
}

/* out[i] = min over j of base[j] + cells[i][j]. */
static void least_back(const int32_t *cells, const int32_t *base, uint32_t rows, uint32_t cols, int32_t *out) {
        for (uint32_t i = 0; i < rows; i++) {
                const int32_t *row = cells + (size_t) i * cols;
                int32_t least = base[0] + row[0];

                for (uint32_t j = 1; j < cols; j++)
                        least = MIN(least, base[j] + row[j]);
                out[i] = least;
        }
}

/* One end's share and what the other end cannot do without: what that comes to goes into the message and the bound. */
static int32_t send(Passing *p, const Edge *e, bool onward, int32_t parts) {
        uint32_t x = p->labels[e->a], y = p->labels[e->b];
        int32_t *to = p->message + (onward ? e->to_b : e->to_a);
        const int32_t *from = p->message + (onward ? e->to_a : e->to_b);

        p->steps += x + y + (uint64_t) x * y / 4;
        for (uint32_t i = 0; i < (onward ? x : y); i++)
                p->base[i] = p->hat[i] / parts - from[i];
        if (onward)
                least_onward(p->cells + e->cells, p->base, x, y, to);
        else
                least_back(p->cells + e->cells, p->base, x, y, to);
        return take_least(to, onward ? y : x);
}

/* All that an item's choices cost by now goes to hat; its least, which is taken off, comes back. */
static int32_t collect(Passing *p, uint32_t a) {
        uint32_t n = p->labels[a], first = p->edge_first[a];

        memcpy(p->hat, p->cost + p->node[a], n * sizeof(*p->hat));
        for (uint32_t k = first; k < p->edge_first[a + 1]; k++) {
                const Edge *e = &p->edges[p->edge_of[k]];
                const int32_t *m = p->message + (k < first + p->back[a] ? e->to_b : e->to_a);

                for (uint32_t i = 0; i < n; i++)
                        p->hat[i] += m[i];
        }
        return take_least(p->hat, n);
}

static int64_t visit(Passing *p, uint32_t a, bool onward) {
        uint32_t back = p->back[a], all = p->edge_first[a + 1] - p->edge_first[a];
        const uint32_t *edge_of = p->edge_of + p->edge_first[a];
        int32_t parts = (int32_t) MAX(MAX(back, all - back), 1U);
        int64_t bound = collect(p, a);

        for (uint32_t k = onward ? back : 0; k < (onward ? all : back); k++)
                bound += send(p, &p->edges[edge_of[k]], onward, parts);
        return bound;
}

/* One after the other in one direction; false: the limit. */
static bool pass(Passing *p, Limit *l, bool onward, int64_t *ret_bound) {
        const Frame *f = p->f;
        int64_t bound = p->scale * f->q->offset;

        for (uint32_t k = 0; k < f->n_items; k++) {
                uint32_t a = onward ? k : f->n_items - 1 - k;
                uint64_t before = p->steps;

                bound += visit(p, a, onward);
                if (limit_work(l, p->steps - before))
                        return false;
        }
        *ret_bound = bound;
        return true;
}

/* Leaves a share of a's costs in the edge, and takes out what went ahead as a message and what a must pay anyway. */
static void settle_edge(Passing *p, const Edge *e, int32_t parts, int32_t least_sent) {
        uint32_t x = p->labels[e->a], y = p->labels[e->b];
        const int32_t *to_a = p->message + e->to_a, *to_b = p->message + e->to_b;
        int32_t *cost = p->cost + p->node[e->a];

        for (uint32_t i = 0; i < x; i++) {
                int32_t *row = p->cells + e->cells + (size_t) i * y;
                int32_t share = p->hat[i] / parts;

                for (uint32_t j = 0; j < y; j++)
                        row[j] += share - to_a[i] - to_b[j] - least_sent;
                cost[i] += take_least(row, y) - share;
        }
}

/* The last pass, onward: costs stay where the shares have taken them, and no number is negative then. */
static int64_t settle(Passing *p) {
        const Frame *f = p->f;
        int64_t bound = p->scale * f->q->offset;

        for (uint32_t a = 0; a < f->n_items; a++) {
                uint32_t n = p->labels[a], back = p->back[a], all = p->edge_first[a + 1] - p->edge_first[a];
                const uint32_t *edge_of = p->edge_of + p->edge_first[a];
                int32_t parts = (int32_t) MAX(MAX(back, all - back), 1U);

                bound += collect(p, a);
                memcpy(p->cost + p->node[a], p->hat, n * sizeof(*p->hat));
                for (uint32_t k = back; k < all; k++) {
                        int32_t least = send(p, &p->edges[edge_of[k]], true, parts);

                        settle_edge(p, &p->edges[edge_of[k]], parts, least);
                        bound += least;
                }
        }
        return bound;
}

static int add_edge(const Passing *p, const Edge *e, QuboBuilder *b) {
        int r = 0;

        for (uint32_t i = 0; i < p->labels[e->a]; i++)
                for (uint32_t j = 0; j < p->labels[e->b] && r >= 0; j++) {
                        int32_t w = p->cells[e->cells + (size_t) i * p->labels[e->b] + j];

                        if (w != 0)
                                r = qubo_add_quadratic(b, (uint32_t) p->node[e->a] + i, (uint32_t) p->node[e->b] + j,
                                                       w);
                }
        return r;
}

static int make_model(const Passing *p, int64_t bound, Qubo **ret) {
        _cleanup_(qubo_builder_freep) QuboBuilder *b = NULL;
        uint32_t n = (uint32_t) p->node[p->f->n_items];
        int r = qubo_builder_new(n, &b);

        if (r >= 0)
                r = qubo_add_offset(b, bound);
        for (uint32_t a = 0; a < p->f->n_items && r >= 0; a++)
                r = qubo_add_group(b, (uint32_t) p->node[a], p->labels[a]);
        for (uint32_t v = 0; v < n && r >= 0; v++)
                r = qubo_add_linear(b, v, p->cost[v]);
        for (uint32_t e = 0; e < p->n_edges && r >= 0; e++)
                r = add_edge(p, &p->edges[e], b);
        return r < 0 ? r : qubo_build(b, ret);
}

/* Passes until the bound reaches the energy, or hardly rises any more. */
static int64_t run(Passing *p, Limit *l, int64_t energy, uint64_t max_steps) {
        int64_t best = INT64_MIN, before = INT64_MIN, bound;
        double goal = (double) p->scale * (double) (energy - 1);

        for (unsigned i = 0; i < PASSES_MAX; i++) {
                if (!pass(p, l, true, &bound) || !pass(p, l, false, &bound))
                        break;
                best = MAX(best, bound);
                before = i == 0 ? best : before;
                if ((double) best > goal || (max_steps > 0 && p->steps >= max_steps))
                        break;
                if ((i + 1) % PASSES_CHECK != 0)
                        continue;
                if ((double) (best - before) < LEAST_GAIN * (goal - (double) best))
                        break;
                before = best;
        }
        return best;
}

static int64_t divide_up(int64_t a, int64_t b) {
        return a / b + (a % b > 0);
}

int dual_new(const Frame *f, Limit *l, int64_t least, int64_t energy, uint64_t max_steps, int64_t *bound,
             uint64_t *steps, Dual **ret) {
        _cleanup_(passing_done) Passing p = { .f = f };
        _cleanup_(dual_freep) Dual *d = NULL;
        int64_t best;
        int r;

        if (f->q->table_of || f->q->flow)
                return 0;
        r = passing_init(&p);
        if (r <= 0)
                return r;
        best = run(&p, l, energy, max_steps);
        *steps += p.steps;
        if (best != INT64_MIN)
                *bound = MAX(*bound, divide_up(best, p.scale));
        if (*bound >= energy || *bound < least || l->hit)
                return 0;
        d = calloc(1, sizeof(*d));
        if (!d)
                return -ENOMEM;
        d->of = f;
        d->scale = p.scale;
        r = make_model(&p, settle(&p), &d->q);
        if (r >= 0)
                r = frame_of_items(d->q, &d->f);
        if (r >= 0)
                *ret = TAKE_PTR(d);
        return r == -EOVERFLOW ? 0 : r;
}

Dual *dual_free(Dual *d) {
        if (!d)
                return NULL;
        frame_free(d->f);
        qubo_free(d->q);
        free(d);
        return NULL;
}
