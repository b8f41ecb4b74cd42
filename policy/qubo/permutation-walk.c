/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk over permutations of permutation.h but for its kernels: the model folded into matrices of the narrowest
 * type that cannot overflow, and the fields of what a model has in rows and tables.
 */
#include <errno.h>
#include <math.h>

#include "policy/qubo/permutation.h"

#define PRECISE_MAX 300U /* items: above, a cubic bound would take too long */
#define ALIGNMENT 64U
#define LOAD_ITEMS 8U /* before the limit is asked: a tenth of a millisecond of 256 items */

static int64_t product_of(const int32_t *m, uint32_t n, uint32_t a, uint32_t b) {
        return a == b ? 0 : m[(size_t) a * n + b]; /* diagonals do not count */
}

static bool is_symmetric(const int32_t *m, uint32_t n) {
        for (uint32_t i = 0; m && i < n; i++)
                for (uint32_t j = 0; j < i; j++)
                        if (m[(size_t) i * n + j] != m[(size_t) j * n + i])
                                return false;
        return true;
}

/* The two matrices as the walk takes them: with one symmetric, both directions of a pair are one. */
typedef struct Folded {
        bool symmetric;
        int64_t *flow, *distance;
} Folded;

static void folded_done(Folded *f) {
        free(f->flow);
        free(f->distance);
}

static int fold(const Qubo *q, Folded *ret) {
        uint32_t n = q->n_groups;
        bool flow = is_symmetric(q->flow, n), distance = is_symmetric(q->distance, n);

        ret->symmetric = flow || distance;
        ret->flow = calloc((size_t) n * n + 1, sizeof(*ret->flow));
        ret->distance = calloc((size_t) n * n + 1, sizeof(*ret->distance));
        if (!ret->flow || !ret->distance)
                return -ENOMEM;
        for (uint32_t a = 0; q->flow && a < n; a++)
                for (uint32_t b = 0; b < n; b++) {
                        size_t at = (size_t) a * n + b;

                        ret->flow[at] = product_of(q->flow, n, a, b) + (distance ? product_of(q->flow, n, b, a) : 0);
                        ret->distance[at] = product_of(q->distance, n, a, b) +
                                            (flow && !distance ? product_of(q->distance, n, b, a) : 0);
                }
        return 0;
}

/* The greatest difference of two entries beside the diagonal. */
static double span(const int64_t *m, uint32_t n) {
        int64_t low = INT64_MAX, high = INT64_MIN;

        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = 0; j < n; j++)
                        if (i != j) {
                                low = MIN(low, m[(size_t) i * n + j]);
                                high = MAX(high, m[(size_t) i * n + j]);
                        }
        return n < 2 ? 0 : (double) high - (double) low;
}

/* sum_k |m_uk - m_vk|, both directions. */
static double rows_apart(const Folded *f, uint32_t n, uint32_t u, uint32_t v) {
        double sum = 0;

        for (uint32_t k = 0; k < n; k++)
                if (k != u && k != v)
                        sum += fabs((double) (f->flow[(size_t) u * n + k] - f->flow[(size_t) v * n + k]));
        for (uint32_t k = 0; k < n && !f->symmetric; k++)
                sum += fabs((double) (f->flow[(size_t) k * n + u] - f->flow[(size_t) k * n + v]));
        return sum;
}

/* Infinite if the limit is hit. */
static double most_apart(const Folded *f, uint32_t n, Limit *l) {
        double most = 0;

        for (uint32_t u = 0; u < n; u++) {
                for (uint32_t v = 0; v < u; v++)
                        most = MAX(most, rows_apart(f, n, u, v));
                if (limit_work(l, (uint64_t) u * n / 2))
                        return HUGE_VAL;
        }
        return most;
}

/* Of any row or column. */
static double greatest_sum(const int64_t *m, uint32_t n) {
        double most = 0;

        for (uint32_t i = 0; i < n; i++) {
                double row = 0, column = 0;

                for (uint32_t j = 0; j < n; j++) {
                        row += fabs((double) m[(size_t) i * n + j]);
                        column += fabs((double) m[(size_t) j * n + i]);
                }
                most = MAX(most, row + column);
        }
        return most;
}

static double largest_linear(const Qubo *q) {
        double most = 0;

        for (uint32_t v = 0; v < q->n; v++)
                most = MAX(most, fabs((double) q->linear[v]));
        return most;
}

static double largest_of(const int64_t *m, uint32_t n) {
        double most = 0;

        for (size_t k = 0; k < (size_t) n * n; k++)
                most = MAX(most, fabs((double) m[k]));
        return most;
}

static QapType choose_type(const Qubo *q, const Folded *f, Limit *l) {
        uint32_t n = q->n_groups;
        double linear = 4 * largest_linear(q), sum = greatest_sum(f->flow, n), field;

        if (q->table_of || q->row[q->n] > 0)
                return QAP_INT64;
        field = linear + 8 * sum * largest_of(f->distance, n);
        if (field < INT32_MAX || (n <= PRECISE_MAX && linear + most_apart(f, n, l) * span(f->distance, n) < INT32_MAX))
                return QAP_INT32;
        return field < 0x1p52 ? QAP_DOUBLE : QAP_INT64;
}

static void *room(size_t n, size_t size) {
        size_t bytes = (n * size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
        void *p = aligned_alloc(ALIGNMENT, bytes);

        return p ? memset(p, 0, bytes) : NULL;
}

static void put(void *to, size_t at, int64_t x, QapType type) {
        if (type == QAP_INT32)
                ((uint32_t *) to)[at] = (uint32_t) x;
        else if (type == QAP_DOUBLE)
                ((double *) to)[at] = (double) x;
        else
                ((int64_t *) to)[at] = x;
}

static void fill(Permutation *t, const Folded *f) {
        uint32_t n = t->w.n;

        for (uint32_t i = 0; i < n; i++)
                for (uint32_t j = 0; j < n; j++) {
                        size_t from = (size_t) i * n + j, at = i * t->w.stride + j, turned = j * t->w.stride + i;

                        put(t->w.linear, at, t->own ? 0 : t->q->linear[from], t->type);
                        put(t->w.flow_t, turned, f->flow[from], t->type);
                        put(t->w.distance_t, turned, f->distance[from], t->type);
                        if (f->symmetric)
                                continue;
                        put(t->w.flow, at, f->flow[from], t->type);
                        put(t->w.distance, at, f->distance[from], t->type);
                }
}

static int matrices_init(Permutation *t, bool symmetric) {
        QapWalk *w = &t->w;
        size_t size = t->type == QAP_INT32 ? sizeof(int32_t) : sizeof(int64_t), lanes = QAP_VECTOR / size;
        void **both[] = { &w->flow_t, &w->distance_t, &w->linear, &w->field, &w->delta, &w->until };
        void **directed[] = { &w->flow, &w->distance };
        void **rows[] = { &w->f, &w->d, &w->e, &w->f2, &w->d2, &w->e2 };
        bool made = true;

        w->stride = ((size_t) w->n + lanes) / lanes * lanes;
        for (size_t k = 0; k < ELEMENTSOF(both); k++)
                made = made && (*both[k] = room(w->n * w->stride, size));
        for (size_t k = 0; k < ELEMENTSOF(directed) && !symmetric; k++)
                made = made && (*directed[k] = room(w->n * w->stride, size));
        for (size_t k = 0; k < ELEMENTSOF(rows); k++)
                made = made && (*rows[k] = room(w->stride, size));
        w->low = room(w->n, QAP_VECTOR);
        w->place = calloc((size_t) w->n + 1, sizeof(*w->place));
        w->closed = calloc((size_t) w->n * w->n + 1, sizeof(*w->closed));
        return made && w->low && w->place && w->closed ? 0 : -ENOMEM;
}

/* Of rows and tables; linear terms are with them then. */
static int extras_init(Permutation *t) {
        size_t n = t->q->n;

        if (!t->q->table_of && t->q->row[n] == 0)
                return 0;
        t->own = calloc(n + 1, sizeof(*t->own));
        t->change = calloc(n + 1, sizeof(*t->change));
        t->w.extra = calloc(n + 1, sizeof(*t->w.extra));
        t->w.shift = calloc(n + 1, sizeof(*t->w.shift));
        t->step_work += 8 * n;
        return t->own && t->change && t->w.extra && t->w.shift ? 0 : -ENOMEM;
}

int permutation_init(Permutation *t, const Qubo *q, const SolveParams *p, uint64_t max_steps) {
        _cleanup_(folded_done) Folded f = {};
        size_t n = q->n_groups;
        int r;

        *t = (Permutation){ .q = q, .max_steps = max_steps, .kernels = p->kernels ?: kernels_best() };
        t->w.n = q->n_groups;
        t->step_work = 16 + n * n / 8;
        limit_init(&t->limit, p);
        t->bits = calloc((size_t) q->n + 1, 1);
        r = t->bits ? best_init(&t->best, q, &t->limit) : -ENOMEM;
        if (r >= 0)
                r = fold(q, &f);
        if (r < 0)
                return r;
        t->type = choose_type(q, &f, &t->limit);
        if (t->limit.hit)
                return 0; /* no step will be made */
        t->w.symmetric = f.symmetric;
        r = matrices_init(t, f.symmetric);
        if (r >= 0)
                r = extras_init(t);
        if (r >= 0)
                fill(t, &f);
        return r;
}

void permutation_done(Permutation *t) {
        QapWalk *w = &t->w;
        void *all[] = { w->flow,   w->flow_t, w->distance, w->distance_t, w->linear, w->field, w->delta, w->until,
                        w->low,    w->f,      w->d,        w->e,          w->f2,     w->d2,    w->e2,    w->place,
                        w->closed, w->extra,  w->shift,    t->own,        t->change, t->bits };

        for (size_t k = 0; k < ELEMENTSOF(all); k++)
                free(all[k]);
        best_done(&t->best);
}

bool permutation_over(Permutation *t) {
        return t->steps >= t->max_steps || t->limit.hit;
}

/* The coupling of two variables in rows and tables. */
static int64_t coupling(const Qubo *q, uint32_t u, uint32_t v) {
        size_t low = q->row[u], high = q->row[u + 1];
        const int32_t *table = qubo_table_row(q, u, q->group_of[v]);
        int64_t sum = table ? table[v - q->group_first[q->group_of[v]]] : 0;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (q->col[middle] == v)
                        return sum + q->val[middle];
                if (q->col[middle] < v)
                        low = middle + 1;
                else
                        high = middle;
        }
        return sum;
}

/* What an exchange of u and v changes in linear terms, rows and tables. */
static int64_t extra_of(const Permutation *t, uint32_t u, uint32_t v) {
        uint32_t n = t->w.n, u0 = u * n + t->w.place[u], u1 = u * n + t->w.place[v];
        uint32_t v0 = v * n + t->w.place[v], v1 = v * n + t->w.place[u];

        return t->own[u1] - t->own[u0] + t->own[v1] - t->own[v0] + coupling(t->q, u1, v1) - coupling(t->q, u1, v0) -
               coupling(t->q, u0, v1) + coupling(t->q, u0, v0);
}

static void extras_load(Permutation *t) {
        uint32_t n = t->w.n;

        for (uint32_t v = 0; v < t->q->n; v++)
                t->own[v] = t->q->linear[v];
        for (uint32_t i = 0; i < n; i++)
                qubo_add_couplings(t->q, i * n + t->w.place[i], 1, t->own);
        for (uint32_t u = 1; u < n; u++)
                for (uint32_t v = 0; v < u; v++)
                        t->w.extra[(size_t) u * n + v] = extra_of(t, u, v);
}

static int64_t change_of(const Permutation *t, uint32_t u, uint32_t v) {
        const int64_t *to_u = t->change + (size_t) u * t->w.n, *to_v = t->change + (size_t) v * t->w.n;
        uint32_t pu = t->w.place[u], pv = t->w.place[v];

        return to_u[pv] - to_u[pu] + to_v[pu] - to_v[pv];
}

/* r and s have exchanged their places. */
static void extras_step(Permutation *t, uint32_t r, uint32_t s) {
        uint32_t n = t->w.n, pr = t->w.place[r], ps = t->w.place[s];

        memset(t->change, 0, t->q->n * sizeof(*t->change));
        qubo_add_couplings(t->q, r * n + ps, -1, t->change);
        qubo_add_couplings(t->q, s * n + pr, -1, t->change);
        qubo_add_couplings(t->q, r * n + pr, 1, t->change);
        qubo_add_couplings(t->q, s * n + ps, 1, t->change);
        for (uint32_t v = 0; v < t->q->n; v++)
                t->own[v] += t->change[v];
        for (uint32_t u = 1; u < n; u++)
                for (uint32_t v = 0; v < u; v++) {
                        size_t at = (size_t) u * n + v;
                        bool exchanged = u == r || u == s || v == r || v == s;

                        t->w.shift[at] = exchanged ? 0 : change_of(t, u, v);
                        t->w.extra[at] = exchanged ? extra_of(t, u, v) : t->w.extra[at] + t->w.shift[at];
                }
}

static int64_t energy_of(Permutation *t) {
        memset(t->bits, 0, t->q->n);
        for (uint32_t i = 0; i < t->w.n; i++)
                t->bits[(size_t) i * t->w.n + t->w.place[i]] = 1;
        return qubo_energy(t->q, t->bits);
}

int64_t permutation_gain(const Permutation *t, uint32_t u, uint32_t v) {
        size_t at = MAX(u, v) * t->w.stride + MIN(u, v);

        if (t->type == QAP_INT32)
                return ((const int32_t *) t->w.delta)[at];
        return t->type == QAP_DOUBLE ? (int64_t) ((const double *) t->w.delta)[at] : ((const int64_t *) t->w.delta)[at];
}

void permutation_offer(Permutation *t) {
        if (t->w.energy >= t->best.energy)
                return;
        memset(t->bits, 0, t->q->n);
        for (uint32_t i = 0; i < t->w.n; i++)
                t->bits[(size_t) i * t->w.n + t->w.place[i]] = 1;
        best_offer(&t->best, &t->limit, t->bits, t->w.energy);
}

void permutation_load(Permutation *t, const uint32_t *place) {
        memcpy(t->w.place, place, t->w.n * sizeof(*place));
        t->w.energy = energy_of(t);
        t->w.aspired = t->w.energy;
        t->w.u = t->w.v = 0;
        if (t->own)
                extras_load(t);
        for (uint32_t from = 0, to; t->w.n > 1 && from < t->w.n; from = to) {
                to = MIN(from + LOAD_ITEMS, t->w.n);
                t->kernels->qap_load[t->type](&t->w, from, to);
                if (limit_work(&t->limit, LOAD_ITEMS * (uint64_t) t->w.n * t->w.n / 16))
                        return; /* no step will be made */
        }
}

void permutation_step(Permutation *t, uint32_t r, uint32_t s, uint32_t tenure_r, uint32_t tenure_s) {
        QapWalk *w = &t->w;
        uint32_t pr = w->place[r], ps = w->place[s];

        w->now++;
        w->closed[(size_t) r * w->n + pr] = (uint32_t) w->now + tenure_r;
        w->closed[(size_t) s * w->n + ps] = (uint32_t) w->now + tenure_s;
        w->place[r] = ps;
        w->place[s] = pr;
        w->energy += w->gain;
        if (t->own)
                extras_step(t, r, s);
        t->kernels->qap_step[t->type](w, r, s);
        t->steps++;
        limit_work(&t->limit, t->step_work);
}
