/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simulated annealing inside the feasible set. A sweep offers every item a move (a single variable: its flip; a group:
 * its choices from a random one on, the first that passes is taken), every pair of kin groups an exchange (some of them
 * together with their partners: two ranks swap device and CPU block at once), and every group with a partner a joint
 * move, the partner answering with its best choice. A step of cost d passes when d <= -T ln(u); the logarithms come
 * from a table, so no exponential is computed in the loop.
 *
 * The budget is spent in runs, each cooling geometrically between temperatures read off the model's own cost
 * differences at a local minimum, and each ending in a descent. One run in RUNS_PER_SCATTER starts at random, the others
 * from the best point so far (at first the start or the greedy point), less hot. Short runs first: most models of a placement's size are done by then, and runs
 * get longer for those that are not.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/anneal.h"
#include "policy/qubo/frame.h"
#include "policy/qubo/rng.h"

#define LOGS 1024U
#define SAMPLES_PER_ITEM 64U
#define RUN_SWEEPS 50U
#define RUNS_PER_LENGTH 16U /* then the length doubles, */
#define RUN_DOUBLINGS 5U    /* so many times */
#define RUNS_PER_SCATTER 2U
#define REHEAT 0.4
#define EXCHANGES_MAX 16U /* of one item in one sweep */
#define MUCH_KIN 6000U
#define FIRST_RUN_SHARE 4U /* of the time there is, so that even a short time sees a whole run */

typedef struct Anneal {
        const Frame *f;
        State *s;
        Incumbent *best;
        uint32_t *held;
        float *logs; /* -ln(u) for LOGS values of u */
        double hot, cold;
        Rng rng;
        Limit *limit;
        uint64_t sweeps, flips;
} Anneal;

static void anneal_done(Anneal *n) {
        state_free(n->s);
        free(n->held);
        free(n->logs);
}

static int anneal_init(Anneal *n) {
        const Frame *f = n->f;
        int r;

        n->held = calloc((size_t) f->n_items + 1, sizeof(*n->held));
        n->logs = calloc(LOGS, sizeof(*n->logs));
        r = state_new(f, &n->s);
        if (r < 0 || !n->held || !n->logs)
                return -ENOMEM;
        for (unsigned i = 0; i < LOGS; i++)
                n->logs[i] = (float) -log((i + 0.5) / LOGS);
        return 0;
}

static void note_best(Anneal *n) {
        if (n->s->energy >= n->best->energy)
                return;
        n->best->energy = n->s->energy;
        memcpy(n->best->held, n->s->held, n->f->n_items * sizeof(*n->s->held));
        incumbent_improved(n->best, n->f, n->limit);
}

static inline double threshold(Anneal *n, uint64_t bits, double t) {
        return t * (double) n->logs[bits % LOGS];
}

static void offer_flip(Anneal *n, uint32_t a, double t) {
        State *s = n->s;
        uint32_t v = n->f->first[a];
        int64_t d = s->held[a] == v ? -state_field(s, v) : state_field(s, v);

        n->flips++;
        if (d <= 0 || (double) d <= threshold(n, rng_next(&n->rng), t))
                state_move(s, a, s->held[a] == v ? ITEM_NOTHING : v);
}

/* The first choice in [from, to) other than held whose field is at most so much, or to. */
static inline uint32_t first_below32(const int32_t *field, uint32_t from, uint32_t to, uint32_t held, int64_t most) {
        int32_t limit = (int32_t) MIN(most, INT32_MAX);

        while (from < to && (field[from] > limit || from == held))
                from++;
        return from;
}

static inline uint32_t first_below64(const int64_t *field, uint32_t from, uint32_t to, uint32_t held, int64_t most) {
        while (from < to && (field[from] > most || from == held))
                from++;
        return from;
}

/* The same from one choice on and round, or size: there is none. */
static uint32_t passing_choice(State *s, uint32_t a, uint32_t from, int64_t pass) {
        uint32_t first = s->f->first[a], size = s->f->size[a], held = s->held[a] - first, to;

        if (s->field32) {
                const int32_t *field = s->field32 + first;
                int64_t most = field[held] + pass;

                to = first_below32(field, from, size, held, most);
                if (to < size)
                        return to;
                to = first_below32(field, 0, from, held, most);
        } else {
                const int64_t *field = state_fields(s, a);
                int64_t most = field[held] + pass;

                to = first_below64(field, from, size, held, most);
                if (to < size)
                        return to;
                to = first_below64(field, 0, from, held, most);
        }
        return to < from ? to : size;
}

static void offer_choice(Anneal *n, uint32_t a, double t) {
        uint64_t bits = rng_next(&n->rng);
        uint32_t size = n->f->size[a], to;

        n->flips += size - 1;
        to = passing_choice(n->s, a, rng_scale((uint32_t) (bits >> 32), size),
                            (int64_t) MIN(threshold(n, bits, t), 4e18));
        if (to < size)
                state_move(n->s, a, n->f->first[a] + to);
}

/* Both take the other's seat, and their partners (if they are four different items) do the same. */
static bool joint_exchange(const Anneal *n, uint32_t a, uint32_t b, Change c[static 4]) {
        uint32_t p = n->f->partner[a], q = n->f->partner[b];

        if (p == ITEM_NOTHING || q == ITEM_NOTHING || p == q || p == b || q == a)
                return false;
        return state_exchange(n->s, p, q, c + 2);
}

static void offer_exchanges(Anneal *n, uint32_t a, double t) {
        const Frame *f = n->f;
        uint32_t n_kin = (uint32_t) (f->kin_first[a + 1] - f->kin_first[a]);

        for (uint32_t k = 0; k < MIN((n_kin + 1) / 2, EXCHANGES_MAX); k++) {
                uint64_t bits = rng_next(&n->rng);
                uint32_t b = f->kin[f->kin_first[a] + rng_scale((uint32_t) (bits >> 32), n_kin)];
                unsigned n_changes = 2;
                Change c[4];
                int64_t d;

                if (!state_exchange(n->s, a, b, c))
                        continue;
                if ((bits >> 16) % 4 == 0 && joint_exchange(n, a, b, c))
                        n_changes = 4;
                n->flips++;
                d = n_changes == 2 ? state_exchange_delta(n->s, c) : state_delta(n->s, c, n_changes);
                if (d <= 0 || (double) d <= threshold(n, bits, t))
                        state_apply(n->s, c, n_changes, d);
        }
}

/* A random choice for a, and the best answer of its partner. */
static void offer_joint_move(Anneal *n, uint32_t a, double t) {
        State *s = n->s;
        uint64_t bits = rng_next(&n->rng);
        uint32_t v = n->f->first[a] + rng_scale((uint32_t) (bits >> 32), n->f->size[a]);
        Change c[2];
        int64_t d;

        if (v == s->held[a])
                return;
        n->flips++;
        d = state_joint_delta(s, a, v, c);
        if (d <= 0 || (double) d <= threshold(n, bits, t))
                state_apply(s, c, 2, d);
}

static bool sweep(Anneal *n, double t) {
        const Frame *f = n->f;

        for (uint32_t a = 0; a < f->n_items; a++) {
                if (f->optional[a])
                        offer_flip(n, a, t);
                else if (f->size[a] > 1) {
                        offer_choice(n, a, t);
                        offer_exchanges(n, a, t);
                        if (f->partner[a] != ITEM_NOTHING)
                                offer_joint_move(n, a, t);
                }
                if (limit_work(n->limit,
                               8 + f->row_mean + f->size[a] +
                                       4 * MIN(f->kin_first[a + 1] - f->kin_first[a], (size_t) 2 * EXCHANGES_MAX)))
                        return false;
        }
        n->sweeps++;
        return true;
}

/* Going through all exchanges of a state takes as long as many sweeps: only the first and the last point see them. */
static bool has_much_kin(const Frame *f) {
        return f->kin_first[f->n_items] > MUCH_KIN;
}

static void run(Anneal *n, uint64_t sweeps, double hot) {
        double t = hot, factor = sweeps > 1 ? pow(n->cold / hot, 1.0 / (double) (sweeps - 1)) : 1;

        for (uint64_t i = 0; i < sweeps && sweep(n, t); i++) {
                note_best(n);
                t *= factor;
        }
        if (has_much_kin(n->f))
                state_descend_moves(n->s, n->limit, &n->flips);
        else
                state_descend(n->s, n->limit, &n->flips);
        note_best(n);
}

typedef struct Samples {
        int64_t *value;
        size_t n, allocated;
} Samples;

static void sample_add(Samples *m, int64_t d) {
        if (d > 0 && m->n < m->allocated)
                m->value[m->n++] = d;
}

static int sample_cmp(const void *a, const void *b) {
        return CMP(*(const int64_t *) a, *(const int64_t *) b);
}

static double quantile(Samples *m, double p, double otherwise) {
        if (m->n == 0)
                return otherwise;
        qsort(m->value, m->n, sizeof(*m->value), sample_cmp);
        return (double) m->value[(size_t) (p * (double) (m->n - 1))];
}

/* Cost differences of one item's steps: exchanges where it has kin (its moves alone are locked), else moves. */
static void sample_item(const Anneal *n, uint32_t a, Samples *all, Samples *least) {
        const Frame *f = n->f;
        const State *s = n->s;
        size_t n_kin = f->kin_first[a + 1] - f->kin_first[a];
        int64_t low = INT64_MAX;

        for (uint32_t i = 0; i < MIN(f->size[a], SAMPLES_PER_ITEM); i++) {
                int64_t d = state_field(s, f->first[a] + i) - (f->optional[a] ? 0 : state_field(s, s->held[a]));

                if (f->optional[a] && s->held[a] != ITEM_NOTHING)
                        d = -d;
                low = d > 0 ? MIN(low, d) : low;
                if (n_kin == 0)
                        sample_add(all, d);
        }
        for (size_t k = 0; k < MIN(n_kin, (size_t) SAMPLES_PER_ITEM); k++) {
                int64_t d;
                Change c[2];

                if (!state_exchange(s, a, f->kin[f->kin_first[a] + k], c))
                        continue;
                d = state_exchange_delta(s, c);
                low = d > 0 ? MIN(low, d) : low;
                sample_add(all, d);
        }
        if (low != INT64_MAX)
                sample_add(least, low);
}

/* From the costs around the state's local minimum: half of the steps pass at hot, hardly any at cold. */
static int set_temperatures(Anneal *n) {
        _cleanup_free_ int64_t *all = NULL, *least = NULL;
        size_t items = (size_t) n->f->n_items + 1;
        Samples m = { .allocated = items * SAMPLES_PER_ITEM }, l = { .allocated = items };

        m.value = all = calloc(m.allocated, sizeof(*all));
        l.value = least = calloc(l.allocated, sizeof(*least));
        if (!all || !least)
                return -ENOMEM;
        for (uint32_t a = 0; a < n->f->n_items; a++) {
                sample_item(n, a, &m, &l);
                if (limit_work(n->limit, 16 * SAMPLES_PER_ITEM))
                        return 0; /* no run will be made */
        }
        n->hot = 0.5 * quantile(&m, 0.5, 1);
        n->cold = MIN(n->hot, 0.3 * quantile(&l, 0.1, 1));
        return 0;
}

static void scatter(Anneal *n) {
        for (uint32_t a = 0; a < n->f->n_items; a++)
                if (n->f->optional[a])
                        n->held[a] = rng_next(&n->rng) >> 63 ? n->f->first[a] : ITEM_NOTHING;
                else
                        n->held[a] = n->f->first[a] + rng_below(&n->rng, n->f->size[a]);
        state_load(n->s, n->held);
}

/* A first local minimum, from the greedy point if there is none to begin with; and the temperatures. */
static int begin(Anneal *n) {
        if (n->best->energy == INT64_MAX) {
                int r = greedy_construct(n->f, n->limit, n->held);

                if (r < 0)
                        return r;
                state_load(n->s, n->held);
        } else
                state_load(n->s, n->best->held);
        note_best(n);
        state_descend(n->s, n->limit, &n->flips);
        note_best(n);
        return set_temperatures(n);
}

/* Where time is short, fewer sweeps: as many as let a whole run end within its share. Two are timed. */
static uint64_t fit_length(Anneal *n) {
        uint64_t before = limit_left(n->limit), after, share = before / FIRST_RUN_SHARE;

        if (before == UINT64_MAX)
                return RUN_SWEEPS;
        for (unsigned i = 0; i < 2 && sweep(n, n->cold); i++)
                note_best(n);
        after = limit_left(n->limit);
        return MAX(MIN(2 * share / MAX(before - after, 1U), (uint64_t) RUN_SWEEPS), 4U);
}

static void anneal(Anneal *n, uint64_t seed, uint64_t left, uint64_t length, uint64_t *runs) {
        for (; left > 0 && n->f->n_items > 0 && !limit_hit(n->limit); ++*runs) {
                uint64_t sweeps = MIN(left, length << MIN(*runs / RUNS_PER_LENGTH, RUN_DOUBLINGS));
                bool again = *runs % RUNS_PER_SCATTER != RUNS_PER_SCATTER - 1;

                rng_seed(&n->rng, seed, *runs);
                if (again)
                        state_load(n->s, n->best->held);
                else
                        scatter(n);
                run(n, sweeps, again ? MAX(REHEAT * n->hot, n->cold) : n->hot);
                left -= sweeps;
        }
}

int sa_search(const Frame *f, Limit *l, uint64_t seed, uint64_t sweeps, uint64_t *runs, Incumbent *best,
              SolveResult *r) {
        _cleanup_(anneal_done) Anneal n = { .f = f, .best = best, .limit = l };
        uint64_t length = sweeps > 0 ? MAX(MIN(sweeps / 4, RUN_SWEEPS), 1U) : 0;
        int e;

        e = anneal_init(&n);
        if (e >= 0)
                e = begin(&n);
        if (e < 0)
                return e;
        if (length == 0)
                length = fit_length(&n);
        anneal(&n, seed, sweeps > 0 ? sweeps : UINT64_MAX, length, runs);
        if (has_much_kin(f) && !limit_hit(l)) {
                state_load(n.s, best->held);
                state_descend(n.s, l, &n.flips);
                note_best(&n);
        }
        r->sweeps += n.sweeps;
        r->flips += n.flips;
        return 0;
}

/* About as much work for every size, some tenths of a second at the most: a sweep of a dense model touches every coupling. */
uint64_t sa_default_sweeps(const Qubo *q) {
        uint64_t work = q->row[q->n] + (q->table_of ? (uint64_t) q->n * q->n_groups : 0);
        uint64_t sweeps = MIN(UINT64_C(1000000) / (q->n + 1), UINT64_C(200000000) / (work + 1));

        return MAX(MIN(sweeps, 4000U), 20U);
}

static int sa_solve(const Qubo *q, const SolveParams *p, SolveResult *ret) {
        _cleanup_(frame_freep) Frame *f = NULL;
        _cleanup_(incumbent_done) Incumbent best = {};
        uint64_t runs = 0, sweeps = p->sweeps;
        Limit l;
        int r;

        if (q->n_groups == 0)
                return anneal_solve(q, p, ret);
        limit_init(&l, p);
        if (sweeps == 0 && l.deadline == UINT64_MAX)
                sweeps = sa_default_sweeps(q);
        r = frame_new(q, &l, &f);
        if (r >= 0)
                r = incumbent_init(&best, f, p->start);
        if (r >= 0)
                r = sa_search(f, &l, p->seed, sweeps, &runs, &best, ret);
        if (r < 0)
                return r;
        ret->solver = "sa";
        return incumbent_result(&best, f, ret);
}

const Solver solver_sa = {
        .name = "sa",
        .help = "Simulated annealing: single flips in many replicas at once, or one-hot choices and exchanges",
        .fits = fits_all,
        .knows = MODEL_GROUPS | MODEL_TABLES,
        .solve = sa_solve,
};
