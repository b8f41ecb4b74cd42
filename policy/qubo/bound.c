/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strong bound of branch and bound, after Gilmore and Lawler, for models with hard conflicts: choices of different
 * groups that no point better than the incumbent can hold together (two ranks on one device). Such choices are gathered
 * into slots, cliques of conflicts of which at most one member can be held; groups that share slots make a component.
 *
 * The least that a choice u costs is then not a sum of independent minima: what the other groups of a component add to
 * it is at least a linear assignment of them to different slots. The sum over groups is bounded by assignments again,
 * whose reduced costs bound every child of the node. As in exact.c all is doubled, either end paying half a coupling.
 *
 * Memory: O(n + the largest component's groups times slots).
 */
#include <errno.h>

#include "policy/qubo/exact.h"

#define SLOTS_MAX_VARIABLES 4096U
#define COST_NEVER (INT64_C(1) << 58)
#define COST_MAX (INT64_C(1) << 50) /* of the whole model: sums with COST_NEVER stay within int64 */

typedef struct Component {
        uint32_t n_items, n_columns;
        uint32_t *items;
} Component;

typedef struct Assignment {
        int64_t *cost; /* rows x columns */
        int64_t *row_price, *column_price, *slack;
        uint32_t *row_of, *way;
        bool *used, *matched;
        uint32_t n_rows, n_columns;
} Assignment;

/* The couplings of one choice to one other item: entries [from, to) of its row. */
typedef struct Segment {
        uint32_t item, component;
        size_t from, to;
        int64_t least;
} Segment;

typedef struct Slots {
        uint32_t n_slots, n_components;
        uint32_t *slot;      /* by variable, or SLOT_NONE */
        uint32_t *column;    /* by variable: its slot, numbered within the component */
        uint32_t *component; /* by item, or SLOT_NONE */
        Component *components;
        uint32_t *items; /* of all components */
        Assignment work;
        Segment *segments; /* room for those of one row */
        int64_t *least;    /* by item */
        uint32_t *alive;   /* by item: its choices that are not dead */
        bool *dead;        /* by variable: held, nothing better can come */
} Slots;

static void assignment_done(Assignment *w) {
        free(w->cost);
        free(w->row_price);
        free(w->column_price);
        free(w->slack);
        free(w->row_of);
        free(w->way);
        free(w->used);
        free(w->matched);
}

static int assignment_init(Assignment *w, size_t rows, size_t columns) {
        w->cost = calloc(rows * columns + 1, sizeof(*w->cost));
        w->row_price = calloc(rows + 1, sizeof(*w->row_price));
        w->column_price = calloc(columns + 1, sizeof(*w->column_price));
        w->slack = calloc(columns + 1, sizeof(*w->slack));
        w->row_of = calloc(columns + 1, sizeof(*w->row_of));
        w->way = calloc(columns + 1, sizeof(*w->way));
        w->used = calloc(columns + 1, sizeof(*w->used));
        w->matched = calloc(rows + 1, sizeof(*w->matched));
        return w->cost && w->matched && w->row_price && w->column_price && w->slack && w->row_of && w->way && w->used
                       ? 0
                       : -ENOMEM;
}

/* One shortest augmenting path: where the row just put at column 0 ends up. False: it finds no column. */
static bool assignment_augment(Assignment *w) {
        uint32_t j0 = 0, j1 = 0;

        for (uint32_t j = 0; j <= w->n_columns; j++) {
                w->slack[j] = INT64_MAX;
                w->used[j] = false;
        }
        do {
                const int64_t *cost = w->cost + (size_t) (w->row_of[j0] - 1) * w->n_columns;
                int64_t delta = INT64_MAX, price = w->row_price[w->row_of[j0]];

                w->used[j0] = true;
                for (uint32_t j = 1; j <= w->n_columns; j++) {
                        int64_t c = cost[j - 1] - price - w->column_price[j];

                        if (w->used[j])
                                continue;
                        if (c < w->slack[j]) {
                                w->slack[j] = c;
                                w->way[j] = j0;
                        }
                        if (w->slack[j] < delta) {
                                delta = w->slack[j];
                                j1 = j;
                        }
                }
                if (delta >= COST_NEVER / 2)
                        return false;
                for (uint32_t j = 0; j <= w->n_columns; j++)
                        if (w->used[j]) {
                                w->row_price[w->row_of[j]] += delta;
                                w->column_price[j] -= delta;
                        } else if (w->slack[j] != INT64_MAX)
                                w->slack[j] -= delta;
                j0 = j1;
        } while (w->row_of[j0] != 0);
        for (; j0 != 0; j0 = w->way[j0])
                w->row_of[j0] = w->row_of[w->way[j0]];
        return true;
}

/* Each row pays its least, and has the column of that where no row before it has: most are done then. False: a row that
 * fits nowhere. */
static bool assignment_begin(Assignment *w) {
        memset(w->column_price, 0, (w->n_columns + 1) * sizeof(*w->column_price));
        memset(w->row_of, 0, (w->n_columns + 1) * sizeof(*w->row_of));
        memset(w->matched, 0, (w->n_rows + 1) * sizeof(*w->matched));
        for (uint32_t i = 1; i <= w->n_rows; i++) {
                const int64_t *cost = w->cost + (size_t) (i - 1) * w->n_columns;
                int64_t least = COST_NEVER;

                for (uint32_t j = 0; j < w->n_columns; j++)
                        least = MIN(least, cost[j]);
                if (least >= COST_NEVER / 2)
                        return false;
                w->row_price[i] = least;
                for (uint32_t j = 0; j < w->n_columns && !w->matched[i]; j++)
                        if (cost[j] == least && w->row_of[j + 1] == 0) {
                                w->row_of[j + 1] = i;
                                w->matched[i] = true;
                        }
        }
        return true;
}

/* The least total of rows to different columns, COST_NEVER if there is none; leaves prices: cost >= row + column. */
static int64_t assignment_solve(Assignment *w) {
        int64_t total = 0;

        if (w->n_rows > w->n_columns || !assignment_begin(w))
                return COST_NEVER;
        for (uint32_t i = 1; i <= w->n_rows; i++) {
                if (w->matched[i])
                        continue;
                w->row_of[0] = i;
                if (!assignment_augment(w))
                        return COST_NEVER;
        }
        for (uint32_t i = 1; i <= w->n_rows; i++)
                total += w->row_price[i];
        for (uint32_t j = 1; j <= w->n_columns; j++)
                total += w->column_price[j]; /* 0 of a free column */
        return total;
}

/* For each variable the largest of the least couplings to any one neighbour; false: too large numbers. */
static bool largest_least(const Search *s, int64_t *most) {
        const Qubo *q = s->f->q;
        int64_t sum = llabs(q->offset);

        for (uint32_t a = 0; a < s->f->n_items; a++)
                for (size_t k = s->least_first[a]; k < s->least_first[a + 1]; k++)
                        most[s->least[k].v] = MAX(most[s->least[k].v], s->least[k].min);
        for (uint32_t i = 0; i < q->n; i++)
                sum += llabs(q->linear[i]);
        for (size_t k = 0; k < q->row[q->n]; k++)
                sum += llabs(q->val[k]);
        return sum < COST_MAX;
}

typedef struct Gather {
        const int64_t *most;
        int64_t enough; /* doubled coupling beyond which two choices exclude each other */
        uint32_t *members, *conflicts, *touched;
} Gather;

/* The largest slot all of whose members conflict with v, or a new one. */
static uint32_t find_slot(const Search *s, Slots *slots, Gather *g, uint32_t v) {
        const Qubo *q = s->f->q;
        uint32_t best = SLOT_NONE, n = 0;

        for (size_t k = q->row[v]; k < q->row[v + 1]; k++) {
                uint32_t u = q->col[k], slot = slots->slot[u];

                if (slot == SLOT_NONE || 2 * (int64_t) q->val[k] - g->most[u] - g->most[v] <= g->enough)
                        continue;
                if (g->conflicts[slot]++ == 0)
                        g->touched[n++] = slot;
        }
        for (uint32_t t = 0; t < n; t++) {
                uint32_t slot = g->touched[t];

                if (g->conflicts[slot] == g->members[slot] &&
                    (best == SLOT_NONE || g->members[slot] > g->members[best]))
                        best = slot;
                g->conflicts[slot] = 0;
        }
        return best != SLOT_NONE ? best : slots->n_slots++;
}

static uint32_t root_of(uint32_t *parent, uint32_t a) {
        while (parent[a] != a)
                a = parent[a] = parent[parent[a]];
        return a;
}

/* Numbers the components of at least two items (the union is in component[]) and lists their items. */
static void list_components(const Frame *f, Slots *slots, uint32_t *size) {
        uint32_t *index = slots->items + f->n_items, at = 0; /* upper half: free until the lists are made */

        for (uint32_t a = 0; a < f->n_items; a++)
                size[root_of(slots->component, a)]++;
        for (uint32_t a = 0; a < f->n_items; a++) {
                index[a] = SLOT_NONE;
                if (root_of(slots->component, a) == a && size[a] >= 2) {
                        index[a] = slots->n_components;
                        slots->components[slots->n_components++].items = slots->items + at;
                        at += size[a];
                }
        }
        for (uint32_t a = 0; a < f->n_items; a++)
                size[a] = index[root_of(slots->component, a)];
        for (uint32_t a = 0; a < f->n_items; a++) {
                slots->component[a] = size[a];
                if (size[a] != SLOT_NONE)
                        slots->components[size[a]].items[slots->components[size[a]].n_items++] = a;
        }
}

/* Columns: the slots of a component, in the order they are met. */
static void number_columns(const Frame *f, Slots *slots, uint32_t *column_of) {
        for (uint32_t i = 0; i < slots->n_slots; i++)
                column_of[i] = SLOT_NONE;
        for (uint32_t v = 0; v < f->q->n; v++) {
                uint32_t c = slots->component[f->item_of[v]];

                if (c == SLOT_NONE)
                        continue;
                if (column_of[slots->slot[v]] == SLOT_NONE)
                        column_of[slots->slot[v]] = slots->components[c].n_columns++;
                slots->column[v] = column_of[slots->slot[v]];
        }
}

static int gather(const Search *s, Slots *slots, int64_t root_bound) {
        const Frame *f = s->f;
        size_t n = (size_t) f->q->n + f->n_items + 1;
        _cleanup_free_ int64_t *most = calloc(n, sizeof(*most));
        _cleanup_free_ uint32_t *members = calloc(n, sizeof(*members)), *conflicts = calloc(n, sizeof(*conflicts));
        _cleanup_free_ uint32_t *touched = calloc(n, sizeof(*touched));
        Gather g = { .most = most, .members = members, .conflicts = conflicts, .touched = touched };
        size_t rows = 0, columns = 0;

        if (!most || !members || !conflicts || !touched)
                return -ENOMEM;
        if (!largest_least(s, most))
                return 0;
        g.enough = 2 * (s->best->energy - 1) - root_bound;
        for (uint32_t a = 0; a < f->n_items; a++)
                slots->component[a] = a;
        for (uint32_t v = 0; v < f->q->n; v++) {
                uint32_t a = f->item_of[v], slot;

                if (f->optional[a])
                        continue;
                slot = slots->slot[v] = find_slot(s, slots, &g, v);
                if (members[slot]++ > 0) /* until columns are numbered, column[slot] is the item that began it */
                        slots->component[root_of(slots->component, a)] = root_of(slots->component, slots->column[slot]);
                else
                        slots->column[slot] = a;
        }
        memset(members, 0, n * sizeof(*members));
        list_components(f, slots, members);
        number_columns(f, slots, members);
        for (uint32_t c = 0; c < slots->n_components; c++) {
                rows = MAX(rows, slots->components[c].n_items);
                columns = MAX(columns, slots->components[c].n_columns);
        }
        return assignment_init(&slots->work, rows, columns);
}

Slots *slots_free(Slots *slots) {
        if (!slots)
                return NULL;
        free(slots->slot);
        free(slots->column);
        free(slots->component);
        free(slots->components);
        free(slots->items);
        free(slots->segments);
        free(slots->alive);
        free(slots->least);
        free(slots->dead);
        assignment_done(&slots->work);
        free(slots);
        return NULL;
}

int slots_new(const Search *s, int64_t root_bound, Slots **ret) {
        size_t n = (size_t) s->f->q->n + 1, items = (size_t) s->f->n_items + 1;
        Slots *slots;
        int r = -ENOMEM;

        if (s->f->q->n > SLOTS_MAX_VARIABLES || s->f->q->n_groups < 2)
                return 0;
        slots = calloc(1, sizeof(*slots));
        if (!slots)
                return -ENOMEM;
        slots->slot = malloc(n * sizeof(*slots->slot));
        slots->column = calloc(n, sizeof(*slots->column));
        slots->component = calloc(items, sizeof(*slots->component));
        slots->components = calloc(items, sizeof(*slots->components));
        slots->items = calloc(2 * items, sizeof(*slots->items));
        slots->segments = calloc(items, sizeof(*slots->segments));
        slots->alive = calloc(items, sizeof(*slots->alive));
        slots->least = calloc(items, sizeof(*slots->least));
        slots->dead = calloc(n, sizeof(*slots->dead));
        if (slots->slot && slots->column && slots->component && slots->components && slots->items && slots->segments &&
            slots->alive && slots->least && slots->dead) {
                memset(slots->slot, 0xff, n * sizeof(*slots->slot));
                r = gather(s, slots, root_bound);
        }
        if (r < 0 || slots->n_components == 0)
                slots_free(slots);
        else
                *ret = slots;
        return r;
}

/* Looks through the entries of one other item from k on; true: what they cost is not the same for all of its choices.
 * seg->least is COST_NEVER if no choice is left. */
static bool segment_read(const Slots *slots, const Search *s, size_t k, size_t row_end, uint32_t taken, Segment *seg) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        uint32_t b = f->item_of[q->col[k]], end = f->first[b] + f->size[b], left = slots->alive[b], seen = 0;
        int64_t low = COST_NEVER, high = -COST_NEVER;

        *seg = (Segment){ .item = b, .component = slots->component[b], .from = k };
        for (; k < row_end && q->col[k] < end; k++) {
                uint32_t v = q->col[k];

                if (slots->dead[v])
                        continue;
                if (seg->component != SLOT_NONE && slots->column[v] == taken) {
                        left--;
                        continue;
                }
                seen++;
                low = MIN(low, q->val[k]);
                high = MAX(high, q->val[k]);
        }
        if (seen < left || f->optional[b]) {
                low = MIN(low, 0);
                high = MAX(high, 0);
        }
        seg->to = k;
        seg->least = low;
        return low < high;
}

/* The assignment's next row: a segment's item, whose choices cost nothing where there is no entry. */
static void add_row(Slots *slots, const Search *s, const Segment *seg, uint32_t taken) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        Assignment *w = &slots->work;
        int64_t *cost = w->cost + (size_t) w->n_rows++ * w->n_columns;

        for (uint32_t j = 0; j < w->n_columns; j++)
                cost[j] = COST_NEVER;
        for (uint32_t v = f->first[seg->item]; v < f->first[seg->item] + f->size[seg->item]; v++)
                if (!slots->dead[v])
                        cost[slots->column[v]] = 0;
        for (size_t k = seg->from; k < seg->to; k++)
                if (!slots->dead[q->col[k]])
                        cost[slots->column[q->col[k]]] = q->val[k];
        if (taken != SLOT_NONE)
                cost[taken] = COST_NEVER;
}

/* The least that the items of all segments of one component add; takes them off the list. */
static int64_t component_adds(Slots *slots, Search *s, uint32_t *n, uint32_t taken) {
        uint32_t c = slots->segments[0].component, kept = 0, rows = 0;
        int64_t least = slots->segments[0].least;

        slots->work.n_rows = 0;
        slots->work.n_columns = slots->components[c].n_columns;
        for (uint32_t i = 0; i < *n; i++) {
                Segment seg = slots->segments[i];

                if (seg.component != c) {
                        slots->segments[kept++] = seg;
                        continue;
                }
                add_row(slots, s, &seg, taken);
                rows++;
        }
        *n = kept;
        if (rows == 1)
                return least;
        s->steps += (uint64_t) rows * rows * slots->work.n_columns / 2;
        return assignment_solve(&slots->work);
}

/* Twice the least cost of u, or COST_NEVER. */
static int64_t choice_cost(Slots *slots, Search *s, uint32_t a, uint32_t u) {
        const Frame *f = s->f;
        const Qubo *q = f->q;
        uint32_t own = slots->component[a], n = 0;
        size_t row_end = q->row[u + 1];
        int64_t sum = s->now[u];
        Segment seg;

        for (size_t k = q->row[u]; k < row_end; k = seg.to) {
                uint32_t b = f->item_of[q->col[k]];
                bool varies = segment_read(slots, s, k, row_end,
                                           slots->component[b] == own ? slots->column[u] : SLOT_NONE, &seg);

                if (s->assigned[b])
                        continue;
                if (seg.least == COST_NEVER)
                        return COST_NEVER;
                if (varies && seg.component != SLOT_NONE)
                        slots->segments[n++] = seg;
                else
                        sum += seg.least;
        }
        s->steps += row_end - q->row[u];
        while (n > 0) {
                int64_t add = component_adds(slots, s, &n,
                                             slots->segments[0].component == own ? slots->column[u] : SLOT_NONE);

                if (add == COST_NEVER)
                        return COST_NEVER;
                sum += add;
        }
        return sum;
}

/* The plain bound, by item; marks the choices that it rules out. */
static int64_t mark_dead(Slots *slots, Search *s) {
        const Frame *f = s->f;
        int64_t bound = s->fixed;

        for (uint32_t a = 0; a < f->n_items; a++) {
                slots->least[a] = f->optional[a] ? 0 : INT64_MAX;
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++)
                        slots->least[a] = MIN(slots->least[a], s->now[v] + s->later[v]);
                if (!s->assigned[a])
                        bound += slots->least[a];
        }
        for (uint32_t a = 0; a < f->n_items; a++) {
                slots->alive[a] = 0;
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++) {
                        slots->dead[v] = hopeless(s, bound - slots->least[a] + s->now[v] + s->later[v]);
                        slots->alive[a] += !slots->dead[v];
                }
        }
        return bound;
}

/* Turns the costs in child[] of a single item's choices into what they cost above the least; returns that. */
static int64_t reduce_item(Search *s, uint32_t a) {
        const Frame *f = s->f;
        int64_t low = f->optional[a] ? 0 : COST_NEVER;

        for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++)
                low = MIN(low, s->child[v]);
        for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a]; v++)
                s->child[v] -= low;
        s->nothing[a] = -low;
        return low;
}

/* The same for a component, by an assignment of its unassigned items. */
static int64_t reduce_component(Slots *slots, Search *s, const Component *comp) {
        const Frame *f = s->f;
        Assignment *w = &slots->work;
        int64_t total;

        w->n_rows = 0;
        w->n_columns = comp->n_columns;
        for (uint32_t i = 0; i < comp->n_items; i++) {
                uint32_t b = comp->items[i];
                int64_t *cost = w->cost + (size_t) w->n_rows * w->n_columns;

                if (s->assigned[b])
                        continue;
                for (uint32_t j = 0; j < w->n_columns; j++)
                        cost[j] = COST_NEVER;
                for (uint32_t v = f->first[b]; v < f->first[b] + f->size[b]; v++)
                        cost[slots->column[v]] = MIN(cost[slots->column[v]], s->child[v]);
                w->n_rows++;
        }
        s->steps += (uint64_t) w->n_rows * w->n_rows * w->n_columns;
        total = assignment_solve(w);
        if (total == COST_NEVER)
                return COST_NEVER;
        for (uint32_t i = 0, row = 0; i < comp->n_items; i++) {
                uint32_t b = comp->items[i];

                if (s->assigned[b])
                        continue;
                row++;
                for (uint32_t v = f->first[b]; v < f->first[b] + f->size[b]; v++)
                        s->child[v] -= w->row_price[row] + w->column_price[slots->column[v] + 1];
        }
        return total;
}

/* Costs of all choices that are not dead, into child[]; false: there was no time for it. */
static bool price_choices(Slots *slots, Search *s) {
        const Frame *f = s->f;

        for (uint32_t a = 0; a < f->n_items; a++) {
                uint64_t before = s->steps;

                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a] && !s->assigned[a]; v++) {
                        s->child[v] = slots->dead[v] ? COST_NEVER : choice_cost(slots, s, a, v);
                        if (s->child[v] == COST_NEVER && !slots->dead[v]) {
                                slots->dead[v] = true;
                                slots->alive[a]--;
                        }
                }
                if (limit_work(s->limit, s->steps - before))
                        return false;
        }
        return true;
}

/* Takes what every item adds at least off child[]; returns the sum, COST_NEVER if something fits nowhere. */
static int64_t reduce(Slots *slots, Search *s) {
        const Frame *f = s->f;
        int64_t sum = 0, part;

        for (uint32_t a = 0; a < f->n_items; a++) {
                if (s->assigned[a] || slots->component[a] != SLOT_NONE)
                        continue;
                part = reduce_item(s, a);
                if (part == COST_NEVER)
                        return COST_NEVER;
                sum += part;
        }
        for (uint32_t c = 0; c < slots->n_components; c++) {
                part = reduce_component(slots, s, &slots->components[c]);
                if (part == COST_NEVER)
                        return COST_NEVER;
                sum += part;
        }
        return sum;
}

int64_t slots_bound(Slots *slots, Search *s) {
        const Frame *f = s->f;
        int64_t plain = mark_dead(slots, s), bound = 0;
        bool priced = price_choices(slots, s);

        if (priced) {
                bound = reduce(slots, s);
                if (bound == COST_NEVER)
                        return BOUND_DEAD;
                bound += s->fixed;
        }
        for (uint32_t a = 0; a < f->n_items; a++) {
                s->nothing[a] = priced ? s->nothing[a] + bound : plain - slots->least[a];
                for (uint32_t v = f->first[a]; v < f->first[a] + f->size[a] && !s->assigned[a]; v++) {
                        int64_t child = plain - slots->least[a] + s->now[v] + s->later[v];

                        s->child[v] = priced && slots->dead[v] ? BOUND_DEAD
                                      : priced                 ? MAX(child, bound + s->child[v])
                                                               : child;
                }
        }
        return priced ? MAX(bound, plain) : plain;
}
