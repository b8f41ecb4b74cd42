/* SPDX-License-Identifier: Apache-2.0 */
/* Building the walk of tabu.h from a model, at the point of zeros, and keeping it within its types. */
#include <errno.h>

#include "policy/qubo/tabu.h"
#include "policy/qubo/width.h"

#define NARROW_MOST (INT16_MAX - 1) /* the greatest value is that of closed variables */
#define ROOM_LEAST 16U              /* steps between two looks at all gains: with fewer the walk becomes wider */
/* Couplings are walked through as rows if they are fewer than one in so many variables. */
#define DENSE_PART 64U /* measured: at 1 % both take as long, at 2 % dense rows are faster */

static int64_t closed_value(unsigned bytes) {
        return bytes == 2 ? INT16_MAX : bytes == 4 ? INT32_MAX : INT64_MAX;
}

static int64_t open_value(unsigned bytes) {
        return -closed_value(bytes) - 1;
}

static void *vectors(size_t bytes) {
        void *p = aligned_alloc(2 * TABU_VECTOR, (bytes + 2 * TABU_VECTOR) / (2 * TABU_VECTOR) * (2 * TABU_VECTOR));

        if (p)
                memset(p, 0, bytes);
        return p;
}

/* What the weights are like: the largest, and the bits that all of them have as zero at the end. */
typedef struct Weights {
        uint64_t largest;
        uint32_t bits;   /* of all, or-ed */
        int64_t most;    /* |gain| at any point */
        uint64_t linear; /* the largest */
} Weights;

static uint64_t size_of(int32_t v) {
        return v < 0 ? -(uint64_t) v : (uint64_t) v;
}

/* Incomplete once the limit is hit; then no step will be made. */
static Weights measure(const Qubo *q, Limit *l) {
        Weights w = {};

        for (uint32_t i = 0; i < q->n && !limit_work(l, q->row[i + 1] - q->row[i]); i++) {
                int64_t low = q->linear[i], high = low;

                for (size_t k = q->row[i]; k < q->row[i + 1]; k++) {
                        low += MIN(q->val[k], 0);
                        high += MAX(q->val[k], 0);
                        w.largest = MAX(w.largest, size_of(q->val[k]));
                        w.bits |= (uint32_t) q->val[k];
                }
                w.most = MAX(w.most, MAX(high, -low));
                w.linear = MAX(w.linear, size_of(q->linear[i]));
        }
        return w;
}

static bool is_narrow(const Tabu *t, uint64_t peak) {
        return peak <= NARROW_MOST && (NARROW_MOST - peak) / MAX(t->largest, 1U) >= ROOM_LEAST;
}

static TabuType type_of(const Tabu *t) {
        static const TabuType types[][3] = { { TABU_16_8, TABU_16_16, _TABU_TYPE_MAX },
                                             { TABU_32_8, TABU_32_16, TABU_32_32 },
                                             { _TABU_TYPE_MAX, _TABU_TYPE_MAX, TABU_64_32 } };

        return types[t->gain_bytes / 4][t->weight_bytes / 2];
}

static void choose_step(Tabu *t) {
        const Kernels *k = t->kernels;

        t->step = t->weight_bytes == 0 ? k->tabu_sparse[t->gain_bytes / 4] : k->tabu_dense[type_of(t)];
        t->step_work = t->w.stride * t->gain_bytes / 128 + 8 +
                       (t->weight_bytes == 0 && t->w.n > 0 ? t->q->row[t->w.n] / t->w.n / 4 : 0);
}

static int arrays_new(const TabuWalk *w, unsigned bytes, void *ret[static 5]) {
        for (unsigned k = 0; k < 5; k++)
                ret[k] = vectors(k < 3 ? w->stride * bytes : (size_t) w->blocks * TABU_VECTOR);
        return ret[0] && ret[1] && ret[2] && ret[3] && ret[4] ? 0 : -ENOMEM;
}

static void arrays_free(TabuWalk *w) {
        free(w->gain);
        free(w->ones);
        free(w->closed);
        free(w->low);
        free(w->lowest);
}

static void arrays_set(TabuWalk *w, void *a[static 5]) {
        w->gain = a[0];
        w->ones = a[1];
        w->closed = a[2];
        w->low = a[3];
        w->lowest = a[4];
}

/* From gains of 16 bits to 32. */
static int widen(Tabu *t) {
        TabuWalk *w = &t->w;
        void *wide[5];

        if (arrays_new(w, 4, wide) < 0) {
                for (unsigned k = 0; k < 5; k++)
                        free(wide[k]);
                return -ENOMEM;
        }
        for (size_t i = 0; i < w->stride; i++) {
                width_put(wide[0], 4, i, width_get(w->gain, 2, i));
                width_put(wide[1], 4, i, width_get(w->ones, 2, i));
                width_put(wide[2], 4, i, width_get(w->closed, 2, i) == INT16_MAX ? INT32_MAX : INT32_MIN);
        }
        arrays_free(w);
        arrays_set(w, wide);
        t->gain_bytes = 4;
        choose_step(t);
        (void) tabu_look(t); /* the minima of blocks are new */
        return 0;
}

static int watch(Tabu *t) {
        uint64_t peak;

        t->room = UINT64_MAX;
        if (t->gain_bytes != 2)
                return 0;
        peak = t->kernels->tabu_peak(&t->w);
        if (!is_narrow(t, peak))
                return widen(t);
        t->room = (NARROW_MOST - peak) / MAX(t->largest, 1U);
        return 0;
}

static void fill_dense(Tabu *t, void *dense, uint32_t i) {
        const Qubo *q = t->q;
        size_t at = i * t->w.stride;

        for (size_t k = q->row[i]; k < q->row[i + 1]; k++) {
                int32_t v = q->val[k] >> (t->weight_bytes == 1 ? t->w.shift : 0);

                width_put(dense, t->weight_bytes, at + q->col[k], v);
        }
}

/* Dense rows where that is faster and memory allows; what they are not long enough for stays zero. */
static int build_dense(Tabu *t, const Weights *weights) {
        size_t bytes, n = t->q->n;
        unsigned shift = weights->bits == 0 ? 0 : (unsigned) __builtin_ctz(weights->bits);
        char *dense;

        if (t->q->row[n] == 0 || t->q->row[n] < n * n / DENSE_PART)
                return 0;
        t->weight_bytes = t->gain_bytes == 8                        ? 4
                          : (weights->largest >> shift) <= INT8_MAX ? 1
                          : weights->largest <= INT16_MAX           ? 2
                                                                    : 4;
        if (t->weight_bytes == 4 && t->gain_bytes == 2)
                t->gain_bytes = 4;
        bytes = t->w.stride * n * t->weight_bytes;
        if (bytes > TABU_DENSE_MAX) {
                t->weight_bytes = 0;
                return 0;
        }
        t->w.shift = shift;
        dense = aligned_alloc(2 * TABU_VECTOR, bytes);
        t->w.dense = dense;
        if (!dense)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
                memset(dense + i * t->w.stride * t->weight_bytes, 0, t->w.stride * t->weight_bytes);
                fill_dense(t, dense, i);
                if (limit_work(&t->limit, t->w.stride / 64 + t->q->row[i + 1] - t->q->row[i]))
                        break; /* no step will be made */
        }
        return 0;
}

static int build_walk(Tabu *t) {
        TabuWalk *w = &t->w;
        void *arrays[5];
        int r;

        r = arrays_new(w, t->gain_bytes, arrays);
        arrays_set(w, arrays);
        w->slot = calloc(TABU_SLOTS, sizeof(*w->slot));
        w->next = calloc(w->stride + 1, sizeof(*w->next));
        w->touched = calloc(w->blocks / 64 + 1, sizeof(*w->touched));
        if (r < 0 || !w->slot || !w->next || !w->touched)
                return -ENOMEM;
        for (uint32_t i = 0; i < w->n; i++)
                width_put(w->gain, t->gain_bytes, i, t->q->linear[i]);
        tabu_open_all(t);
        w->energy = t->q->offset;
        choose_step(t);
        (void) tabu_look(t);
        return watch(t);
}

int tabu_init(Tabu *t, const Qubo *q, const SolveParams *p, uint64_t max_steps) {
        Weights weights;
        int r;

        *t = (Tabu){ .q = q, .kernels = p->kernels ? p->kernels : kernels_best(), .max_steps = max_steps };
        limit_init(&t->limit, p);
        r = best_init(&t->best, q, &t->limit);
        if (r < 0)
                return r;
        t->w.n = q->n;
        t->w.blocks = (q->n + TABU_BLOCK - 1) / TABU_BLOCK;
        t->w.stride = (size_t) t->w.blocks * TABU_BLOCK;
        t->w.row = q->row;
        t->w.col = q->col;
        t->w.val = q->val;
        t->w.x = calloc(t->w.stride + 1, 1);
        if (!t->w.x)
                return -ENOMEM;
        best_offer(&t->best, &t->limit, t->w.x, q->offset);
        if (q->n == 0 || limit_hit(&t->limit))
                return 0;
        weights = measure(q, &t->limit);
        t->largest = weights.largest;
        t->gain_bytes = weights.most >= INT32_MAX ? 8 : is_narrow(t, weights.linear) ? 2 : 4;
        t->tenure = MIN(q->n / 100, TABU_SLOTS / 2);
        r = build_dense(t, &weights);
        return r < 0 ? r : build_walk(t);
}

void tabu_done(Tabu *t) {
        arrays_free(&t->w);
        free((void *) t->w.dense);
        free(t->w.x);
        free(t->w.slot);
        free(t->w.next);
        free(t->w.touched);
        best_done(&t->best);
}

bool tabu_over(Tabu *t) {
        return t->steps >= t->max_steps || limit_work(&t->limit, 0);
}

int tabu_step(Tabu *t, uint32_t i, uint32_t tenure, uint32_t *ret_next) {
        if (t->room == 0) {
                int r = watch(t);

                if (r < 0)
                        return r;
        }
        t->room--;
        t->steps++;
        (void) limit_work(&t->limit, t->step_work);
        *ret_next = t->step(&t->w, i, tenure);
        return 0;
}

uint32_t tabu_look(Tabu *t) {
        return t->kernels->tabu_look[t->gain_bytes / 4](&t->w);
}

void tabu_close(Tabu *t, uint32_t i) {
        width_put(t->w.closed, t->gain_bytes, i, closed_value(t->gain_bytes));
}

void tabu_open_all(Tabu *t) {
        TabuWalk *w = &t->w;

        for (size_t i = 0; i < w->stride; i++)
                width_put(w->closed, t->gain_bytes, i,
                          i < w->n ? open_value(t->gain_bytes) : closed_value(t->gain_bytes));
        memset(w->slot, 0xff, TABU_SLOTS * sizeof(*w->slot));
}

int tabu_walk_to(Tabu *t, const uint8_t *x) {
        for (uint32_t i = 0, next; i < t->w.n && !tabu_over(t); i++)
                if (t->w.x[i] != x[i]) {
                        int r = tabu_step(t, i, 0, &next);

                        if (r < 0)
                                return r;
                }
        return 0;
}
