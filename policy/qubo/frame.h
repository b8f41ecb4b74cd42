/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all solvers share. An item is one decision: a one-hot group (it always holds one of its variables) or a single
 * ungrouped variable (it holds it or nothing). A Frame is the read-only structure derived from a model: its items and
 * which of them are worth changing together. A State is a feasible point with the field of every variable, that is
 * linear + sum of its couplings to the variables held: the energy difference of any change can be read off at once, and
 * fields are touched only when a change is made.
 *
 * Memory: a Frame takes O(n + couplings between items), plus at most FRAME_DENSE_MAX and FRAME_SEATS_MAX entries
 * (4 and 2 bytes each); a State 8 bytes a variable.
 */
#pragma once

#include "policy/qubo/solver.h"

#define ITEM_NOTHING UINT32_MAX
#define FRAME_DENSE_MAX ((size_t) 1536 * 1536)
#define FRAME_SEATS_MAX ((size_t) 16 << 20)
#define SEAT_NONE UINT16_MAX

typedef struct Frame {
        const Qubo *q;
        uint32_t n_items;
        uint32_t *first, *size, *item_of;
        bool *optional;       /* an ungrouped variable */
        int32_t *dense;       /* n x n, or NULL: look couplings up in the rows */
        size_t *kin_first;    /* n_items + 1 */
        uint32_t *kin;        /* groups that contend for the same thing: candidates for an exchange */
        uint16_t *seat;       /* n x n_items, or NULL: which choice of a kin item stands for the same thing */
        uint32_t *partner;    /* the other item of the same owner (a rank's CPU block for its device), or ITEM_NOTHING */
} Frame;

int frame_new(const Qubo *q, Frame **ret);
Frame *frame_free(Frame *f);
DEFINE_CLEANUP(Frame *, frame_free);
int32_t frame_coupling(const Frame *f, uint32_t u, uint32_t v);
/* The variable of kin item b that stands for the same thing as u, or ITEM_NOTHING. */
uint32_t frame_seat(const Frame *f, uint32_t u, uint32_t b);

typedef struct State {
        const Frame *f;
        int64_t energy;
        uint32_t *held; /* by item: its variable, or ITEM_NOTHING */
        int64_t *field;
} State;

typedef struct Change {
        uint32_t item, to; /* to: a variable of it, or ITEM_NOTHING */
} Change;

int state_new(const Frame *f, State **ret); /* holds the first choice of every group, and no ungrouped variable */
State *state_free(State *s);
DEFINE_CLEANUP(State *, state_free);
void state_load(State *s, const uint32_t *held);
void state_copy(State *s, const State *from);
int64_t state_delta(const State *s, const Change *c, unsigned n); /* n changes of different items at once */
void state_move(State *s, uint32_t item, uint32_t to);
void state_apply(State *s, const Change *c, unsigned n);
/* An exchange of two kin items: each takes the other's seat. False where there is none. */
bool state_exchange(const State *s, uint32_t a, uint32_t b, Change ret[static 2]);

/* The end of the time a solver may take; it is asked at every few thousand steps. */
typedef struct Limit {
        const SolveParams *p;
        uint64_t deadline, work;
        bool hit;
} Limit;

void limit_init(Limit *l, const SolveParams *p);
bool limit_hit(Limit *l);                  /* asks the clock and the flag */
bool limit_work(Limit *l, uint64_t steps); /* asks them once enough steps have added up */

/* To a local minimum over all moves and exchanges; counts what it tried. */
void state_descend(State *s, Limit *l, uint64_t *flips);

void held_from_bits(const Frame *f, const uint8_t *x, uint32_t *held);
/* Takes over: bits and recomputed energy into *ret (the rest of *ret is left alone). */
int result_fill(const Frame *f, const uint32_t *held, SolveResult *ret);

/* Branch and bound from an incumbent: held and energy are replaced when something better is found. At most max_nodes
 * (0: no limit) are opened; *bound then is the least bound left open, and equals *energy when the search was complete. */
int exact_search(const Frame *f, Limit *l, uint64_t max_nodes, uint32_t *held, int64_t *energy, int64_t *bound,
                 uint64_t *nodes);

extern const Solver solver_auto, solver_exact, solver_greedy, solver_sa;
