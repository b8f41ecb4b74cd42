/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Iterated tabu search inside the feasible set. A step makes the best of all moves (a group takes another choice, a
 * single variable flips) and of as many exchanges of two groups as there are items, drawn at random; what was left may not
 * be taken again for a tenure (Glover 1989), but for a point better than all before. Fields are kept for every choice, so
 * that a step looks at each once and a move costs O(couplings of two choices).
 *
 * After some steps without a better point the walk is shaken by a cluster move, from the best point or where it is: a
 * group and those most strongly coupled to it go to one choice together (a tensor-parallel set to one socket), or all
 * that hold one choice change places with all that hold another. One round in ROUNDS_PER_SCATTER starts at random.
 *
 * A sweep is as many steps as there are items. Memory: a Frame, a State, and 12 bytes a variable and item.
 */
#include <errno.h>

#include "policy/qubo/frame.h"
#include "policy/qubo/rng.h"

#define TENURE_LEAST 4U
#define TENURE_SHARE 6U /* and up to items / this */
#define PATIENCE 12U    /* sweeps without a better point of the round */
#define ROUNDS_PER_SCATTER 12U
#define CLUSTER_MAX 8U

typedef struct Walk {
        const Frame *f;
        State *s;
        Incumbent *best;
        uint64_t
                *until; /* by variable and, behind them, by item (holding nothing): the first step it may be taken at */
        uint32_t *held;
        bool *in_cluster;
        int64_t round; /* best energy of the round */
        Rng rng;
        Limit *limit;
        uint64_t step, sweeps, flips;
} Walk;

typedef struct Step {
        Change c[2];
        unsigned n; /* changes; 0: none */
        int64_t delta;
        uint32_t ties;
} Step;

static void walk_done(Walk *w) {
        state_free(w->s);
        free(w->until);
        free(w->held);
        free(w->in_cluster);
}

static int walk_init(Walk *w) {
        const Frame *f = w->f;
        size_t items = (size_t) f->n_items + 1;

        w->until = calloc(f->q->n + items, sizeof(*w->until));
        w->held = calloc(items, sizeof(*w->held));
        w->in_cluster = calloc(items, sizeof(*w->in_cluster));
        return w->until && w->held && w->in_cluster ? state_new(f, &w->s) : -ENOMEM;
}

static uint64_t *until_of(Walk *w, uint32_t item, uint32_t v) {
        return &w->until[v == ITEM_NOTHING ? w->f->q->n + item : v];
}

/* Keeps the better of two steps, of equal ones each with the same chance. */
static void take(Walk *w, Step *best, const Change *c, unsigned n, int64_t delta) {
        if (best->n > 0 && delta > best->delta)
                return;
        best->ties = best->n > 0 && delta == best->delta ? best->ties + 1 : 1;
        if (best->ties > 1 && rng_below(&w->rng, best->ties) > 0)
                return;
        best->n = n;
        best->delta = delta;
        memcpy(best->c, c, n * sizeof(*c));
}

static void look_at_flip(Walk *w, uint32_t a, Step *best) {
        State *s = w->s;
        Change c = { .item = a, .to = s->held[a] == ITEM_NOTHING ? w->f->first[a] : ITEM_NOTHING };
        int64_t field = state_field(s, w->f->first[a]), d = c.to == ITEM_NOTHING ? -field : field;

        if (*until_of(w, a, c.to) <= w->step || s->energy + d < w->best->energy)
                take(w, best, &c, 1, d);
        w->flips++;
}

static void look_at_moves(Walk *w, uint32_t a, Step *best) {
        State *s = w->s;
        const Frame *f = w->f;
        uint32_t first = f->first[a], held = s->held[a];
        const int64_t *wide = s->field32 ? NULL : state_fields(s, a);
        int64_t from = wide ? wide[held - first] : s->field32[held];

        for (uint32_t i = 0; i < f->size[a]; i++) {
                int64_t d = (wide ? wide[i] : s->field32[first + i]) - from;

                if (first + i == held || (best->n > 0 && d > best->delta))
                        continue;
                if (w->until[first + i] <= w->step || s->energy + d < w->best->energy)
                        take(w, best, &(Change){ .item = a, .to = first + i }, 1, d);
        }
        w->flips += f->size[a] - 1;
}

/* Of a group with one that contends for the same, or where there is none with any of its size. */
static void look_at_exchange(Walk *w, uint32_t a, Step *best) {
        const Frame *f = w->f;
        size_t n_kin = f->kin_first[a + 1] - f->kin_first[a];
        uint32_t b = n_kin > 0 ? f->kin[f->kin_first[a] + rng_below(&w->rng, (uint32_t) n_kin)]
                               : rng_below(&w->rng, f->n_items);
        Change c[2];
        int64_t d;

        if (a == b || f->optional[b] || (n_kin == 0 && f->size[a] != f->size[b]) || !state_exchange(w->s, a, b, c))
                return;
        w->flips++;
        d = state_exchange_delta(w->s, c);
        if ((w->until[c[0].to] <= w->step && w->until[c[1].to] <= w->step) || w->s->energy + d < w->best->energy)
                take(w, best, c, 2, d);
}

static void apply(Walk *w, const Change *c, unsigned n, int64_t delta) {
        for (unsigned i = 0; i < n; i++)
                *until_of(w, c[i].item, w->s->held[c[i].item]) = w->step + TENURE_LEAST +
                                                                 rng_below(&w->rng, w->f->n_items / TENURE_SHARE + 2);
        state_apply(w->s, c, n, delta);
}

static void note_best(Walk *w) {
        State *s = w->s;

        w->round = MIN(w->round, s->energy);
        if (s->energy >= w->best->energy)
                return;
        w->best->energy = s->energy;
        memcpy(w->best->held, s->held, w->f->n_items * sizeof(*s->held));
        incumbent_improved(w->best, w->f, w->limit);
}

/* False: the limit. */
static bool step(Walk *w) {
        const Frame *f = w->f;
        Step best = {};

        for (uint32_t a = 0; a < f->n_items; a++) {
                if (f->optional[a])
                        look_at_flip(w, a, &best);
                else if (f->size[a] > 1) {
                        look_at_moves(w, a, &best);
                        look_at_exchange(w, a, &best);
                }
                if (limit_work(w->limit, 8 + f->size[a]))
                        return false;
        }
        w->step++;
        if (best.n > 0)
                apply(w, best.c, best.n, best.delta);
        note_best(w);
        return !limit_work(w->limit, f->row_mean);
}

/* Steps until none has been better than the round for a while. False: the limit, or no sweeps are left. */
static bool walk(Walk *w, uint64_t *left) {
        uint32_t idle = 0;

        w->round = w->s->energy;
        while (*left > 0 && idle < PATIENCE) {
                int64_t before = w->round;

                for (uint32_t i = 0; i < w->f->n_items; i++)
                        if (!step(w))
                                return false;
                w->sweeps++;
                --*left;
                idle = w->round < before ? 0 : idle + 1;
        }
        return *left > 0;
}

/* The group outside whose costs depend most on what item a holds; ITEM_NOTHING: none does. */
static uint32_t most_coupled(const Walk *w, uint32_t a) {
        const Frame *f = w->f;
        const Qubo *q = f->q;
        uint32_t v = w->s->held[a], best = ITEM_NOTHING;
        int64_t widest = 0;

        for (size_t k = q->row[v]; k < q->row[v + 1];) {
                uint32_t b = f->item_of[q->col[k]], n = 0;
                int64_t low = INT64_MAX, high = INT64_MIN;

                for (; k < q->row[v + 1] && f->item_of[q->col[k]] == b; k++, n++) {
                        low = MIN(low, q->val[k]);
                        high = MAX(high, q->val[k]);
                }
                if (n < f->size[b]) {
                        low = MIN(low, 0);
                        high = MAX(high, 0);
                }
                if (!f->optional[b] && !w->in_cluster[b] && high - low > widest) {
                        widest = high - low;
                        best = b;
                }
        }
        return best;
}

static void move_to_place(Walk *w, uint32_t item, uint32_t place) {
        if (place < w->f->size[item])
                state_move(w->s, item, w->f->first[item] + place);
}

/* A group and those that are coupled to it, one to the next, all to one place. */
static void move_cluster(Walk *w, uint32_t a, uint32_t place) {
        uint32_t list[CLUSTER_MAX], n = 0, want = 2 + rng_below(&w->rng, CLUSTER_MAX - 1);

        for (uint32_t b = a; n < want && b != ITEM_NOTHING; b = most_coupled(w, list[rng_below(&w->rng, n)])) {
                list[n++] = b;
                w->in_cluster[b] = true;
        }
        for (uint32_t i = 0; i < n; i++) {
                w->in_cluster[list[i]] = false;
                move_to_place(w, list[i], place);
        }
}

/* All that hold the one place take the other. */
static void exchange_places(Walk *w, uint32_t one, uint32_t other) {
        const Frame *f = w->f;

        for (uint32_t a = 0; a < f->n_items; a++) {
                uint32_t place = f->optional[a] ? UINT32_MAX : w->s->held[a] - f->first[a];

                if (place == one || place == other)
                        move_to_place(w, a, place == one ? other : one);
        }
}

static void shake(Walk *w) {
        const Frame *f = w->f;
        uint32_t a = rng_below(&w->rng, f->n_items);

        if (f->optional[a]) {
                for (uint32_t i = 0; i < 1 + f->n_items / 20; i++, a = rng_below(&w->rng, f->n_items))
                        if (f->optional[a])
                                state_move(w->s, a, w->s->held[a] == ITEM_NOTHING ? f->first[a] : ITEM_NOTHING);
        } else if (rng_below(&w->rng, 2) > 0)
                move_cluster(w, a, rng_below(&w->rng, f->size[a]));
        else
                exchange_places(w, w->s->held[a] - f->first[a], rng_below(&w->rng, f->size[a]));
}

static void scatter(Walk *w) {
        const Frame *f = w->f;

        for (uint32_t a = 0; a < f->n_items; a++)
                if (f->optional[a])
                        w->held[a] = rng_next(&w->rng) >> 63 ? f->first[a] : ITEM_NOTHING;
                else
                        w->held[a] = f->first[a] + rng_below(&w->rng, f->size[a]);
        state_load(w->s, w->held);
}

static int begin(Walk *w) {
        if (w->best->energy == INT64_MAX) {
                int r = greedy_construct(w->f, w->limit, w->held);

                if (r < 0)
                        return r;
                state_load(w->s, w->held);
        } else
                state_load(w->s, w->best->held);
        note_best(w);
        return 0;
}

static void search(Walk *w, uint64_t left) {
        for (uint64_t round = 1; walk(w, &left); round++) {
                if (round % ROUNDS_PER_SCATTER == 0)
                        scatter(w);
                else if (rng_below(&w->rng, 2) > 0)
                        state_load(w->s, w->best->held);
                for (uint32_t i = 1 + rng_below(&w->rng, 3); i > 0; i--)
                        shake(w);
        }
}

int onehot_search(const Frame *f, Limit *l, uint64_t seed, uint64_t stream, uint64_t sweeps, Incumbent *best,
                  SolveResult *ret) {
        _cleanup_(walk_done) Walk w = { .f = f, .limit = l, .best = best };
        int r = walk_init(&w);

        if (r >= 0)
                r = begin(&w);
        if (r < 0)
                return r;
        rng_seed(&w.rng, seed, stream);
        if (f->n_items > 0)
                search(&w, sweeps > 0 ? sweeps : UINT64_MAX);
        ret->sweeps += w.sweeps;
        ret->flips += w.flips;
        return 0;
}

/* A sweep looks at all choices once for each item. */
static uint64_t default_sweeps(const Frame *f) {
        return MAX(sa_default_sweeps(f->q) / (f->n_items / 16 + 1), 20U);
}

static int onehot_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(frame_freep) Frame *f = NULL;
        _cleanup_(incumbent_done) Incumbent best = {};
        uint64_t sweeps = p->sweeps;
        Limit l;
        int r;

        limit_init(&l, p);
        r = frame_new(q, &l, &f);
        if (r >= 0)
                r = incumbent_init(&best, f, p->start);
        if (r >= 0 && sweeps == 0 && l.deadline == UINT64_MAX)
                sweeps = default_sweeps(f);
        if (r >= 0)
                r = onehot_search(f, &l, p->seed, 0, sweeps, &best, ret);
        if (r < 0)
                return r;
        ret->solver = "onehot";
        return incumbent_result(&best, f, ret);
}

const Solver solver_onehot = {
        .name = "onehot",
        .help = "Tabu search over one-hot choices: moves, exchanges and, to get away, cluster moves and restarts",
        .fits = fits_all,
        .knows = MODEL_GROUPS | MODEL_TABLES,
        .solve = onehot_solve,
};
