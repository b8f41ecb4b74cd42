/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The energies of all points of a model, in the order of the amplitudes. The points of the first dimensions make a block
 * of some thousand; what the model says among them, and how each choice of the other dimensions adds to each of them, is
 * worked out once, a dimension at a time. Then a walk over the tree of the other choices carries one block along and adds
 * a vector at each node: O(amplitudes) altogether, in 64-bit integers. It is walked twice, since the least energy comes
 * off all others.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/qaoa-state.h"

#define BLOCK_MAX 4096U

typedef struct Walk {
        const Qubo *q;
        const QaoaShape *s;
        Limit *limit;
        QaoaEnergies *e;
        unsigned n_block; /* dimensions of a block */
        size_t block;     /* amplitudes of a block */
        int64_t *field;   /* by variable: what it costs, given the choices made on the way to a node */
        int64_t *adds;    /* by variable of the other dimensions: a block of what it adds to each point */
        size_t *adds_at;  /* by dimension: where its variables begin */
        int64_t *stack;   /* by dimension: a block */
        bool measuring;   /* the first walk */
        int64_t least, most;
        double sum, squares;
} Walk;

static uint32_t variable(const QaoaDim *d, uint32_t choice) {
        return d->first + (d->qubit ? 0 : choice);
}

static bool holds(const QaoaDim *d, uint32_t choice) {
        return !d->qubit || choice > 0;
}

/* Points of the dimensions before d: rows are padded once they are whole. */
static size_t points_before(const QaoaShape *s, unsigned d) {
        return d < s->n_dims ? s->dims[d].stride : s->padded_row * s->rows;
}

/* out: what v adds to each point of the first n_dims dimensions; w: v's row, by variable. */
static void spread(const QaoaShape *s, unsigned n_dims, const int64_t *w, int64_t *out) {
        memset(out, 0, points_before(s, n_dims) * sizeof(*out));
        for (unsigned i = 0; i < n_dims; i++) {
                const QaoaDim *d = &s->dims[i];

                for (uint32_t c = d->size; c-- > 0;)
                        for (size_t k = 0; k < d->stride; k++)
                                out[c * d->stride + k] = out[k] + (holds(d, c) ? w[variable(d, c)] : 0);
        }
}

/* Blocks of what the choices of dimension d add, given those of dimensions before "before". */
static bool spread_choices(const Walk *k, int64_t *w, unsigned d, unsigned before, int64_t *out) {
        const QaoaDim *dim = &k->s->dims[d];
        size_t points = points_before(k->s, before);

        for (uint32_t c = 0; c < dim->size; c++) {
                if (!holds(dim, c))
                        continue;
                qubo_add_couplings(k->q, variable(dim, c), 1, w);
                spread(k->s, before, w, out + (dim->qubit ? 0 : c) * points);
                qubo_add_couplings(k->q, variable(dim, c), -1, w);
                if (limit_work(k->limit, points / 2 + 1))
                        return false;
        }
        return true;
}

/* The points of the first block when nothing else is held. */
static int first_block(Walk *k, int64_t *w, int64_t base, int64_t *block) {
        _cleanup_free_ int64_t *add = calloc(k->block + 1, sizeof(*add));

        if (!add)
                return -ENOMEM;
        memset(block, 0, k->block * sizeof(*block));
        block[0] = base;
        for (unsigned i = 0; i < k->n_block; i++) {
                const QaoaDim *d = &k->s->dims[i];

                if (!spread_choices(k, w, i, i, add))
                        return -ECANCELED;
                for (uint32_t c = d->size; c-- > 0;)
                        for (size_t j = 0; holds(d, c) && j < d->stride; j++)
                                block[c * d->stride + j] = block[j] + k->field[variable(d, c)] +
                                                           add[(d->qubit ? 0 : c) * d->stride + j];
        }
        return 0;
}

static void measure(Walk *k, const int64_t *block) {
        for (size_t row = 0; row < k->block; row += k->s->padded_row)
                for (size_t i = row; i < row + k->s->row; i++) {
                        k->least = MIN(k->least, block[i]);
                        k->most = MAX(k->most, block[i]);
                }
}

static void note(Walk *k, const int64_t *block, size_t at) {
        for (size_t row = 0; row < k->block; row += k->s->padded_row)
                for (size_t i = row; i < row + k->s->row; i++) {
                        /* The difference of two energies fits 64 bits, without a sign. */
                        float above = (float) ((uint64_t) block[i] - (uint64_t) k->least);

                        k->e->above[at + i] = above;
                        k->sum += (double) above;
                        k->squares += (double) above * (double) above;
                }
}

static bool walk(Walk *k, unsigned n_dims, const int64_t *block, size_t at) {
        int64_t *next = k->stack + (n_dims - k->n_block) * k->block;
        const QaoaDim *d;

        if (limit_work(k->limit, k->block / 2 + 1))
                return false;
        if (n_dims == k->n_block) {
                if (k->measuring)
                        measure(k, block);
                else
                        note(k, block, at);
                return true;
        }
        d = &k->s->dims[n_dims - 1];
        for (uint32_t c = 0; c < d->size; c++) {
                uint32_t v = variable(d, c);
                bool held = holds(d, c), on;

                if (held) {
                        const int64_t *add = k->adds + (k->adds_at[n_dims - 1] + v - d->first) * k->block;

                        for (size_t i = 0; i < k->block; i++)
                                next[i] = block[i] + k->field[v] + add[i];
                        qubo_add_couplings(k->q, v, 1, k->field);
                }
                on = walk(k, n_dims - 1, held ? next : block, at + c * d->stride);
                if (held)
                        qubo_add_couplings(k->q, v, -1, k->field);
                if (!on)
                        return false;
        }
        return true;
}

/* Groups of one choice: what they hold comes first. */
static int64_t hold_fixed(Walk *k) {
        const Qubo *q = k->q;
        int64_t base = q->offset;

        for (uint32_t i = 0; i < q->n; i++)
                k->field[i] = q->linear[i];
        for (uint32_t g = 0; g < q->n_groups; g++)
                if (q->group_size[g] == 1) {
                        base += k->field[q->group_first[g]];
                        qubo_add_couplings(q, q->group_first[g], 1, k->field);
                }
        return base;
}

static void choose_block(Walk *k) {
        const QaoaShape *s = k->s;

        k->n_block = s->n_inner;
        k->block = s->padded_row;
        while (k->n_block < s->n_dims && k->block * s->dims[k->n_block].size <= BLOCK_MAX)
                k->block *= s->dims[k->n_block++].size;
}

static bool walk_twice(Walk *k, const int64_t *block) {
        QaoaEnergies *e = k->e;
        double points = (double) k->s->amplitudes;

        k->measuring = true;
        if (!walk(k, k->s->n_dims, block, 0))
                return false;
        k->measuring = false;
        e->least = k->least;
        if (!walk(k, k->s->n_dims, block, 0))
                return false;
        e->mean = k->sum / points;
        e->deviation = sqrt(MAX(k->squares / points - e->mean * e->mean, 0.0));
        return true;
}

int qaoa_energies(const Qubo *q, const QaoaShape *s, Limit *l, void *room, QaoaEnergies *e) {
        Walk k = { .q = q, .s = s, .limit = l, .e = e, .adds = room, .least = INT64_MAX, .most = INT64_MIN };
        _cleanup_free_ int64_t *field = calloc((size_t) q->n + 1, sizeof(*field));
        _cleanup_free_ int64_t *w = calloc((size_t) q->n + 1, sizeof(*w));
        _cleanup_free_ int64_t *block = NULL, *stack = NULL;
        size_t adds_at[QAOA_DIMS_MAX + 1], n = 0;
        int64_t base;
        int r;

        choose_block(&k);
        block = calloc(k.block, sizeof(*block));
        stack = calloc(k.block * (s->n_dims - k.n_block + 1), sizeof(*stack));
        if (!field || !w || !block || !stack)
                return -ENOMEM;
        k.field = field;
        k.stack = stack;
        k.adds_at = adds_at;
        base = hold_fixed(&k);
        r = first_block(&k, w, base, block);
        if (r < 0)
                return r;
        /* As many blocks as the other dimensions have choices: never more than they have points, so there is room. */
        for (unsigned i = k.n_block; i < s->n_dims; i++) {
                adds_at[i] = n;
                if (!spread_choices(&k, w, i, k.n_block, k.adds + n * k.block))
                        return -ECANCELED;
                n += s->dims[i].qubit ? 1 : s->dims[i].size;
        }
        return walk_twice(&k, block) ? 0 : -ECANCELED;
}
