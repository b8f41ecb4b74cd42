/* SPDX-License-Identifier: Apache-2.0 */
/* What kernel-qap.inc.h includes once for each type of numbers. */
#define QAP_LANES (QAP_VECTOR / sizeof(QAP_T))
typedef QAP_T QAP_(QapV) __attribute__((vector_size(QAP_VECTOR), may_alias));
typedef QAP_SUM QAP_(QapS) __attribute__((vector_size(QAP_VECTOR), may_alias));
typedef QAP_MASK QAP_(QapM) __attribute__((vector_size(QAP_VECTOR), may_alias));

QAP_INLINE QAP_(QapV) QAP_(qap_pick)(QAP_(QapM) m, QAP_(QapV) a, QAP_(QapV) b) {
        return (QAP_(QapV))(((QAP_(QapM)) a & m) | ((QAP_(QapM)) b & ~m));
}

QAP_INLINE QAP_(QapV) QAP_(qap_min)(QAP_(QapV) a, QAP_(QapV) b) {
#ifdef QAP_MIN
        return QAP_MIN(a, b);
#else
        return QAP_(qap_pick)((QAP_(QapM))(a < b), a, b);
#endif
}

QAP_INLINE QAP_T QAP_(qap_least)(QAP_(QapV) v) {
        QAP_T least = v[0];

        for (unsigned k = 1; k < QAP_LANES; k++)
                least = v[k] < least ? v[k] : least;
        return least;
}

QAP_INLINE QAP_(QapV) QAP_(qap_all)(QAP_T x) {
        QAP_(QapV) v;

        for (unsigned k = 0; k < QAP_LANES; k++)
                v[k] = x;
        return v;
}

QAP_INLINE QAP_(QapV) QAP_(qap_lanes)(void) {
        QAP_(QapV) v;

        for (unsigned k = 0; k < QAP_LANES; k++)
                v[k] = (QAP_T) k;
        return v;
}

/* Change of the cost if u and v exchange their places, of flows, distances and linear terms. */
QAP_INLINE QAP_SUM QAP_(qap_exchange)(const QapWalk *w, uint32_t u, uint32_t v, bool symmetric) {
        const QAP_SUM *field = (const QAP_SUM *) w->field, *flow_t = (const QAP_SUM *) w->flow_t;
        const QAP_SUM *distance_t = (const QAP_SUM *) w->distance_t;
        size_t pu = w->place[u], pv = w->place[v], n = w->stride;
        QAP_SUM x = field[u * n + pv] - field[u * n + pu] + field[v * n + pu] - field[v * n + pv];
        QAP_SUM flow = flow_t[u * n + v], distance = distance_t[pu * n + pv];

        return x + (flow + (symmetric ? flow : flow_t[v * n + u])) *
                           (symmetric ? distance : distance + distance_t[pv * n + pu]);
}

/* row += factor * other */
QAP_INLINE void QAP_(qap_add)(void *row, const void *other, QAP_SUM factor, size_t n) {
        QAP_(QapS) *to = (QAP_(QapS) *) row, all = (QAP_(QapS)) QAP_(qap_all)((QAP_T) factor);
        const QAP_(QapS) *from = (const QAP_(QapS) *) other;

        for (size_t k = 0; k < n / QAP_LANES; k++)
                to[k] += all * from[k];
}

/* ret = a - b */
QAP_INLINE void QAP_(qap_subtract)(void *ret, const void *a, const void *b, size_t n) {
        for (size_t k = 0; k < n / QAP_LANES; k++)
                ((QAP_(QapS) *) ret)[k] = ((const QAP_(QapS) *) a)[k] - ((const QAP_(QapS) *) b)[k];
}

QAP_INLINE void QAP_(qap_gather)(const QapWalk *w, void *ret, const void *e) {
        for (uint32_t i = 0; i < w->n; i++)
                ((QAP_T *) ret)[i] = ((const QAP_T *) e)[w->place[i]];
}

/* f, d and e of the exchange of r and s, which is done already. */
QAP_INLINE void QAP_(qap_differences)(const QapWalk *w, size_t r, size_t s) {
        const QAP_T *flow_t = (const QAP_T *) w->flow_t, *distance_t = (const QAP_T *) w->distance_t;
        size_t n = w->stride, to_r = w->place[r] * n, to_s = w->place[s] * n;

        QAP_(qap_subtract)(w->f, flow_t + r * n, flow_t + s * n, n);
        QAP_(qap_subtract)(w->e, distance_t + to_s, distance_t + to_r, n);
        QAP_(qap_gather)(w, w->d, w->e);
        if (w->symmetric)
                return;
        QAP_(qap_subtract)(w->f2, (const QAP_T *) w->flow + r * n, (const QAP_T *) w->flow + s * n, n);
        QAP_(qap_subtract)(w->e2, (const QAP_T *) w->distance + to_s, (const QAP_T *) w->distance + to_r, n);
        QAP_(qap_gather)(w, w->d2, w->e2);
}

/* Brings the field of item i up to date. */
QAP_INLINE void QAP_(qap_field)(const QapWalk *w, uint32_t i, bool symmetric) {
        QAP_SUM *row = (QAP_SUM *) w->field + i * w->stride, f = ((const QAP_SUM *) w->f)[i];

        if (f != 0)
                QAP_(qap_add)(row, w->e, (QAP_SUM) 0 - f, w->stride);
        f = symmetric ? 0 : ((const QAP_SUM *) w->f2)[i];
        if (f != 0)
                QAP_(qap_add)(row, w->e2, (QAP_SUM) 0 - f, w->stride);
}

/* An item that was exchanged, as pairs with it need it. */
typedef struct QAP_(QapItem) {
        const QAP_SUM *field, *flow, *flow_back, *distance, *distance_back;
        const uint32_t *closed;
        QAP_SUM own, f, d, f2, d2;
        size_t item, place;
} QAP_(QapItem);

QAP_INLINE QAP_(QapItem) QAP_(qap_item)(const QapWalk *w, uint32_t r, bool symmetric) {
        size_t place = w->place[r], row = r * w->stride, from = place * w->stride;

        return (QAP_(QapItem)){
                .field = (const QAP_SUM *) w->field + row,
                .flow = (const QAP_SUM *) w->flow_t + row,
                .flow_back = symmetric ? NULL : (const QAP_SUM *) w->flow + row,
                .distance = (const QAP_SUM *) w->distance_t + from,
                .distance_back = symmetric ? NULL : (const QAP_SUM *) w->distance + from,
                .closed = w->closed + (size_t) r * w->n,
                .own = ((const QAP_SUM *) w->field)[row + place],
                .f = ((const QAP_SUM *) w->f)[r],
                .d = ((const QAP_SUM *) w->d)[r],
                .f2 = ((const QAP_SUM *) w->f2)[r],
                .d2 = ((const QAP_SUM *) w->d2)[r],
                .item = r,
                .place = place,
        };
}

/* A pair anew, less what the pass over all pairs is going to add. */
QAP_INLINE void QAP_(qap_pair)(const QapWalk *w, size_t i, const QAP_(QapItem) * r, bool symmetric) {
        size_t place = w->place[i], at = i > r->item ? i * w->stride + r->item : r->item * w->stride + i;
        const QAP_SUM *field = (const QAP_SUM *) w->field + i * w->stride;
        uint32_t a = r->closed[place], b = w->closed[i * w->n + r->place];
        QAP_SUM x = r->field[place] - r->own + field[r->place] - field[place];
        QAP_SUM f = ((const QAP_SUM *) w->f)[i] - r->f, d = ((const QAP_SUM *) w->d)[i] - r->d;

        if (symmetric)
                x += 2 * r->flow[i] * r->distance[place] - f * d;
        else
                x += (r->flow[i] + r->flow_back[i]) * (r->distance[place] + r->distance_back[place]) - f * d -
                     (((const QAP_SUM *) w->f2)[i] - r->f2) * (((const QAP_SUM *) w->d2)[i] - r->d2);
        if (w->extra)
                x += (QAP_SUM) w->extra[i > r->item ? i * w->n + r->item : r->item * w->n + i];
        ((QAP_SUM *) w->delta)[at] = x;
        ((QAP_T *) w->until)[at] = (QAP_T) MIN(a, b);
}

/* All fields, and while a row is at hand its pairs with the two items that were exchanged. */
QAP_INLINE void QAP_(qap_items)(const QapWalk *w, uint32_t r, uint32_t s, bool symmetric) {
        const QapWalk own = *w; /* not reached by what is stored below */
        QAP_(QapItem) a, b;

        QAP_(qap_field)(&own, r, symmetric);
        QAP_(qap_field)(&own, s, symmetric);
        a = QAP_(qap_item)(&own, r, symmetric);
        b = QAP_(qap_item)(&own, s, symmetric);
        QAP_(qap_pair)(&own, r, &b, symmetric);
        for (uint32_t i = 0; i < own.n; i++) {
                if (i == r || i == s)
                        continue;
                QAP_(qap_field)(&own, i, symmetric);
                QAP_(qap_pair)(&own, i, &a, symmetric);
                QAP_(qap_pair)(&own, i, &b, symmetric);
        }
}

QAP_INLINE void QAP_(qap_shift)(const QapWalk *w) {
        for (uint32_t u = 1; u < w->n; u++)
                for (uint32_t v = 0; v < u; v++)
                        ((QAP_SUM *) w->delta)[u * w->stride + v] += (QAP_SUM) w->shift[(size_t) u * w->n + v];
}

/* One vector of a row: its changes as they are now. */
QAP_INLINE QAP_(QapV) QAP_(qap_vector)(const QapWalk *w, size_t at, size_t k, uint32_t u, bool symmetric) {
        QAP_(QapS) *delta = (QAP_(QapS) *) w->delta + at + k, x = *delta;
        const QAP_(QapS) *f = (const QAP_(QapS) *) w->f, *d = (const QAP_(QapS) *) w->d;
        const QAP_(QapS) *f2 = (const QAP_(QapS) *) w->f2, *d2 = (const QAP_(QapS) *) w->d2;

        x += ((QAP_(QapS)) QAP_(qap_all)(((const QAP_T *) w->f)[u]) - f[k]) *
             ((QAP_(QapS)) QAP_(qap_all)(((const QAP_T *) w->d)[u]) - d[k]);
        if (!symmetric)
                x += ((QAP_(QapS)) QAP_(qap_all)(((const QAP_T *) w->f2)[u]) - f2[k]) *
                     ((QAP_(QapS)) QAP_(qap_all)(((const QAP_T *) w->d2)[u]) - d2[k]);
        *delta = x;
        return (QAP_(QapV)) x;
}

/* Brings all pairs up to date; the least change of those that are open, and of all. */
QAP_INLINE void QAP_(qap_pass)(const QapWalk *w, bool symmetric, QAP_T *ret_open, QAP_T *ret_all) {
        const QAP_(QapV) most = QAP_(qap_all)(QAP_MOST), now = QAP_(qap_all)((QAP_T) w->now);
        QAP_(QapV) open = most, all = most;

        for (uint32_t u = 1; u < w->n; u++) {
                size_t at = u * w->stride / QAP_LANES, last = (u - 1) / QAP_LANES;
                const QAP_(QapV) *until = (const QAP_(QapV) *) w->until + at;
                QAP_(QapV) low = most, x;
                QAP_(QapM) inside;

                for (size_t k = 0; k < last; k++) {
                        x = QAP_(qap_vector)(w, at, k, u, symmetric);
                        all = QAP_(qap_min)(all, x);
                        low = QAP_(qap_min)(low, QAP_(qap_pick)((QAP_(QapM))(until[k] > now), most, x));
                }
                x = QAP_(qap_vector)(w, at, last, u, symmetric);
                inside = (QAP_(QapM))(QAP_(qap_lanes)() < QAP_(qap_all)((QAP_T) (u - last * QAP_LANES)));
                x = QAP_(qap_pick)(inside, x, most);
                all = QAP_(qap_min)(all, x);
                low = QAP_(qap_min)(low, QAP_(qap_pick)((QAP_(QapM))(until[last] > now), most, x));
                ((QAP_(QapV) *) w->low)[u] = low;
                open = QAP_(qap_min)(open, low);
        }
        *ret_open = QAP_(qap_least)(open);
        *ret_all = QAP_(qap_least)(all);
}

/* The first of row u, from a random one on, that has this change; closed ones only if they count. */
QAP_INLINE bool QAP_(qap_find)(QapWalk *w, uint32_t u, QAP_T least, bool any) {
        const QAP_T *delta = (const QAP_T *) w->delta + u * w->stride,
                    *until = (const QAP_T *) w->until + u * w->stride;
        uint32_t v = u > 1 ? rng_scale(qap_random(w), u) : 0;

        for (uint32_t k = 0; k < u; k++) {
                if (delta[v] == least && (any || until[v] <= (QAP_T) w->now)) {
                        w->u = u;
                        w->v = v;
                        w->gain = (int64_t) least;
                        return true;
                }
                v = v + 1 == u ? 0 : v + 1;
        }
        return false;
}

QAP_INLINE void QAP_(qap_choose)(QapWalk *w, QAP_T open, QAP_T all) {
        bool any = all < open && w->energy + (int64_t) all < w->aspired;
        QAP_T least = any ? all : open;
        uint32_t u = 1 + rng_scale(qap_random(w), w->n - 1);

        w->u = w->v = 0;
        if (least == QAP_MOST)
                return;
        for (uint32_t k = 1; k < w->n; k++) {
                if ((any || QAP_(qap_least)(((QAP_(QapV) *) w->low)[u]) == least) && QAP_(qap_find)(w, u, least, any))
                        return;
                u = u + 1 == w->n ? 1 : u + 1;
        }
}

static void QAP_(qap_look)(QapWalk *w) {
        QAP_T open, all;

        if (w->symmetric)
                QAP_(qap_pass)(w, true, &open, &all);
        else
                QAP_(qap_pass)(w, false, &open, &all);
        QAP_(qap_choose)(w, open, all);
}

/* r and s have exchanged their places. */
static void QAP_(qap_step)(QapWalk *w, uint32_t r, uint32_t s) {
        QAP_(qap_differences)(w, r, s);
        if (w->symmetric)
                QAP_(qap_items)(w, r, s, true);
        else
                QAP_(qap_items)(w, r, s, false);
        if (w->shift)
                QAP_(qap_shift)(w);
        QAP_(qap_look)(w);
}

/* All anew, for places that were changed at will; nothing is closed. Items from..to of it: the last ones bring the rest. */
static void QAP_(qap_load)(QapWalk *w, uint32_t from, uint32_t to) {
        size_t n = w->n, stride = w->stride, row = stride * sizeof(QAP_T);

        memcpy((char *) w->field + from * row, (const char *) w->linear + from * row, (to - from) * row);
        for (uint32_t i = from; i < to; i++)
                for (uint32_t k = 0; k < w->n; k++) {
                        size_t at = k * stride + i, place = w->place[k] * stride;
                        QAP_SUM flow = ((const QAP_SUM *) w->flow_t)[at];

                        if (flow != 0)
                                QAP_(qap_add)
                        ((QAP_T *) w->field + i * stride, (const QAP_T *) w->distance_t + place, flow, stride);
                        flow = w->symmetric ? 0 : ((const QAP_SUM *) w->flow)[at];
                        if (flow != 0)
                                QAP_(qap_add)
                        ((QAP_T *) w->field + i * stride, (const QAP_T *) w->distance + place, flow, stride);
                }
        if (to < w->n)
                return;
        for (uint32_t u = 1; u < w->n; u++)
                for (uint32_t v = 0; v < u; v++)
                        ((QAP_SUM *) w->delta)[u * stride + v] = QAP_(qap_exchange)(w, u, v, w->symmetric) +
                                                                 (w->extra ? (QAP_SUM) w->extra[u * n + v] : 0);
        memset(w->until, 0, n * row);
        memset(w->closed, 0, n * n * sizeof(*w->closed));
        w->now = 0;
        memset(w->f, 0, row);
        if (!w->symmetric)
                memset(w->f2, 0, row);
        QAP_(qap_look)(w);
}
#undef QAP_LANES
#undef QAP_
#undef QAP_MASK
#undef QAP_MIN
#undef QAP_MOST
#undef QAP_SUM
#undef QAP_T
