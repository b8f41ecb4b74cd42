/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all solvers share. An item is one decision: a one-hot group (it always holds one of its variables) or a single
 * ungrouped variable (it holds it or nothing). A Frame is the read-only structure derived from a model: its items and
 * which of them are worth changing together. A State is a feasible point with the field of every variable, that is
 * linear + sum of its couplings to the variables held: the energy difference of any change can be read off at once, and
 * fields are touched only when a change is made. Where groups are coupled by tables a field has two parts: what all
 * groups of its kind have in common, kept once, as if a group were coupled to itself too, and what is its own. So a
 * change costs O(kinds x choices), however many groups there are.
 *
 * Memory: a Frame takes O(n + couplings between items), plus at most FRAME_DENSE_MAX entries of 4 bytes or
 * FRAME_SEATS_MAX of 4 bytes, and FRAME_SEATS_MAX of 2 bytes: 66 MB; a State 8 bytes a variable. Of a model with tables
 * it copies none of them: 4 bytes for each pair of kin, 12 for each pair with a table that is not usual for the two kinds.
 */
#pragma once

#include "policy/qubo/search.h"

#define ITEM_NOTHING UINT32_MAX
#define FRAME_DENSE_MAX ((size_t) 1536 * 1536)
#define FRAME_LANES 16U
#define FRAME_SEATS_MAX ((size_t) 11 << 20)
#define SEAT_NONE UINT16_MAX

/* A pair of items whose table is another than usual for their kinds. */
typedef struct Unusual {
        uint32_t item, table, usual; /* 1 + number, 0 none */
} Unusual;

typedef struct Frame {
        const Qubo *q;
        uint32_t n_items;
        uint32_t *first, *size, *item_of;
        bool *optional;        /* an ungrouped variable */
        int32_t *dense;        /* n rows of stride entries, or NULL: look couplings up in the rows */
        uint32_t *segment;     /* n x (n_items + 1), or NULL: where in its row the entries of each item begin */
        size_t stride;         /* n, rounded up to FRAME_LANES */
        uint32_t row_mean;     /* entries of a row, for the count of work */
        bool narrow;           /* every field fits into int32 */
        size_t *kin_first;     /* n_items + 1 */
        uint32_t *kin;         /* groups that contend for the same thing: candidates for an exchange */
        uint16_t *seat;        /* n x n_items, or NULL: which choice of a kin item stands for the same thing */
        uint16_t **table_seat; /* by table and row: the seat; with tables this is instead of seat */
        uint32_t n_kinds;      /* with tables: of groups, by the model's hint and size */
        uint32_t *kind;        /* by item */
        uint32_t *kind_first;  /* n_kinds + 1: into the fields that a kind shares */
        uint32_t *usual;       /* n_kinds x n_kinds: the table (1 + number, 0 none) of most pairs of two kinds */
        size_t *unusual_first; /* n_items + 1 */
        Unusual *unusual;
        uint32_t widest;   /* size of the largest item */
        uint32_t *partner; /* the other item of the same owner (a rank's CPU block for its device), or ITEM_NOTHING */
} Frame;

/* Once the limit is hit, the rest of kin and partners is left out: they only guide. -ECANCELED: it was hit before. */
int frame_new(const Qubo *q, Limit *l, Frame **ret);
int frame_of_items(const Qubo *q, Frame **ret); /* items alone, for who needs nothing else */
Frame *frame_free(Frame *f);
DEFINE_CLEANUP(Frame *, frame_free);
int32_t frame_row_coupling(const Frame *f, uint32_t u, uint32_t v);
/* A row's largest coupling names its seat when it is so many times the mean of the row; in a small group it can be at
 * most size times the mean. */
static inline double frame_contrast(uint32_t size) {
        return MIN(4.0, 0.75 * size);
}

/* frame-tables.c: what the tables of a model say on kin, seats and partners, together with the rows. */
int frame_tables_kinds(Frame *f);
int frame_tables_kin(Frame *f, Limit *l);
int64_t frame_table_exchange(const Frame *f, uint32_t u, uint32_t v, uint32_t to_u, uint32_t to_v);

/* The table of two items: 1 + its number, 0: none. */
static inline uint32_t frame_table(const Frame *f, uint32_t a, uint32_t b) {
        const Qubo *q = f->q;
        uint32_t g = q->group_of[f->first[a]], h = q->group_of[f->first[b]];

        return g == QUBO_NO_GROUP || h == QUBO_NO_GROUP ? 0 : q->table_of[(size_t) g * q->n_groups + h];
}

static inline int32_t frame_coupling(const Frame *f, uint32_t u, uint32_t v) {
        return f->dense ? f->dense[u * f->stride + v] : frame_row_coupling(f, u, v);
}

/* The variable of kin item b that stands for the same thing as u, or ITEM_NOTHING. */
static inline uint32_t frame_seat(const Frame *f, uint32_t u, uint32_t b) {
        uint32_t a = f->item_of[u];
        uint16_t seat = f->seat ? f->seat[(size_t) u * f->n_items + b] : SEAT_NONE;

        if (f->table_seat) {
                uint32_t t = frame_table(f, a, b);

                seat = t ? f->table_seat[t - 1][u - f->first[a]] : SEAT_NONE;
        }
        if (seat != SEAT_NONE)
                return f->first[b] + seat;
        return f->size[a] == f->size[b] ? f->first[b] + (u - f->first[a]) : ITEM_NOTHING;
}

typedef struct State {
        const Frame *f;
        int64_t energy;
        uint32_t *held;   /* by item: its variable, or ITEM_NOTHING */
        int32_t *field32; /* one of the two: the narrow one where the Frame says so */
        int64_t *field64;
        int64_t *shared; /* with tables: by kind and choice; field64 then is a field's own part */
        int64_t *answer; /* room for the costs of one item's choices */
} State;

typedef struct Change {
        uint32_t item, to; /* to: a variable of it, or ITEM_NOTHING */
} Change;

int state_new(const Frame *f, State **ret); /* holds the first choice of every group, and no ungrouped variable */
State *state_free(State *s);
DEFINE_CLEANUP(State *, state_free);
void state_load(State *s, const uint32_t *held);
int64_t state_delta(const State *s, const Change *c, unsigned n); /* n changes of different items at once */
void state_move(State *s, uint32_t item, uint32_t to);
void state_apply(State *s, const Change *c, unsigned n, int64_t delta); /* delta: what state_delta() says */
/* The difference if a's group moves to "to" and its partner answers with the choice that is best then. */
int64_t state_joint_delta(State *s, uint32_t a, uint32_t to, Change ret[static 2]);

int64_t state_shared_field(const State *s, uint32_t v);
/* Fields of an item's choices, there or in s->answer. Not with field32. */
const int64_t *state_fields(State *s, uint32_t item);

static inline int64_t state_field(const State *s, uint32_t v) {
        if (v == ITEM_NOTHING)
                return 0;
        return s->field32 ? s->field32[v] : s->shared ? state_shared_field(s, v) : s->field64[v];
}

/* An exchange of two kin items: each takes the other's seat. False where there is none. */
static inline bool state_exchange(const State *s, uint32_t a, uint32_t b, Change ret[static 2]) {
        uint32_t u = s->held[a], v = s->held[b];

        ret[0] = (Change){ .item = a, .to = frame_seat(s->f, v, a) };
        ret[1] = (Change){ .item = b, .to = frame_seat(s->f, u, b) };
        return ret[0].to != ITEM_NOTHING && ret[1].to != ITEM_NOTHING && (ret[0].to != u || ret[1].to != v);
}

/* state_delta() of an exchange of two groups. */
static inline int64_t state_exchange_delta(const State *s, const Change c[static 2]) {
        const Frame *f = s->f;
        uint32_t u = s->held[c[0].item], v = s->held[c[1].item], to_u = c[0].to, to_v = c[1].to;
        int64_t d = state_field(s, to_u) - state_field(s, u) + state_field(s, to_v) - state_field(s, v);

        if (f->dense) {
                const int32_t *now = f->dense + u * f->stride, *then = f->dense + to_u * f->stride;

                return d + then[to_v] - then[v] - now[to_v] + now[v];
        }
        if (f->table_seat)
                return d + frame_table_exchange(f, u, v, to_u, to_v);
        return d + frame_row_coupling(f, to_u, to_v) - frame_row_coupling(f, to_u, v) - frame_row_coupling(f, u, to_v) +
               frame_row_coupling(f, u, v);
}

/* To a local minimum over all moves, exchanges and joint moves; counts what it tried. */
void state_descend(State *s, Limit *l, uint64_t *flips);
void state_descend_moves(State *s, Limit *l, uint64_t *flips); /* the same without exchanges */

/* A point that a search begins with and improves. */
typedef struct Incumbent {
        uint32_t *held; /* by item; owned by the caller */
        int64_t energy; /* INT64_MAX: there is none yet */
} Incumbent;

int incumbent_init(Incumbent *b, const Frame *f, const uint8_t *x); /* x may be NULL */
/* Bits and recomputed energy go into *ret, the rest of which is left alone. */
int incumbent_result(const Incumbent *b, const Frame *f, SolveResult *ret);
void incumbent_improved(const Incumbent *b, const Frame *f, Limit *l); /* instead of limit_improved() */
void incumbent_done(Incumbent *b);

/* Fills held: each item's cheapest choice given those before it. */
int greedy_construct(const Frame *f, Limit *l, uint32_t *held); /* -ECANCELED: the limit is hit */

/* Anneals for a number of sweeps (0: until the limit), adding what was done to r. The random numbers follow from seed
 * and the count of runs, which is carried on from call to call. */
int sa_search(const Frame *f, Limit *l, uint64_t seed, uint64_t sweeps, uint64_t *runs, Incumbent *best,
              SolveResult *r);
uint64_t sa_default_sweeps(const Qubo *q);

/* Tabu search for a number of sweeps (0: until the limit); the random numbers follow from seed and stream. */
int onehot_search(const Frame *f, Limit *l, uint64_t seed, uint64_t stream, uint64_t sweeps, Incumbent *best,
                  SolveResult *ret);

/* Branch and bound, for at most max_steps of work (0: no limit) and until the limit; where there is a probe, only until that
 * if too little of the tree has been searched by then. r->lower_bound rises to the least bound left open, and r->proved
 * tells that nothing was. A glance does not begin with a tree where the bounds are far apart. */
int exact_search(const Frame *f, Limit *probe, Limit *whole, uint64_t max_steps, bool glance, Incumbent *best,
                 SolveResult *r);
#define EXACT_MAX_VARIABLES 32768U
#define EXACT_MAX_COUPLINGS ((size_t) 40 << 20) /* of a model with tables, which it turns into rows */
